"""
Rehearses a failure: the newest attempt dies now, and its successor resumes as it should.

The successor does again what its parent did after the checkpoint, and logs it as its parent did.
What then cannot be proven of it could not be proven after a real failure either.
"""

from dataclasses import dataclass, replace

import polars as pl

from ledger_audit.continuity import windows as cut
from ledger_audit.continuity.checkpoints.wholeness import newest_whole
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.windows import Source, whole_through

SUCCESSOR = "next"


@dataclass(frozen=True)
class Rehearsal:
    """A ledger with a failure that did not happen yet."""

    source: Source
    index: int
    """The place of the successor in the lineage."""
    checkpoint_step: int
    is_at_the_end: bool
    """Nothing whole comes after the checkpoint: its last step stands for what would."""


def rehearse(source: Source, checkpoint_step: int) -> Rehearsal:
    """
    Give the ledger as it would be after a right resume from a checkpoint of the newest attempt.

    Where no step after the checkpoint is whole, there is no lost work to judge by: then the
    checkpoint's last step is taken for the successor's first, and there is no reference.
    """
    index = len(source.lineage.chain)
    rehearsed = _with_successor(source, checkpoint_step, is_lost=True)
    lost = cut.rolled_back_window(rehearsed, index)
    if whole_through(lost, checkpoint_step) is not None:
        return Rehearsal(rehearsed, index, checkpoint_step, is_at_the_end=False)
    at_end = _with_successor(source, checkpoint_step - 1, is_lost=False)
    return Rehearsal(at_end, index, checkpoint_step, is_at_the_end=True)


def _with_successor(source: Source, after: int, *, is_lost: bool) -> Source:
    """
    Let a successor go on after a step with what its parent did there.

    Args:
        source: the ledger.
        after: the step.
        is_lost: the parent had done it, too; else it died at the step.
    """
    parent = source.lineage.chain[-1]
    taken = {one.label for one in (*source.lineage.chain, *source.lineage.outside)}
    label = SUCCESSOR
    while label in taken:
        label += "+"
    successor = replace(
        parent,
        label=label,
        parent=parent.label,
        resumed_at=after,
        loaded_at=None,
        has_end=False,
        first_step=None if parent.last_step in (None, after) else after + 1,
        is_assumed=not parent.has_start,
        lost=(),
    )
    known = _dead(parent, after, is_lost=is_lost)
    stage = _Stage(source, known, successor, after, is_lost)
    lineage = source.lineage
    return replace(
        source,
        lineage=replace(lineage, chain=(*lineage.chain[:-1], known, successor)),
        acts=_acts_with(source.acts, parent, label),
        records=stage.records,
        tries=stage.tries,
        lookup=stage.lookup,
    )


def _dead(parent: Attempt, after: int, *, is_lost: bool) -> Attempt:
    """Give the attempt as a failure leaves it: what it did to the step is committed."""
    last = parent.last_step if is_lost or parent.last_step is None else min(after, parent.last_step)
    return replace(
        parent,
        loaded_at=max(after, parent.loaded_at or after),
        has_end=False,
        last_steps={
            rank: step if last is None else min(step, last)
            for rank, step in parent.last_steps.items()
        },
    )


@dataclass(frozen=True)
class _Stage:
    """Reads what the parent did as its own and as its successor's."""

    source: Source
    parent: Attempt
    successor: Attempt
    after: int
    is_lost: bool

    def records(self, label: str, first: int, until: int | None) -> pl.DataFrame:
        """Give SAMPLES of an attempt, the successor's among them."""
        return self._named(self.source.records(*self._place(label, first, until)), label)

    def tries(self, label: str, first: int, until: int | None) -> pl.DataFrame:
        """Give commits and voids; what its parent lost, the successor would not."""
        found = self._named(self.source.tries(*self._place(label, first, until)), label)
        if label != self.successor.label:
            return found
        unsaid = pl.lit(None, pl.Int64)
        return found.with_columns(samples=unsaid, digest=unsaid)

    def lookup(self, label: str, ids: pl.Series) -> pl.DataFrame:
        """Give used records with one of these sample ids."""
        where, first, until = self._place(label, 0, None)
        within = pl.col("step") >= first
        if until is not None:
            within &= pl.col("step") <= until
        return self._named(self.source.lookup(where, ids).filter(within), label)

    def _named(self, rows: pl.DataFrame, label: str) -> pl.DataFrame:
        return rows.with_columns(attempt=pl.lit(label))

    def _place(self, label: str, first: int, until: int | None) -> tuple[str, int, int | None]:
        """Say where a stretch of an attempt really stands."""
        if label == self.successor.label:
            return self.parent.label, max(first, self.after + 1), until
        if label == self.parent.label and not self.is_lost:
            return label, first, self.after if until is None else min(self.after, until)
        return label, first, until


def _acts_with(acts: pl.DataFrame, parent: Attempt, label: str) -> pl.DataFrame:
    """
    Let the successor say what its parent said when it began.

    A first launch has nothing to restore: its successor restores just before it makes the
    iterator, if its parent says when it made it.
    """
    if "kind" not in acts.columns:
        return acts
    said = acts.filter(
        pl.col("attempt") == parent.label, pl.col("kind").is_in(["start", "restore", "iterator"])
    )
    if parent.resumed_at is None and not (said["kind"] == "restore").any():
        made = said.filter(kind="iterator")
        restored = made.with_columns(kind=pl.lit("restore"), seq=pl.col("seq") - 1)
        said = pl.concat([said, restored])
    return pl.concat([acts, said.with_columns(attempt=pl.lit(label))])


def where_to_resume(source: Source) -> tuple[int, bool] | None:
    """
    Give the step of the checkpoint that a resume of the newest attempt would load.

    Returns:
        The step, and whether an event says so; else the attempt's middle is assumed, so that
        there is lost work to judge by. Null where the attempt left no step.
    """
    newest = source.lineage.chain[-1]
    if newest.first_step is None or newest.last_step is None:
        return None
    whole = newest_whole(source.acts, newest)
    if whole is not None:
        return whole, True
    return (newest.first_step - 1 + newest.last_step) // 2, False
