"""
Uploads what one writer has told into an object store, and seals there what it has closed.

An open segment goes up as a copy that is put anew while it grows; a closed one as the Parquet that
sealing would make of it. All is derived from the files in the spool: whoever comes after a crash
puts the same objects under the same names.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal

import pyarrow as pa

from ledger_audit.ledger.message import messages
from ledger_audit.ledger.shipping.bucket import Bucket
from ledger_audit.ledger.shipping.source import read_at
from ledger_audit.ledger.shipping.waybill import Waybill

Table = Literal["samples", "events"]


@dataclass(frozen=True)
class Found:
    """A segment in the spool, as it was when it was looked at."""

    path: Path
    table: Table
    known: os.stat_result
    is_closed: bool

    @property
    def is_same(self) -> bool:
        """Nobody has put another file in its place, or written to it."""
        with suppress(FileNotFoundError):
            now = os.stat(self.path)
            return os.path.samestat(now, self.known) and now.st_size == self.known.st_size
        return False

    def read(self) -> bytes | None:
        """Read what it held then; null: another file has taken its place."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            if os.path.samestat(os.fstat(file), self.known):
                return read_at(file, self.known.st_size, 0)
        finally:
            os.close(file)
        return None


class Upload:
    """
    The files of one writer, on their way into a bucket.

    Args:
        waybill: whose files, from where to where.
    """

    def __init__(self, waybill: Waybill) -> None:
        self._waybill = waybill
        self._bucket = Bucket(waybill.target)
        self._put: dict[str, os.stat_result] = {}
        """Of each open copy that is there: the file, as far as it was put."""
        self._finished: dict[str, os.stat_result] = {}
        """Of each closed segment that has arrived and is kept here: the file."""
        self.shipped = 0
        """Bytes that were put so far."""

    def ship(self, *, is_over: bool) -> None:
        """
        Put all that is there, in an order in which no event stands there before its records.

        Args:
            is_over: the writer writes no more.

        Raises:
            OSError: it could not be done now.
        """
        # events are looked at first and put last: their records were told before them; what is
        # closed before that has no record that was told after them, and may be sealed
        whole = {one.path for one in self._find("samples", is_over=is_over) if one.is_closed}
        events = list(self._find("events", is_over=is_over))
        samples = list(self._find("samples", is_over=is_over))
        for one in (*samples, *events):
            self._copy(one)
        for one in (*samples, *events):
            if one.is_closed and (one.path in whole or one.table == "events"):
                self._finish(one)

    def _find(self, table: Table, *, is_over: bool) -> Iterator[Found]:
        """List the segments that have not arrived whole; all but the last are closed."""
        pattern = re.compile(rf"{table}-{re.escape(self._waybill.writer)}-(\d{{6,}})\.arrows")
        numbers: dict[int, Path] = {}
        with suppress(FileNotFoundError):
            for name in os.listdir(self._waybill.source):
                if (match := pattern.fullmatch(name)) is not None:
                    numbers[int(match[1])] = self._waybill.source / name
        for number in sorted(numbers):
            path = numbers[number]
            with suppress(FileNotFoundError):
                known = os.stat(path)
                done = self._finished.get(path.name)
                if done is None or not os.path.samestat(done, known):
                    yield Found(path, table, known, is_over or number < max(numbers))

    def _copy(self, found: Found) -> None:
        """Put a copy of a segment, unless the one that is there holds as much."""
        there = self._put.get(found.path.name)
        if there is not None and os.path.samestat(there, found.known):
            if there.st_size == found.known.st_size:
                return
        elif found.is_closed and there is None and self._is_dropped(found):
            return  # there are no records to be seen before it is sealed
        data = found.read()
        if data is None:
            return
        sound = data if found.is_closed else data[: _sound_end(data)]
        if sound or found.is_closed:
            self._bucket.put(found.path.name, sound)
            self._put[found.path.name] = found.known
            self.shipped += len(sound)

    def _finish(self, found: Found) -> None:
        """Seal a closed segment there, make sure that it has arrived, and let go of it here."""
        data = found.read()
        if data is None:
            return
        name = found.path.name
        sealed = sealed_of(found.table, data)
        if sealed is None:  # what is damaged stays as it is: a seal would hide where
            self._bucket.confirm(name, data)
        else:
            self._bucket.put(f"{found.path.stem}.parquet", sealed)
            self._bucket.confirm(f"{found.path.stem}.parquet", sealed)
            self._bucket.remove(name)
            self.shipped += len(sealed)
        if not found.is_same:
            return  # another one has come meanwhile
        self._put.pop(name, None)
        if self._waybill.keeps:
            self._finished[name] = found.known
        else:
            found.path.unlink(missing_ok=True)

    def _is_dropped(self, found: Found) -> bool:
        data = found.read()
        schema = None if data is None else _schema_of(data)
        return schema is not None and b"dropped" in (schema.metadata or {})


def _sound_end(data: bytes) -> int:
    """Say where the first bytes are that are no sound message, or not yet."""
    end = 0
    for found in messages(pa.py_buffer(data), is_checked=True):
        if found.message is None:
            break
        end = found.end
    return end


def _schema_of(data: bytes) -> pa.Schema | None:
    first = next(messages(pa.py_buffer(data), is_checked=True), None)
    is_schema = first is not None and first.message is not None and first.message.type == "schema"
    return pa.ipc.read_schema(first.message) if first is not None and is_schema else None


def sealed_of(table: Table, data: bytes) -> bytes | None:
    """
    Give what sealing makes of one closed segment, the same bytes each time.

    Returns:
        Parquet; null: not all of it is sound, or it holds what no seal may lose.
    """
    # a shipper to a folder needs none of it
    from ledger_audit.errors import UnreadableError  # noqa: PLC0415
    from ledger_audit.ledger.merging import merged, write_rows  # noqa: PLC0415

    schema = _schema_of(data)
    if schema is None:
        return None
    batches = []
    try:
        for found in messages(pa.py_buffer(data), is_checked=True):
            if found.message is None:
                return None
            if found.start > 0:
                batches.append(pa.ipc.read_record_batch(found.message, schema))
                batches[-1].validate(full=True)
        rows, starts = merged(table, [pa.Table.from_batches(batches, schema=schema)])
    except (pa.ArrowException, UnreadableError, ValueError):
        return None
    sink = BytesIO()
    write_rows(rows.replace_schema_metadata(schema.metadata), starts, sink)
    return sink.getvalue()
