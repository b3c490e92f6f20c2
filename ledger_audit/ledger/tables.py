"""The two tables on disk as polars schemas."""

from collections.abc import Mapping

import polars as pl

from ledger_audit.ledger.schema import DIGEST_COLUMNS, EVENTS, SAMPLES, Column

_TYPES: Mapping[str, pl.DataType] = {
    "int32": pl.Int32(),
    "int64": pl.Int64(),
    "string": pl.String(),
}


def dtype_of(column: Column, id_type: pl.DataType) -> pl.DataType:
    """Give the polars type of a column; `sample_id` has `id_type`."""
    return id_type if column.type is None else _TYPES[column.type]


def samples_schema(id_type: pl.DataType) -> dict[str, pl.DataType]:
    """Give the polars schema of the `samples` table for ids of one type, in column order."""
    return {column.name: dtype_of(column, id_type) for column in SAMPLES}


def events_schema() -> dict[str, pl.DataType]:
    """Give the polars schema of the `events` table, in column order."""
    return {column.name: dtype_of(column, pl.String()) for column in EVENTS}


def hash_frame(records: pl.DataFrame) -> pl.Series:
    """Give the hash of each record, of which a commit tells the sum."""
    from ledger_audit.ledger.digest import hash_records  # noqa: PLC0415  # loads numpy

    return pl.Series(
        hash_records([records[name].rechunk().to_arrow() for name in DIGEST_COLUMNS]),
        dtype=pl.UInt64,
    )
