"""
Ships what one writer has told and the root does not hold yet, in the order of its telling.

Whatever goes wrong, nothing later is shipped before it is mended, and all copies are compared anew.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ledger_audit.ledger.shipping.copies import Copy
from ledger_audit.ledger.shipping.source import Extent, Source
from ledger_audit.ledger.shipping.waybill import Waybill

MOST_UNSYNCED = 64 << 20
"""Bytes after which storage is waited for."""


class Shipment:
    """
    The files of one writer, on their way.

    Args:
        waybill: whose files, from where to where.
        is_first: nobody shipped any of them before.
    """

    def __init__(self, waybill: Waybill, *, is_first: bool) -> None:
        self._waybill = waybill
        self._is_first = is_first
        self._queues = [_Queue(waybill, table) for table in ("samples", "events")]
        self._copies: dict[Source, Copy] = {}
        self._current: Copy | None = None
        self._made: set[str] = set()
        self._next_seq = 0
        self._unsynced = 0
        self.shipped = 0
        """Bytes that were taken so far, copied or compared."""

    def ship(self, *, is_over: bool) -> None:
        """
        Ship all that is there.

        Args:
            is_over: the writer writes no more.

        Raises:
            RefusedError: the root holds something else in the place of a copy.
            OSError: it could not be done now.
        """
        try:
            for queue in self._queues:
                queue.list(is_over=is_over)
            if any(queue.is_replaced for queue in self._queues) or not all(
                copy.is_still_there() for copy in self._copies.values()
            ):
                self.forget()
            if any(queue.paths for queue in self._queues):
                self._reach()
            while (found := self._next(is_over)) is not None:
                self._take(*found)
                if self._unsynced >= MOST_UNSYNCED:
                    self._settle()
            self._settle()
            for copy in () if is_over else self._copies.values():
                copy.touch()
        except BaseException:
            self.forget()
            raise

    def _reach(self) -> None:
        """Find the root, and make it once; if it has gone since, its place is not ours to fill."""
        waybill = self._waybill
        try:
            mount = Path(waybill.arrived.read_text())
        except FileNotFoundError:
            waybill.target.mkdir(parents=True, exist_ok=True)
            waybill.arrived.write_text(str(_mount_of(waybill.root)))
            return
        if not os.path.ismount(mount):
            raise OSError(errno.ENODEV, "nothing is mounted there any more", str(mount))
        if not waybill.root.is_dir():
            raise FileNotFoundError(errno.ENOENT, "the root has gone", str(waybill.root))
        waybill.target.mkdir(exist_ok=True)

    def _next(self, is_over: bool) -> tuple[Source, Extent] | None:
        """
        Give what comes next in the order of the telling.

        Lines are numbered without a gap, so a gap means that a line was written meanwhile: whoever
        looks again finds it, or knows that there is none.
        """
        best = None
        for _ in range(2):
            heads = [found for queue in self._queues if (found := queue.head()) is not None]
            best = min(heads, key=lambda found: _order(found[1]), default=None)
            if best is None or _order(best[1]) <= self._next_seq:
                break
            for queue in self._queues:
                queue.list(is_over=is_over)
        return best

    def _take(self, source: Source, extent: Extent) -> None:
        copy = self._copies.get(source)
        if copy is None:
            name = source.path.name
            is_new = self._is_first and name not in self._made
            copy = Copy(self._waybill.target / name, source, is_new=is_new)
            self._copies[source] = copy
            self._made.add(name)
        if self._current is not copy:
            if self._current is not None:
                self._current.flush()  # what was told before stands at the root before
            self._current = copy
        if source.is_dropped:
            copy.replace(extent.data)
        else:
            copy.take(extent)
        source.take()
        if extent.seq is not None:
            self._next_seq = max(self._next_seq, extent.seq + extent.lines)
        self._unsynced += extent.end - extent.start
        self.shipped += extent.end - extent.start

    def _settle(self) -> None:
        """Wait until storage has all copies, then let go of the segments that are whole there."""
        if self._current is not None:
            self._current.flush()
        for copy in self._copies.values():
            copy.sync()
        self._unsynced = 0
        whole = [(queue, one) for queue in self._queues for one in queue.drained()]
        for _, source in whole:
            self._copies[source].verify()
        if whole:
            _sync_folder(self._waybill.target)
        for queue, source in whole:
            copy = self._copies.pop(source)
            self._current = None if self._current is copy else self._current
            copy.close()
            queue.finish(source)

    def forget(self) -> None:
        """Let go of everything: the next shipping begins by comparing."""
        for copy in self._copies.values():
            with suppress(OSError):
                copy.close()
        self._copies.clear()
        self._current = None
        self._next_seq = self._unsynced = 0
        for queue in self._queues:
            queue.forget()


class _Queue:
    """The segments of one table that are not wholly shipped, by number."""

    def __init__(self, waybill: Waybill, table: str) -> None:
        self._waybill = waybill
        self._pattern = re.compile(rf"{table}-{re.escape(waybill.writer)}-(\d{{6,}})\.arrows")
        self._finished: dict[int, os.stat_result] = {}
        self._sources: dict[int, Source] = {}
        self._is_over = False
        self.paths: dict[int, Path] = {}

    def list(self, *, is_over: bool) -> None:
        """Look which segments there are; all but the last are closed, and that one in the end."""
        self._is_over = is_over
        found: dict[int, Path] = {}
        with suppress(FileNotFoundError):
            for name in os.listdir(self._waybill.source):
                if (match := self._pattern.fullmatch(name)) is not None:
                    found[int(match[1])] = self._waybill.source / name
        self.paths = {number: found[number] for number in sorted(found)}

    @property
    def is_replaced(self) -> bool:
        """The writer let go of the records of a segment while it was read."""
        return any(
            number in self.paths and not _is_file(self.paths[number], source.identity)
            for number, source in self._sources.items()
        )

    def head(self) -> tuple[Source, Extent] | None:
        """Give the first extent that was not taken; null: there is none now."""
        last = max(self.paths, default=-1)
        for number, path in self.paths.items():
            if number in self._finished and _is_file(path, self._finished[number]):
                continue
            if number not in self._sources:
                try:
                    self._sources[number] = Source(path, number)
                except FileNotFoundError:
                    continue
            source = self._sources[number]
            extent = source.head(is_closed=self._is_over or number < last)
            if extent is not None:
                return source, extent
            if not source.is_drained:
                break
        return None

    def drained(self) -> Iterator[Source]:
        """List the segments that are closed and wholly taken."""
        return (source for source in list(self._sources.values()) if source.is_drained)

    def finish(self, source: Source) -> None:
        """Note that a segment has arrived, and remove it unless it is to be kept."""
        del self._sources[source.number]
        if self._waybill.keeps:
            self._finished[source.number] = source.identity
        elif _is_file(source.path, source.identity):
            source.path.unlink(missing_ok=True)
        source.close()  # not before: another file could pass for it

    def forget(self) -> None:
        """Begin anew; what has arrived stays arrived as long as it is still there."""
        for source in self._sources.values():
            source.close()
        self._sources.clear()
        for number, done in list(self._finished.items()):
            with suppress(KeyError, OSError):
                if os.stat(self._waybill.target / self.paths[number].name).st_size >= done.st_size:
                    continue
            del self._finished[number]


def _is_file(path: Path, known: os.stat_result) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), known)
    return False


def _order(extent: Extent) -> int:
    return -1 if extent.seq is None else extent.seq


def _mount_of(path: Path) -> Path:
    path = path.resolve()
    while not os.path.ismount(path):
        path = path.parent
    return path


def _sync_folder(path: Path) -> None:
    """Make the names of new files last, where the storage knows how to."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            os.fsync(file)
    finally:
        os.close(file)
