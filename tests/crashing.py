"""Writers in children that are killed: at any moment, or before the n-th system call."""

import errno
import fcntl
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from ledger_audit import LedgerWriter
from ledger_audit.ledger.writer import saving as module

module.MOST_JITTER = 0.001  # spreading out is no part of what is killed here

CALLS = (
    "open",
    "write",
    "fsync",
    "close",
    "dup",
    "ftruncate",
    "mkdir",
    "unlink",
    "rename",
    "fstat",
)
STEPS, SLOTS, ROWS = 6, 2, 3
ROOM = 2500
"""Bytes of a segment: a few micro-batches, so that segments roll."""


def train(root: Path, told: Callable[[str], None], steps: int) -> None:
    """Record, commit and save, and tell what has returned."""
    ledger = LedgerWriter(root, rank=0, world_size=1, attempt="a", segment_bytes=ROOM)
    for step in range(1, steps + 1):
        for slot in range(SLOTS):
            first = (step * SLOTS + slot) * ROWS
            ledger.record(step, slot, list(range(first, first + ROWS)), epoch=0)
            told(f"record {first}")
        ledger.commit(step)
        told(f"commit {step}")
        if step % 2 == 0:
            saving = ledger.begin_checkpoint(step, claim={"slot": 0})
            saving.complete()
            saving.wait()
            told(f"checkpoint {step}")
    ledger.close()


def _child(root: Path, steps: int, prepare: Callable[[], None]) -> int:
    """Fork a trainer; what it tells survives it."""
    root.mkdir(parents=True)
    child = os.fork()
    if child:
        return child
    acks = os.open(root / "acks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    write = os.write
    prepare()
    train(root / "ledger", lambda text: _ignore(write(acks, f"{text}\n".encode())), steps)
    os._exit(0)


def _ignore(_: int) -> None:
    """An ack is one write: it is there, or it was not given."""


def at_random(target: Path, times: int, seed: int) -> None:
    """Kill so many writers, each at a moment of its own."""
    rng = random.Random(seed)
    for number in range(times):
        root = target / str(number)
        child = _child(root, 100_000, lambda: None)
        while not (root / "acks").exists():
            time.sleep(0.0005)
        time.sleep(rng.random() * 0.04)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def at_every_call(target: Path, mode: str) -> None:
    """Kill one writer before its first call, the next before its second, and so on."""
    granted, was_killed = 0, True
    while was_killed:
        child = _child(target / str(granted), STEPS, lambda: _doom(granted, mode))  # noqa: B023
        _, status = os.waitpid(child, 0)
        was_killed = os.WIFSIGNALED(status)
        assert was_killed or status == 0
        granted += 1


def _doom(granted: int, mode: str) -> None:
    left = [granted]
    writes = count(1)

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if left[0] == 0:
                if mode == "halves" and name == "write":
                    function(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            if mode == "full" and name == "write" and next(writes) % 4 == 0:
                function(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 3])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return function(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, counted(name, getattr(os, name)))
    fcntl.flock = counted("flock", fcntl.flock)


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch:
        train(Path(scratch), lambda _: None, 2)  # children need not import what they use
    if sys.argv[1] == "random":
        at_random(folder, int(sys.argv[3]), int(sys.argv[4]))
    else:
        at_every_call(folder, sys.argv[1])
