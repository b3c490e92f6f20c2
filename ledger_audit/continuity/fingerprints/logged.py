"""Gathers what each rank of an attempt logged of its fingerprint up to one moment."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from ledger_audit.continuity.fingerprints.effects import STATES
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.errors import UnreadableError

MOST_NESTED = 100
"""Levels of a fingerprint: deeper ones are no settings, and recursion would end in a crash."""

KINDS = ("start", "restore", "iterator")


@dataclass(frozen=True)
class Said:
    """One event that may tell a fingerprint."""

    kind: str
    seq: int
    fingerprint: Mapping[str, Any]
    """Empty: the event tells none."""
    launch: tuple[int | None, str | None]
    """Time and data: of two start events that are alike, one is a copy."""


@dataclass(frozen=True)
class Logged:
    """What the ranks of one attempt logged, as it stood at one moment."""

    world_size: int | None
    """Ranks that shard data; null: nothing says."""
    recipes: Mapping[int, Mapping[str, Any]]
    """Rank → its keys, but for those that change while the job runs."""
    states: Mapping[int, Mapping[str, Any]]
    """Rank → the keys that do, at that moment."""
    earlier_states: Mapping[int, Mapping[str, Any]]
    """Rank → the same as they were told at other moments."""

    @property
    def job(self) -> dict[str, Any]:
        """The fingerprint of the whole: each key as the lowest rank that logs it says."""
        found: dict[str, Any] = {}
        for told in (self.recipes, self.states, self.earlier_states):
            for rank in sorted(told):
                found = {**told[rank], **found}
        return {**found, **self.size}

    @property
    def size(self) -> dict[str, Any]:
        """The number of ranks as a key of the fingerprint."""
        return {} if self.world_size is None else {"world_size": self.world_size}


def at_checkpoint(acts: pl.DataFrame, attempt: Attempt, step: int) -> Logged:
    """
    Give what an attempt had logged when it made the checkpoint at a step.

    The checkpoint's own fingerprint counts; what it leaves out is as the launch began.

    Args:
        acts: EVENTS without commits and voids.
        attempt: that made the checkpoint.
        step: that the checkpoint holds.
    """
    recipes: dict[int, dict[str, Any]] = {}
    states: dict[int, dict[str, Any]] = {}
    earlier: dict[int, dict[str, Any]] = {}
    for rank, events in said_by_rank(acts, attempt.label, step).items():
        saving = [one for one in events if one.kind == "checkpoint"]
        before = _launch(events, saving[0].seq if saving else None)
        recipes[rank] = _merged([*before, *saving], but=STATES)
        states[rank] = _merged(saving, only=STATES)
        earlier[rank] = _merged(before, only=STATES)
    return Logged(_world_size(attempt, step, recipes), recipes, states, earlier)


def at_launch(acts: pl.DataFrame, label: str) -> dict[int, dict[str, Any]]:
    """
    Give what each rank of an attempt logged as its launch began.

    Args:
        acts: EVENTS without commits and voids.
        label: of the attempt.
    """
    said = said_by_rank(acts, label)
    return {rank: _merged(_launch(events, None)) for rank, events in said.items()}


def at_restore(acts: pl.DataFrame, attempt: Attempt, first: Mapping[int, int]) -> Logged:
    """
    Give what a resumed attempt had logged when each rank used its first record.

    What `restore` and `iterator` saw counts more than what was said at the start. States count as
    `restore` saw them: making an iterator may change them.

    Args:
        acts: EVENTS without commits and voids.
        attempt: the resumed attempt.
        first: rank → `seq` of the first record that it used; without one, everything counts.
    """
    recipes: dict[int, dict[str, Any]] = {}
    states: dict[int, dict[str, Any]] = {}
    earlier: dict[int, dict[str, Any]] = {}
    for rank, events in said_by_rank(acts, attempt.label).items():
        until = first.get(rank)
        known = [one for one in events if _precedes(one, until)]
        restores = [one for one in known if one.kind == "restore"]
        recipes[rank] = _merged(known, but=STATES)
        states[rank] = _merged(restores[-1:], only=STATES)
        earlier[rank] = _merged(known, only=STATES)
    after = (attempt.resumed_at or 0) + 1
    return Logged(_world_size(attempt, after, recipes), recipes, states, earlier)


def said_by_rank(
    acts: pl.DataFrame, label: str, checkpoint: int | None = None
) -> dict[int, list[Said]]:
    """
    Give the events of each rank that may tell a fingerprint, in the order of writing.

    Start events come first, whatever their number says.

    Args:
        acts: EVENTS without commits and voids.
        label: of the attempt.
        checkpoint: the step of which checkpoint events are given; null: none are.

    Raises:
        UnreadableError: a fingerprint is no object, or nested too deeply.
    """
    found: dict[int, list[Said]] = {}
    if acts.is_empty():  # of plain logs, a frame without columns
        return found
    read: dict[str | None, Mapping[str, Any]] = {}  # ranks say the same: it is read once
    is_saving = (pl.col("kind") == "checkpoint") & pl.col("step").eq_missing(checkpoint)
    asked = pl.col("kind").is_in(KINDS) | (is_saving if checkpoint is not None else False)
    rows = acts.filter(asked, attempt=label).sort("rank", "seq")
    for row in rows.iter_rows(named=True):
        if row["data"] not in read:
            read[row["data"]] = _fingerprint(row)
        said = Said(
            kind=row["kind"],
            seq=row["seq"],
            fingerprint=read[row["data"]],
            launch=(row["time_ns"], row["data"]),
        )
        found.setdefault(row["rank"], []).append(said)
    for events in found.values():
        events.sort(key=lambda one: one.kind != "start")
    return found


def _launch(events: list[Said], until: int | None) -> list[Said]:
    """Give what a launch said before a checkpoint; where none is logged, what it said first."""
    starts = [one for one in events if one.kind == "start"]
    later = [one for one in events if one.kind in ("restore", "iterator")]
    if until is not None:
        return [*starts, *(one for one in later if one.seq < until)]
    first = {one.kind: one for one in reversed(later)}
    return [*starts, *sorted(first.values(), key=lambda one: one.seq)]


def _precedes(one: Said, until: int | None) -> bool:
    return one.kind == "start" or until is None or one.seq < until


def _merged(
    events: Iterable[Said], *, only: frozenset[str] | None = None, but: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Put fingerprints over each other: the last that logs a key counts."""
    return {
        key: value
        for one in events
        for key, value in one.fingerprint.items()
        if value is not None and key not in but and (only is None or key in only)
    }


