"""Says who may still be writing: to a file, or the whole ledger anew."""

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ledger_audit.errors import UsageError
from ledger_audit.ledger import store

_LOCK = ".seal.lock"
"""Stands for the ledger's folder where storage does not lock folders."""

_NEWBORN = 10.0
"""Seconds in which an empty file is one that its writer has not locked yet."""


def alive(
    segments: Sequence[store.Segment],
    idle: float,
    known: Sequence[store.Segment] | None = None,
) -> dict[str, str]:
    """
    Tell which writers may still write, and why each seems so.

    Args:
        segments: of one attempt.
        idle: seconds for which nobody wrote an open segment of a writer that is taken for dead.
        known: all segments that there were when the folder was listed; null: `segments`.
    """
    writers: dict[str, list[store.Segment]] = {}
    for segment in segments:
        writers.setdefault(segment.writer, []).append(segment)
    found = {name: _why_alive(own, idle) for name, own in writers.items()}
    for folder in {segment.path.parent for segment in segments}:
        # whoever closed the segments that are known, and goes on in another one, is alive
        for new in {*store.in_attempt(folder)} - {*(segments if known is None else known)}:
            if new.writer in found:
                found[new.writer] = f"{new.path.name} was begun just now"
    return {name: why for name, why in found.items() if why is not None}


def _why_alive(segments: Iterable[store.Segment], idle: float) -> str | None:
    for segment in segments:
        if segment.is_sealed:
            continue
        try:
            found = segment.path.stat()
        except FileNotFoundError:
            return f"{segment.path.name} has just vanished"
        age = time.time() - found.st_mtime
        if age < idle or (not found.st_size and age < _NEWBORN):
            return f"{segment.path.name} was written {max(age, 0):.0f} s ago"
        if is_locked(segment.path):
            return f"{segment.path.name} is locked by its writer"
    return None


def is_locked(path: Path) -> bool:
    """Tell whether somebody holds a file open for writing; where there are no locks, nobody."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # reading it says what is wrong
    try:
        return _is_taken(file) is False
    finally:
        os.close(file)


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """
    Keep other seals away from a ledger, where storage has locks.

    Raises:
        UsageError: another seal is at work, or the folder cannot be opened.
    """
    try:
        held = _held(root)
    except OSError as problem:
        raise UsageError(
            f"{root}: cannot be sealed: {problem.strerror}",
            hint="nothing was changed; seal it as a user who may write there",
        ) from problem
    if held is None:
        raise UsageError(
            f"{root}: another seal is at work", hint="wait until it is done: it does the same"
        )
    try:
        yield
    finally:
        os.close(held)


def _held(root: Path) -> int | None:
    """Give a handle that holds the ledger's lock; null: another seal does."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    is_ours = _is_taken(handle)
    if is_ours is None:  # network storage wants a file that is open for writing
        os.close(handle)
        handle = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        is_ours = _is_taken(handle)
    if is_ours is False:
        os.close(handle)
        return None
    return handle


def _is_taken(handle: int) -> bool | None:
    """Lock a file; false: somebody else has; null: there are no locks here."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
