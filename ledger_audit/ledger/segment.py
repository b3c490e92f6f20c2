"""
Writes the files of a ledger: open segments batch by batch, sealed ones whole or not at all.

A batch of an open segment is one message with a checksum, handed to the kernel in one write, so
that a killed process loses nothing that it had appended. Nothing here needs polars: a trainer can
afford it.
"""

import fcntl
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from ledger_audit.ledger.message import frame
from ledger_audit.ledger.schema import EVENTS, FORMAT, SAMPLES

Table = Literal["samples", "events"]

ROW_GROUP = 1 << 17
"""Records of a row group: small enough that a window reads little more than itself."""

_LOOKS = 50
"""Times that a lock is asked for: who looks whether a file is locked holds it for a moment."""

_TYPES = {"int32": pa.int32(), "int64": pa.int64(), "string": pa.string()}


def arrow_schema(table: Table, *, text_ids: bool = False) -> pa.Schema:
    """Give the columns of a table on disk, in their order."""
    id_type = pa.string() if text_ids else pa.int64()
    columns = SAMPLES if table == "samples" else EVENTS
    return pa.schema(
        [
            pa.field(
                column.name,
                id_type if column.type is None else _TYPES[column.type],
                nullable=column.null is not None,
            )
            for column in columns
        ]
    )


def metadata_of(writer: str, *, run_id: str, host: str) -> dict[str, str]:
    """Give what the metadata of every file of a writer must say."""
    return {"format": FORMAT, "run_id": run_id, "writer": writer, "host": host}


def attempt_folder(root: Path, attempt: str) -> Path:
    """Name the folder of an attempt; its label is escaped, so that it cannot lead elsewhere."""
    return root / f"attempt={quote(attempt, safe=' ')}"


def segment_name(table: Table, writer: str, number: int) -> str:
    """Name a segment, without its suffix."""
    return f"{table}-{writer}-{number:06d}"


class OpenSegment:
    """
    An Arrow IPC stream that grows by whole messages, each with a checksum.

    Its file is locked while it is open, where storage has locks: so others see that its writer is
    alive, however long it is silent.

    Args:
        path: the file to make, with the suffix `.arrows`; it must not exist.
        schema: of every batch.
        metadata: of the file.

    Raises:
        OSError: it cannot be made; nothing is left of it.
    """

    def __init__(self, path: Path, schema: pa.Schema, metadata: Mapping[str, str]) -> None:
        self.path = path
        self.schema = schema
        self.size = 0
        """Bytes that are written whole."""
        self.is_torn = False
        """Half a message is at its end, and could not be cut off: nothing may follow it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o644)
        try:
            _lock(self._file)  # before anything is in it: what holds a schema and is free is dead
            self._write(frame(schema.with_metadata(dict(metadata)).serialize()))
        except BaseException:
            self.close()
            path.unlink(missing_ok=True)
            raise

    @property
    def is_gone(self) -> bool:
        """Nobody can find the file any more: it was removed or moved, or its folder was."""
        own = os.fstat(self._file)
        try:
            found = self.path.stat()
        except OSError:
            return True
        return (own.st_dev, own.st_ino) != (found.st_dev, found.st_ino)

    def append(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append one batch; columns that are left out are null."""
        length = len(next(iter(columns.values())))
        self.append_batch(
            pa.record_batch(
                [
                    pa.nulls(length, field.type)
                    if field.name not in columns
                    else pa.array(columns[field.name], field.type)
                    for field in self.schema
                ],
                schema=self.schema,
            )
        )

    def append_batch(self, batch: pa.RecordBatch) -> None:
        """
        Append one batch in one write.

        Raises:
            OSError: it could not be written; the file is as it was.
        """
        self._write(frame(batch.serialize()))

    def duplicate(self) -> int:
        """Give another handle of the file, to be synced while others append."""
        return os.dup(self._file)

    def close(self) -> None:
        """Close the file; what was appended stays readable either way."""
        os.close(self._file)

    def _write(self, message: bytes) -> None:
        left = memoryview(message)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except BaseException:  # half a message must not stand before whole ones
            try:
                os.ftruncate(self._file, self.size)
            except OSError:
                self.is_torn = True
            raise
        self.size += len(message)


def _lock(file: int) -> None:
    """Lock a file for as long as it is open; storage without locks has none."""
    for _ in range(_LOOKS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.001)  # somebody only looks whether it is locked
        except OSError:
            return
        else:
            return


def encodings(schema: pa.Schema) -> dict[str, Any]:
    """
    Choose how the columns of a sealed file are encoded, as options of Arrow's Parquet writer.

    Text by dictionary. Integers by their differences: shuffled ids take the bits that they have,
    counts next to nothing, and every reader of Parquet knows it.
    """
    text = [field.name for field in schema if not pa.types.is_integer(field.type)]
    numbers = [field.name for field in schema if field.type in (pa.int32(), pa.int64())]
    return {
        "use_dictionary": text,
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        "compression": "zstd",
    }


def write_sealed(table: pa.Table, path: Path, metadata: Mapping[str, str]) -> None:
    """
    Write a sealed segment: Parquet with statistics and dictionaries, whole or not at all.

    Args:
        table: rows with the columns of a table on disk; sorted, so that statistics tell.
        path: the file, with the suffix `.parquet`; it must not exist.
        metadata: of the file.

    Raises:
        FileExistsError: there is such a file.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        pq.write_table(
            table.replace_schema_metadata(dict(metadata)),
            part,
            row_group_size=ROW_GROUP,
            **encodings(table.schema),
        )
        os.link(part, path)  # unlike a rename, it never replaces a file
    finally:
        part.unlink(missing_ok=True)
