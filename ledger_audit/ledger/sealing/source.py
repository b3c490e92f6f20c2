"""Reads one segment that is to be sealed, into the columns of its table on disk."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledger_audit.errors import UnreadableError, VanishedError
from ledger_audit.ledger import store
from ledger_audit.ledger.merging import REQUIRED
from ledger_audit.ledger.recovery import Hole, read_open
from ledger_audit.ledger.schema import FORMAT, SAMPLE_ID
from ledger_audit.ledger.segment import Table, arrow_schema


@dataclass(frozen=True)
class Key:
    """What files must have in common to become one."""

    run: bytes | None
    """The run id that the file names."""
    ids: str
    """The type of its sample ids; empty: it has none."""
    extras: tuple[tuple[str, str], ...]
    """Columns that are none of ours, and their types."""


@dataclass(frozen=True)
class Contents:
    """What a segment holds, as it is to be sealed."""

    rows: pa.Table
    metadata: Mapping[bytes, bytes]
    holes: tuple[Hole, ...]
    is_headless: bool
    """It is open, and its schema is lost."""


@dataclass(frozen=True)
class Source:
    """One segment that is to be sealed, as it was when it was looked at."""

    segment: store.Segment
    size: int
    mtime_ns: int
    rows: int
    weight: int
    """Bytes that its rows take in memory."""
    holes: tuple[Hole, ...]
    metadata: Mapping[bytes, bytes]
    key: Key | None
    """Null: nothing is known of it, and it fits everywhere."""
    spans: Mapping[int, tuple[int, int]]
    """The first and the last `seq` of each rank."""

    @property
    def name(self) -> str:
        """The file's name."""
        return self.segment.path.name

    @property
    def is_unchanged(self) -> bool:
        """Nobody has written to the file, or removed it, since it was looked at."""
        try:
            found = self.segment.path.stat()
        except FileNotFoundError:
            return False
        return (found.st_size, found.st_mtime_ns) == (self.size, self.mtime_ns)


def look_at(segment: store.Segment) -> tuple[Source, Contents]:
    """
    Read a segment, and describe it.

    Raises:
        UnreadableError: it is not what its name says, or holds what no audit could read.
    """
    try:
        found = segment.path.stat()
    except FileNotFoundError as problem:
        raise VanishedError.of(segment.path) from problem
    contents = read(segment)
    rows = contents.rows
    source = Source(
        segment=segment,
        size=found.st_size,
        mtime_ns=found.st_mtime_ns,
        rows=rows.num_rows,
        weight=sum(map(_weight, rows.columns)),
        holes=contents.holes,
        metadata=contents.metadata,
        key=None if contents.is_headless else _key(segment.table, contents),
        spans=spans_of(rows),
    )
    return source, contents


def _weight(column: pa.ChunkedArray) -> int:
    """Give the bytes of a column by its content, so that sealing changes no weight."""
    if column.null_count == len(column):
        return 0
    if not pa.types.is_string(column.type):
        return 8 * len(column)
    return 4 * len(column) + (pc.sum(pc.binary_length(column)).as_py() or 0)


def read(segment: store.Segment) -> Contents:
    """
    Read a segment.

    Raises:
        UnreadableError: it is not what its name says, or holds what no audit could read.
    """
    path = segment.path
    holes: tuple[Hole, ...] = ()
    try:
        if segment.is_sealed:
            found = whole(path)
        else:
            opened = read_open(path)
            found, holes = opened.rows, opened.holes
            if opened.orphans:
                raise UnreadableError(
                    f"{path}: its schema is damaged, and {opened.orphans} sound batches follow",
                    hint="it is left as it is: write the schema of another segment of its writer "
                    "before them, or remove the file",
                )
            if not found.num_columns:
                nothing = arrow_schema(segment.table).empty_table()
                return Contents(nothing, {}, holes, is_headless=True)
    except FileNotFoundError as problem:
        raise VanishedError.of(path) from problem
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise UnreadableError(
            f"{path}: cannot be read: {problem}", hint="copy it again, or remove it"
        ) from problem
    metadata = dict(found.schema.metadata or {})
    if metadata.get(b"format") != FORMAT.encode():
        raise UnreadableError(
            f"{path}: does not say that it is of format {FORMAT}",
            hint="seal it with the version of ledger-audit that wrote it, or a newer one",
        )
    return Contents(canonical(found, segment), metadata, holes, is_headless=False)


