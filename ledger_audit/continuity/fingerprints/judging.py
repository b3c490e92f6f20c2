"""Finds all that fingerprints tell of one resume, and what the contract makes of it."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.fingerprints.by_rank import changes_of, rank_differences
from ledger_audit.continuity.fingerprints.changes import (
    at,
    covers,
    mismatches,
    undecided,
    unlogged,
)
from ledger_audit.continuity.fingerprints.effects import STATES
from ledger_audit.continuity.fingerprints.logged import Logged, at_checkpoint, at_restore
from ledger_audit.continuity.fingerprints.restoring import first_of, restoring
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.model.fingerprints import (
    Change,
    FingerprintFacts,
    RankDifference,
    Restoring,
)
from ledger_audit.model.ranges import Ranges, closed_ranges
from ledger_audit.printable import counted, quoted

MOST_NAMES = 8
"""Keys that are named in one sentence."""


def audit_fingerprints(
    acts: pl.DataFrame,
    first_records: pl.DataFrame,
    before: Attempt,
    after: Attempt,
    contract: Contract,
) -> FingerprintFacts:
    """
    Find what changed across one resume, and how the resumed attempt began.

    Args:
        acts: EVENTS without commits and voids, of all attempts.
        first_records: attempt, rank, seq of the first used record of each rank of `after`,
            committed or not.
        before: the attempt that made the checkpoint.
        after: the attempt that loaded it.
        contract: what must match, and what is allowed to change.
    """
    was = at_checkpoint(acts, before, after.resumed_at or 0)
    now = at_restore(acts, after, first_of(first_records, after))
    return FingerprintFacts(
        changes=changes_of(was, now, contract),
        restoring=restoring(acts, first_records, after),
        differences=tuple(
            (label, one)
            for label in (before.label, after.label)
            for one in rank_differences(acts, label)
        ),
        unlogged=unlogged(was.job, now.job, contract),
        fell_silent=tuple(_fell_silent(was, now, contract)),
    )


def _fell_silent(before: Logged, after: Logged, contract: Contract) -> Iterator[tuple[str, Ranges]]:
    """Find ranks that logged a key that must match, and log it no more."""
    size = after.world_size
    there = {rank for rank in before.recipes if size is None or rank < size}
    for name in contract.fingerprint.must_match:
        ranks = [
            rank
            for rank in there
            if at(before.recipes[rank], name) is not None
            and at(after.recipes.get(rank, {}), name) is None
        ]
        if ranks and at(after.job, name) is not None and name not in STATES:
            yield name, closed_ranges(ranks)


def faults(facts: FingerprintFacts, contract: Contract) -> tuple[str, ...]:
    """Say what breaks the clause `fingerprint`, a sentence each."""
    found = [_changed(one) for one in mismatches(facts.changes)]
    if contract.fingerprint.restore_first:
        found += [f"{_told(one.ranks)}: {one.text}" for one in facts.restoring if one.is_faulty]
        found += [_seen_otherwise(*one) for one in _otherwise(facts, contract)]
    return tuple(found)


def limits(facts: FingerprintFacts, contract: Contract) -> tuple[tuple[str, str], ...]:
    """
    Say what the clause `fingerprint` cannot be judged by, and what is worth a note.

    Returns:
        Code and text of each limit.
    """
    found = [("fingerprint-not-logged", text) for text in _open(facts, contract)]
    if contract.fingerprint.restore_first and not facts.restoring:
        found.append(("restore-not-logged", "the resumed attempt left no event and no record"))
    for one in facts.restoring:
        told = f"{_told(one.ranks)}: {one.text}"
        if contract.fingerprint.restore_first:
            if not one.is_faulty and one.order != "restored-first":
                found.append(("restore-not-logged", told))
            elif one.fingerprint == "not-logged":
                told = f"{_told(one.ranks)}: restore or iterator do not tell the fingerprint"
                found.append(("restore-not-logged", told))
        elif one.is_faulty:
            found.append(("iterator-before-restore", told))
        elif one.order == "restore-missing":
            found.append(("restore-missing", told))
    if not contract.fingerprint.restore_first:
        found += [
            ("fingerprint-seen-otherwise", _seen_otherwise(*one))
            for one in _otherwise(facts, contract)
        ]
    found += [
        ("fingerprint-differs-between-ranks", _between_ranks(label, one))
        for label, one in facts.differences
    ]
    return tuple(found)


def _open(facts: FingerprintFacts, contract: Contract) -> list[str]:
    """Say which keys that must match nothing is known of, or not enough."""
    found = []
    if facts.unlogged:
        found.append(
            f"key {_listed(facts.unlogged)} not logged both before the resume and after it"
        )
    for name, ranks in facts.fell_silent:
        found.append(f"key {quoted(name)} is logged no more on {_told(ranks)}")
    for one in facts.changes:
        is_asked = one.must_match and not one.is_compared and one.allowed is None
        if is_asked and not any(covers(name, one.key) for name in facts.unlogged):
            where = f" on {_told(one.ranks)}" if one.ranks else ""
            found.append(f"{quoted(one.key)}{where}: {one.because}")
    for one in undecided(facts.changes, contract):
        found.append(f"{_changed(one)}: {one.because}")
    return found


def _otherwise(
    facts: FingerprintFacts, contract: Contract
) -> list[tuple[Restoring, tuple[str, ...]]]:
    """Give the keys that were seen differently and that nothing allows to change."""
    allowed = [one.change for one in contract.allow if one.change is not None]
    found = []
    for one in facts.restoring:
        names = tuple(
            name for name in one.differing if not any(covers(key, name) for key in allowed)
        )
        if names:
            found.append((one, names))
    return found


def _seen_otherwise(one: Restoring, names: Iterable[str]) -> str:
    return f"{_told(one.ranks)}: start, restore and iterator saw another {_listed(names)}"


def _changed(one: Change) -> str:
    if one.count > 1:
        return f"{counted(one.count, 'more key')} of {quoted(one.key)} changed"
    where = f" on {_told(one.ranks)}" if one.ranks else ""
    return f"{quoted(one.key)} was {_value(one.before)} and is {_value(one.after)}{where}"


def _value(value: Any) -> str:
    if value is None:
        return "not there"
    return quoted(value if isinstance(value, str) else json.dumps(value, sort_keys=True))


def _between_ranks(label: str, one: RankDifference) -> str:
    values = ", ".join(f"{_value(value)} on {_told(ranks)}" for ranks, value in one.values)
    more = f", and {one.count - len(one.values)} more" if one.count > len(one.values) else ""
    told = f"fingerprint differs between ranks of attempt {quoted(label)}"
    return f"{told}: {quoted(one.key)} is {values}{more}"


def _told(ranks: Ranges) -> str:
    parts = [f"{low}" if low == high else f"{low}-{high}" for low, high in ranks]
    more = f", … ({len(parts)} ranges)" if len(parts) > MOST_NAMES else ""
    noun = "rank" if len(parts) == 1 and "-" not in parts[0] else "ranks"
    return f"{noun} {', '.join(parts[:MOST_NAMES])}{more}"


def _listed(names: Iterable[str]) -> str:
    every = [quoted(name) for name in names]
    more = f", … ({len(every)} in all)" if len(every) > MOST_NAMES else ""
    return f"{', '.join(every[:MOST_NAMES])}{more}"
