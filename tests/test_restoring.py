"""In which order the ranks of a resumed attempt restored, iterated and used their first record."""

import json
from pathlib import Path
from typing import Any

import pytest
from fingerprinting import NOTHING, Job, must

from ledger_audit.continuity.fingerprints import faults, limits, restoring
from ledger_audit.model.fingerprints import FingerprintFacts, RestoreOrder, Restoring

ORDERS: list[tuple[str, RestoreOrder]] = [
    ("restore iterator use", "restored-first"),
    ("restore iterator use iterator iterator", "restored-first"),
    ("restore iterator use restore", "restored-first"),
    ("iterator restore iterator use", "restored-first"),
    ("restore restore iterator use", "restored-first"),
    ("iterator restore use", "iterator-before-restore"),
    ("restore iterator restore use", "iterator-before-restore"),
    ("iterator use restore", "record-before-restore"),
    ("use restore iterator", "record-before-restore"),
    ("restore use", "no-iterator"),
    ("restore use iterator", "no-iterator"),
    ("iterator use", "nothing-logged"),
    ("use", "nothing-logged"),
    ("restore iterator", "no-record"),
    ("iterator restore", "no-record"),
    ("", "nothing-logged"),
]


@pytest.mark.parametrize(("kinds", "expected"), ORDERS)
def test_the_order_of_restore_iterator_and_first_record(
    kinds: str, expected: RestoreOrder, tmp_path: Path
) -> None:
    """What counts is the iterator of the first record; nothing logged is no fault."""
    job = Job(ranks=1)
    job.start(0, 0)
    job.use(0, 0, 2)
    job.start(1, 0)
    job.run(1, 0, *kinds.split(), fingerprint={"seed": 7})
    (found,) = job.restoring(tmp_path)

    assert expected == found.order
    assert (expected in ("iterator-before-restore", "record-before-restore")) == found.is_faulty
    assert (expected == "restored-first") == found.is_proven


def test_ranks_that_began_alike_are_told_together(tmp_path: Path) -> None:
    """In closed ranges; a rank without a restore stands out where others have one."""
    job = Job(ranks=6)
    for rank in range(6):
        job.start(0, rank)
        job.use(0, rank, 2)
        job.start(1, rank)
        kinds = {2: "iterator restore use", 4: "iterator use", 5: ""}.get(rank)
        job.run(1, rank, *("restore iterator use" if kinds is None else kinds).split())
    found = {one.order: one.ranks for one in job.restoring(tmp_path)}

    assert {
        "restored-first": ((0, 1), (3, 3)),
        "iterator-before-restore": ((2, 2),),
        "restore-missing": ((4, 4),),
        "no-record": ((5, 5),),
    } == found


def test_a_first_launch_needs_no_restore(tmp_path: Path) -> None:
    """There is nothing that it could have restored."""
    job = Job(ranks=1)
    job.start(0, 0)
    job.run(0, 0, "iterator")
    job.use(0, 0, 1)
    acts, first, lineage = job.opened(tmp_path)

    assert () == restoring(acts, first, lineage.chain[0])


def test_two_launches_under_one_label_cannot_be_put_in_order(tmp_path: Path) -> None:
    """Each counts from 0; a copy of one start event is no second launch."""
    job = Job(ranks=1)
    job.start(0, 0)
    job.use(0, 0, 2)
    for host in ("a", "b"):
        job.start(1, 0, {"host": host})
        job.run(1, 0, "restore", "iterator", "use")
    twice = Job(ranks=1)
    twice.lines = [*job.lines[:4], *job.lines[3:7]]

    assert ["several-launches"] == [one.order for one in job.restoring(tmp_path / "two")]
    assert ["restored-first"] == [one.order for one in twice.restoring(tmp_path / "copy")]


def test_a_fingerprint_that_changes_on_the_way_is_told(tmp_path: Path) -> None:
    """Between start, restore and iterator; states change by being restored."""
    job = Job(ranks=3)
    for rank in range(3):
        job.start(0, rank)
        job.use(0, rank, 2)
        job.start(1, rank, {"seed": 7, "shuffle_state": "new", "workers": 2})
        job.run(1, rank, "restore", fingerprint={"seed": 7, "shuffle_state": "old"})
        seen = {"seed": 8 if rank == 1 else 7, "versions": {"torch": "2"}, "shuffle_state": "x"}
        job.run(1, rank, "iterator", "use", fingerprint=None if rank == 2 else seen)
    found = {one.ranks: (one.fingerprint, one.differing) for one in job.restoring(tmp_path)}

    assert {
        ((0, 0),): ("one", ()),
        ((1, 1),): ("differs", ("seed",)),
        ((2, 2),): ("not-logged", ()),
    } == found


