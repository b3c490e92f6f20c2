"""Every term of a contract: a ledger whose verdict it turns, and one whose verdict it does not."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tiny import Line, attempt, dealt, write

from ledger_audit import audit
from ledger_audit.continuity.contract import (
    Allowance,
    Bound,
    Contract,
    Fingerprints,
    Minimum,
    Ranks,
)
from ledger_audit.model import Report

SIZE = {"fingerprint": {"dataset_samples": 1000}}


def replaying(samples: int, **start: Any) -> list[Line]:
    """Four samples a step; after step 4 the resume begins so many samples too early."""
    dead = attempt(0, dealt(1, 7), **SIZE)
    return [*dead, *attempt(1, dealt(5, 9, at=16 - samples), after=(0, 4), **{**SIZE, **start})]


def skipping(samples: int) -> list[Line]:
    """The resume begins so many samples too late."""
    return replaying(-samples)


def judged(folder: Path, lines: Sequence[Line], contract: Contract) -> Report:
    """Judge a ledger's resumes by a contract."""
    contract = contract.with_terms(default="relative")
    return audit.diff([write(folder, lines)], contract=contract)


def verdict(folder: Path, lines: Sequence[Line], contract: Contract) -> str:
    """Give the verdict alone."""
    return judged(folder, lines, contract).verdict.value


def clause(report: Report, name: str) -> tuple[str, str]:
    """Give the verdict of a clause, and why."""
    found = next(one for one in report.clauses if one.clause == name)
    return found.verdict.value, found.because


def bounded(**bounds: int) -> Contract:
    """Allow a bounded replay."""
    return Contract(promise="bounded-replay", bounded_replay=Bound(**bounds))


@pytest.mark.parametrize(
    ("contract", "turned"),
    [
        (Contract(), False),
        (bounded(samples=4), True),
        (bounded(samples=3), False),
        (bounded(steps=1), True),
        (bounded(steps=0), False),
        (bounded(samples=4, steps=1), True),
        (bounded(samples=4, steps=0), False),
        (Contract(promise="at-least-once"), True),
        (Contract(allow=(Allowance("known", finding="replayed", at_most=4),)), True),
        (Contract(allow=(Allowance("known", finding="replayed", at_most=3),)), False),
        (Contract(allow=(Allowance("known", finding="skipped", at_most=99),)), False),
        (Contract(order="none"), False),
    ],
)
def test_a_replay_of_one_step(contract: Contract, turned: bool, tmp_path: Path) -> None:
    """Four replayed samples break the promise, unless a bound or an allowance holds them."""
    report = judged(tmp_path, replaying(4), contract)

    assert report.verdict.value == ("continuous" if turned else "broken")
    assert report.resumes[0].resumed["replayed"].records == 4  # measured, allowed or not
    if turned:
        assert "4 records replayed, allowed: " in clause(report, "promise")[1]


@pytest.mark.parametrize(
    ("contract", "turned"),
    [
        (Contract(), False),
        (Contract(promise="at-least-once"), False),
        (bounded(samples=99), False),
        (Contract(shuffle_buffer=2), True),
        (Contract(shuffle_buffer=1), False),
        (Contract(allow=(Allowance("known", finding="skipped", at_most=4),)), True),
        (Contract(allow=(Allowance("known", finding="skipped", at_most=3),)), False),
    ],
)
def test_a_skip_of_one_step(contract: Contract, turned: bool, tmp_path: Path) -> None:
    """Four skipped samples break the promise, unless a shuffle buffer or an allowance explains."""
    report = judged(tmp_path, skipping(4), contract)

    assert report.verdict.value == ("continuous" if turned else "broken")
    assert report.resumes[0].expected["skipped"].records == 4


def with_spans(lines: list[Line]) -> list[Line]:
    """Give every sample eight tokens."""
    return [
        {**line, "token_start": 0, "token_end": 8} if line["kind"] == "sample" else line
        for line in lines
    ]


def test_a_bound_in_tokens_needs_spans(tmp_path: Path) -> None:
    """Without spans a replay cannot be held to its tokens: unproven, and the limit says so."""
    assert verdict(tmp_path / "a", with_spans(replaying(4)), bounded(tokens=32)) == "continuous"
    assert verdict(tmp_path / "b", with_spans(replaying(4)), bounded(tokens=31)) == "broken"
    report = judged(tmp_path / "c", replaying(4), bounded(tokens=32))
    assert clause(report, "promise")[0] == "unproven"
    assert "tokens-not-logged" in {one.code for one in report.resumes[0].limits}
    assert verdict(tmp_path / "d", replaying(0), bounded(tokens=32)) == "continuous"


