"""
Reads the footers of sealed files, of very many by several processes.

A footer says what its file holds: rows, columns and their bounds, row group by row group.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger import crew, foreign, remote, store
from ledger_audit.ledger.address import Address
from ledger_audit.ledger.parts import TOLD, arrow_of, places_of, told_by
from ledger_audit.ledger.schema import FORMAT

_TAIL = 1 << 16
"""Bytes at a file's end that are read at once: most footers are shorter."""

_AT_ONCE = 1 << 13
"""Footers that are in memory as Python's objects at once."""

MANY = 1 << 14
"""Files from which on several processes read: to start them takes half a second."""

_TEXT = pa.large_string()

LAYOUT = pa.schema(
    [
        ("name", _TEXT),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("columns", pa.int64()),  # the same number: the same columns; null: they cannot be read
        ("run_id", _TEXT),
        ("replaces", _TEXT),
        ("dropped", _TEXT),
        ("groups", pa.list_(TOLD)),
    ]
)
"""What is told of each file; of its metadata, as it stands there."""

Stamps = NDArray[np.int64]
"""Size and time of each file; a size below 0: it is not known."""


def read_footers(sealed: Sequence[store.Segment], stamps: Stamps) -> pa.Table:
    """
    Read the footers of sealed segments.

    Args:
        sealed: the segments.
        stamps: the size and time of each.

    Returns:
        The columns of LAYOUT, a row for each segment.

    Raises:
        UnreadableError: a footer cannot be read, or is not of our format.
    """
    is_near = all(one.size is None for one in sealed)
    chunks = [sealed[start : start + _AT_ONCE] for start in range(0, len(sealed), _AT_ONCE)]
    if is_near and len(sealed) >= MANY:
        files = [[str(one.file) for one in own] for own in chunks]
        told = crew.shared_out(files, told_of_files)
    else:
        told = (_told_of(own, {}, is_far=not is_near) for own in chunks)
    found = pa.concat_tables([_TOLD_OF.empty_table(), *told])
    for place, values in enumerate(stamps.T, 1):
        found = found.add_column(place, LAYOUT.field(place), pa.array(values, pa.int64()))
    return found


def check_columns(path: Path) -> None:
    """
    Refuse a sealed file whose columns cannot be read.

    Raises:
        UnreadableError: they cannot.
    """
    try:
        _metadata_of(path).schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as problem:
        raise UnreadableError(
            f"{path}: its columns cannot be read: {problem}",
            hint="copy it again; if its writer died, remove the file: its rows are lost",
        ) from problem


_TOLD_OF = pa.schema([LAYOUT.field(place) for place in (0, *range(3, len(LAYOUT)))])
"""What is told of a file by its footer: LAYOUT without its size and time."""

Known = dict[object, tuple[int | None, Mapping[str, int | None]]]
"""What footers say of their columns → the number of these columns, and where those of use are."""


def told_of_files(files: Sequence[str]) -> pa.Table:
    """Read what the footers of some files on this machine tell."""
    segments = [store.Segment(file, "", "samples", "", 0) for file in files]
    return _told_of(segments, {}, is_far=False)


def _told_of(sealed: Sequence[store.Segment], known: Known, *, is_far: bool) -> pa.Table:
    """Read what the footers of some segments tell."""
    read = remote.several(_footer_of, sealed, is_far=is_far)
    rows = [_told(*one, known) for one in zip(sealed, read, strict=True)]
    *values, groups = zip(*rows, strict=True)
    ends = pa.array(np.cumsum([0, *map(len, groups)], dtype=np.int32))
    flat = arrow_of([group for own in groups for group in own])
    type_of_groups = LAYOUT.field("groups").type
    return pa.table(
        [pa.array(one, field.type) for one, field in zip(values, _TOLD_OF, strict=False)]
        + [pa.ListArray.from_arrays(ends, flat, type=type_of_groups)],
        schema=_TOLD_OF,
    )


