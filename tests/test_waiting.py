"""`diff --wait` follows a live ledger, and judges when enough is there or time is up."""

import threading
import time
from pathlib import Path

import pytest
from conftest import FIXTURES
from native import Line, read_lines, write_ledger
from running import ledger_audit

from ledger_audit import waiting
from ledger_audit.model import Reading

RUN = FIXTURES / "zoo" / "torch-ddp-correct" / "run"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SHORTEST_PAUSE", 0.05)


def _attempt(label: int, last: int | None = None) -> list[Line]:
    return [
        one
        for one in read_lines(RUN)
        if one["attempt"] == label and (last is None or (one.get("step") or 0) <= last)
    ]


def test_a_ledger_that_grows_is_judged_when_enough_is_there(tmp_path: Path) -> None:
    """The ledger is not even there at first, then has no resume, then too few steps."""
    root = tmp_path / "ledger"

    def grow() -> None:
        time.sleep(0.3)
        write_ledger(_attempt(0), root, sealed=False)
        time.sleep(0.3)
        half = tmp_path / "half"
        write_ledger(_attempt(1, last=10), half, sealed=False)
        (half / "attempt=1").rename(root / "attempt=1")
        time.sleep(0.3)
        whole = tmp_path / "whole"
        write_ledger(_attempt(1), whole)  # sealed now: both copies are there, the sealed one wins
        for file in sorted((whole / "attempt=1").iterdir()):
            file.rename(root / "attempt=1" / file.name)

    growing = threading.Thread(target=grow)
    growing.start()
    ran = ledger_audit("diff", root, "--wait", "10", "--timeout", "60s", "--format", "json")
    growing.join()

    assert (0, "") == (ran.code, ran.err)
    assert 10 == ran.report["options"]["awaited"]
    assert ran.report["resumes"][0]["windows"]["resumed"] > 150


@pytest.mark.parametrize("asked", [18, 19])
def test_too_few_steps_in_time_prove_nothing(asked: int) -> None:
    """18 whole steps are there: one more is not, and what is there is judged as unproven."""
    ran = ledger_audit("diff", RUN, "--wait", str(asked), "--timeout", "0", "--format", "json")

    codes = {one["code"] for one in ran.report["resumes"][0]["limits"]}
    assert ran.code == (0 if asked == 18 else 3)
    assert ("fewer-steps-than-awaited" in codes) == (asked == 19)


def test_a_broken_resume_is_broken_however_few_its_steps() -> None:
    """Time runs out; what was found all the same is told."""
    broken = FIXTURES / "zoo" / "torch-ddp-epoch-restart" / "run"

    assert 1 == ledger_audit("diff", broken, "--wait", "999", "--timeout", "0").code


def test_the_limit_can_be_waived() -> None:
    """`--allow-unproven` lets a short wait pass, and the report says so."""
    allowed = ("--allow-unproven", "fewer-steps-than-awaited")

    ran = ledger_audit("diff", RUN, "--wait", "19", "--timeout", "0", *allowed)

    assert 0 == ran.code
    assert "Allowed without proof: fewer-steps-than-awaited" in ran.out


def test_nothing_ever_came(tmp_path: Path) -> None:
    """No ledger: unreadable. No resume: unproven, with what is there and what to do."""
    assert 4 == ledger_audit("diff", tmp_path / "no", "--wait", "1", "--timeout", "0").code
    root = write_ledger(_attempt(0), tmp_path / "ledger")

    ran = ledger_audit("diff", root, "--wait", "1", "--timeout", "0.2s")

    assert 3 == ran.code
    assert "attempt 0: steps 1 to 11, 4 ranks" in ran.out
    assert "--wait" in ran.out


def test_a_resume_without_a_record_says_so(tmp_path: Path) -> None:
    """Only start events of the resumed attempt are there: it is told apart from a broken one."""
    starts = [one for one in _attempt(1) if one["kind"] == "start"]
    root = write_ledger(_attempt(0) + starts, tmp_path / "ledger")

    ran = ledger_audit("diff", root)

    assert 3 == ran.code
    assert "has left no record yet" in " ".join(ran.out.split())
    assert "--wait" in ran.out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--wait", "0"), 2),
        (("--timeout", "soon"), 2),
        (("--timeout", "-1"), 2),
        (("--wait", "2", "--post", str(RUN), "--checkpoint-step", "8"), 2),
        (("--timeout", "1.5m"), 0),
    ],
)
def test_how_long_is_said_in_words_that_are_understood(
    arguments: tuple[str, ...], code: int
) -> None:
    """Seconds, minutes or hours; anything else is a usage error."""
    assert code == ledger_audit("diff", RUN, *arguments).code


def test_what_is_told_while_waiting(tmp_path: Path) -> None:
    """Each look says what is there."""
    told: list[str] = []
    reading = Reading(awaited=3)

    assert not waiting.wait_for([tmp_path / "no"], reading, timeout=0, tell=told.append)
    assert waiting.wait_for([RUN], reading, timeout=0, tell=told.append)

    assert "does not exist" in told[0]
    assert "3 of 3 whole resumed steps" == told[1]
