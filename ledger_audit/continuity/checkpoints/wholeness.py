"""Tells whether a checkpoint is whole: every rank that writes a part of it has completed it."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ledger_audit.continuity.checkpoints.saves import Told, first_start, gather, starts
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.errors import UnreadableError
from ledger_audit.model.checkpoints import Wholeness
from ledger_audit.model.ranges import closed_ranges
from ledger_audit.printable import counted, quoted, several

_MOST = 8
"""Ranges of ranks that are named."""


@dataclass(frozen=True)
class Habits:
    """How an attempt saves."""

    wrote: frozenset[int]
    """The ranks that said anything of any checkpoint."""
    first: int
    """The step of its first checkpoint."""

    @classmethod
    def of(cls, checkpoints: Sequence[Told]) -> "Habits":
        """See it on all checkpoints of the attempt."""
        wrote = frozenset().union(*(one.saves.keys() for one in checkpoints))
        return cls(wrote, min(one.step for one in checkpoints))


def wholeness_of(
    told: Told, attempt: Attempt, habits: Habits, start: Mapping[str, Any]
) -> Wholeness:
    """
    Judge one checkpoint.

    Args:
        told: what the ranks said of it.
        attempt: whose it is.
        habits: how the attempt saves.
        start: the data of its start event; empty where there is none.
    """
    writers, is_assumed, strangers = _writers(told, attempt, habits, start)
    completed = {rank for rank, save in told.saves.items() if save.complete is not None}
    silent = writers - told.saves.keys()
    unfinished = (told.saves.keys() & writers) - completed
    unsynced = {rank for rank, save in told.saves.items() if save.is_synced is False}
    unlogged = silent - attempt.participants(told.step)
    silent -= unlogged
    is_whole: bool | None = not (silent or unfinished)
    if is_whole and (unlogged or strangers or not writers):
        is_whole = None
    return Wholeness(
        is_whole=is_whole,
        writers=closed_ranges(writers),
        is_assumed=is_assumed,
        unfinished=closed_ranges(unfinished),
        silent=closed_ranges(silent),
        unsynced=closed_ranges(unsynced),
        text=_told(writers, unfinished, silent, unlogged, strangers, is_assumed=is_assumed),
    )


def newest_of(
    saves: Sequence[Told], attempt: Attempt, habits: Habits, start: Mapping[str, Any]
) -> Told:
    """
    Give the save of one step that a resume from it loaded, as far as can be told.

    The newest that is whole; else the newest that some rank completed; else the newest.
    """
    for one in reversed(saves):
        if wholeness_of(one, attempt, habits, start).is_whole:
            return one
    done = [one for one in saves if any(save.complete is not None for save in one.saves.values())]
    return (done or saves)[-1]


def loaded(wholeness: Wholeness, labels: Sequence[str]) -> Wholeness:
    """Say that attempts went on from a checkpoint, so that it was whole whatever was logged."""
    who = (
        f"{'attempt' if len(labels) == 1 else 'attempts'} {', '.join(map(quoted, labels[:_MOST]))}"
    )
    who += f" and {counted(len(labels) - _MOST, 'more')}" if len(labels) > _MOST else ""
    lacking = wholeness.text.removeprefix("not whole: ")
    text = f"whole after all, loaded by {who}: {lacking}"
    return replace(wholeness, is_whole=True, text=text)


def newest_whole(acts: pl.DataFrame, attempt: Attempt) -> int | None:
    """
    Give the step of the newest checkpoint of an attempt that every writer completed.

    One of which nobody knows, because a writer leaves no ledger, counts. Null: there is none.
    """
    if "kind" not in acts.columns:
        return None
    own = acts.filter(pl.col("attempt") == attempt.label)
    said = [one for one in gather(own)[0] if one.step > 0]
    if not said:
        return None
    habits, first = Habits.of(said), first_start(starts(own), attempt.label)
    whole = (one for one in said if wholeness_of(one, attempt, habits, first).is_whole is not False)
    return max((one.step for one in whole), default=None)


def _writers(
    told: Told, attempt: Attempt, habits: Habits, start: Mapping[str, Any]
) -> tuple[frozenset[int], bool, frozenset[int]]:
    """
    Say which ranks write, whether that is assumed, and which of them never take part.

    Where the start event does not say it, ranks that never wrote any although they went on past
    the attempt's first checkpoint do not write: many frameworks save on rank 0 alone.
    """
    said = start.get("checkpoint_writers")
    if said is not None:
        if not isinstance(said, list) or not all(type(one) is int for one in said):
            raise UnreadableError(
                f"attempt {attempt.label}: 'checkpoint_writers' of its start event is {said!r}",
                hint="it is a list of ranks; leave it out if all write",
            )
        takes_part = replace(attempt, logged=None).participants(told.step)
        members = (ranks for _, ranks in attempt.memberships)
        everyone = attempt.everyone.union(told.saves, *members)
        writers = frozenset(said) & (takes_part | told.saves.keys())
        return writers, False, frozenset(said) - everyone
    first = habits.first
    everyone = attempt.participants(told.step)
    past = {rank for rank in everyone - habits.wrote if attempt.last_steps.get(rank, first) > first}
    return (everyone - past) | told.saves.keys(), bool(past), frozenset()


def _told(
    writers: frozenset[int],
    unfinished: Set[int],
    silent: Set[int],
    unlogged: Set[int],
    strangers: Set[int],
    *,
    is_assumed: bool,
) -> str:
    who = named(writers)
    parts = []
    if unfinished:
        parts.append(f"{named(unfinished)} began and did not complete")
    if silent:
        parts.append(f"{named(silent)} wrote nothing of it")
    if parts:
        text = f"not whole: {', '.join(parts)}"
    elif strangers:
        text = (
            f"checkpoint_writers names {named(strangers)}, and the attempt has no such "
            "rank: nobody knows whether all of it was written"
        )
    elif not writers:
        text = "checkpoint_writers names no rank that takes part: nobody knows who wrote it"
    elif unlogged:
        text = f"{named(unlogged)} may have written it, and left no ledger"
    else:
        text = f"whole on {who}"
    return f"{text} (writers assumed: {who})" if is_assumed else text


def named(ranks: Iterable[int]) -> str:
    """Name ranks: `rank 3`, `ranks 0-3,7`."""
    return several("rank", closed_ranges(ranks), _MOST)