def test_placement_is_free_unless_the_contract_keeps_it(tmp_path: Path) -> None:
    """Ranks that change places break the clause `placement`, and nothing else."""
    swapped = {step: by_rank[::-1] for step, by_rank in dealt(5, 9).items()}
    dead = attempt(0, dealt(1, 7))
    lines = [*dead, *attempt(1, swapped, after=(0, 4))]

    assert verdict(tmp_path / "free", lines, Contract()) == "continuous"
    report = judged(tmp_path / "kept", lines, Contract(placement="kept"))
    assert clause(report, "placement") == ("broken", "12 records at another rank or slot")
    assert clause(report, "promise")[0] == "continuous"
    assert verdict(tmp_path / "right", replaying(0), Contract(placement="kept")) == "continuous"


def test_the_number_of_ranks_may_change_unless_the_contract_forbids_it(tmp_path: Path) -> None:
    """Two ranks instead of one: free by default, broken by contract, unproven where not logged."""
    fixed = Contract(ranks=Ranks(may_change=False))
    dead = attempt(0, dealt(1, 7, ranks=1, rows=4))
    lines = [*dead, *attempt(1, dealt(5, 9), after=(0, 4))]

    assert verdict(tmp_path / "free", lines, Contract()) == "continuous"
    report = judged(tmp_path / "fixed", lines, fixed)
    assert clause(report, "ranks") == ("broken", "1 rank before the resume, 2 after it")
    assert verdict(tmp_path / "same", replaying(0), fixed) == "continuous"
    unsaid = [
        {**line, "data": {"resumed_from": line["data"]["resumed_from"]}}
        if line["kind"] == "start"
        else line
        for line in lines
    ]
    report = judged(tmp_path / "unsaid", unsaid, fixed)
    assert clause(report, "ranks")[0] == "unproven"


def test_sampled_ranks_need_no_other_ledgers(tmp_path: Path) -> None:
    """A rank that is not sampled need leave nothing; one that is must."""
    lines = [line for line in replaying(0) if line["rank"] == 0]

    assert verdict(tmp_path / "all", lines, Contract()) == "unproven"
    sampled = Contract(ranks=Ranks(sampled=(0,)))
    assert verdict(tmp_path / "one", lines, sampled) == "continuous"
    both = Contract(ranks=Ranks(sampled=(0, 1)))
    assert verdict(tmp_path / "both", lines, both) == "unproven"
    replayed = [line for line in replaying(4) if line["rank"] == 0]
    assert verdict(tmp_path / "replayed", replayed, sampled) == "broken"


@pytest.mark.parametrize(
    ("minimum", "expected"),
    [
        (Minimum(reference_steps=3), "continuous"),
        (Minimum(reference_steps=4), "unproven"),
        (Minimum(resumed_steps=5), "continuous"),
        (Minimum(resumed_steps=6), "unproven"),
    ],
)
def test_a_minimum_of_whole_steps(minimum: Minimum, expected: str, tmp_path: Path) -> None:
    """Fewer whole steps than the contract asks for leave the stream unproven, never broken."""
    assert verdict(tmp_path / "right", replaying(0), Contract(minimum=minimum)) == expected
    assert verdict(tmp_path / "wrong", replaying(4), Contract(minimum=minimum)) == "broken"


def test_an_allowed_limit_blocks_nothing_and_its_reason_is_told(tmp_path: Path) -> None:
    """A waived limit stays in the report with its reason; another one goes on blocking."""
    lines = [line for line in replaying(0) if line["rank"] == 0]
    both = (
        Allowance("node 1 burnt", limit="rank-missing"),
        Allowance("node 1 burnt", limit="lane-without-evidence"),
    )

    report = judged(tmp_path / "one", lines, Contract(allow=both[:1]))
    assert clause(report, "order")[0] == "unproven"
    report = judged(tmp_path / "both", lines, Contract(allow=both))
    assert {one.reason for one in report.resumes[0].limits if one.is_waived} == {"node 1 burnt"}


def test_a_skip_of_all_that_was_expected_proves_nothing(tmp_path: Path) -> None:
    """An allowed skip that leaves nothing of the reference is unproven, whatever came instead."""
    foreign = {step: [[9000 + step]] for step in range(5, 9)}
    dead = attempt(0, dealt(1, 8, ranks=1, rows=1))
    lines = [*dead, *attempt(1, foreign, after=(0, 4))]
    allowed = Contract(allow=(Allowance("known", finding="skipped", at_most=4),))

    assert verdict(tmp_path / "none", lines, Contract()) == "broken"
    for number, contract in enumerate((Contract(shuffle_buffer=1000), allowed)):
        report = judged(tmp_path / f"{number}", lines, contract)
        assert report.verdict.value == "unproven"
        assert "skip-hides-reference" in {one.code for one in report.resumes[0].limits}


