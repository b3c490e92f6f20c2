"""Puts sealed files in place, and takes away what they stand for: durably, and in that order."""

import errno
import fcntl
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

import pyarrow as pa

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.merging import write_rows
from ledger_audit.ledger.sealing.alive import is_locked
from ledger_audit.ledger.sealing.source import whole
from ledger_audit.ledger.store import INDEX

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}

_LEFT = re.compile(rf"(\.(samples|events)-sealed-|{re.escape(INDEX)}\.).+\.part")


def publish(
    rows: pa.Table, starts: Sequence[int], path: Path, metadata: Mapping[bytes, bytes]
) -> int:
    """
    Write a sealed file whole or not at all, never over another one, and give its size.

    It has been read back when this returns, and its name survives a power cut.

    Args:
        rows: sorted.
        starts: where each row group begins.
        path: the file.
        metadata: of the file.

    Raises:
        UnreadableError: what was written does not read the same, or another file has the name.
        OSError: it cannot be written.
    """
    rows = rows.replace_schema_metadata(dict(metadata))
    part = path.with_name(f".{path.name}.{token_hex(4)}.part")
    file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with suppress(OSError):  # so that nobody takes it for what a killed seal left
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with os.fdopen(file, "wb", closefd=False) as sink:
            write_rows(rows, starts, sink)
        os.fsync(file)
        _check_same(part, rows, metadata)
        if not _is_named(part, path):
            _check_same(path, rows, metadata)
        sync_folder(path.parent)
        size = path.stat().st_size
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)
        os.close(file)
    return size


def _check_same(path: Path, rows: pa.Table, metadata: Mapping[bytes, bytes]) -> None:
    """Refuse a file that does not hold just these rows."""
    found = whole(path)
    is_same = dict(found.schema.metadata or {}) == dict(metadata)
    is_same = is_same and found.column_names == rows.column_names
    if not (is_same and all(_is_same(found[name], rows[name]) for name in rows.column_names)):
        raise UnreadableError(
            f"{path}: does not read back as it was written",
            hint="nothing was removed; check the storage, and whether the name was taken",
        )


def _is_same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    if one.equals(other):
        return True
    return repr(one.to_pylist()) == repr(other.to_pylist())  # not a number is as good as itself


def _is_named(part: Path, path: Path) -> bool:
    """Give a file its name; false: another file has it, most likely of a seal that did the same."""
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError as problem:
        if problem.errno not in _NO_LINKS or os.path.lexists(path):
            raise
        os.rename(part, path)  # the lock keeps others from taking the name in between
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(paths: Iterable[Path]) -> list[str]:
    """Remove files; give the names of those that were there."""
    removed = []
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)
            removed.append(path.name)
    return removed


def sweep(folder: Path) -> None:
    """Remove what seals, and readers with an index, that were killed were about to write."""
    left = [path for path in sorted(folder.iterdir()) if _LEFT.fullmatch(path.name)]
    remove(path for path in left if not is_locked(path))
