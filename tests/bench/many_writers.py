"""
Runs many writer processes on one folder, lists and reads it meanwhile, and checks it afterwards.

Run it as `python tests/bench/many_writers.py [PROCESSES] [SECONDS]`.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from ledger_audit import LedgerWriter
from ledger_audit.ledger.opening import open_ledger

ROWS = 8


def write(root: Path, rank: int, world: int) -> None:
    """Play one rank from the moment when all are there, and say in a file how far it came."""
    ledger = LedgerWriter(root / "ledger", rank=rank, world_size=world, attempt="a", strict=True)
    while not (root / "go").exists():
        time.sleep(0.05)
    until = float((root / "go").read_text())
    step = 0
    while time.time() < until:
        step += 1
        first = (step * world + rank) * ROWS
        ledger.record(step, 0, list(range(first, first + ROWS)))
        ledger.commit(step)
        time.sleep(0.02)
    ledger.close()
    (root / "done" / str(rank)).write_text(str(step))


def run(root: Path, processes: int, seconds: float) -> dict[str, int]:
    """
    Play all ranks at once; give counts of what happened.

    Raises:
        AssertionError: a file is shared, or what is read is not what was written.
    """
    (root / "done").mkdir()
    with LedgerWriter(root / "warm", rank=0, world_size=1, attempt="a") as ledger:
        ledger.record(1, 0, [1])  # children need not import what they use
        ledger.commit(1)
    children = []
    for rank in range(processes):
        child = os.fork()
        if child == 0:
            write(root, rank, processes)
            os._exit(0)
        children.append(child)
    while len(list((root / "ledger").glob("*/events-*"))) < processes:
        time.sleep(0.1)
    until = time.time() + seconds
    (root / "ready").write_text(str(until))
    (root / "ready").rename(root / "go")
    looks = 0
    while time.time() < until:
        time.sleep(0.5)
        rows = open_ledger([root / "ledger"]).records("a", 1, 20)
        assert not rows.select("rank", "seq").is_duplicated().any()
        looks += 1
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    return {**_checked(root, processes), "looks": looks}


def _checked(root: Path, processes: int) -> dict[str, int]:
    steps = {rank: int((root / "done" / str(rank)).read_text()) for rank in range(processes)}
    ledger = open_ledger([root / "ledger"])
    rows = ledger.records("a", 0)
    there = dict(rows.group_by("rank").len().iter_rows())
    assert there == {rank: count * ROWS for rank, count in steps.items() if count}
    assert len(there) == processes
    assert rows["sample_id"].n_unique() == rows.height
    assert ledger.unread == ()
    files = sorted(path.name for path in (root / "ledger" / "attempt=a").iterdir())
    assert len(files) == 2 * processes
    return {"processes": processes, "files": len(files), "records": rows.height}


if __name__ == "__main__":
    chosen = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    lasting = float(sys.argv[2]) if len(sys.argv) > 2 else 60
    with tempfile.TemporaryDirectory() as scratch:
        sys.stdout.write(f"{run(Path(scratch), chosen, lasting)}\n")
