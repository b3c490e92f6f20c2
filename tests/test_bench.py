"""The benchmark runs, and finds what it planted; how long it takes is not tested."""

import subprocess
import sys
from pathlib import Path

from conftest import ROOT

BENCH = ROOT / "tests" / "bench"
SCRIPT = BENCH / "window_diff.py"


def test_the_window_benchmark_runs_on_a_tiny_ledger(tmp_path: Path) -> None:
    """Every process is timed once, and every verdict is as planted: the script insists on it."""
    command = [sys.executable, str(SCRIPT), "--records", "200_000", "--rounds", "1"]

    ran = subprocess.run(
        [*command, "--keep", str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert "" == "".join(line for line in ran.stderr.splitlines() if "writing" not in line)
    assert 0 == ran.returncode
    rows = [line.split(" | ") for line in ran.stdout.splitlines() if line.startswith("| ")][1:]
    verdicts = [row[-1].removesuffix(" |") for row in rows if "diff," in row[0]]
    assert ["continuous", "continuous", "broken"] * 2 == verdicts
    assert {"200000", "20000"} == {folder.name for folder in tmp_path.iterdir()}


def test_the_whole_run_benchmark_runs_on_a_tiny_ledger(tmp_path: Path) -> None:
    """Every tool answers rightly: the script says so in the place of figures if one does not."""
    command = [sys.executable, str(BENCH / "whole_run.py"), "--records", "0.2", "--rounds", "1"]
    command += ["--questions", "shuffled", "replays", "lookup", "--ids", "text"]
    command += ["--tools", "ours", "floor", "duckdb", "duckdb-digests", "polars"]

    ran = subprocess.run(
        [*command, "--folder", str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert "" == "".join(line for line in ran.stderr.splitlines() if "round" not in line)
    assert 0 == ran.returncode
    rows = [line.split(" | ") for line in ran.stdout.splitlines() if line.startswith("| ")][1:]
    assert 15 == len(rows)
    assert [] == [row[1:3] for row in rows if not row[2].replace(".", "").isdigit()]


def test_the_benchmark_of_engines_runs_on_a_tiny_ledger(tmp_path: Path) -> None:
    """One process and three pieces: the script insists on the same bytes and the right verdict."""
    command = [sys.executable, str(BENCH / "engines.py"), "--records", "0.1", "--ids", "text"]
    command += ["--tools", "local", "buckets", "--buckets", "3", "--questions", "replays"]

    ran = subprocess.run(
        [*command, "--folder", str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert 0 == ran.returncode, ran.stderr
    rows = [line for line in ran.stdout.splitlines() if line.startswith("| verify")]
    assert ["verify", "3 buckets in turn, and merge"] == [row.split(" | ")[1] for row in rows]


def test_many_writers_share_no_file() -> None:
    """64 processes write into one folder for a few seconds while it is listed and read."""
    told = subprocess.run(
        [sys.executable, BENCH / "many_writers.py", "64", "4"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert "'files': 128" in told


def test_the_writing_benchmark_runs() -> None:
    """It prints a row for each way to write, with and without spans."""
    told = subprocess.run(
        [sys.executable, BENCH / "writing.py", "3"], capture_output=True, text=True, check=True
    ).stdout

    assert 12 == told.count("\n| 8 ") + told.count("\n| 512 ")
    assert "holds the step path" in told
