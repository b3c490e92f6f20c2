"""
Tells what the footers of sealed files say, of each attempt from one file as far as that fits.

That file, the index, is an aid and no part of the ledger. What does not fit a file by its name,
size and time is read from the file, and an index that is damaged or another version's is none.
"""

import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import groupby, islice
from pathlib import Path
from secrets import token_hex

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger import store
from ledger_audit.ledger.footers import LAYOUT, Stamps, read_footers, text_of
from ledger_audit.ledger.message import frame, messages
from ledger_audit.ledger.parts import KINDS
from ledger_audit.ledger.schema import FORMAT

FEWEST = 64
"""Sealed files of an attempt that an index is worth its while for, and misfits to write it anew."""

_NEW = 2 * 10**9
"""Nanoseconds in which a file may change twice, and have one time and size all the same."""

_LEAST = 1 << 16
"""Bytes that every index may have; more only with the files: it repeats a part of their footers."""

_VERSION = blake2b(
    f"1 {FORMAT} {list(KINDS.items())} {LAYOUT}".encode(), digest_size=16
).hexdigest()
"""An index of another version, or of other columns, is none."""


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


def _of_folder(
    folder: str, sealed: Sequence[store.Segment], *, is_sealing: bool = False
) -> pa.Table:
    """Tell what the footers of one folder's segments say, and keep it where much was read."""
    if sealed and sealed[0].size is not None:
        # an object's time is that of its upload: no index fits it, and none is written there
        return read_footers(sealed, np.array([(one.size, -1) for one in sealed]))
    is_few = len(sealed) < FEWEST and not os.path.lexists(f"{folder}/{store.INDEX}")
    names = [segment.name for segment in sealed]
    stamps = np.full((len(sealed), 2), -1) if is_few else _stamps(folder, names)
    kept = None if is_few else _read_index(folder, _LEAST + 4 * int(stamps[:, 0].sum()))
    places = np.full(len(sealed), -1) if kept is None else _fitting(kept, names, stamps)
    misfits = np.flatnonzero(places < 0)
    if kept is not None and not len(misfits) and len(sealed) == len(kept):
        return kept.take(places) if (np.diff(places) != 1).any() else kept
    read = read_footers([sealed[place] for place in misfits.tolist()], stamps[misfits])
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
    wanted = pa.array(names, pa.large_string())
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
