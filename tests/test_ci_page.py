"""The test that the page on continuous integration shows is run as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import ROOT
from format_readers import cases_of, commands_of

JOB = ROOT / "docs" / "examples" / "ci_job.py"
PAGE = (ROOT / "docs" / "ci.md").read_text()
SCRIPT = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)[0]


def test_a_job_is_killed_resumed_and_compared(tmp_path: Path) -> None:
    """A right resume passes, and each report lies where the page says."""
    ran = subprocess.run(
        ["sh", "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TRAIN": f"{sys.executable} {JOB}",
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        },
    )

    assert ran.returncode == 0, ran.stderr
    screen, _, annotations = ran.stdout.partition("\n::")
    assert screen.startswith("CONTINUOUS through step 30, 15 steps after step 15")
    assert commands_of(f"::{annotations}")[0][0] == "notice"
    assert (tmp_path / "audit" / "report.md").read_text() == (tmp_path / "summary.md").read_text()
    cases = cases_of((tmp_path / "audit" / "junit.xml").read_text())
    assert {"passed"} == {one[2] for one in cases}


def test_the_gate_has_the_last_word() -> None:
    """Nothing comes after it: its exit code is the script's; what fails before it ends all."""
    lines = SCRIPT.replace("\\\n", "").splitlines()

    assert lines[0] == "set -eu"
    assert lines[-1].startswith("ledger-audit gate ")
    assert all("|| true" not in line for line in lines)


def test_the_page_says_how_an_epoch_is_crossed() -> None:
    """The figures of the prose are those of the job."""
    samples, rows, slots = map(
        int,
        re.findall(
            r"^SAMPLES, ROWS, SLOTS, EVERY = (\d+), (\d+), (\d+)", JOB.read_text(), re.MULTILINE
        )[0],
    )

    assert f"an epoch has {samples // (rows * slots)} steps, and the job 30" in PAGE
