"""
Reads open segments: all that is sound, and where bytes were lost.

Where every message has a checksum, what follows a damaged one is read too; elsewhere nothing after
the first damage can be trusted.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import polars as pl
import pyarrow as pa

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger import foreign, remote
from ledger_audit.ledger.address import Address
from ledger_audit.ledger.message import has_checksums, messages
from ledger_audit.ledger.segment import attempt_folder
from ledger_audit.model import Unread

_OVER = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""How a stream of Arrow's own ends when it is closed."""

_IN_ORDER = ("commit", "void", "recovered")
"""Events whose step is the one that the writer was at; others name steps to come, or past ones."""


@dataclass(frozen=True)
class Hole:
    """Bytes of a file that are no sound message."""

    start: int
    end: int
    from_step: int | None
    """The last sound step before them: records from it on may be lost; null: from any."""


@dataclass(frozen=True)
class OpenRows:
    """What an open segment holds."""

    rows: pa.Table
    """Without a column where the schema is lost."""
    holes: tuple[Hole, ...]
    orphans: int = 0
    """Sound batches that cannot be read, because the schema is lost."""


def read_open(path: Path, size: int | None = None) -> OpenRows:
    """
    Read all that is sound of an open segment.

    Args:
        path: of the segment.
        size: of an object, the bytes that it had when it was listed: what came later is left out.

    Raises:
        UnreadableError: it is no Arrow IPC stream.
        OSError: it cannot be read.
    """
    try:
        content = remote.fetch(path, size) if isinstance(path, Address) else path.read_bytes()
    except PermissionError as problem:
        raise UnreadableError(
            f"{path}: cannot be read: {problem.strerror}", hint="check its permissions"
        ) from problem
    head = content[:4]
    if any(head) and not foreign.ARROW_MESSAGE.startswith(head):
        rows, is_torn = foreign.read_arrow(path, content)
        end = _last_step(rows.to_batches()) if is_torn else None
        return OpenRows(rows, (Hole(0, len(content), end),) if is_torn else ())
    data = pa.py_buffer(content)
    return _walked(data, is_checked=has_checksums(data)) if content else _nothing(0, 0)


def _nothing(size: int, orphans: int) -> OpenRows:
    return OpenRows(pa.table({}), (Hole(0, size, None),), orphans)


def _walked(data: pa.Buffer, *, is_checked: bool) -> OpenRows:
    found = messages(data, is_checked=is_checked)
    first = next(found)
    if first.message is None or first.message.type != "schema":
        return _nothing(data.size, sum(one.message is not None for one in found))
    try:
        schema = pa.ipc.read_schema(first.message)
        schema.names  # noqa: B018  # they may be no text
    except (pa.ArrowException, OSError, ValueError):
        return _nothing(data.size, sum(one.message is not None for one in found))
    if _has_dictionaries(schema):
        return _streamed(data, schema)
    batches: list[pa.RecordBatch] = []
    holes: list[Hole] = []
    for one in found:
        batch = None if one.message is None else _batch(one.message, schema)
        if batch is not None:
            batches.append(batch)
        elif not _is_end(data, one.start, one.end):
            end = one.end if is_checked else data.size
            # neighbours are one hole: a batch may be sound and its content not
            start = holes.pop().start if holes and holes[-1].end == one.start else one.start
            holes.append(Hole(start, end, _last_step(batches)))
            if not is_checked:
                break
    return OpenRows(pa.Table.from_batches(batches, schema=schema), tuple(holes))


def _is_end(data: pa.Buffer, start: int, end: int) -> bool:
    return end == data.size and bytes(data.slice(start, end - start)) == _OVER


def _batch(message: pa.Message, schema: pa.Schema) -> pa.RecordBatch | None:
    """Give a message's batch; null: it is none, or its content does not fit its schema."""
    if message.type != "record batch":
        return None
    try:
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        return None
    return batch


def _has_dictionaries(schema: pa.Schema) -> bool:
    return any("dictionary<" in str(dtype) for dtype in schema.types)


def _streamed(data: pa.Buffer, schema: pa.Schema) -> OpenRows:
    """Read up to the first damage: later batches may need dictionaries that are lost."""
    source = pa.BufferReader(data)
    stream = pa.ipc.open_stream(source)
    batches: list[pa.RecordBatch] = []
    at = source.tell()
    try:
        while True:
            batch = stream.read_next_batch()
            batch.validate(full=True)
            batches.append(batch)
            at = source.tell()
    except StopIteration:
        is_torn = at < data.size and not _is_end(data, at, data.size)
    except (pa.ArrowException, OSError, ValueError):
        is_torn = True
    holes = (Hole(at, data.size, _last_step(batches)),) if is_torn else ()
    return OpenRows(pa.Table.from_batches(batches, schema=schema), holes)


def _last_step(batches: Sequence[pa.RecordBatch]) -> int | None:
    """Give the step that the writer was at when it wrote the last batch that tells."""
    steps = map(_step_of, reversed(batches))
    return next((step for step in steps if step is not None), None)


def _step_of(batch: pa.RecordBatch) -> int | None:
    steps = _column(batch, "step")
    if steps is None or not pa.types.is_integer(steps.type):
        return None
    kinds = _column(batch, "kind")
    if kinds is not None:
        if pa.types.is_dictionary(kinds.type):
            kinds = kinds.dictionary_decode()
        import pyarrow.compute as pc  # noqa: PLC0415  # most openings need none of it

        steps = steps.filter(pc.is_in(kinds, pa.array(_IN_ORDER, kinds.type)))
    steps = steps.drop_null()
    last: int | None = steps[-1].as_py() if len(steps) else None
    return last


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """Give the one column of this name; null: there is none, or several."""
    place = batch.schema.get_field_index(name)
    return None if place < 0 else batch.column(place)


def told_of(file: str, table: str, hole: Hole) -> str:
    """Give the data of the `recovered` event that tells of a hole."""
    return json.dumps({"file": file, "table": table, "bytes": [hole.start, hole.end]})


def place_told(data: str | None) -> tuple[str, int, int] | None:
    """Give file, start and end that a `recovered` event tells; null: it tells of no bytes."""
    try:
        told = json.loads(data or "{}")
        file, (start, end) = told["file"], told["bytes"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    is_right = isinstance(file, str) and type(start) is int and type(end) is int
    return (file, start, end) if is_right else None


def still_unread(acts: pl.DataFrame, unread: Iterable[Unread]) -> tuple[Unread, ...]:
    """
    Give what is known to be unread, with what sealing dropped: it is as lost as it was before.

    Args:
        acts: EVENTS, of all attempts.
        unread: what the files themselves show; a torn file that is still there tells for itself.
    """
    shown = tuple(unread)
    there = {(one.attempt, PurePosixPath(one.file).name) for one in shown if one.reason == "torn"}
    told = acts.filter(pl.col("kind") == "recovered").sort("attempt", "rank", "seq")
    dropped = []
    for attempt, step, data in told.select("attempt", "step", "data").iter_rows():
        place = place_told(data)
        if place is not None and (attempt, place[0]) not in there:
            file = attempt_folder(Path(), attempt) / place[0]  # attempts may have equal names
            dropped.append(Unread(str(file), attempt, step, None, "torn"))
    return tuple(
        sorted((*shown, *dropped), key=lambda one: (one.attempt, PurePosixPath(one.file).name))
    )
