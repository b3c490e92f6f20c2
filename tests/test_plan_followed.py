"""A plan judges the run that was to follow it, from the checkpoint on."""

from pathlib import Path

import pytest
from conftest import FIXTURES
from running import ledger_audit

ZOO = FIXTURES / "zoo"


def dealt(case: str, checkpoint_step: int, world_size: int, target: Path) -> Path:
    """Make a plan of what a real run had left, by its control."""
    ran = ledger_audit(
        "plan", ZOO / case / "run", "--checkpoint-step", str(checkpoint_step), "--world-size",
        str(world_size), "--reference", ZOO / case / "control", "-o", target,
    )  # fmt: skip
    assert 0 == ran.code, ran.err
    return target


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Deal what the four ranks had left after step 8 to two, in the same batches."""
    target = tmp_path_factory.mktemp("plans") / "plan"
    return dealt("torch-ddp-elastic-4to2-correct", 8, 2, target)


@pytest.mark.parametrize(
    ("case", "verdict", "divergence"),
    [
        ("torch-ddp-elastic-4to2-correct", "continuous", None),
        ("torch-ddp-correct", "continuous", None),
        ("torch-ddp-epoch-restart", "broken", 9),
        ("torch-ddp-prefetched-position", "broken", 9),
        ("torch-ddp-partial-accum", "broken", 9),
    ],
)
def test_a_plan_judges_as_the_control_of_the_whole_run_does(
    case: str, verdict: str, divergence: int | None, plan: Path
) -> None:
    """`gate PLAN RUN` and `diff --reference PLAN`, whatever the ranks; before it nothing counts."""
    run = ZOO / case / "run"

    gated = ledger_audit("gate", plan, run, "--format", "json").report
    judged = ledger_audit("diff", run, "--reference", plan, "--format", "json").report
    control_says = ledger_audit("gate", ZOO / case / "control", run, "--format", "json").report

    stream, (resume,), (by_control,) = (
        gated["stream"],
        gated["resumes"],
        control_says["resumes"],
    )
    assert [verdict] * 3 == [gated["verdict"], stream["verdict"], judged["verdict"]]
    assert (8, divergence) == (stream["checkpoint_step"], stream["first_divergence"])
    assert 128 == stream["windows"]["committed"]
    for one in (stream, resume, judged["resumes"][0]):
        for name in ("replayed", "unexpected", "duplicated"):
            ours, theirs = (told["outcomes"]["resumed"][name] for told in (one, by_control))
            assert theirs["records"] == ours["records"], name
        skipped = [told["outcomes"]["expected"]["skipped"] for told in (one, by_control)]
        assert skipped[0]["records"] == skipped[1]["records"]


def test_a_resume_before_the_plan_is_judged_by_its_own_window(plan: Path) -> None:
    """Two failures: the plan begins with the first resume, and knows of the second."""
    run = ZOO / "torch-ddp-double-failure" / "run"
    target = dealt("torch-ddp-double-failure", 15, 4, plan.parent / "later")

    report = ledger_audit("gate", target, run, "--format", "json").report

    kinds = [one["reference"]["kind"] for one in report["resumes"]]
    assert ["rolled-back", "control"] == kinds
    assert "continuous" == report["verdict"]
    assert 15 == report["stream"]["checkpoint_step"]


def test_a_plan_is_no_run(plan: Path) -> None:
    """It cannot prove itself."""
    ran = ledger_audit("gate", plan, plan)

    assert 2 == ran.code
    assert "and no run" in ran.err
