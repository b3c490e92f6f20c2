"""Four ranks are killed; two, eight and three go on by a plan, and use each sample once."""

import json
import shutil
from pathlib import Path

import pytest
from launching import HERE, launch
from plan_job import ROWS, SAMPLES, SLOTS, first_launch
from running import ledger_audit

from ledger_audit.ledger.opening import open_ledger

pytestmark = pytest.mark.frameworks

JOB = HERE / "plan_job.py"
AT = 2
"""The checkpoint; step 3 was committed and rolled back, in step 4 the job died."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a job that a SIGKILL of one rank ended, and of what it was to do."""
    root = tmp_path_factory.mktemp("plan")
    (root / "run").mkdir()
    ran = launch(1, JOB, root / "run", 4)
    assert 0 != ran.returncode
    lines = [
        {"rank": rank, "step": step, "slot": slot, "row": row, "sample_id": sample, "epoch": 0}
        for rank in range(4)
        for step, own in first_launch(rank, 4)
        for slot, ids in own
        for row, sample in enumerate(ids)
    ]
    (root / "stream.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return root


@pytest.mark.parametrize("ranks", [2, 8, 3])
def test_other_ranks_go_on_by_a_plan(killed: Path, tmp_path: Path, ranks: int) -> None:
    """Whatever their number, the whole epoch was used once in the end, and in its order."""
    run = shutil.copytree(killed / "run", tmp_path / "run")
    known = [run / "ledger", "--reference", killed / "stream.jsonl"]
    plan = tmp_path / "plan"
    made = ledger_audit(
        "plan", *known, "--checkpoint-step", AT, "--world-size", ranks, "-o", plan,
        "--format", "json",
    )  # fmt: skip
    assert 0 == made.code, made.err
    assert 0 == ledger_audit("plan", "--check", plan, *known).code
    left = SAMPLES - AT * 4 * ROWS * SLOTS
    assert left == made.report["plan"]["records"]
    assert 1 == made.report["plan"]["n_ragged"]

    resumed = launch(1, JOB, run, ranks, plan, AT)

    assert 0 == resumed.returncode, resumed.stderr[-4000:]
    verified = ledger_audit("verify", run / "ledger", "--format", "json")
    (epoch,) = verified.report["generations"]
    assert (0, "continuous") == (verified.code, verified.report["verdict"])
    assert (SAMPLES, SAMPLES, 0) == (epoch["samples"], epoch["records"], epoch["missing"])
    used = open_ledger([run / "ledger"]).records("second", 0)
    ordered = used.sort("step", "slot", "rank", "row")["sample_id"].to_list()
    assert list(range(SAMPLES - left, SAMPLES)) == ordered
