"""
Tells what the footers of sealed files say, of each attempt from one file as far as that fits.

That file, the index, is an aid and no part of the ledger. What does not fit a file by its name,
size and time is read from the file, and an index that is damaged or another version's is none.
"""

import os
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import groupby, islice
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger import foreign, remote, store
from ledger_audit.ledger.address import Address
from ledger_audit.ledger.message import frame, messages
from ledger_audit.ledger.parts import KINDS, TOLD, arrow_of, places_of, told_by
from ledger_audit.ledger.schema import FORMAT

FEWEST = 64
"""Sealed files of an attempt that an index is worth its while for, and misfits to write it anew."""

_NEW = 2 * 10**9
"""Nanoseconds in which a file may change twice, and have one time and size all the same."""

_TAIL = 1 << 16
"""Bytes at a file's end that are read at once: most footers are shorter."""

_LEAST = 1 << 16
"""Bytes that every index may have; more only with the files: it repeats a part of their footers."""

_AT_ONCE = 1 << 13
"""Footers that are in memory as Python's objects at once."""

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

_VERSION = blake2b(
    f"1 {FORMAT} {list(KINDS.items())} {LAYOUT}".encode(), digest_size=16
).hexdigest()
"""An index of another version, or of other columns, is none."""

Stamps = NDArray[np.int64]
"""Size and time of each file; a size below 0: it is not known."""


def footers(sealed: Sequence[store.Segment]) -> pa.Table:
    """
    Tell what the footers of sealed segments say; of each attempt, its index where that fits.

    An index that lacks many of the files of its folder is written anew, if that can be done.

    Args:
        sealed: in the order of a listing: those of one folder together.

    Returns:
        The columns of LAYOUT, a row for each segment.

    Raises:
        UnreadableError: a footer cannot be read, or is not of our format.
    """
    tables = [
        _of_folder(folder, list(own))
        for folder, own in groupby(sealed, key=lambda segment: segment.folder)
    ]
    return pa.concat_tables([LAYOUT.empty_table(), *tables])


def refresh(folder: Path) -> None:
    """
    Make the index of an attempt fit, or remove it where there are few files.

    It is left alone where a footer cannot be read, or the folder cannot be written to.
    """
    with suppress(UnreadableError, OSError):
        sealed = [one for one in store.in_attempt(folder) if one.is_sealed]
        if len(sealed) >= FEWEST:
            _of_folder(str(folder), sealed, is_sealing=True)
        else:
            (folder / store.INDEX).unlink(missing_ok=True)


def dropped_of(path: Path) -> str | None:
    """Read what a file with samples says of records that were not kept; null: nothing."""
    if not path.name.startswith("samples-"):
        return None
    try:
        if path.suffix == ".parquet":
            return text_of(pq.read_metadata(path).metadata, b"dropped")
        with pa.OSFile(str(path)) as file:
            return text_of(pa.ipc.open_stream(file).schema.metadata, b"dropped")
    except (pa.ArrowException, OSError, ValueError):
        return None  # torn in its schema: that it may have held anything is known


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


def _of_folder(
    folder: str, sealed: Sequence[store.Segment], *, is_sealing: bool = False
) -> pa.Table:
    """Tell what the footers of one folder's segments say, and keep it where much was read."""
    if sealed and sealed[0].size is not None:
        # an object's time is that of its upload: no index fits it, and none is written there
        return _read_footers(sealed, np.array([(one.size, -1) for one in sealed]))
    is_few = len(sealed) < FEWEST and not os.path.lexists(f"{folder}/{store.INDEX}")
    names = [segment.name for segment in sealed]
    stamps = np.full((len(sealed), 2), -1) if is_few else _stamps(folder, names)
    kept = None if is_few else _read_index(folder, _LEAST + 4 * int(stamps[:, 0].sum()))
    places = np.full(len(sealed), -1) if kept is None else _fitting(kept, names, stamps)
    misfits = np.flatnonzero(places < 0)
    if kept is not None and not len(misfits) and len(sealed) == len(kept):
        return kept.take(places) if (np.diff(places) != 1).any() else kept
    read = _read_footers([sealed[place] for place in misfits.tolist()], stamps[misfits])
    order = places.copy()
    order[misfits] = np.arange(len(misfits))
    found = read
    if kept is not None:
        order[misfits] += len(kept)
        found = pa.concat_tables([kept, read]).take(order)
    others = 0 if kept is None else len(kept) - (len(sealed) - len(misfits))
    most = 0 if is_sealing else max(FEWEST - 1, len(sealed) >> 8)
    if not is_few and len(misfits) + others > most:
        with suppress(OSError, pa.ArrowException):
            _write(folder, found, time.time_ns() - (0 if is_sealing else _NEW))
    return found


def _stamps(folder: str, names: Sequence[str]) -> Stamps:
    found = []
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            try:
                told = os.stat(name, dir_fd=handle)
                found.append((told.st_size, told.st_mtime_ns))
            except FileNotFoundError:  # reading it says so
                found.append((-1, -1))
    finally:
        os.close(handle)
    return np.array(found, np.int64).reshape(-1, 2)


def _fitting(kept: pa.Table, names: Sequence[str], stamps: Stamps) -> NDArray[np.int64]:
    """Find the place in the index of each file that it fits; negative: there is none."""
    wanted = pa.array(names, _TEXT)
    if wanted.equals(kept["name"].chunk(0)):
        places = np.arange(len(names))
    else:
        found = pc.index_in(wanted, value_set=kept["name"].chunk(0))
        places = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    known = np.column_stack([kept[name].to_numpy() for name in ("size", "mtime_ns")])
    fits = (places >= 0) & (stamps[:, 0] >= 0) & (known[places] == stamps).all(axis=1)
    return np.where(fits, places, -1)


