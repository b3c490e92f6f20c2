"""
Shares the reading of very many footers out to several processes: it takes Python's time.

Each is handed paths, and gives back a table. What one fails at is read here, which says why.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import IO

import pyarrow as pa

MOST = 16
"""Processes that read at once; each takes some 100 MB."""

Read = Callable[[Sequence[str]], pa.Table]
"""Paths → what their footers tell."""

_SERVE = "from ledger_audit.ledger import crew, footers; crew.serve(footers.told_of_files)"
_LENGTH = 8
"""Bytes of the number before an answer, which says how many bytes follow; none: it failed."""


def shared_out(parts: Sequence[Sequence[str]], here: Read) -> Iterator[pa.Table]:
    """
    Give what several processes read, in the order of the parts.

    Args:
        parts: paths of files.
        here: reads in this process.

    Raises:
        UnreadableError: a file cannot be read.
    """
    count = min(MOST, len(parts), _processors())
    if count < 2:
        yield from map(here, parts)
        return
    idle: SimpleQueue[_Worker] = SimpleQueue()

    def read(part: Sequence[str]) -> pa.Table:
        worker = idle.get()
        try:
            table = worker.read(part)
        finally:
            idle.put(worker)
        return here(part) if table is None else table

    with ExitStack() as stack:
        for _ in range(count):
            idle.put(stack.enter_context(_hired()))
        pool = ThreadPoolExecutor(count)
        stack.callback(pool.shutdown, cancel_futures=True)
        yield from pool.map(read, parts)


def serve(read: Read) -> None:
    """Read what the lines of standard input name, until there is none, and answer."""
    for line in sys.stdin.buffer:
        answer = b""
        with suppress(Exception):  # who asked reads it again, and says what is wrong
            table = read(json.loads(line))
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
            answer = sink.getvalue().to_pybytes()
        sys.stdout.buffer.write(len(answer).to_bytes(_LENGTH, "little") + answer)
        sys.stdout.buffer.flush()


@dataclass(frozen=True)
class _Worker:
    """A process that reads."""

    asked: IO[bytes]
    answers: IO[bytes]

    def read(self, files: Sequence[str]) -> pa.Table | None:
        """Let it read some files; null: it failed, or is gone."""
        try:
            self.asked.write(json.dumps(files).encode() + b"\n")
            self.asked.flush()
            length = int.from_bytes(self.answers.read(_LENGTH), "little")
            answer = self.answers.read(length)
            return pa.ipc.open_stream(answer).read_all() if length else None
        except (OSError, ValueError, pa.ArrowException):
            return None


@contextmanager
def _hired() -> Iterator[_Worker]:
    """Start a process; in the end it is told that nothing more comes, or is ended."""
    command = [sys.executable, "-c", _SERVE]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield _Worker(process.stdin, process.stdout)
    finally:
        with suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()


def _processors() -> int:
    """Count the processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
