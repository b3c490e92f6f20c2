"""
Times the opening of a ledger of very many small sealed files, without an index and with one.

    python tests/bench/many_files.py [--ranks 1024] [--attempts 3] [--segments 4] [--keep DIR]

docs/benchmarks.md says what is measured; the full size is `--ranks 4096 --segments 300`, which
takes 20 GB and an hour.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ledger_audit.ledger.segment import Table, arrow_schema

STEPS = 24
"""Of a segment, with one record each."""

INDEX = ".index.arrows"
BARE = "python with its libraries"
LISTING = "listing"
PROJECT = Path(__file__).parent.parent.parent
VARYING = ("rank", "step", "sample_id", "seq")
"""The columns of samples that differ from file to file."""


@dataclass(frozen=True)
class Template:
    """The bytes of a file, and where the values of its columns stand."""

    content: bytes
    places: Mapping[str, tuple[tuple[int, int, int], ...]]
    """Column → for each copy of some of its values: where it is, and the first and last row."""

    @classmethod
    def of(cls, table: pa.Table, columns: Sequence[str], path: Path) -> "Template":
        """Write a table plainly, and find its columns in the file: values and statistics."""
        pq.write_table(table, path, use_dictionary=False, compression="none")
        content = path.read_bytes()
        path.unlink()
        places = {}
        for name in columns:
            values = table[name].combine_chunks().to_numpy()
            wanted = {(0, 0), (0, len(values) - 1), (len(values) - 1, len(values) - 1)}
            places[name] = tuple(
                (at, first, last)
                for first, last in sorted(wanted)
                for at in _found(content, values[first : last + 1].tobytes())
            )
            assert len(places[name]) >= 2, name
        return cls(content, places)

    def filled(self, columns: Mapping[str, np.ndarray], writer: str) -> bytearray:
        """Give the file with other values, and another writer of as many letters."""
        content = bytearray(self.content)
        for name, values in columns.items():
            for at, first, last in self.places[name]:
                part = values[first : last + 1].tobytes()
                content[at : at + len(part)] = part
        return content.replace(b"r9999-0", writer.encode())


def _found(content: bytes, wanted: bytes) -> Iterator[int]:
    at = content.find(wanted)
    while at >= 0:
        yield at
        at = content.find(wanted, at + 1)


@dataclass(frozen=True)
class ManyFiles:
    """
    A ledger: each attempt resumes the one before it at the end of its last segment but one.

    The stream is dealt rank by rank, one record a step, and never breaks.
    """

    root: Path
    ranks: int
    attempts: int
    segments: int

    @property
    def files(self) -> int:
        """All sealed files: of samples and, one a rank and attempt, of events."""
        return self.attempts * self.ranks * (self.segments + 1)

    def folder(self, attempt: int) -> Path:
        """Name the folder of an attempt."""
        return self.root / f"attempt={attempt}"

    def write(self) -> None:
        """Write all of it."""
        first = 1
        for attempt in range(self.attempts):
            self.folder(attempt).mkdir(parents=True)
            origin = None if attempt == 0 else {"attempt": str(attempt - 1), "step": first - 1}
            self._write_samples(attempt, first)
            self._write_events(attempt, first, origin)
            first += STEPS * max(1, self.segments - 1)

    def rewrite(self, attempt: int, rank: int, segment: int) -> None:
        """Replace a file by its twin: the same rows in other bytes, under the same name."""
        path = self.folder(attempt) / f"samples-{_writer(rank)}-{segment:06d}.parquet"
        table = pq.read_table(path, partitioning=None)
        pq.write_table(table, path.with_suffix(".part"))
        os.replace(path.with_suffix(".part"), path)

    def _write_samples(self, attempt: int, first: int) -> None:
        marks = np.arange(STEPS, dtype=np.int64)
        rows = {
            "attempt": [str(attempt)] * STEPS,
            "rank": np.full(STEPS, 0x6A5B4C3D, np.int32),
            "step": marks + 0x1122334455667708,
            "slot": np.zeros(STEPS, np.int32),
            "row": np.zeros(STEPS, np.int32),
            "sample_id": marks + 0x2233445566778810,
            "seq": marks * 2 + 0x3344556677889920,
        }
        template = Template.of(_table(rows, "samples"), VARYING, self.root / "template")
        for rank in range(self.ranks):
            for segment in range(self.segments):
                nth = segment * STEPS + marks
                filled = template.filled(
                    {
                        "rank": np.full(STEPS, rank, np.int32),
                        "step": first + nth,
                        "sample_id": (first + nth) * self.ranks + rank,
                        "seq": 1 + 2 * nth,
                    },
                    _writer(rank),
                )
                self._put(attempt, f"samples-{_writer(rank)}-{segment:06d}", filled)

    def _write_events(self, attempt: int, first: int, origin: Mapping[str, object] | None) -> None:
        steps = self.segments * STEPS
        start = {"world_size": self.ranks, "resumed_from": origin}
        rows = {
            "attempt": [str(attempt)] * (steps + 1),
            "rank": np.full(steps + 1, 0x6A5B4C3D, np.int32),
            "seq": 2 * np.arange(steps + 1),
            "kind": ["start", *["commit"] * steps],
            "step": [None, *range(first, first + steps)],
            "data": [json.dumps(start), *['{"samples": 1}'] * steps],
        }
        template = Template.of(_table(rows, "events"), ["rank"], self.root / "template")
        for rank in range(self.ranks):
            values = {"rank": np.full(steps + 1, rank, np.int32)}
            filled = template.filled(values, _writer(rank))
            self._put(attempt, f"events-{_writer(rank)}-000000", filled)

    def _put(self, attempt: int, name: str, content: bytearray) -> None:
        with open(f"{self.folder(attempt)}/{name}.parquet", "wb", buffering=0) as file:
            file.write(content)


def _writer(rank: int) -> str:
    return f"r{rank:04d}-0"


def _table(rows: Mapping[str, object], name: Table) -> pa.Table:
    schema = pa.schema([field for field in arrow_schema(name) if field.name in rows])
    told = {"format": "1", "run_id": "many", "writer": "r9999-0", "host": "node0"}
    return pa.table(dict(rows), schema=schema).replace_schema_metadata(told)


@dataclass(frozen=True)
class Task:
    """A process to time."""

    name: str
    command: Sequence[str]
    before: Callable[[], None] = lambda: None
    code: int = 0
    """With which it must end: that of `continuous`."""


def tasks(ledger: ManyFiles) -> Iterator[Task]:
    """List what is timed, in the order in which one makes the next one quick."""
    bare = "from ledger_audit.ledger import opening, store"
    root = f"[__import__('pathlib').Path({str(ledger.root)!r})]"
    listing = [sys.executable, "-c", f"{bare}; store.listed({root})"]
    opening = [sys.executable, "-c", f"{bare}; opening.open_ledger({root})"]
    diff = [sys.executable, "-m", "ledger_audit", "diff", str(ledger.root), "--format", "json"]

    def forget() -> None:
        for path in ledger.root.glob(f"attempt=*/{INDEX}"):
            path.unlink()

    def change() -> None:
        middle = ledger.segments // 2
        for rank in range(min(ledger.ranks, 10)):
            ledger.rewrite(0, rank, middle)

    yield Task(BARE, [sys.executable, "-c", bare])
    yield Task(LISTING, listing)
    yield Task("opening, no index", opening, forget)
    yield Task("opening, index", opening)
    yield Task("opening, ten files replaced", opening, change)
    yield Task("opening, an index of one attempt lost", opening, lambda: _lose(ledger))
    yield Task("diff, no index", diff, forget)
    yield Task("diff, index", diff)


def _lose(ledger: ManyFiles) -> None:
    (ledger.folder(0) / INDEX).unlink(missing_ok=True)


def run(task: Task, quiet: Sequence[Path]) -> tuple[float, float, float]:
    """
    Run a process to its end; give its seconds, those of a processor, and its peak in megabytes.

    Raises:
        AssertionError: it does not end as it must.
    """
    task.before()
    for folder in quiet:
        os.utime(folder, (1, 1))  # what was changed just now would be listed twice
    with tempfile.TemporaryFile() as told:
        began = time.perf_counter()
        actions = [(os.POSIX_SPAWN_DUP2, told.fileno(), 1)]
        child = os.posix_spawn(
            task.command[0], list(task.command), os.environ, file_actions=actions
        )
        _, status, used = os.wait4(child, 0)
        seconds = time.perf_counter() - began
        told.seek(0)
        assert os.waitstatus_to_exitcode(status) == task.code, told.read()
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def table(ledger: ManyFiles) -> Iterator[str]:
    """Time every process once, and give the lines of a table of them."""
    yield f"{ledger.files:,} files of {ledger.ranks:,} ranks, {ledger.attempts} attempts"
    yield ""
    yield "| process | s | CPU s | CPU / listing | CPU µs a file | peak MB | bytes a file |"
    yield "|---|---|---|---|---|---|---|"
    bare = listing = (0.0, 0.0, 0.0)
    for task in tasks(ledger):
        quiet = [ledger.root, *map(ledger.folder, range(ledger.attempts))]
        times = 3 if task.name in (BARE, LISTING) else 1  # what others are compared with
        found = min((run(task, quiet) for _ in range(times)), key=lambda one: one[1])
        if task.name == BARE:
            bare = found
        _, used, memory = (one - other for one, other in zip(found, bare, strict=True))
        if task.name == LISTING:
            listing = found
        ratio = f"{used / (listing[1] - bare[1]):.1f}" if listing[1] else ""
        yield (
            f"| {task.name} | {found[0]:.2f} | {found[1]:.2f} | {ratio} "
            f"| {used / ledger.files * 1e6:.1f} | {found[2]:.0f} "
            f"| {memory * (1 << 20) / ledger.files:.0f} |"
        )


def main() -> None:
    """Write the ledger, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--attempts", type=int, default=3)
    parser.add_argument("--segments", type=int, default=4, help="of samples, a rank and attempt")
    parser.add_argument("--keep", type=Path, help="folder for the ledger, which is left there")
    chosen = parser.parse_args()
    scratch = Path(tempfile.mkdtemp()) if chosen.keep is None else chosen.keep
    try:
        ledger = ManyFiles(scratch / "ledger", chosen.ranks, chosen.attempts, chosen.segments)
        if not ledger.root.exists():
            sys.stderr.write(f"writing {ledger.files:,} files\n")
            ledger.write()
        os.chdir(PROJECT)
        for line in table(ledger):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    finally:
        if chosen.keep is None:
            shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
