"""
Sums up what asks for the uses of samples: values that add up, whatever samples they are of.

One process sums up all samples, or those of its own share; what several found is added.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.declared import named_ids
from ledger_audit.continuity.exposure.counting import Counted
from ledger_audit.continuity.exposure.library import PASS, Library, Pass, is_of
from ledger_audit.continuity.exposure.promised import Promised, listed_of
from ledger_audit.continuity.exposure.repeats import Again, together
from ledger_audit.continuity.exposure.strangers import strangers
from ledger_audit.continuity.exposure.wasted import Rows, Wasted, lost_of, wasted_of
from ledger_audit.continuity.findings import MAX_EXAMPLES
from ledger_audit.continuity.windows import END

SAMPLE = [*PASS, "sample_id"]

UNUSED = {
    "nth": pl.Int64(),
    "attempt": pl.String(),
    "fate": pl.String(),
    "source": pl.String(),
    "epoch": pl.Int32(),
    "records": pl.Int64(),
    "samples": pl.Int64(),
    "tokens": pl.Int64(),
    "spans": pl.Int64(),
    "met": pl.Int64(),
}
"""
What changed no weights that are left, in the order in which it is told; `met`: of the samples,
those that their pass used all the same.
"""

LOST = {
    "attempt": pl.String(),
    "records": pl.Int64(),
    "samples": pl.Int64(),
    "tokens": pl.Int64(),
    "spans": pl.Int64(),
    "met": pl.Int64(),
}
"""What the failure of an attempt took back; `met` likewise."""

LISTED = {"source": pl.String(), "epoch": pl.Int32(), "met": pl.Int64()}
"""
A pass beside the list of its samples: listed ones that it used; with `missing`, the lowest ids
that it did not, and `strangers`, the lowest ids that it used and that are not listed.
"""


@dataclass(frozen=True)
class Summary:
    """What the samples of a run came to, or some of them."""

    again: Again
    few: pl.DataFrame
    """source, epoch, sample_id: of what void tries used or a `declare` named, what was used."""
    listed: pl.DataFrame
    """LISTED; empty without a manifest."""
    unused: pl.DataFrame
    """UNUSED."""
    lost: pl.DataFrame
    """LOST."""

    def used_among(self, of: Pass, ids: pl.Series) -> int:
        """Count those of some void or named ids that a pass used."""
        own = self.few.filter(is_of(*of))["sample_id"]
        return int(ids.is_in(own.implode()).sum())

    def beside(self, of: Pass, listed: pl.Series) -> tuple[int, tuple[str, ...]]:
        """Give the listed samples that a pass used, and the first that it did not."""
        own = self.listed.filter(is_of(*of))
        if own.is_empty():  # nothing of the pass is there
            return 0, _told(listed.bottom_k(MAX_EXAMPLES).sort())
        return int(own["met"][0]), _told(own["missing"][0])

    def strangers(self, of: Pass) -> tuple[str, ...]:
        """Give the lowest ids that a pass used and that are not listed."""
        own = self.listed.filter(is_of(*of))
        return () if own.is_empty() else _told(own["strangers"][0])


def _told(ids: pl.Series) -> tuple[str, ...]:
    return tuple(str(one) for one in ids.to_list())


def summarise(
    library: Library,
    counted: Counted,
    promised: Promised,
    again: Again,
    passes: Sequence[Pass] | None = None,
) -> Summary:
    """
    Sum up the samples that a library answers for.

    Args:
        library: the ledger.
        counted: the uses of these samples.
        promised: what a pass should hold.
        again: what of them was used more than once.
        passes: all passes of the run, of other samples, too; null: they are those counted.
    """
    if passes is None:
        passes = list(counted.used.select(PASS).unique(maintain_order=True).iter_rows())
    rows = Rows(library)
    wasted = list(wasted_of(library, counted, rows))
    lost = list(lost_of(library, rows))
    few = _few(library, counted, passes)
    asked = pl.concat([few, *(one.ids for one in (*wasted, *lost))])
    used = counted.seen.among(asked.unique())
    return Summary(
        again=again,
        few=few.join(used, on=SAMPLE, how="semi", nulls_equal=True),
        listed=_listed(library, counted, promised, again, passes),
        unused=_unused(wasted, used),
        lost=_lost(lost, used),
    )


def added(parts: Sequence[Summary], none: Again) -> Summary:
    """Add up what was found of different samples."""
    listed = pl.concat([one.listed for one in parts])
    lowest = [
        pl.col(name).explode(empty_as_null=False).sort().head(MAX_EXAMPLES)
        for name in ("missing", "strangers")
    ]
    return Summary(
        again=together(none, [one.again for one in parts]),
        few=pl.concat([one.few for one in parts]),
        listed=listed.group_by(PASS).agg(pl.col("met").sum(), *lowest),
        unused=_added(pl.concat([one.unused for one in parts]), list(UNUSED)[:5]),
        lost=_added(pl.concat([one.lost for one in parts]), ["attempt"]),
    )


def _added(rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    return rows.group_by(key).agg(pl.all().exclude(key).sum()).select(rows.columns).sort(key)


def _few(library: Library, counted: Counted, passes: Sequence[Pass]) -> pl.DataFrame:
    """Give what void tries used, and what was declared to be left out of each pass."""
    chain = library.archive.source.lineage.chain
    found = [counted.void]
    for source, epoch in passes:
        named = pl.Series(named_ids(chain, source, END), dtype=pl.String)
        ids = named.cast(library.id_type, strict=False).drop_nulls().unique().alias("sample_id")
        found.append(
            ids.to_frame().select(
                pl.lit(source, pl.String).alias("source"),
                pl.lit(epoch, pl.Int32).alias("epoch"),
                "sample_id",
            )
        )
    return library.own(pl.concat(found).unique())


def _listed(
    library: Library,
    counted: Counted,
    promised: Promised,
    again: Again,
    passes: Sequence[Pass],
) -> pl.DataFrame:
    """Compare each pass with the list of its samples."""
    ids = pl.List(library.id_type)
    schema = {**LISTED, "missing": ids, "strangers": ids}
    rows = []
    for of in passes:
        listed = listed_of(promised, of[0])
        if listed is None:
            continue
        listed = library.own(listed.to_frame("sample_id"))["sample_id"]
        met = counted.seen.met(of, listed, MAX_EXAMPLES)
        own = counted.used.filter(is_of(*of))
        several = again.several.filter(is_of(*of))
        again_of = several["records"] - several["samples"]
        samples = int(own["records"].sum()) - int(again_of.sum())
        found = pl.Series([], dtype=library.id_type)
        if samples > met.samples:
            found = strangers(library, counted, of, listed)
        rows.append((*of, met.samples, met.missing, found))
    return pl.DataFrame(rows, schema=schema, orient="row")


def _unused(wasted: Iterable[Wasted], used: pl.DataFrame) -> pl.DataFrame:
    rows = []
    for one in wasted:
        met = one.ids.join(used, on=SAMPLE, how="semi", nulls_equal=True)
        for row in one.sums.sort(PASS).iter_rows(named=True):
            of = is_of(row["source"], row["epoch"])
            key = one.nth, one.attempt, one.fate, row["source"], row["epoch"]
            amounts = row["records"], one.ids.filter(of).height, row["tokens"], row["spans"]
            rows.append((*key, *amounts, met.filter(of).height))
    return pl.DataFrame(rows, schema=UNUSED, orient="row")


def _lost(lost: Iterable[Wasted], used: pl.DataFrame) -> pl.DataFrame:
    rows = [
        (
            one.attempt,
            int(one.sums["records"].sum()),
            one.ids.height,
            int(one.sums["tokens"].sum()),
            int(one.sums["spans"].sum()),
            one.ids.join(used, on=SAMPLE, how="semi", nulls_equal=True).height,
        )
        for one in lost
    ]
    return pl.DataFrame(rows, schema=LOST, orient="row")