def _told(segment: store.Segment, footer: pq.FileMetaData, known: Known) -> tuple[Any, ...]:
    """Give the row of one segment."""
    metadata = footer.metadata
    check_format(segment.file, metadata)
    replaced_names(segment.file, metadata)
    # equal texts promise equal columns: to make and compare these would take longer
    said = str(footer.schema).partition("\n")[2], (metadata or {}).get(b"ARROW:schema")
    if said not in known:
        known[said] = _columns_of(footer)
    columns, places = known[said]
    texts = [text_of(metadata, key) for key in (b"run_id", b"replaces", b"dropped")]
    return segment.name, columns, *texts, told_by(footer, places)


def _columns_of(footer: pq.FileMetaData) -> tuple[int | None, Mapping[str, int | None]]:
    with suppress(pa.ArrowException, OSError):
        schema = footer.schema.to_arrow_schema()
        return _number_of(footer.schema, schema), places_of(footer, schema)
    return None, {}


def _number_of(parquet: pq.ParquetSchema, schema: pa.Schema) -> int:
    """Give equal columns one number; what stands before the first line break is an address."""
    text = str(parquet).partition("\n")[2] + schema.to_string(
        truncate_metadata=False, show_field_metadata=False, show_schema_metadata=False
    )
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def text_of(metadata: Mapping[bytes, bytes] | None, key: bytes) -> str | None:
    """Read what a file says under a key; null: nothing."""
    found = (metadata or {}).get(key)
    return None if found is None else found.decode("utf-8", "replace")


def _tail_of(address: Address, size: int | None) -> bytes:
    """Fetch the footer of a sealed segment."""
    tail = remote.fetch(address, size, last=_TAIL)
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if length > len(tail) >= _TAIL:
        tail = remote.fetch(address, size, last=length)
    if len(tail) < 12 or tail[-4:] != foreign.PARQUET_MAGIC:
        raise pa.ArrowInvalid(f"it does not end as Parquet does ({size} bytes)")
    return tail


def _footer_of(segment: store.Segment) -> pq.FileMetaData:
    """Read the footer of a sealed segment."""
    # to make a path of each text would take longer than to read the file
    return _metadata_of(segment.file if segment.size is None else segment.path, segment.size)


def _metadata_of(path: Path | str, size: int | None = None) -> pq.FileMetaData:
    """Read the footer of a sealed file, and nothing else of it but its first four bytes."""
    try:
        if isinstance(path, Address):
            return pq.read_metadata(pa.BufferReader(_tail_of(path, size)))
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            head = b"" if size <= _TAIL else file.read(4)
            file.seek(max(0, size - _TAIL))
            tail = file.read()
            head = head or tail[:4]
            length = int.from_bytes(tail[-8:-4], "little") + 8
            if len(tail) < length <= size:
                file.seek(size - length)
                tail = file.read()
        if head != foreign.PARQUET_MAGIC or tail[-4:] != foreign.PARQUET_MAGIC or size < 12:
            foreign.check_parquet(Path(path))  # says what is wrong
        return pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowException, OSError) as problem:
        raise UnreadableError(
            f"{path}: its Parquet footer cannot be read: {problem}",
            hint="copy it again; if its writer died, remove the file: its rows are lost",
        ) from problem


def replaced_names(path: Path | str, metadata: Mapping[bytes, bytes] | None) -> frozenset[str]:
    """
    Read which segments a sealed file stands for.

    Raises:
        UnreadableError: what it says is no list of names.
    """
    try:
        return store.replaced_names(metadata)
    except (ValueError, TypeError) as problem:
        raise UnreadableError(
            f"{path}: 'replaces' in the file's metadata is not a JSON list of file names",
            hint="write the file again with the tool that merged it",
        ) from problem


def check_format(path: Path | str, metadata: Mapping[bytes, bytes] | None) -> None:
    """
    Refuse a file that is not of our format.

    Raises:
        UnreadableError: it says another one, or none.
    """
    found = (metadata or {}).get(b"format")
    if found is None or found.decode("utf-8", "replace") != FORMAT:
        said = "no format" if found is None else f"format {found.decode('utf-8', 'replace')!r}"
        raise UnreadableError(
            f"{path}: the file's metadata says {said}; this version reads format {FORMAT!r}",
            hint="read it with the version of ledger-audit that wrote it, or a newer one",
        )
