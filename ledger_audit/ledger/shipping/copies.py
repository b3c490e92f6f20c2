"""
Lets the copy of one segment grow, and never writes over what it did not write.

A copy appears with its first messages or not at all. One that is there already is continued where
it agrees, byte by byte, with the segment that it is a copy of.
"""

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

import pyarrow as pa

from ledger_audit.ledger.message import messages
from ledger_audit.ledger.shipping.source import Extent, Source, read_at
from ledger_audit.ledger.store import replaced_names

MOST_PENDING = 1 << 20
"""Bytes that are written at once."""

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class RefusedError(Exception):
    """What stands at the root is not ours to continue, or to replace."""


class Copy:
    """
    The copy of one segment.

    Args:
        path: of the copy.
        source: what it is a copy of.
        is_new: there never was one, as far as its maker can know.
    """

    def __init__(self, path: Path, source: Source, *, is_new: bool) -> None:
        self.path, self.source = path, source
        self._is_new = is_new
        self._part = path.with_name(f".{path.name}.part")
        self._file: int | None = None
        self._size = 0
        self._pending: list[memoryview] = []
        """Messages that go to the end of the copy; the first may be the rest of one."""
        self._pending_size = 0
        self._is_dirty = False

    def take(self, extent: Extent) -> None:
        """
        Make sure that the copy holds an extent; `flush` does what is left to do.

        Raises:
            RefusedError: it holds something else.
            OSError: it could not be read or written.
        """
        if self._file is None:
            self._open(extent)
        if self._size > extent.start and not self._agrees(extent):
            return
        rest = extent.data[max(0, self._size - extent.start) :]
        if rest:
            self._pending.append(rest)
            self._pending_size += len(rest)
        if self._pending_size >= MOST_PENDING:
            self.flush()

    def flush(self) -> None:
        """
        Write what is pending.

        Raises:
            OSError: it could not be written; no half message is left, if that can be helped.
        """
        if self._file is None or not self._pending:
            return
        parts, self._pending, self._pending_size = self._pending, [], 0
        left = memoryview(b"".join(parts))
        whole = self._size
        self._is_dirty = True
        try:
            while left:
                written = os.write(self._file, left)
                left = left[written:]
                self._size += written
        except OSError:
            while parts and whole + len(parts[0]) <= self._size:
                whole += len(parts.pop(0))
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, whole)
            raise

    def sync(self) -> None:
        """Wait until storage has it."""
        self.flush()
        if self._is_dirty and self._file is not None:
            os.fsync(self._file)
            self._is_dirty = False

    def touch(self) -> None:
        """Show by the time of the copy that its writer lives, where the storage has no locks."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.utime(self._file)

    def is_still_there(self) -> bool:
        """Tell whether the file under its name is the one that was written, and no more."""
        if self._file is None:
            return True
        known = os.fstat(self._file)
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(known, found) and known.st_size == self._size

    def replace(self, data: memoryview) -> None:
        """
        Put a segment whose records were let go of in the place of the copy.

        Raises:
            RefusedError: the copy is another writer's.
        """
        writer = _writer_of(bytes(data))
        with contextlib.suppress(FileNotFoundError):
            there = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if writer is None or _writer_of(read_at(there, 1 << 16, 0)) != writer:
                    raise RefusedError(f"{self.path}: is another writer's")
            finally:
                os.close(there)
        self.close()
        self._file = self._write_part(data)
        os.fsync(self._file)
        os.replace(self._part, self.path)
        self._size = len(data)

    def verify(self) -> None:
        """
        Read the copy back, from storage if that can be had, and compare.

        Raises:
            OSError: it is not what it should be.
        """
        self.sync()
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            with contextlib.suppress(OSError, AttributeError):
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            if not self.source.matches(file):
                raise OSError(errno.EIO, "the copy is not what was written", str(self.path))
        finally:
            os.close(file)

    def close(self) -> None:
        """Let go of it, as it is."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _agrees(self, extent: Extent) -> bool:
        """
        Compare an extent with what the copy has in its place; cut off what is no message.

        Returns:
            Not so: the copy goes on with sound messages where the segment has no more.
        """
        assert self._file is not None
        there = read_at(self._file, min(self._size, extent.end) - extent.start, extent.start)
        if there == extent.data[: len(there)]:
            return True
        if not extent.is_sound:
            return False
        rest = read_at(self._file, self._size - extent.start, extent.start)
        found = messages(pa.py_buffer(rest), is_checked=True)
        if extent.start == 0 or any(one.message is not None for one in found):
            raise RefusedError(f"{self.path}: holds other records from byte {extent.start} on")
        os.ftruncate(self._file, extent.start)
        self._size = extent.start
        self._is_dirty = True
        return True

    def _open(self, first: Extent) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            file = os.open(self.path, flags)
        except FileNotFoundError:
            self._create(first)
            return
        self._file = file
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise RefusedError(f"{self.path}: is no file")
        if os.path.samestat(found, self.source.identity):
            raise RefusedError(f"{self.path}: spool and root are one folder")
        _lock(file)
        self._size = found.st_size
        if not self.is_still_there():
            raise OSError(errno.ESTALE, "it was changed a moment ago", str(self.path))
        self._part.unlink(missing_ok=True)

    def _create(self, first: Extent) -> None:
        """Make the copy with its first extent in it."""
        by = None if self._is_new else _replaced_by(self.path)
        if by is not None:
            raise RefusedError(f"{self.path}: was sealed into {by} before all of it was there")
        self._file = self._write_part(first.data)
        try:
            os.link(self._part, self.path)  # unlike a rename, it never replaces a file
            self._part.unlink()
        except OSError as problem:
            if problem.errno not in _NO_LINKS or os.path.lexists(self.path):
                raise
            os.rename(self._part, self.path)
        self._size = len(first.data)

    def _write_part(self, data: memoryview) -> int:
        self._part.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self._part, flags, 0o644)
        try:
            _lock(file)
            left = data
            while left:
                left = left[os.write(file, left) :]
        except BaseException:
            os.close(file)
            with contextlib.suppress(OSError):
                self._part.unlink()
            raise
        self._is_dirty = True
        return file


def _lock(file: int) -> None:
    """Hold the lock that says that a copy still grows, where the storage has locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        text = "somebody holds its lock: it is being sealed, or shipped twice"
        raise OSError(errno.EBUSY, text) from problem
    except OSError:
        return


def _writer_of(data: bytes) -> bytes | None:
    """Read from the beginning of a segment whose it is."""
    first = next(messages(pa.py_buffer(data), is_checked=True), None)
    if first is None or first.message is None or first.message.type != "schema":
        return None
    metadata = pa.ipc.read_schema(first.message).metadata or {}
    writer = metadata.get(b"writer")
    return writer if isinstance(writer, bytes) else None


def _replaced_by(path: Path) -> str | None:
    """Find the sealed file that stands for a segment; null: there is none."""
    import pyarrow.parquet as pq  # noqa: PLC0415  # heavy, and asked for only after an accident

    names = {path.name, f"{path.stem}.parquet"}
    if (own := path.with_suffix(".parquet")).exists():
        return own.name
    table = path.name.partition("-")[0]
    for sealed in sorted(path.parent.glob(f"{table}-*.parquet")):
        with contextlib.suppress(OSError, pa.ArrowException, ValueError, TypeError):
            if names & replaced_names(pq.read_schema(sealed).metadata):
                return sealed.name
    return None
