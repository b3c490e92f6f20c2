"""More records than memory holds: what is known all the same is told, and nothing is made up."""

import subprocess
import sys
from pathlib import Path

import pytest
from auditing import age
from conftest import FIXTURES
from emitting import emit_ledger
from gated import judged_nearby
from running import ledger_audit
from tiny import attempt, dealt

from ledger_audit import audit, machine
from ledger_audit.continuity.holding import RECORD
from ledger_audit.continuity.windows import Source
from ledger_audit.errors import UsageError
from ledger_audit.model import Reading, Report, Resumed, Verdict
from ledger_audit.sources import open_source

NARROW = Reading(before=3, after=3)
RUNS = [
    folder / "run"
    for folder in sorted([*FIXTURES.glob("zoo/*"), *sorted(FIXTURES.glob("cases/*"))[::6]])
    if (folder / "run").is_dir()
]
PAIRS = [
    folder
    for folder in sorted([*FIXTURES.glob("zoo/*"), *FIXTURES.glob("traps/*")])
    if (folder / "control").is_dir() and (folder / "run").is_dir()
]


def _is_limited(report: Report) -> bool:
    return any(
        limit.code == "too-large-to-hold" for resume in report.resumes for limit in resume.limits
    )


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: f"{folder.parent.name}")
def test_what_is_broken_without_the_rest_is_broken_with_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a window that does not suffice, a fault that is told is one, and nothing is continuous."""
    monkeypatch.setattr(Source, "is_too_large", property(lambda _: True))
    limited = audit.diff([folder], NARROW)
    monkeypatch.undo()
    whole = audit.diff([folder], NARROW)

    if not _is_limited(limited):
        assert limited == whole
    for part, full in zip(limited.resumes, whole.resumes, strict=True):
        if any(limit.code == "too-large-to-hold" for limit in part.limits):
            assert part.verdict != Verdict.CONTINUOUS
            assert part.verdict != Verdict.BROKEN or full.verdict == Verdict.BROKEN
            assert part.read_steps is not None
            assert part.clues is None


def _sealed(tmp_path: Path, *, lost: int) -> Path:
    """Give a job killed `lost` steps after its checkpoint at 60, whose data then begins anew."""
    lines = [
        *attempt(0, dealt(1, 60 + lost)),
        *attempt(1, dealt(61, 80, at=0), after=(0, 60)),
    ]
    root = tmp_path / "run"
    emit_ledger(lines, root)
    age(root)
    assert ledger_audit("seal", root).code == 0
    return root


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine hold 100 records."""
    monkeypatch.setattr(machine, "memory", lambda: 100 * RECORD)


@pytest.mark.usefixtures("small")
def test_a_replay_that_the_reference_shows_is_proven(tmp_path: Path) -> None:
    """Of steps that were done before the failure it is known what was to come."""
    report = audit.diff([_sealed(tmp_path, lost=8)], NARROW)

    assert _is_limited(report)
    assert report.verdict == Verdict.BROKEN
    assert report.resumes[0].read_steps == (58, 63)
    assert report.resumes[0].resumed[Resumed.REPLAYED].records == 12


@pytest.mark.usefixtures("small")
def test_a_replay_that_only_the_run_shows_is_not(tmp_path: Path) -> None:
    """Without rolled-back work, another pass or padding would look the same."""
    report = audit.diff([_sealed(tmp_path, lost=0)], NARROW)

    assert _is_limited(report)
    assert report.verdict == Verdict.UNPROVEN
    assert report.resumes[0].resumed[Resumed.REPEAT_UNEXPLAINED].records == 12


@pytest.mark.usefixtures("small")
def test_what_is_asked_for_and_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Reading everything would end the process, by the system's hand and without a word."""
    root = _sealed(tmp_path, lost=8)
    with pytest.raises(UsageError, match="all 352 records would have to be held") as refused:
        audit.diff([root], Reading(full=True))
    assert "without --full" in refused.value.hint
    with pytest.raises(UsageError, match="all 704 records"):
        audit.gate([root], [root])  # they do not differ, and are too few to be summed up


def test_only_what_may_be_used_counts(tmp_path: Path) -> None:
    """What was only read, and what another stream used, is not held for an audit of training."""
    lines = [
        *attempt(0, dealt(1, 10)),
        *[{**one, "stage": "read"} for one in attempt(1, dealt(11, 13), after=(0, 10))],
        *attempt(2, dealt(11, 15), after=(0, 10), stream="eval"),
    ]
    root = tmp_path / "run"
    emit_ledger(lines, root)
    age(root)
    assert ledger_audit("seal", root).code == 0

    assert open_source([root], Reading()).rows == 40
    assert open_source([root], Reading(stream="eval")).rows == 20


def test_the_machine_tells_what_it_has() -> None:
    """A limit of the process counts, too; it is a child's, as it cannot be lifted again."""
    said = (
        "import resource; from ledger_audit import machine; before = machine.memory();"
        "resource.setrlimit(resource.RLIMIT_DATA, (before // 2,) * 2);"
        "assert machine.memory() == before // 2; assert before > 1 << 28"
    )
    subprocess.run([sys.executable, "-c", said], check=True)


@pytest.mark.parametrize("folder", PAIRS, ids=lambda folder: folder.name)
def test_what_a_control_shows_near_the_first_difference_holds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run beside its control, what is broken around the first difference is broken by all."""
    control, run = folder / "control", folder / "run"
    whole = audit.gate([control], [run])

    near = judged_nearby(control, run, monkeypatch, NARROW)

    assert whole.stream is not None
    if near is None:
        assert whole.stream.first_divergence is None
        return
    assert near.stream is not None
    assert near.verdict == (Verdict.BROKEN if whole.verdict == Verdict.BROKEN else Verdict.UNPROVEN)
    if near.verdict == Verdict.BROKEN:
        assert near.stream.first_divergence == whole.stream.first_divergence
    for part, full in zip(
        [near.stream, *near.resumes], [whole.stream, *whole.resumes], strict=True
    ):
        assert part.verdict != Verdict.CONTINUOUS
        assert part.verdict != Verdict.BROKEN or full.verdict == Verdict.BROKEN
