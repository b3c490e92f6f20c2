"""Finds what was used and is in no weights that are left."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, pairwise

import polars as pl

from ledger_audit.continuity.exposure.counting import Counted
from ledger_audit.continuity.exposure.legs import Leg, looked_at
from ledger_audit.continuity.exposure.library import PASS, Library, Steps
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.continuity.lineage import Attempt, age
from ledger_audit.model.exposure import Fate

_NONE = pl.Series([], dtype=pl.Int64)

SUMS = {
    "source": pl.String(),
    "epoch": pl.Int32(),
    "records": pl.Int64(),
    "tokens": pl.Int64(),
    "spans": pl.Int64(),
}
"""The records of a pass, their tokens where they have spans, and how many have."""


@dataclass(frozen=True)
class Wasted:
    """Records that changed no weights that are left."""

    nth: int
    """Its turn in the report, whichever samples are looked at."""
    attempt: str
    fate: Fate
    sums: pl.DataFrame
    """SUMS."""
    ids: pl.DataFrame
    """source, epoch, sample_id, each once."""


@dataclass(frozen=True)
class Rows:
    """Reads what some steps used; the same steps are asked for twice, and read once."""

    library: Library
    _known: dict[tuple[str, int, int], tuple[pl.DataFrame, pl.DataFrame]] = field(
        default_factory=dict
    )

    def after(self, attempt: Attempt, step: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Give SUMS and samples of the steps of an attempt after one of them."""
        last = attempt.last_step
        if last is None or last <= step:  # it left no record of any
            return self.nothing
        key = attempt.label, step + 1, last
        if key not in self._known:
            self._known[key] = self.of(Steps(*key, _NONE))
        return self._known[key]

    def of(self, steps: Steps) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Give SUMS and samples of some steps."""
        sums = self.library.sums(steps).select(list(SUMS))
        return (sums, self.library.ids(steps)) if sums.height else self.nothing

    @property
    def nothing(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Give that nothing was used."""
        schema = {**dict(list(SUMS.items())[:2]), "sample_id": self.library.id_type}
        return pl.DataFrame(schema=SUMS), pl.DataFrame(schema=schema)


def wasted_of(library: Library, counted: Counted, rows: Rows) -> Iterator[Wasted]:
    """List what changed no weights, of the samples that the library answers for."""
    lineage = library.archive.source.lineage
    turn = count()
    for leg in counted.legs:
        void = [one.filter(~IS_USED) for one in looked_at(library, leg)]
        yield Wasted(next(turn), leg.attempt.label, "void", *_summed(rows, void))
        for found in _uncommitted(leg, rows):
            yield Wasted(next(turn), leg.attempt.label, "uncommitted", *found)
    for place, attempt in enumerate(lineage.chain[:-1]):
        until = lineage.until(place, len(lineage.chain) - 1)
        found = rows.nothing if until is None else rows.after(attempt, until)
        yield Wasted(next(turn), attempt.label, "rolled-back", *found)
    for attempt in lineage.outside:
        yield Wasted(next(turn), attempt.label, "rolled-back", *rows.after(attempt, -1))


def lost_of(library: Library, rows: Rows) -> Iterator[Wasted]:
    """List what each failure took back, in the order of launches."""
    for nth, (failed, after, _) in enumerate(failures(library)):
        yield Wasted(nth, failed.label, "rolled-back", *rows.after(failed, after))


def failures(library: Library) -> Iterator[tuple[Attempt, int, str | None]]:
    """
    List the attempts but the newest, in the order of launches.

    Each comes with the step after which its work is lost, and with the attempt that resumed from
    it; null: none did.
    """
    lineage = library.archive.source.lineage
    heirs = {one.label: (heir.resumed_at or 0, heir.label) for one, heir in pairwise(lineage.chain)}
    for failed in sorted([*lineage.chain[:-1], *lineage.outside], key=age):
        yield (failed, *heirs.get(failed.label, (failed.resumed_at or 0, None)))


def _uncommitted(leg: Leg, rows: Rows) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Give what the steps used that were not committed; what they voided is told as void."""
    if leg.left_out.is_empty():
        return
    plain = leg.left_out.filter(~leg.left_out.is_in(leg.odd.implode()))
    first, last = plain.min(), plain.max()
    if isinstance(first, int) and isinstance(last, int):
        every = pl.int_range(first, last + 1, eager=True)
        but = every.filter(~every.is_in(plain.implode()))
        yield rows.of(Steps(leg.attempt.label, first, last, but))
    odd = [
        one.filter(IS_USED, pl.col("step").is_in(leg.left_out.implode()))
        for one in looked_at(rows.library, leg)
    ]
    yield _summed(rows, odd)


def _summed(rows: Rows, frames: list[pl.DataFrame]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Sum up records that were looked at one by one."""
    if not frames:
        return rows.nothing
    found = rows.library.own(pl.concat(frames))
    sums = found.group_by(PASS).agg(
        pl.len().cast(pl.Int64).alias("records"),
        pl.col("tokens").sum(),
        pl.col("tokens").count().cast(pl.Int64).alias("spans"),
    )
    return sums, found.select(*PASS, "sample_id").unique()
