"""Names samples that were used and that no list of a pass holds."""

import polars as pl

from ledger_audit.continuity.exposure.counting import Counted
from ledger_audit.continuity.exposure.legs import committed_of, looked_at
from ledger_audit.continuity.exposure.library import Library, Pass, is_of
from ledger_audit.continuity.findings import MAX_EXAMPLES


def strangers(
    library: Library,
    counted: Counted,
    of: Pass,
    listed: pl.Series,
    most: int = MAX_EXAMPLES,
) -> pl.Series:
    """Give the `most` lowest ids that a pass used and that are not listed, in their order."""
    is_stranger = is_of(*of) & ~pl.col("sample_id").is_in(listed.implode())
    found = [pl.Series([], dtype=library.id_type)]
    for leg in counted.legs:
        found.append(library.lowest(leg.plain, is_stranger, most))
        found += [
            library.own(committed_of(leg, one)).filter(is_stranger)["sample_id"].unique()
            for one in looked_at(library, leg)
        ]
    return pl.concat(found).unique().sort().head(most)
