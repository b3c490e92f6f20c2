"""Four ranks under torchrun are killed and resumed, rightly and in five wrong ways, under guard."""

import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from launching import HERE, SPY, attempts_of, events, launch, seen
from running import ledger_audit

from ledger_audit.ledger.opening import open_ledger

pytestmark = pytest.mark.frameworks

JOB = HERE / "ddp_job.py"
SAVED = 10
"""The newest checkpoint, in the second epoch; the job is killed in step 13."""
CONSUMED = 124 + 2 * 16
"""Samples of the first epoch, with one that fills it up for 4 ranks, and of 2 steps."""
AHEAD = 4 * 2 * 4 * 2
"""Samples that 4 ranks x 2 workers x 4 batches of 2 samples have asked for in advance."""

WRONG = (
    "iterator-restarted",
    "epoch-not-set",
    "prefetched-position",
    "half-copied",
    "half-right",
)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a job that one rank's SIGKILL ended in the middle of step 13."""
    root = tmp_path_factory.mktemp("ddp")
    for name in ("run", "seen"):
        (root / name).mkdir()
    ran = launch(4, SPY, root / "seen", "2:25", JOB, root / "run", "right", "stop")

    assert 0 != ran.returncode
    assert 25 == len(seen(root / "seen")[2])
    return root / "run"


Resume = Callable[..., tuple[int, str, Path]]


@pytest.fixture
def resumed(killed: Path, tmp_path: Path) -> Resume:
    """Give what resumes a copy of the killed job; exit code, errors and folder come back."""

    def resume(
        fault: str,
        guard: str = "stop",
        before: Callable[[Path], object] = bool,
        ranks: int = 4,
    ) -> tuple[int, str, Path]:
        folder = shutil.copytree(killed, tmp_path / "run")
        before(folder)
        ran = launch(ranks, JOB, folder, fault, guard)
        return ran.returncode, ran.stderr, folder

    return resume


def _last_steps(ledger: Path) -> set[int]:
    """Give the last step that each rank of the resumed attempt committed."""
    attempt = attempts_of(ledger)[1]
    last: dict[int, int] = {}
    for one in events(ledger, attempt, "commit"):
        last[one["rank"]] = max(one["step"], last.get(one["rank"], 0))
    return set(last.values())


def test_a_right_resume_runs(resumed: Resume) -> None:
    """The guard lets it go on to its end, and the audit calls it continuous."""
    code, problem, folder = resumed("right")
    diff = ledger_audit("diff", folder / "ledger", "--format", "json")

    assert 0 == code, problem[-4000:]
    assert "guard" not in problem
    assert {16} == _last_steps(folder / "ledger")
    assert (0, "continuous") == (diff.code, diff.report["verdict"])


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_resume_is_stopped_at_its_first_step(fault: str, resumed: Resume) -> None:
    """Every rank stops in the same step, names the command that explains it, and that does."""
    code, problem, folder = resumed(fault)
    ledger = folder / "ledger"
    diff = ledger_audit("diff", ledger, "--format", "json")

    assert 0 != code
    assert "DivergedError: step 11 is not the one that the failure rolled back" in problem
    assert f"`ledger-audit diff {ledger}` says what" in problem
    assert {SAVED + 1} == _last_steps(ledger)
    assert (1, "broken") == (diff.code, diff.report["verdict"])


def test_a_warned_job_goes_on(resumed: Resume) -> None:
    """It is told once, by the first rank, and runs to its end."""
    code, problem, folder = resumed("half-copied", "warn")

    assert 0 == code, problem[-4000:]
    assert 1 == problem.count("guard: step 11 is not the one that the failure rolled back")
    assert {16} == _last_steps(folder / "ledger")
    assert 1 == ledger_audit("diff", folder / "ledger").code


@pytest.mark.parametrize(
    ("fault", "stops", "last"), [("right", False, 16), ("iterator-restarted", True, SAVED + 1)]
)
def test_half_the_ranks_are_judged_as_well(
    fault: str, stops: bool, last: int, resumed: Resume
) -> None:
    """With twice the accumulation a step has the same samples; the digests' sum says so."""
    _, problem, folder = resumed(fault, ranks=2)
    diff = ledger_audit("diff", folder / "ledger", "--format", "json")

    assert stops == ("DivergedError: step 11 is not the one" in problem)
    assert {last} == _last_steps(folder / "ledger")
    assert ("broken" if stops else "continuous") == diff.report["verdict"]


@pytest.mark.parametrize("fault", ["right", "iterator-restarted"])
def test_a_lost_ledger_of_a_rank_hangs_nobody(fault: str, resumed: Resume) -> None:
    """The guard cannot judge, says so once, and the job runs; the audit is as unsure as it is."""

    def lose(folder: Path) -> None:
        for one in (folder / "ledger").rglob("*-r00003-*"):
            one.unlink()

    code, problem, folder = resumed(fault, "stop", lose)

    assert 0 == code, problem[-4000:]
    assert 1 == problem.count("guard: cannot judge")
    assert 16 <= min(_last_steps(folder / "ledger"))
    assert 0 != ledger_audit("diff", folder / "ledger").code


def test_the_ladder_is_exact(killed: Path) -> None:
    """At a checkpoint the loader has asked for its workers' batches beyond those that were used."""
    ledger = killed / "ledger"
    report = ledger_audit("checkpoints", ledger, "--format", "json").report
    newest = report["checkpoints"][0]
    (attempt,) = attempts_of(ledger)
    rows = open_ledger([ledger]).everything(attempt)[0].filter(pl.col("rank") == 0).sort("seq")
    asked = rows.filter(stage="read")["sample_id"].to_list()
    taken = rows.filter(pl.col("stage").is_null())["sample_id"].to_list()

    assert (SAVED, CONSUMED) == (newest["step"], newest["ladder"]["committed"])
    assert (CONSUMED + AHEAD, CONSUMED) == (newest["ladder"]["read"], newest["ladder"]["used"])
    assert taken == asked[: len(taken)]
