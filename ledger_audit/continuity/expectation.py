"""
Puts an expected stream in the place of the rolled-back window, where the run followed it so far.

An expected stream that differs from what was committed before the checkpoint says nothing about the
resume: it is another run's, or its recipe is not the one that the run has.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import polars as pl

from ledger_audit.continuity import windows as cut
from ledger_audit.continuity.divergence import first_divergence
from ledger_audit.continuity.frames import IS_USED, Side
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.resume import gather_facts
from ledger_audit.continuity.windows import Source, Windows


@dataclass(frozen=True)
class Expectation:
    """A stream that a run is to follow."""

    source: Source
    kind: str
    """What the report calls it: `reference`, or `recipe` where the fingerprint states it."""

    def reaches_beyond(self, step: int) -> bool:
        """Tell whether it has later steps."""
        last = self.source.lineage.chain[-1].last_step
        return last is not None and last > step

    def lookup(self, ids: pl.Series, after: int) -> Iterator[tuple[Attempt, pl.DataFrame]]:
        """Find samples in its later steps."""
        for attempt in self.source.lineage.chain:
            yield attempt, self.source.lookup(attempt.label, ids).filter(pl.col("step") > after)


@dataclass(frozen=True)
class Guided:
    """Windows of which an expected stream may be the reference."""

    windows: Windows
    departs_at: int | None
    """The first committed step that differs from the expected one: it is no reference."""


def guide(expected: Expectation, windows: Windows, token_overlap: int | None, last: int) -> Guided:
    """
    Take an expected stream as the reference of a resume.

    Args:
        expected: the stream.
        windows: those of the resume; only the committed steps that they hold are compared.
        token_overlap: tokens that neighbouring spans may share; null: nothing says how many.
        last: the last step that is read of it.
    """
    committed = windows.committed.within
    first = committed["step"].min()
    at = windows.checkpoint_step
    begin = first if isinstance(first, int) else at + 1
    stream = cut.stream_between(expected.source, begin, last)
    stream = with_own_places(stream, windows.committed)
    departs = departure(stream, windows.committed, token_overlap)
    if departs is not None:
        return Guided(windows, departs)
    reference = cut.after(stream, at)
    return Guided(replace(windows, reference=reference, reference_kind=expected.kind), None)


def departure(stream: Side, committed: Side, token_overlap: int | None) -> int | None:
    """Give the first committed step that differs from an expected stream; null: none does."""
    before = begins_after(stream)
    committed = cut.after(committed, before) if before else committed
    if committed.records.is_empty():
        return None
    whole = Windows(
        checkpoint_step=before,
        committed=replace(cut.after(committed, cut.END), attempts=()),
        reference=stream,
        resumed=committed,
        reference_kind="control",
    )
    return first_divergence(gather_facts(whole, token_overlap))


def begins_after(stream: Side) -> int:
    """Give the last step before an expected stream; 0: it is a run's, or begins with the first."""
    first = stream.steps["step"].min()
    is_run = any(one.expects is None for one in stream.attempts)
    return 0 if is_run or not isinstance(first, int) else first - 1


def with_own_places(stream: Side, run: Side) -> Side:
    """
    Take the positions out of an expected stream, unless the run is known to count them alike.

    They do in the first step that both hold, or nobody knows: a position may count from the run's
    beginning, from the epoch's, or on each rank.
    """
    if not any(one.expects is not None for one in stream.attempts):
        return stream
    columns = ["step", "sample_id", "token_start"]
    theirs = stream.within.select(*columns, theirs="position")
    spans = [one for one in columns if theirs[one].null_count() < theirs.height]
    ours = run.within.filter(IS_USED).select(*columns, ours="position")
    both = ours.join(theirs, on=spans).filter(pl.col("step") == pl.col("step").min())
    is_same = (pl.col("ours") == pl.col("theirs")).fill_null(value=False)
    if both.height and both.select(is_same.all()).item():
        return stream
    records = stream.records.with_columns(position=pl.lit(None, pl.Int64))
    return replace(stream, records=records)
