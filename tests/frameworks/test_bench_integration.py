"""The benchmark of the torch integration runs; how long anything takes is not tested."""

import re

import pytest
from conftest import ROOT
from launching import launch

pytestmark = pytest.mark.frameworks

SCRIPT = ROOT / "tests" / "bench" / "integration_cost.py"
WAYS = ["bare", "with a ledger", "with a ledger and ReadAhead"]


def test_the_integration_benchmark_runs() -> None:
    """It prints a row for each loop and each way to commit, with a time in each."""
    ran = launch(1, SCRIPT, "--rounds", "1", "--batches", "4")
    rows = [line.strip("| ").split(" | ") for line in ran.stdout.splitlines() if "| " in line]
    trained, step_path, guard = rows[1:4], rows[5:11], rows[12:]

    assert 0 == ran.returncode, ran.stderr[-4000:]
    assert WAYS == [row[0] for row in trained]
    assert [[size, way] for size in ("8", "512") for way in WAYS] == [row[:2] for row in step_path]
    assert ["guarded commit", "unguarded commit", "bare all_reduce of 10 int64"] == [
        row[0] for row in guard
    ]
    assert all(re.fullmatch(r"[\d.]+", row[1]) for row in (*trained, *guard))
    assert all(re.fullmatch(r"[\d.]+", row[2]) for row in step_path)
    assert "the first guarded commit loads Polars and reads 4 steps" in ran.stdout
