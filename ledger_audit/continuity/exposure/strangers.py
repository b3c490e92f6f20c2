"""Names samples that were used and that no list of a pass holds."""

from dataclasses import replace

import polars as pl

from ledger_audit.continuity.exposure.counting import Counted
from ledger_audit.continuity.exposure.legs import committed_of, looked_at
from ledger_audit.continuity.exposure.library import Library, is_of
from ledger_audit.continuity.exposure.promised import Promised, listed_of
from ledger_audit.continuity.findings import MAX_EXAMPLES
from ledger_audit.model.exposure import Generation


def with_strangers(
    library: Library,
    counted: Counted,
    promised: Promised,
    generations: tuple[Generation, ...],
) -> tuple[Generation, ...]:
    """Add the lowest ids of what is not listed to each pass that used any."""
    return tuple(
        replace(one, unlisted_examples=_strangers(library, counted, promised, one))
        if one.unlisted
        else one
        for one in generations
    )


def _strangers(
    library: Library, counted: Counted, promised: Promised, of: Generation
) -> tuple[str, ...]:
    listed = listed_of(promised, of.source)
    assert listed is not None
    is_stranger = is_of(of.source, of.epoch) & ~pl.col("sample_id").is_in(listed.implode())
    found = [pl.Series([], dtype=library.id_type)]
    for leg in counted.legs:
        found.append(library.lowest(leg.plain, is_stranger, MAX_EXAMPLES))
        found += [
            committed_of(leg, one).filter(is_stranger)["sample_id"].unique()
            for one in looked_at(library, leg)
        ]
    return tuple(str(one) for one in pl.concat(found).unique().sort().head(MAX_EXAMPLES).to_list())