def whole(path: Path) -> pa.Table:
    """
    Read a Parquet file and check all that is in it.

    Raises:
        OSError: it cannot be read; or an error of Arrow's, or ValueError.
    """
    with pq.ParquetFile(path) as file:
        rows = file.read()
    rows.validate(full=True)
    str(rows.schema)  # names may be no text
    return rows


def canonical(rows: pa.Table, segment: store.Segment) -> pa.Table:
    """
    Give rows with the types of a table on disk; columns that are none of ours come after them.

    Raises:
        UnreadableError: a column is missing, there twice, or holds what does not fit.
    """
    names = rows.column_names
    where = segment.path
    for name in names:
        if names.count(name) > 1:
            raise UnreadableError(f"{where}: has two columns {name!r}", hint="rename one of them")
    for name in REQUIRED[segment.table]:
        if name not in names and name != "attempt":
            raise UnreadableError(
                f"{where}: the required column {name!r} is missing",
                hint="docs/ledger-format.md describes the tables",
            )
    columns: dict[str, Any] = {}
    for field in arrow_schema(segment.table):
        if field.name in names:
            columns[field.name] = _cast(rows[field.name], field, where)
        elif field.name == "attempt":
            columns["attempt"] = pa.repeat(pa.scalar(segment.attempt), rows.num_rows)
    columns |= {name: rows[name] for name in names if name not in columns}
    return pa.table(columns)


def _cast(column: pa.ChunkedArray, field: pa.Field, where: Path) -> pa.ChunkedArray:
    """Give a column with the type that it has on disk; an id keeps its own."""
    found = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = (
        pa.types.is_string(found) or pa.types.is_large_string(found) or found == pa.string_view()
    )
    wanted = field.type
    if field.name == SAMPLE_ID:
        wanted = pa.string() if is_text else found if pa.types.is_null(found) else pa.int64()
    fits = is_text if pa.types.is_string(wanted) else pa.types.is_integer(found)
    if field.name == "attempt":
        fits = is_text or pa.types.is_integer(found)
    try:
        if not fits and not pa.types.is_null(found):
            raise pa.ArrowInvalid(f"it holds {found}")
        return column if column.type == wanted else column.cast(wanted)
    except pa.ArrowException as problem:
        raise UnreadableError(
            f"{where}: the column {field.name!r} does not fit {wanted}: {problem}",
            hint="docs/ledger-format.md names the type of each column",
        ) from problem


def _key(table: Table, contents: Contents) -> Key:
    known = set(arrow_schema(table).names)
    schema = contents.rows.schema
    return Key(
        run=contents.metadata.get(b"run_id"),
        ids=str(schema.field(SAMPLE_ID).type) if table == "samples" else "",
        extras=tuple(
            sorted((field.name, str(field.type)) for field in schema if field.name not in known)
        ),
    )


def spans_of(rows: pa.Table) -> dict[int, tuple[int, int]]:
    """Give the first and the last `seq` of each rank; rows without either are passed over."""
    known = rows.select(["rank", "seq"]).drop_null()
    if not known.num_rows:
        return {}
    ranks, seqs = (known[name].to_numpy() for name in ("rank", "seq"))
    order = np.lexsort((seqs, ranks))
    ranks, seqs = ranks[order], seqs[order]
    starts = np.flatnonzero(np.diff(ranks, prepend=ranks[0] - 1))
    ends = np.append(starts[1:], len(ranks)) - 1
    return {
        int(ranks[start]): (int(seqs[start]), int(seqs[end]))
        for start, end in zip(starts, ends, strict=True)
    }


def replaced_by(metadata: Mapping[bytes, bytes], path: Path) -> frozenset[str]:
    """
    Give the names that a file says it stands for.

    Raises:
        UnreadableError: what it says is no list of names.
    """
    try:
        return store.replaced_names(metadata)
    except (ValueError, TypeError, RecursionError) as problem:
        raise UnreadableError(
            f"{path}: 'replaces' in the file's metadata is not a JSON list of file names",
            hint="write the file again with the tool that merged it",
        ) from problem


def told_by_file(metadata: Mapping[bytes, bytes], key: bytes) -> dict[str, Any]:
    """Give what a merged file says of each file that it stands for; nothing, if it says none."""
    try:
        told = json.loads(metadata.get(key, b"{}"))
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
