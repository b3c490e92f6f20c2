"""Compares fingerprints rank by rank: across a resume, and within one launch."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.fingerprints.changes import (
    MOST_IN_ALL,
    at,
    change_of,
    changes,
    compared,
    folded,
    shown,
)
from ledger_audit.continuity.fingerprints.effects import OF_A_RANK, STATES
from ledger_audit.continuity.fingerprints.logged import Logged, said_by_rank
from ledger_audit.model.fingerprints import Change, RankDifference
from ledger_audit.model.ranges import closed_ranges

DEALT_ANEW = "the ranks are others: the states of one rank before and after are not the same thing"
OTHER_MOMENT = "states move on: only those of the checkpoint and of its restore are comparable"

MOST_VALUES = 4
"""Values of one key that are told where ranks differ."""


def changes_of(before: Logged, after: Logged, contract: Contract) -> tuple[Change, ...]:
    """
    List what changed between a checkpoint and the attempt that loaded it, on any rank.

    What only one side logs is told of the job as a whole; what both log is compared on each rank
    that logs it after the resume, with the same rank before, or with the job where the ranks are
    others.
    """
    whole = before.job, after.job
    if not before.job.keys() - {"world_size"} or not after.job.keys() - {"world_size"}:
        return changes(*whole, contract)
    found = [one for one in compared(*whole, contract) if _is_one_sided(one, whole)]
    return folded([*found, *_merged(_on_ranks(before, after, contract))])


def _is_one_sided(change: Change, whole: tuple[Mapping[str, Any], Mapping[str, Any]]) -> bool:
    """Tell whether one side has nothing at all under a key of the fingerprint."""
    return change.logged != "both" and change.key in {*whole[0], *whole[1]}


def _on_ranks(
    before: Logged, after: Logged, contract: Contract
) -> Iterator[tuple[Change, frozenset[int]]]:
    """Give what changed on ranks: of ranks that say the same, only once."""
    sizes = {before.world_size, after.world_size} - {None}
    is_same_deal = len(sizes) < 2
    job = before.job
    for (was, now), ranks in _alike(_recipes(before if is_same_deal else None, job, after)):
        for change in compared(was, now, contract):
            yield change, ranks
    for key in sorted(STATES):
        if before.job.get(key) is None or after.job.get(key) is None:
            continue  # one-sided, or not logged at all
        if not is_same_deal:
            pair = before.job[key], after.job[key]
            yield change_of(key, pair, contract, DEALT_ANEW), frozenset(after.recipes)
            continue
        for (was, now, is_exact), ranks in _alike(_states(before, after, key)):
            why = {} if is_exact else {key: OTHER_MOMENT}
            for change in compared({key: was}, {key: now}, contract, why):
                yield change, ranks
            if was is None and now is None:  # others tell theirs: this one's is missing
                yield change_of(key, (None, None), contract), ranks


def _recipes(
    before: Logged | None, job: Mapping[str, Any], after: Logged
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Give each rank's keys before and after, where both are logged."""
    for rank, own in after.recipes.items():
        now = {**own, **after.size}
        own_before = {} if before is None else before.recipes.get(rank, {})
        was = {key: own_before.get(key, job.get(key)) for key in now if key != "world_size"}
        was["world_size"] = job.get("world_size")
        yield rank, tuple(_both(was, now))


def _states(before: Logged, after: Logged, key: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Give what each rank says of a state before and after, and whether of the right moments."""
    for rank in {*before.recipes, *after.recipes}:
        sides = before, after
        exact = [one.states.get(rank, {}).get(key) for one in sides]
        other = [one.earlier_states.get(rank, {}).get(key) for one in sides]
        was, now = (a if a is not None else b for a, b in zip(exact, other, strict=True))
        yield rank, (was, now, None not in exact)


def _both(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    keys = [key for key in now if now[key] is not None and was.get(key) is not None]
    yield {key: was[key] for key in keys}
    yield {key: now[key] for key in keys}


def _alike(
    told: Iterable[tuple[int, tuple[Any, ...]]],
) -> Iterator[tuple[tuple[Any, ...], frozenset[int]]]:
    """Put the ranks together that tell the same."""
    groups: dict[str, tuple[tuple[Any, ...], set[int]]] = {}
    for rank, pair in told:
        groups.setdefault(json.dumps(pair, sort_keys=True), (pair, set()))[1].add(rank)
    for pair, ranks in groups.values():
        yield pair, frozenset(ranks)


def _merged(found: Iterable[tuple[Change, frozenset[int]]]) -> Iterator[Change]:
    """Tell a change once for all ranks that show it; of a rank's own keys, whatever its values."""
    merged: dict[tuple[Any, ...], tuple[Change, set[int]]] = {}
    for change, ranks in found:
        is_own = change.key.split(".", 1)[0] in OF_A_RANK
        values = None if is_own else json.dumps([change.before, change.after], sort_keys=True)
        kind = change.key, change.logged, change.is_compared, values
        merged.setdefault(kind, (change, set()))[1].update(ranks)
    for change, every in merged.values():
        yield replace(change, ranks=closed_ranges(every))


@dataclass(frozen=True)
class _Saying:
    """What some ranks of one launch say alike."""

    ranks: frozenset[int]
    fingerprint: Mapping[str, Any]


def rank_differences(acts: pl.DataFrame, label: str) -> tuple[RankDifference, ...]:
    """
    List the keys that the ranks of one attempt log differently, and that are no rank's own.

    Only what start events say is compared, and only ranks that log a key.

    Args:
        acts: EVENTS without commits and voids.
        label: of the attempt.
    """
    starts = {
        rank: next((one for one in events if one.kind == "start"), None)
        for rank, events in said_by_rank(acts, label).items()
    }
    told = [
        (rank, ({k: v for k, v in one.fingerprint.items() if k not in OF_A_RANK},))
        for rank, one in starts.items()
        if one is not None
    ]
    groups = [_Saying(ranks, saying[0]) for saying, ranks in _alike(told)]
    names = {
        change.key
        for one in groups[1:]
        for change in compared(groups[0].fingerprint, one.fingerprint, Contract())
    }
    found = [_difference(name, groups) for name in sorted(names)]
    return tuple(one for one in found if one.count > 1)[:MOST_IN_ALL]


def _difference(name: str, groups: Iterable[_Saying]) -> RankDifference:
    values: dict[str, tuple[Any, set[int]]] = {}
    for one in groups:
        value = at(one.fingerprint, name)
        if value is not None:
            text = json.dumps(value, sort_keys=True)
            values.setdefault(text, (value, set()))[1].update(one.ranks)
    by_ranks = sorted(values.values(), key=lambda each: (-len(each[1]), min(each[1])))
    told = tuple((closed_ranges(ranks), shown(value)) for value, ranks in by_ranks[:MOST_VALUES])
    return RankDifference(name, told, len(values))