def test_a_sampled_rank_is_missed_though_no_start_event_counts_the_ranks(tmp_path: Path) -> None:
    """The contract itself says that the rank logs: a ledger without it proves less."""
    lines = [
        {**line, "data": {**line["data"], "world_size": None}} if line["kind"] == "start" else line
        for line in replaying(0)
        if line["rank"] == 0
    ]

    assert verdict(tmp_path / "one", lines, Contract(ranks=Ranks(sampled=(0,)))) == "continuous"
    assert verdict(tmp_path / "two", lines, Contract(ranks=Ranks(sampled=(0, 3)))) == "unproven"


def test_ranks_and_fingerprints_are_promised_across_a_resume_alone(tmp_path: Path) -> None:
    """A control on other ranks breaks nothing, and a run that was never resumed has neither."""
    contract = Contract(
        ranks=Ranks(may_change=False), fingerprint=Fingerprints(must_match=("seed",))
    ).with_terms(default="step")
    control = write(tmp_path / "control", attempt(0, dealt(1, 7, ranks=1, rows=4)))
    run = write(tmp_path / "run", attempt(0, dealt(1, 7)))

    report = audit.gate([control], [run], contract=contract)

    assert report.verdict.value == "continuous"
    assert {one.clause.value for one in report.clauses} == {
        "promise",
        "order",
        "unexpected",
        "drift",
    }


def seeded(before: Sequence[int | None], after: Sequence[int | None]) -> list[Line]:
    """A right resume whose ranks log these seeds; null: that rank logs none."""
    lines = replaying(0)
    for line in lines:
        if line["kind"] == "start":
            seed = (after if line["attempt"] else before)[line["rank"]]
            line["data"] = {**line["data"], "fingerprint": {} if seed is None else {"seed": seed}}
    return lines


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((7, 7), (7, 7), "continuous"),
        ((7, None), (7, None), "continuous"),
        ((7, 7), (8, 8), "broken"),
        ((7, 7), (7, 8), "broken"),
        ((7, 7), (7, None), "unproven"),
        ((7, 7), (None, None), "unproven"),
        ((None, None), (7, 7), "unproven"),
    ],
)
def test_a_key_must_match_on_every_rank_that_logged_it(
    before: Sequence[int | None], after: Sequence[int | None], expected: str, tmp_path: Path
) -> None:
    """A rank that logged the seed and logs it no more leaves the clause unproven."""
    contract = Contract(fingerprint=Fingerprints(must_match=("seed",)))

    report = judged(tmp_path, seeded(before, after), contract)

    assert clause(report, "fingerprint")[0] == expected
    assert verdict(tmp_path, seeded(before, after), Contract()) == "continuous"


def restoring(*kinds: str) -> list[Line]:
    """A right resume whose ranks say these things, in this order, before their first record."""
    seen = {"fingerprint": {"seed": 7}}
    lines = []
    for line in seeded((7, 7), (7, 7)):
        lines.append(line)
        if line["kind"] == "start" and line["attempt"] == 1:
            place = {"attempt": 1, "rank": line["rank"], "data": seen}
            lines += [{"kind": kind, **place} for kind in kinds]
    return lines


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("restore", "iterator"), "continuous"),
        (("iterator", "restore"), "broken"),
        (("restore",), "unproven"),
        ((), "unproven"),
    ],
)
def test_the_state_is_restored_before_the_iterator_is_made(
    kinds: Sequence[str], expected: str, tmp_path: Path
) -> None:
    """Under `restore_first` the order of both is judged; without it, it is a note at most."""
    first = Contract(fingerprint=Fingerprints(restore_first=True))

    assert clause(judged(tmp_path, restoring(*kinds), first), "fingerprint")[0] == expected
    report = judged(tmp_path, restoring(*kinds), Contract())
    assert report.verdict.value == "continuous"
    codes = {one.code for one in report.resumes[0].limits}
    assert ("iterator-before-restore" in codes) == (expected == "broken")


def test_a_change_that_the_contract_allows_is_told_and_breaks_nothing(tmp_path: Path) -> None:
    """An allowance for the key, or for another one."""
    must = Fingerprints(must_match=("seed",))
    known = Contract(fingerprint=must, allow=(Allowance("new seed", change="seed"),))
    other = Contract(fingerprint=must, allow=(Allowance("new seed", change="workers"),))

    assert verdict(tmp_path / "a", seeded((7, 7), (8, 8)), known) == "continuous"
    assert verdict(tmp_path / "b", seeded((7, 7), (8, 8)), other) == "broken"
