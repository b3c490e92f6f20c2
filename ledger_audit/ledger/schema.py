"""
The columns on disk, format 1: name, type, whether null is allowed, and what null means.

`docs/ledger-format.md` tells the same for people; a test compares the two.
"""

from dataclasses import dataclass

import polars as pl

FORMAT = "1"

USED = "used"
"""The stage of a record that entered a backward pass; a null stage means the same."""


@dataclass(frozen=True)
class Column:
    """One column of a table on disk."""

    name: str
    dtype: pl.DataType | None
    """None for `sample_id`: int64 or string, one type per ledger."""
    null: str | None
    """What null means; None where null is an error. A nullable column may be left out of a file."""
    unit: str = ""


SAMPLE_ID = "sample_id"

SAMPLES: tuple[Column, ...] = (
    Column("attempt", pl.String(), None),
    Column("rank", pl.Int32(), None),
    Column("step", pl.Int64(), "not used in a step (stage is not `used`)"),
    Column("slot", pl.Int32(), "not used in a step (stage is not `used`)"),
    Column("row", pl.Int32(), "the order of writing gives it"),
    Column(SAMPLE_ID, None, None),
    Column("token_start", pl.Int64(), "the whole sample", "tokens"),
    Column("token_end", pl.Int64(), "the whole sample", "tokens"),
    Column("source", pl.String(), "not logged"),
    Column("epoch", pl.Int32(), "not logged"),
    Column("position", pl.Int64(), "not logged", "sequences"),
    Column("stream", pl.String(), "training"),
    Column("worker", pl.Int32(), "not logged"),
    Column("stage", pl.String(), "used"),
    Column("seq", pl.Int64(), None),
)

EVENTS: tuple[Column, ...] = (
    Column("attempt", pl.String(), None),
    Column("rank", pl.Int32(), None),
    Column("seq", pl.Int64(), None),
    Column("time_ns", pl.Int64(), "not logged", "nanoseconds since 1970"),
    Column("kind", pl.String(), None),
    Column("step", pl.Int64(), "the event belongs to no step"),
    Column("data", pl.String(), "no data"),
)
"""`data` is a JSON object as text."""

EVENT_KINDS = (
    "start",
    "restore",
    "iterator",
    "commit",
    "void",
    "checkpoint",
    "membership",
    "declare",
    "lost",
    "recovered",
    "end",
)

FOREIGN_REQUIRED = ("rank", "step", "slot", SAMPLE_ID)
"""What a log that was not written by us must have."""


def samples_schema(id_type: pl.DataType) -> dict[str, pl.DataType]:
    """Give the polars schema of the `samples` table for ids of one type, in column order."""
    return {column.name: column.dtype or id_type for column in SAMPLES}


def events_schema() -> dict[str, pl.DataType]:
    """Give the polars schema of the `events` table, in column order."""
    return {column.name: column.dtype for column in EVENTS if column.dtype is not None}
