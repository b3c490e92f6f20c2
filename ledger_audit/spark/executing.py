"""What executors do: read some files with the reader of one process, and hand columns to Spark."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from ledger_audit import __version__
from ledger_audit.errors import LedgerAuditError, UsageError, VanishedError
from ledger_audit.ledger.parts import Scan
from ledger_audit.ledger.queries import batches

MARK = "LEDGER-AUDIT:"
"""Begins what an executor says of an error that is ours, in one line of JSON."""
VERSIONS = {"ledger-audit": __version__, "polars": pl.__version__}
"""What must be the same everywhere, so that every executor reads alike."""

_SHARED = "every executor must reach the files under the path that the driver was given"
_AT_ONCE = 1 << 16
"""Rows that are handed over at once."""


class Share(NamedTuple):
    """Rows of one file."""

    part: int
    """The place of the part that the file belongs to."""
    file: str
    start: int
    rows: int


@dataclass(frozen=True)
class Reading:
    """What is read of sealed files, everywhere alike."""

    name: str
    """The ledger, for messages."""
    scans: Sequence[Scan]
    """Of the parts that the files belong to."""
    shares: Sequence[Sequence[Share]]
    """For each task what it reads."""
    where: Sequence[pl.Expr]
    columns: Sequence[pl.Expr]
    schema: pa.Schema
    """Of the columns, as Spark knows them."""
    lowest: int | None = None
    """Of the one column, each value once, and no more than so many of the lowest; null: all."""
    versions: Any = None
    """Of the driver."""

    def read(self, tasks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read what the tasks of given numbers are to read."""
        try:
            if self.versions != VERSIONS:
                raise UsageError(
                    f"an executor has {VERSIONS}, and the driver {self.versions}",
                    hint="install the same versions on every node",
                )
            for batch in tasks:
                for number in batch.column(0).to_pylist():
                    for share in self.shares[number]:
                        yield from self._read(share)
        except VanishedError as problem:
            raise _told("UnreadableError", problem.message, _SHARED) from None
        except LedgerAuditError as problem:
            raise _told(type(problem).__name__, problem.message, problem.hint) from None

    def _read(self, share: Share) -> Iterator[pa.RecordBatch]:
        rows = self.scans[share.part]([share.file]).slice(share.start, share.rows)
        found = rows.filter(*self.where).select(self.columns)
        if self.lowest is not None:
            name = self.schema.names[0]
            found = found.unique().bottom_k(self.lowest, by=name)
        for batch in batches(found, self.name):
            yield from handed(batch, self.schema)


@dataclass(frozen=True)
class Held:
    """Rows that the driver holds, for tasks to hand on."""

    batches: Sequence[bytes]
    """As messages of Arrow, one a task."""
    schema: pa.Schema

    def read(self, tasks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the rows of the tasks of given numbers."""
        for batch in tasks:
            for number in batch.column(0).to_pylist():
                if number < len(self.batches):
                    yield pa.ipc.read_record_batch(pa.py_buffer(self.batches[number]), self.schema)


def _told(kind: str, message: str, hint: str) -> RuntimeError:
    """Give an error that says in one line what the driver is to tell."""
    told = {"kind": kind, "message": message, "hint": hint}
    return RuntimeError(f"{MARK}{json.dumps(told, ensure_ascii=True)}")


def handed(rows: pl.DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give rows as Spark takes them."""
    for start in range(0, rows.height, _AT_ONCE):
        yield from rows.slice(start, _AT_ONCE).to_arrow().cast(schema).to_batches()


def arrow_schema(rows: pl.LazyFrame) -> pa.Schema:
    """Give the columns of rows as Spark knows them: text has short offsets there."""
    known: dict[pl.DataType, pa.DataType] = {
        pl.Int32(): pa.int32(),
        pl.Int64(): pa.int64(),
        pl.String(): pa.string(),
    }
    return pa.schema([(name, known[dtype]) for name, dtype in rows.collect_schema().items()])
