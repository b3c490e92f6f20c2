"""Keeps one table of one writer as a row of open segments, rolled by size and by age."""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ledger_audit.ledger.segment import OpenSegment, Table, arrow_schema, segment_name

REQUIRED = {
    "samples": ("attempt", "rank", "sample_id", "seq"),
    "events": ("attempt", "rank", "seq"),
}


@dataclass(frozen=True)
class Closed:
    """A segment that is written whole, and the steps that it holds records of."""

    path: Path
    last_step: int
    records: int


class Segments:
    """
    The segments of one table; only the newest is open.

    Args:
        folder: of the attempt; made when it is needed, and again when it has vanished.
        table: samples or events.
        writer: unique to this process.
        metadata: of every file.
        rolls_at: bytes and seconds after which a segment is closed and the next begun.
        on_close: called when a segment is closed.
    """

    def __init__(
        self,
        folder: Path,
        table: Table,
        writer: str,
        metadata: Mapping[str, str],
        *,
        rolls_at: tuple[int, float],
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder, self._table, self._writer = folder, table, writer
        self._metadata = dict(metadata)
        self._most_bytes, self._most_seconds = rolls_at
        self._on_close = on_close
        self._number = 0
        self._has_text_ids = False
        self._names = frozenset[str]()
        """Every column that was given yet: batches that differ in them share a file."""
        self._open: OpenSegment | None = None
        self._born = 0.0
        self._steps: Counter[int | None] = Counter()
        self.closed: list[Closed] = []
        self._unsynced: list[Path] = []
        self.vanished: Counter[int | None] = Counter()
        """Records by step that were in a file that was removed under its writer."""

    def append(self, columns: Mapping[str, pa.Array], step: int | None) -> None:
        """
        Append one batch, of records of one step.

        Raises:
            OSError: it could not be written; what was there is as it was.
        """
        if "sample_id" in columns:
            self._has_text_ids = pa.types.is_string(columns["sample_id"].type)
        segment = self._fit(columns)
        length = len(next(iter(columns.values())))
        segment.append_batch(
            pa.record_batch(
                [
                    columns[field.name] if field.name in columns else pa.nulls(length, field.type)
                    for field in segment.schema
                ],
                schema=segment.schema,
            )
        )
        self._steps[step] += length

    def to_sync(self) -> list[int]:
        """Give handles of all that may not be on storage yet, the folder's too; close them."""
        paths, self._unsynced = self._unsynced, []
        handles = [] if self._open is None else [self._open.duplicate()]
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # shipped, and safe where it is now
                handles.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        with contextlib.suppress(FileNotFoundError):
            if handles:  # the name of a new file is the folder's content
                handles.append(os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC))
        return handles

    def close(self) -> None:
        """Close the open segment; a later append begins another."""
        if self._open is not None:
            segment, self._open = self._open, None
            steps, self._steps = self._steps, Counter()
            self._put_away(segment, steps)

    def _put_away(self, segment: OpenSegment, steps: "Counter[int | None]") -> None:
        if segment.is_gone:
            self.vanished += steps
        else:
            last = max((step for step in steps if step is not None), default=-1)
            self.closed.append(Closed(segment.path, last, steps.total()))
            self._unsynced.append(segment.path)
        segment.close()
        self._on_close()

    def let_go(self) -> None:
        """Close the file in a forked child: its lock would outlive the writer."""
        if self._open is not None:
            self._open.close()

    def drop_until(self, step: int) -> None:
        """Do not keep the records of closed segments that hold none after a step."""
        for closed in [one for one in self.closed if one.last_step <= step]:
            self._drop(closed)

    def _drop(self, closed: Closed) -> None:
        """Put an empty segment in the place of a closed one."""
        part = closed.path.with_name(f".{closed.path.name}.part")
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        told = {**self._metadata, "dropped": f"{closed.records} records"}
        OpenSegment(part, self._schema(frozenset()), told).close()
        part.replace(closed.path)
        self.closed.remove(closed)

    def _fit(self, columns: Mapping[str, pa.Array]) -> OpenSegment:
        """Give an open segment that has room and all of these columns."""
        segment = self._open
        if segment is None:
            self._begin(frozenset(columns))
        elif (
            segment.size >= self._most_bytes
            or time.monotonic() - self._born >= self._most_seconds
            or not columns.keys() <= set(segment.schema.names)
            or segment.is_torn
            or segment.is_gone
        ):
            self._begin(frozenset(columns))  # before the old one is closed: a lock is held always
            steps, self._steps = self._steps, Counter()
            self._put_away(segment, steps)
        assert self._open is not None
        return self._open

    def _begin(self, names: frozenset[str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        name = segment_name(self._table, self._writer, self._number)
        path = self._folder / f"{name}.arrows"
        self._names |= names
        self._open = OpenSegment(path, self._schema(self._names), self._metadata)
        self._born = time.monotonic()
        self._number += 1

    def _schema(self, names: frozenset[str]) -> pa.Schema:
        wanted = {*names, *REQUIRED[self._table]}
        schema = arrow_schema(self._table, text_ids=self._has_text_ids)
        return pa.schema([field for field in schema if field.name in wanted])