def _world_size(
    attempt: Attempt, step: int, recipes: Mapping[int, Mapping[str, Any]]
) -> int | None:
    """Give the number of ranks at a step: as members, start events or fingerprints say."""
    members = [ranks for since, ranks in attempt.memberships if since <= step]
    if members:
        return len(members[-1])
    if attempt.world_size is not None:
        return attempt.world_size
    said = [recipes[rank].get("world_size") for rank in sorted(recipes)]
    return next((one for one in said if isinstance(one, int)), None)


def _fingerprint(row: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        data = json.loads(row["data"] or "{}")
        found = (data.get("fingerprint") or {}) if isinstance(data, dict) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or is_deep(found):
        raise UnreadableError(
            f"attempt {row['attempt']} rank {row['rank']} seq {row['seq']}: the 'fingerprint' of "
            f"its {row['kind']} event is not an object, or is nested deeper than {MOST_NESTED}",
            hint='write {"fingerprint": {"seed": 7, ...}} into the data of the event',
        )
    return found


def is_deep(value: Any) -> bool:
    """Tell whether a fingerprint is nested too deeply to be one."""
    left = [(value, 1)]
    while left:
        one, depth = left.pop()
        if isinstance(one, dict | list):
            if depth > MOST_NESTED:
                return True
            inside = one.values() if isinstance(one, dict) else one
            left += [(each, depth + 1) for each in inside]
    return False