def _began(order: RestoreOrder, fingerprint: Any = "one", differing: Any = ()) -> FingerprintFacts:
    one = Restoring(order, ((0, 7),), "as it was", fingerprint, differing)
    return FingerprintFacts((), (one,), (), ())


@pytest.mark.parametrize(
    ("facts", "is_broken", "codes", "notes"),
    [
        (_began("restored-first"), False, [], []),
        (_began("iterator-before-restore"), True, [], ["iterator-before-restore"]),
        (_began("record-before-restore"), True, [], ["iterator-before-restore"]),
        (_began("restore-missing"), False, ["restore-not-logged"], ["restore-missing"]),
        (_began("nothing-logged"), False, ["restore-not-logged"], []),
        (_began("no-iterator"), False, ["restore-not-logged"], []),
        (_began("no-record"), False, ["restore-not-logged"], []),
        (_began("several-launches"), False, ["restore-not-logged"], []),
        (_began("restored-first", "not-logged"), False, ["restore-not-logged"], []),
        (
            _began("restored-first", "differs", ("seed",)),
            True,
            [],
            ["fingerprint-seen-otherwise"],
        ),
    ],
)
def test_a_contract_asks_for_the_restore_first_or_only_notes(
    facts: FingerprintFacts, is_broken: bool, codes: list[str], notes: list[str]
) -> None:
    """Asked for, a wrong order breaks and what is not logged is unproven; else it is a note."""
    asked = must(restore_first=True)

    assert is_broken == bool(faults(facts, asked))
    assert codes == [code for code, _ in limits(facts, asked)]
    assert () == faults(facts, NOTHING)
    assert notes == [code for code, _ in limits(facts, NOTHING)]


def test_a_resumed_attempt_that_left_nothing_proves_nothing() -> None:
    """Asked for the restore first, an attempt without any event is unproven."""
    nothing = FingerprintFacts((), (), (), ())

    assert ["restore-not-logged"] == [code for code, _ in limits(nothing, must(restore_first=True))]
    assert () == limits(nothing, NOTHING)


def test_what_may_change_may_be_seen_otherwise() -> None:
    """An allowance for a key also holds between start, restore and iterator."""
    facts = _began("restored-first", "differs", ("versions.torch",))

    assert () == faults(facts, must(restore_first=True, allow={"versions": "a patch"}))
    assert faults(facts, must(restore_first=True, allow={"seed": "another"}))


def test_losing_evidence_never_settles_anything(tmp_path: Path) -> None:
    """Without one event, or one key on both sides: no fault appears, and none turns into a pass."""
    contract = must("seed", "versions", "worker_states", restore_first=True)
    job = Job(ranks=2)
    for rank in range(2):
        known = {"seed": 7, "versions": {"torch": "2"}}
        states = {"worker_states": {"0": f"{rank}"}}
        job.start(0, rank, known)
        job.use(0, rank, 2)
        job.say("checkpoint", 0, rank, 2, phase="begin", fingerprint=states)
        job.start(1, rank, known)
        job.run(1, rank, "restore", "iterator", "use", fingerprint=known | states)
    whole = job.facts(tmp_path / "whole", contract)
    assert ((), ()) == (faults(whole, contract), limits(whole, contract))

    lines = job.lines
    told = [n for n, line in enumerate(lines) if line["kind"] in ("checkpoint", "restore")]
    told += [n for n, line in enumerate(lines) if line["kind"] == "iterator"]
    for place in told:
        job.lines = lines[:place] + lines[place + 1 :]
        less = job.facts(tmp_path / f"event-{place}", contract)
        assert () == faults(less, contract), lines[place]
        assert limits(less, contract), lines[place]
    for key in ("seed", "versions", "worker_states"):
        text = json.dumps(lines).replace(f'"{key}"', f'"x{key}"')
        job.lines = json.loads(text)
        less = job.facts(tmp_path / key, contract)
        assert () == faults(less, contract), key
        assert ["fingerprint-not-logged"] == [code for code, _ in limits(less, contract)], key
