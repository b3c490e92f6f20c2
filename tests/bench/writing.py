"""
Times what a trainer pays for its ledger, beside two plainer ways to write the same rows.

Prints microseconds per `record`, bytes per record open and sealed, and how long a checkpoint holds
the step path. Run it as `python tests/bench/writing.py`.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ledger_audit import LedgerWriter
from ledger_audit.cli import run

Columns = dict[str, np.ndarray]
DOCUMENTS = 10_000_000
"""In the shuffled data set; each has its own length, below 4,096 tokens."""
SLOTS = 8
"""Micro-batches of a step."""


def _micro_batch(rng: np.random.Generator, rows: int, spans: bool) -> Columns:
    columns = {"sample_id": rng.integers(0, DOCUMENTS, rows)}
    if spans:
        columns["token_start"] = np.zeros(rows, dtype=np.int64)
        columns["token_end"] = rng.integers(1, 4096, rows)
    return columns


class Ledger:
    """The writer of this project."""

    name = "ledger"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer = LedgerWriter(folder, rank=0, world_size=1, attempt="a", strict=True)

    def record(self, step: int, slot: int, columns: Columns) -> None:
        self.writer.record(step, slot, **columns)

    def commit(self, step: int) -> None:
        self.writer.commit(step)

    def close(self) -> None:
        self.writer.close()


class JsonLines:
    """One object a row, flushed after each micro-batch."""

    name = "JSON Lines, flushed"

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.file = (folder / "rank0.jsonl").open("w")

    def record(self, step: int, slot: int, columns: Columns) -> None:
        names = list(columns)
        for row, values in enumerate(zip(*(one.tolist() for one in columns.values()), strict=True)):
            line = {"kind": "sample", "rank": 0, "step": step, "slot": slot, "row": row}
            self.file.write(json.dumps({**line, **dict(zip(names, values, strict=True))}) + "\n")
        self.file.flush()

    def commit(self, step: int) -> None:
        self.file.write(json.dumps({"kind": "commit", "rank": 0, "step": step}) + "\n")
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class ParquetPerStep:
    """One file a step: what was not committed dies with the process."""

    name = "one Parquet file a step"

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.rows: list[tuple[int, Columns]] = []

    def record(self, step: int, slot: int, columns: Columns) -> None:  # noqa: ARG002
        self.rows.append((slot, columns))

    def commit(self, step: int) -> None:
        names = self.rows[0][1].keys()
        table = {
            name: np.concatenate([columns[name] for _, columns in self.rows]) for name in names
        }
        slots = [np.full(len(one["sample_id"]), slot) for slot, one in self.rows]
        pq.write_table(pa.table({**table, "slot": np.concatenate(slots)}), self._path(step))
        self.rows = []

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}.parquet"

    def close(self) -> None:
        pass


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _timed(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1e6


def _measure(make: type, folder: Path, rows: int, spans: bool, steps: int) -> tuple[float, ...]:
    """Give the median microseconds of a record and of a commit, and bytes a record."""
    rng = np.random.default_rng(7)
    batches = [_micro_batch(rng, rows, spans) for _ in range(steps * SLOTS)]
    writer = make(folder)
    records, commits = [], []
    for step in range(1, steps + 1):
        for slot in range(SLOTS):
            batch = batches[(step - 1) * SLOTS + slot]
            records.append(_timed(lambda s=step, n=slot, b=batch: writer.record(s, n, b)))
        commits.append(_timed(lambda s=step: writer.commit(s)))
    writer.close()
    bytes_a_record = _size(folder) / (steps * SLOTS * rows)
    return statistics.median(records), statistics.median(commits), bytes_a_record


def _sealed(folder: Path, records: int) -> float:
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            assert run(["seal", str(folder), "--idle", "0"]) == 0
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)
    return _size(folder) / records


def _checkpoint(folder: Path, times: int = 40) -> tuple[float, float]:
    """Give the median and the longest time that a checkpoint holds the step path."""
    writer = LedgerWriter(folder, rank=0, world_size=1, attempt="a", strict=True)
    held = []
    for step in range(1, times + 1):
        for slot in range(SLOTS):
            writer.record(step, slot, np.arange(512), token_start=0, token_end=np.arange(1, 513))
        writer.commit(step)
        began = time.perf_counter()
        with writer.checkpoint(step, claim={"consumed_samples": step * 4096}):
            pass
        held.append((time.perf_counter() - began) * 1e6)
    writer.close()
    return statistics.median(held), max(held)


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(steps: int) -> None:
    """Print both tables."""
    say("| rows | spans | way | µs a record | µs a commit | bytes a record | sealed |")
    say("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for rows in (8, 512):
            for spans in (False, True):
                for make in (Ledger, JsonLines, ParquetPerStep):
                    folder = Path(scratch) / f"{make.__name__}-{rows}-{spans}"
                    record, commit, size = _measure(make, folder, rows, spans, steps)
                    sealed = ""
                    if make is Ledger:
                        sealed = f"{_sealed(folder, steps * SLOTS * rows):.1f}"
                    say(
                        f"| {rows} | {'yes' if spans else 'no'} | {make.name} | {record:.0f} | "
                        f"{commit:.0f} | {size:.1f} | {sealed} |",
                    )
        middle, longest = _checkpoint(Path(scratch) / "checkpoint")
    say(f"\na checkpoint holds the step path for {middle:.0f} µs, at most {longest:.0f} µs")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
