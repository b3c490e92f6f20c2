"""
Tells in which order each rank of a resumed attempt restored, iterated and used its first record.

Numbers (`seq`) are compared: a rank's samples and events share one count.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.fingerprints.changes import compared
from ledger_audit.continuity.fingerprints.effects import STATES
from ledger_audit.continuity.fingerprints.logged import Said, said_by_rank
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.model.fingerprints import RestoreOrder, Restoring
from ledger_audit.model.ranges import closed_ranges

Seen = Literal["one", "differs", "not-logged"]

TEXTS: Mapping[RestoreOrder, str] = {
    "restored-first": "the loader's state was restored before its iterator was made",
    "iterator-before-restore": (
        "the iterator was made before the loader's state was restored: it may have drawn its first "
        "indices from the old state"
    ),
    "record-before-restore": (
        "the loader's state was restored after the first record: that one was read without it"
    ),
    "restore-missing": "no restore event, while other ranks have one",
    "nothing-logged": "no restore event on any rank: nothing tells what the loader began with",
    "no-iterator": "nothing tells when the iterator of the first record was made",
    "no-record": "no record yet: nothing tells what the iterator drew first",
    "several-launches": "two launches under one label: nothing tells which event came first",
}


def restoring(
    acts: pl.DataFrame, first_records: pl.DataFrame, attempt: Attempt
) -> tuple[Restoring, ...]:
    """
    Tell how the ranks of a resumed attempt began, those alike together.

    What counts is the iterator that gave the first record: later epochs may make new ones, and
    later restores are another matter. A first launch has nothing to restore.

    Args:
        acts: EVENTS without commits and voids.
        first_records: attempt, rank, seq of the first used record of each rank.
        attempt: the resumed attempt.
    """
    if attempt.resumed_at is None:
        return ()
    said = said_by_rank(acts, attempt.label)
    first = first_of(first_records, attempt)
    ranks = attempt.participants(attempt.resumed_at + 1) | {
        rank for rank, events in said.items() if any(one.kind != "start" for one in events)
    }
    some_restored = any(one.kind == "restore" for events in said.values() for one in events)
    groups: dict[tuple[RestoreOrder, Seen], tuple[set[int], set[str]]] = {}
    for rank in ranks:
        order = _order(said.get(rank, []), first.get(rank), some_restored=some_restored)
        seen, differing = _fingerprints(said.get(rank, []), first.get(rank))
        alike = groups.setdefault((order, seen), (set(), set()))
        alike[0].add(rank)
        alike[1].update(differing)
    found = [
        Restoring(order, closed_ranges(alike), TEXTS[order], seen, tuple(sorted(differing)))
        for (order, seen), (alike, differing) in groups.items()
    ]
    return tuple(sorted(found, key=lambda one: one.ranks))


def first_of(first_records: pl.DataFrame, attempt: Attempt) -> dict[int, int]:
    """Give rank → `seq` of the first record that it used in an attempt."""
    own = first_records.filter(attempt=attempt.label).group_by("rank").agg(pl.col("seq").min())
    return dict(own.select("rank", "seq").iter_rows())


def _order(events: list[Said], first: int | None, *, some_restored: bool) -> RestoreOrder:
    if len({one.launch for one in events if one.kind == "start"}) > 1:
        return "several-launches"
    restores = [one.seq for one in events if one.kind == "restore"]
    iterators = [one.seq for one in events if one.kind == "iterator"]
    if not some_restored:
        return "nothing-logged"
    if first is None:
        return "no-record"
    if not restores:
        return "restore-missing"
    return _placed(restores, iterators, first)


def _placed(restores: list[int], iterators: list[int], first: int) -> RestoreOrder:
    """Put the last restore and the last iterator before the first record in their order."""
    restored = max((seq for seq in restores if seq < first), default=None)
    made = max((seq for seq in iterators if seq < first), default=None)
    if restored is None:
        return "record-before-restore"
    if made is None:
        return "no-iterator"
    return "restored-first" if restored < made else "iterator-before-restore"


def _fingerprints(events: list[Said], first: int | None) -> tuple[Seen, set[str]]:
    """Compare what start, restore and iterator saw, but for what restoring itself changes."""
    starts = [one for one in events if one.kind == "start"][:1]
    known = [one for one in events if one.kind != "start" and (first is None or one.seq < first)]
    last = {one.kind: one for one in known}
    differing = {name for pair in _pairs([*starts, *last.values()]) for name in _differing(*pair)}
    if differing:
        return "differs", differing
    told = [one for one in last.values() if one.fingerprint]
    return ("one" if len(told) == len(("restore", "iterator")) else "not-logged"), set()


def _pairs(seen: list[Said]) -> Iterator[tuple[Said, Said]]:
    for place, one in enumerate(seen):
        for other in seen[place + 1 :]:
            yield one, other


def _differing(one: Said, other: Said) -> Iterator[str]:
    """Name the keys that both tell and tell differently."""
    both = {
        key
        for key in one.fingerprint.keys() & other.fingerprint.keys() - STATES
        if one.fingerprint[key] != other.fingerprint[key]
    }
    for change in compared(
        {key: one.fingerprint[key] for key in both},
        {key: other.fingerprint[key] for key in both},
        Contract(),
    ):
        if change.is_compared:
            yield change.key
