"""Gathers what the ranks said of each checkpoint: who began, who completed, and with what."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ledger_audit.continuity.claims.pairs import canonical
from ledger_audit.continuity.fingerprints.logged import MOST_NESTED, is_deep
from ledger_audit.continuity.told import data_of
from ledger_audit.errors import UnreadableError


@dataclass(frozen=True)
class Save:
    """What one rank said of one checkpoint; null is what it did not say."""

    rank: int
    begin: int | None = None
    """The `seq` of `begin`: where the snapshot stands among the rank's commits."""
    complete: int | None = None
    """The `seq` of `complete`."""
    claim: Any = None
    """The first that it told: with `begin` as a rule."""
    other_claim: Any = None
    """Another one that it told later, with `complete`; null: it did not, or told the same."""
    fingerprint: Mapping[str, Any] | None = None
    path: str | None = None
    cursor: Mapping[str, Any] | None = None
    is_synced: bool | None = None

    @property
    def snapshot(self) -> int | None:
        """The `seq` before which what was used was used before the snapshot."""
        return self.complete if self.begin is None else self.begin


@dataclass(frozen=True)
class Told:
    """One checkpoint, as its ranks told of it."""

    attempt: str
    step: int
    nth: int
    """Which save of this step it was, from 1."""
    saves: Mapping[int, Save]
    """By rank."""


def gather(acts: pl.DataFrame) -> tuple[list[Told], dict[str, int]]:
    """
    Gather the checkpoints of every attempt.

    The n-th save of a step on one rank belongs to the n-th on the others. Where ranks saved a
    step more or less often, as after a retry on one alone, `_joined` says which belong together.

    Args:
        acts: EVENTS that are neither commits nor voids.

    Returns:
        The checkpoints, by attempt, step and number; and, by attempt, how many checkpoint events
        name no step.
    """
    events = acts.filter(pl.col("kind") == "checkpoint").unique(maintain_order=True)
    unplaced: dict[str, int] = {}
    saves: dict[tuple[str, int, int], list[Save]] = {}
    for row in events.sort("attempt", "rank", "seq").iter_rows(named=True):
        if row["step"] is None:
            unplaced[row["attempt"]] = unplaced.get(row["attempt"], 0) + 1
        else:
            own = saves.setdefault((row["attempt"], row["step"], row["rank"]), [])
            _add(own, row, data_of(row))
    of_step: dict[tuple[str, int], dict[int, list[Save]]] = {}
    for (attempt, step, rank), own in saves.items():
        of_step.setdefault((attempt, step), {})[rank] = own
    return [
        Told(attempt, step, nth, joined)
        for attempt, step in sorted(of_step)
        for nth, joined in enumerate(_joined(of_step[attempt, step]), 1)
    ], unplaced


def _joined(saves: Mapping[int, list[Save]]) -> list[dict[int, Save]]:
    """
    Put together the saves of one step that belong to each other.

    The ranks that saved most often stand in order. What a rank that saved less often completed
    belongs to the oldest save, after its own one before, that those completed, so that nothing
    is whole that may not be; what it did not complete, to the newest that they did not.
    """
    most = max(map(len, saves.values()))
    full = [own for own in saves.values() if len(own) == most]
    is_done = [all(own[turn].complete is not None for own in full) for turn in range(most)]
    turns = {state: [n for n, one in enumerate(is_done) if one is state] for state in (True, False)}
    found: list[dict[int, Save]] = [{} for _ in range(most)]
    for rank, own in sorted(saves.items()):
        least = 0
        for number, save in enumerate(own):
            last = most - len(own) + number  # those after it need a place each
            alike = turns[save.complete is not None]
            first, after = bisect_left(alike, least), bisect_right(alike, last)
            place = last
            if first < after:
                place = alike[first] if save.complete is not None else alike[after - 1]
            found[place][rank] = save
            least = place + 1
    return found


def _add(own: list[Save], row: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    """Add one event to the saves of a rank of one step."""
    phase = data.get("phase")
    place = _place(own, phase)
    if place == len(own):
        own.append(Save(row["rank"]))
    known = own[place]
    claim = data.get("claim")
    is_other = None not in (claim, known.claim) and canonical(claim) != canonical(known.claim)
    told = replace(
        known,
        claim=claim if known.claim is None else known.claim,
        other_claim=claim if known.other_claim is None and is_other else known.other_claim,
        fingerprint=known.fingerprint or _fingerprint(data, row),
        path=known.path or _text(data, "path", row),
        cursor=known.cursor or _object(data, "cursor", row),
    )
    if phase == "begin":
        told = replace(told, begin=row["seq"])
    elif phase == "complete" and known.complete is None:
        synced = data.get("synced")
        synced = synced if isinstance(synced, bool) else None
        told = replace(told, complete=row["seq"], is_synced=synced)
    own[place] = told


def _place(own: Sequence[Save], phase: Any) -> int:
    """
    Say which save of a step an event belongs to.

    Every `begin` opens another. A `complete` ends the newest: one that raised is never completed,
    and the trainer tries again. Told again without a `begin` between, it is the same.
    """
    if phase == "complete":
        return max(len(own) - 1, 0)
    is_new = not own or (phase == "begin" and (own[-1].begin, own[-1].complete) != (None, None))
    return len(own) if is_new else len(own) - 1


def _fingerprint(data: Mapping[str, Any], row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found = _object(data, "fingerprint", row)
    if found is not None and is_deep(found):
        raise UnreadableError(
            f"attempt {row['attempt']} rank {row['rank']}: the 'fingerprint' of its checkpoint "
            f"event at step {row['step']} is nested deeper than {MOST_NESTED}",
            hint="put the digest of a large state into it: fingerprint.state_digest gives one",
        )
    return found


def _object(data: Mapping[str, Any], key: str, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    value = data.get(key)
    if value is not None and not isinstance(value, dict):
        raise _wrong(key, value, "an object", row)
    return value


def _text(data: Mapping[str, Any], key: str, row: Mapping[str, Any]) -> str | None:
    value = data.get(key)
    if value is not None and not isinstance(value, str):
        raise _wrong(key, value, "text", row)
    return value


def _wrong(key: str, value: Any, wanted: str, row: Mapping[str, Any]) -> UnreadableError:
    return UnreadableError(
        f"attempt {row['attempt']} rank {row['rank']}: {key!r} in the data of its checkpoint event "
        f"at step {row['step']} is {value!r}, not {wanted}",
        hint="docs/ledger-format.md describes the data of every event",
    )


def starts(acts: pl.DataFrame) -> dict[str, dict[int, Mapping[str, Any]]]:
    """Give the data of the first start event of each rank, by attempt and rank."""
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    events = acts.filter(pl.col("kind") == "start").sort("attempt", "rank", "seq")
    for row in events.iter_rows(named=True):
        found.setdefault(row["attempt"], {}).setdefault(row["rank"], data_of(row))
    return found


def first_start(
    found: Mapping[str, Mapping[int, Mapping[str, Any]]], label: str
) -> Mapping[str, Any]:
    """Give the data of an attempt's start event, as its lowest rank says; empty: there is none."""
    own = found.get(label, {})
    return own[min(own)] if own else {}
