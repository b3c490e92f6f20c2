"""The Python of the documents runs as it stands, in a trainer of a few lines."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from running import ledger_audit

from ledger_audit import LedgerWriter

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


class _Anything:
    """A model, an optimizer or a loader: what a snippet calls on it does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: {"consumed_samples": 8}

    def __call__(self, *_: object) -> "_Anything":
        return self


def _trainer(state: dict[str, Any], last: int) -> dict[str, Any]:
    """Give the names that the snippets use, beside those that they define."""

    def micro_batches(step: int) -> Iterator[dict[str, list[int]]]:
        for slot in range(2):
            first = 4 * step + 2 * slot
            yield {"sample_id": [first, first + 1], "length": [10, 20]}

    anything = _Anything()
    return {
        "LedgerWriter": LedgerWriter,
        "rank": 0,
        "world": 1,
        "state": state,
        "last": last,
        "every": 2,
        "step": 1,
        "slot": 0,
        "batch": {"sample_id": [1, 2]},
        "micro_batches": micro_batches,
        "loss": anything,
        "optimizer": anything,
        "loader": anything,
        "save": state.update,
    }


def test_the_loop_of_the_writers_page_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is run twice, the second time from what the first one saved: continuous."""
    monkeypatch.chdir(tmp_path)
    loop = BLOCK.findall((ROOT / "docs" / "writer.md").read_text())[0]
    state: dict[str, Any] = {"step": 0}

    exec(loop, _trainer(state, last=5))
    assert 4 == state["step"] == state["cursor"]["step"]
    exec(loop, _trainer(state, last=8))

    ran = ledger_audit("diff", "runs/llama/ledger", "--format", "json")
    assert 0 == ran.code
    assert [4] == [one["checkpoint_step"] for one in ran.report["resumes"]]


def test_the_three_lines_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They leave a ledger that can be read."""
    monkeypatch.chdir(tmp_path)
    (lines,) = BLOCK.findall((ROOT / "README.md").read_text())

    exec(lines, _trainer({}, last=1))

    assert "1 2" in ledger_audit("show", "runs/llama/ledger").out


def test_the_line_of_the_shipping_page(tmp_path: Path) -> None:
    """Its options are those of the writer."""
    line = BLOCK.findall((ROOT / "docs" / "shipping.md").read_text())[0]
    here = line.replace("/shared", str(tmp_path / "shared")).replace("/local", str(tmp_path))
    (tmp_path / "shared").mkdir()
    names = _trainer({}, last=1)

    exec(f"ledger = {here}", names)
    names["ledger"].record(1, 0, [7])
    names["ledger"].close()

    assert "7" in ledger_audit("show", tmp_path / "shared" / "runs" / "llama" / "ledger").out


SCRIPTS = re.compile(r"```sh\n(#!/usr/bin/env bash\n.*?)```", re.DOTALL)


@pytest.mark.parametrize("script", SCRIPTS.findall((ROOT / "docs" / "launchers.md").read_text()))
def test_a_launcher_stops_a_broken_resume_and_no_other(script: str, tmp_path: Path) -> None:
    """With a launcher that only waits: a broken stream ends it, a continuous one is let run."""
    zoo = ROOT / "fixtures" / "zoo"
    ends = {}
    for case in ("torch-ddp-correct", "torch-ddp-epoch-restart"):
        told = script.replace("LEDGER=runs/llama/ledger", f"LEDGER={zoo / case / 'run'}")
        told = told.replace("LEDGER=/shared/runs/llama/ledger", f"LEDGER={zoo / case / 'run'}")
        assert told != script
        folder = tmp_path / case
        folder.mkdir()
        fakes = {
            "torchrun": "exec sleep 4",
            "srun": 'exec "$@"',
            "scontrol": "echo localhost",
            "scancel": "kill $(cat pid)",
            "ledger-audit": f'exec {sys.executable} -m ledger_audit "$@"',
        }
        for name, text in fakes.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
        (folder / "job.sh").write_text(f"echo $$ > pid\n{told}")
        environment = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HEAD": "localhost",
            "SLURM_JOB_ID": "1",
            "SLURM_NNODES": "1",
            "SLURM_RESTART_COUNT": "1",
            "TMPDIR": str(folder),
        }
        ran = subprocess.run(
            ["bash", "job.sh"],
            cwd=folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        ends[case] = ran.returncode
        assert (folder / "verdict.md").exists(), ran.stderr
    assert 0 == ends["torch-ddp-correct"]
    assert ends["torch-ddp-epoch-restart"] in (1, -15)
