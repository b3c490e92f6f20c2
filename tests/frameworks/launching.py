"""Launches real jobs under torchrun, kills them, and reads what they saw and what they recorded."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
from conftest import ROOT

from ledger_audit.ledger.opening import open_ledger

HERE = Path(__file__).parent
EXAMPLES = ROOT / "docs" / "examples"
SPY = HERE / "spy.py"
QUIET = {
    "PYTHONWARNINGS": "ignore",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
MOST_SECONDS = 180
"""After which a launch hangs."""

Rows = list[list[float]]


def launch(ranks: int, script: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script under torchrun; one rank alone is run as it is."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "0"]
    command = [*run, "--nproc-per-node", str(ranks)] if ranks > 1 else [sys.executable]
    return subprocess.run(
        [*command, str(script), *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **QUIET},
        timeout=MOST_SECONDS,
    )


def spied(
    ranks: int, script: Path, folder: Path, log: Path, kill: str = "-", through: Path = SPY
) -> subprocess.CompletedProcess[str]:
    """Run an example, with what its forward() saw written to a folder."""
    for one in (folder, log):
        one.mkdir(parents=True, exist_ok=True)
    return launch(ranks, through, log, kill, script, folder)


def seen(log: Path) -> dict[int, list[Rows]]:
    """Give, for each process, the rows of each micro-batch that its forward() saw."""
    return {
        int(one.name): [json.loads(line) for line in one.read_text().splitlines()]
        for one in log.iterdir()
    }


def attempts_of(root: Path) -> list[str]:
    """Name the attempts of a ledger, in the order of their resumes."""
    found = open_ledger([root]).attempts
    return sorted(found, key=lambda label: label.rsplit("-g", 1)[-1])


def used(root: Path, attempt: str) -> dict[int, list[pl.DataFrame]]:
    """Give, for each rank, the records of each micro-batch that training used, in order."""
    rows = open_ledger([root]).everything(attempt)[0]
    rows = rows.filter(pl.col("stage").is_null(), pl.col("stream").is_null()).sort("rank", "seq")
    found = defaultdict(list)
    for (rank, *_), batch in rows.group_by("rank", "step", "slot", maintain_order=True):
        found[int(str(rank))].append(batch)
    return dict(found)


def events(root: Path, attempt: str, kind: str) -> list[dict[str, Any]]:
    """Give what the events of a kind say, rank by rank, with rank, seq and step."""
    rows = open_ledger([root]).everything(attempt)[1].filter(kind=kind).sort("rank", "seq")
    columns = rows.select("rank", "seq", "step", "data").iter_rows()
    return [
        {**json.loads(data or "{}"), "rank": rank, "seq": seq, "step": step}
        for rank, seq, step, data in columns
    ]