def _read_index(folder: str, most: int) -> pa.Table | None:
    """Read the index of a folder; null: there is none that is sound and has `most` bytes."""
    try:
        handle = os.open(
            f"{folder}/{store.INDEX}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        )
        with open(handle, "rb", buffering=0) as file:
            told = os.fstat(handle)
            if not stat.S_ISREG(told.st_mode) or told.st_size > most:
                return None
            data = pa.py_buffer(file.readall())
    except OSError:
        return None
    try:
        found = list(islice(messages(data, is_checked=True), 3))
        if len(found) != 2 or None in [one.message for one in found]:
            return None
        schema = pa.ipc.read_schema(found[0].message)
        if (
            not schema.equals(LAYOUT)
            or (schema.metadata or {}).get(b"version") != _VERSION.encode()
        ):
            return None
        batch = pa.ipc.read_record_batch(found[1].message, schema)
        batch.validate(full=True)
        return pa.Table.from_batches([batch]) if _is_sound(batch) else None
    except (pa.ArrowException, OSError, ValueError, TypeError):
        return None


def _is_sound(batch: pa.RecordBatch) -> bool:
    """Tell whether all is there that footers always tell."""
    groups = batch["groups"]
    rows = groups.flatten().field("rows")
    needed = [batch["name"], batch["size"], batch["mtime_ns"], groups, rows, groups.flatten()]
    return len(batch) > 0 and not any(one.null_count for one in needed)


def _write(folder: str, told: pa.Table, until: int) -> None:
    """
    Put an index in place, whole or not at all; of several at once, the last one stays.

    It is not synced: what a power cut leaves of it is read as none.

    Args:
        folder: of the attempt.
        told: of its sealed files.
        until: the time of the newest that are to be in it.
    """
    is_old = (told["mtime_ns"].to_numpy() <= until) & (told["size"].to_numpy() >= 0)
    kept = told if is_old.all() else told.filter(pa.array(is_old))
    if not kept.num_rows:
        return
    schema = LAYOUT.with_metadata({"version": _VERSION})
    (batch,) = kept.cast(schema).combine_chunks().to_batches()
    part = f"{folder}/{store.INDEX}.{token_hex(4)}.part"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with open(handle, "wb") as file:
            file.write(frame(schema.serialize()))
            file.write(frame(batch.serialize()))
        os.rename(part, f"{folder}/{store.INDEX}")
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def _read_footers(sealed: Sequence[store.Segment], stamps: Stamps) -> pa.Table:
    """Read the footers of sealed segments."""
    columns: dict[int | None, Mapping[str, int | None]] = {}
    tables = [LAYOUT.empty_table()]
    for start in range(0, len(sealed), _AT_ONCE):
        some = sealed[start : start + _AT_ONCE]
        is_far = all(one.size is not None for one in some)
        read = remote.several(lambda one: _metadata_of(one.path, one.size), some, is_far=is_far)
        told = [_told(*one, columns) for one in zip(some, read, strict=True)]
        *values, groups = zip(*told, strict=True)
        ends = np.cumsum([0, *map(len, groups)], dtype=np.int32)
        flat = arrow_of([group for own in groups for group in own])
        size, mtime_ns = stamps[start : start + _AT_ONCE].T
        arrays = [values[0], size, mtime_ns, *values[1:]]
        tables.append(
            pa.table(
                [pa.array(one, field.type) for one, field in zip(arrays, LAYOUT, strict=False)]
                + [
                    pa.ListArray.from_arrays(pa.array(ends), flat, type=LAYOUT.field("groups").type)
                ],
                schema=LAYOUT,
            )
        )
    return pa.concat_tables(tables)


def _told(
    segment: store.Segment,
    footer: pq.FileMetaData,
    known: dict[int | None, Mapping[str, int | None]],
) -> tuple[Any, ...]:
    """Give the row of one segment, but for its size and time."""
    path = segment.path
    metadata = footer.metadata
    check_format(path, metadata)
    replaced_names(path, metadata)
    columns: int | None = None
    places: Mapping[str, int | None] = {}
    with suppress(pa.ArrowException, OSError):
        schema = footer.schema.to_arrow_schema()
        columns = _number_of(footer.schema, schema)
        if columns not in known:
            known[columns] = places_of(footer, schema)
        places = known[columns]
    said = [text_of(metadata, key) for key in (b"run_id", b"replaces", b"dropped")]
    return segment.name, columns, *said, told_by(footer, places)


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


def _metadata_of(path: Path, size: int | None = None) -> pq.FileMetaData:
    """Read the footer of a sealed segment, and nothing else of it but its first four bytes."""
    try:
        if isinstance(path, Address):
            return pq.read_metadata(pa.BufferReader(_tail_of(path, size)))
        with path.open("rb", buffering=0) as file:
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
            foreign.check_parquet(path)  # says what is wrong
        return pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowException, OSError) as problem:
        raise UnreadableError(
            f"{path}: its Parquet footer cannot be read: {problem}",
            hint="copy it again; if its writer died, remove the file: its rows are lost",
        ) from problem


def replaced_names(path: Path, metadata: Mapping[bytes, bytes] | None) -> frozenset[str]:
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


def check_format(path: Path, metadata: Mapping[bytes, bytes] | None) -> None:
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
