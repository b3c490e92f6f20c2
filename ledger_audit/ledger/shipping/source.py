"""Reads one segment of a writer message by message, while it grows."""

import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ledger_audit.ledger.message import Found, messages

CHUNK = 8 << 20
"""Bytes that are read at once, unless one message is larger."""


@dataclass(frozen=True)
class Extent:
    """The bytes of one message, with whatever unsound ones lie before it."""

    start: int
    end: int
    seq: int | None
    """Of its first line; null: it has no lines."""
    lines: int
    data: memoryview
    is_sound: bool = True
    """Not so: what follows the last sound message of a segment that grows no more."""


class Source:
    """
    One segment on local storage.

    Args:
        path: of the segment.
        number: of the segment.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path, number: int) -> None:
        self.path, self.number = path, number
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.identity = os.fstat(self._file)
        self.sound = 0
        """Where its last sound message ends, as far as it was read."""
        self._start = 0
        self._schema: pa.Schema | None = None
        self._extents: deque[Extent] = deque()
        self._doubt: tuple[int, int] | None = None
        self._is_read = False
        """It grows no more, and all of it was read."""

    @property
    def is_drained(self) -> bool:
        """It grows no more, and all of it was taken."""
        return self._is_read and not self._extents

    @property
    def is_dropped(self) -> bool:
        """The writer let go of its records: it stands for a file that held some."""
        return self._schema is not None and b"dropped" in (self._schema.metadata or {})

    def head(self, *, is_closed: bool) -> Extent | None:
        """Give what is to be taken next; null: there is nothing now."""
        if not self._extents and not self._is_read:
            self._scan(is_closed)
        return self._extents[0] if self._extents else None

    def take(self) -> None:
        """Go on to what comes next."""
        self._extents.popleft()

    def matches(self, file: int) -> bool:
        """Compare the sound part with another file, byte by byte."""
        at = 0
        while at < self.sound:
            length = min(1 << 20, self.sound - at)
            ours = read_at(self._file, length, at)
            if len(ours) < length or ours != read_at(file, length, at):
                return False
            at += length
        return True

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _scan(self, is_closed: bool) -> None:
        """Find messages in what was not read yet: some if there are any, not all."""
        size = os.fstat(self._file).st_size
        most = CHUNK
        while not self._extents and self._start < size:
            left = size - self._start
            data = read_at(self._file, min(most, left), self._start)
            self._sort(data, is_closed=is_closed, is_all=len(data) == left)
            if len(data) == left or len(data) < most:
                break
            most *= 4
        if is_closed and not self._extents and self._start >= size:
            if size == 0:
                self._extents.append(Extent(0, 0, None, 0, memoryview(b""), is_sound=False))
            self._is_read = True

    def _sort(self, data: bytes, *, is_closed: bool, is_all: bool) -> None:
        base = self._start
        view = memoryview(data)
        bad: Found | None = None
        for found in messages(pa.py_buffer(data), is_checked=True):
            if found.message is None:
                bad = found
                continue
            if bad is not None and not self._will_stay(base + bad.start, base + bad.end, is_closed):
                return
            bad = None
            if found.message.type == "schema":
                self._schema = self._schema or pa.ipc.read_schema(found.message)
                continue  # it goes with the first batch: a copy begins with both
            self._add(found.message, base + found.end, view[self._start - base : found.end])
        end = base + len(data)
        if is_closed and is_all and self._start < end:
            self.sound = self.sound if bad is not None else end
            rest = view[self._start - base :]
            self._extents.append(Extent(self._start, end, None, 0, rest, bad is None))
            self._start = end

    def _add(self, message: pa.Message, end: int, data: memoryview) -> None:
        seq, lines = None, 0
        if self._schema is not None and message.type == "record batch":
            batch = pa.ipc.read_record_batch(message, self._schema)
            lines = batch.num_rows
            seq = batch.column("seq")[0].as_py() if lines else None
        self._extents.append(Extent(self._start, end, seq, lines, data))
        self._start = self.sound = end

    def _will_stay(self, start: int, end: int, is_closed: bool) -> bool:
        """Tell whether unsound bytes before sound ones stay so: a second look finds them too."""
        is_known = is_closed or self._doubt == (start, end)
        self._doubt = (start, end)
        return is_known


def read_at(file: int, length: int, at: int) -> bytes:
    """Read from a place in a file; fewer bytes only where it ends."""
    parts = []
    while length > 0 and (part := os.pread(file, length, at)):
        parts.append(part)
        at += len(part)
        length -= len(part)
    return b"".join(parts)
