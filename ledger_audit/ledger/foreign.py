"""
Reads logs that our writer did not make: JSON Lines, CSV, TSV, plain Parquet and Arrow IPC.

Every reader of a table gives a frame with the file's own columns; `conform` turns it into the
`samples` table, and says which file and field it cannot read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.data_indices import rank_of, read_data_indices
from ledger_audit.ledger.delimited import check_names, read_delimited
from ledger_audit.ledger.json_lines import read_json_lines
from ledger_audit.ledger.numbering import Numbering
from ledger_audit.ledger.schema import FOREIGN_REQUIRED, SAMPLE_ID, SAMPLES, Column
from ledger_audit.ledger.store import kind_of
from ledger_audit.ledger.tables import dtype_of, events_schema, samples_schema

PARQUET_MAGIC = b"PAR1"
ARROW_FILE_MAGIC = b"ARROW1"
ARROW_MESSAGE = b"\xff\xff\xff\xff"
"""How every message of an Arrow IPC stream begins, the schema first."""


@dataclass(frozen=True)
class Log:
    """What one file of a foreign log holds."""

    samples: pl.DataFrame
    events: pl.DataFrame
    is_torn: bool
    """It ends in the middle; what is here comes before."""
    ends_with_step: bool = False
    """The last step that it holds is whole, torn or not."""


def read_log(
    path: Path, *, columns: Mapping[str, str], attempt: str | None, numbering: Numbering
) -> Log:
    """
    Read one file of a foreign log, whatever its format.

    Args:
        path: the file.
        columns: our column name → theirs.
        attempt: the label to give to everything in it; null: what the file says, or "0".
        numbering: counts what the files before it held, so that `seq` goes on.

    Raises:
        UnreadableError: the file is damaged, or a field is missing or of the wrong type.
    """
    events = pl.DataFrame(schema=events_schema())
    kind = kind_of(path)
    if kind == "jsonl":
        samples, events, is_torn = read_json_lines(
            path, columns=columns, attempt=attempt, numbering=numbering
        )
        return Log(samples, events, is_torn)
    rank = rank_of(path) if kind == "tsv" else None
    if rank is not None:
        samples, is_torn = read_data_indices(path, rank, attempt=attempt, numbering=numbering)
        return Log(numbering.numbered(samples, str(path)), events, is_torn, ends_with_step=True)
    frame, is_torn = read_table(path, columns)
    if is_torn and not frame.columns:  # cut before the names of its columns
        return Log(pl.DataFrame(schema=samples_schema(pl.Null())), events, is_torn=True)
    try:
        samples = conform(frame.lazy(), path, columns=columns, attempt=attempt).collect()
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise UnreadableError(
            f"{path}: cannot be read: {problem}",
            hint="check the file, and the types of its columns",
        ) from problem
    return Log(numbering.numbered(samples, str(path)), events, is_torn)


def check_parquet(path: Path) -> None:
    """
    Refuse a file that is not whole Parquet before any reader meets it.

    Raises:
        UnreadableError: the first or last four bytes are not Parquet's.
    """
    with path.open("rb") as file:
        head = file.read(4)
        file.seek(0, 2)
        size = file.tell()
        file.seek(max(0, size - 4))
        tail = file.read(4)
    if head != PARQUET_MAGIC:
        raise UnreadableError(
            f"{path}: is not Parquet, whatever its name says",
            hint="give the file the suffix of its real format",
        )
    if size < 12 or tail != PARQUET_MAGIC:
        raise UnreadableError(
            f"{path}: is cut short ({size} bytes, no Parquet footer at its end)",
            hint="copy it again; if its writer died, its rows are lost: remove it",
        )


def read_arrow(path: Path, content: bytes | None = None) -> tuple[pa.Table, bool]:
    """
    Read an Arrow IPC stream or file up to its last sound batch.

    Args:
        path: the file.
        content: what is in it; null: it is read.

    Returns:
        The rows, and whether the file is torn: it ends, or goes bad, after its last sound batch.
        A file that is cut before the end of its schema has no column.

    Raises:
        UnreadableError: not even the schema can be read, and the file is not empty.
    """
    if content is None and path.stat().st_size:
        data = pa.memory_map(str(path))
    else:
        data = pa.BufferReader(content or b"")
    if data.size() == 0:
        return pa.table({}), True
    try:
        if data.read_at(6, 0) == ARROW_FILE_MAGIC:
            table = pa.ipc.open_file(data).read_all()
            table.validate(full=True)
            return table, False
        reader = pa.ipc.open_stream(data)
    except (pa.ArrowException, OSError) as problem:
        if ARROW_MESSAGE.startswith(data.read_at(4, 0)):
            return pa.table({}), True
        raise UnreadableError(
            f"{path}: is not an Arrow IPC stream ({problem})",
            hint="give the file the suffix of its real format, or remove it",
        ) from problem
    batches: list[pa.RecordBatch] = []
    is_torn = False
    while True:
        try:
            batch = reader.read_next_batch()
            batch.validate(full=True)
            batches.append(batch)
        except StopIteration:
            break
        except (pa.ArrowException, OSError):
            is_torn = True
            break
    return pa.Table.from_batches(batches, schema=reader.schema), is_torn


def read_table(path: Path, columns: Mapping[str, str]) -> tuple[pl.DataFrame, bool]:
    """
    Read a tabular file with its own columns; those that no audit asks for are null.

    Returns:
        The rows, and whether the file is torn. A file that is torn before the end of its schema
        or header has no column.

    Raises:
        UnreadableError: the file cannot be read.
    """
    kind = kind_of(path)
    if kind in ("csv", "tsv"):
        separator = "," if kind == "csv" else "\t"
        return read_delimited(path, separator=separator, columns=columns)
    wanted = {columns.get(column.name, column.name) for column in SAMPLES}
    try:
        if kind == "parquet":
            check_parquet(path)
            file = pq.ParquetFile(path)  # unlike the engine's own reader, it survives damage
            names, is_torn = file.schema_arrow.names, False
            table = file.read([name for name in names if name in wanted])
            table.validate(full=True)
        else:
            whole, is_torn = read_arrow(path)
            names = whole.column_names
            table = whole.select([nth for nth, name in enumerate(names) if name in wanted])
        check_names(names, path)
        frame = pl.from_arrow(table.replace_schema_metadata(None))  # it need not be text
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError) as problem:
        raise UnreadableError(
            f"{path}: cannot be read: {problem}", hint="copy it again, or check its permissions"
        ) from problem
    assert isinstance(frame, pl.DataFrame)
    others = [pl.lit(None).alias(name) for name in names if name not in wanted]
    return frame.with_columns(others), is_torn


def conform(
    frame: pl.LazyFrame,
    path: Path,
    *,
    columns: Mapping[str, str],
    attempt: str | None = None,
    required: tuple[str, ...] = FOREIGN_REQUIRED,
) -> pl.LazyFrame:
    """
    Turn a file's own columns into the `samples` table.

    Args:
        frame: rows with the file's own columns.
        path: the file, for messages.
        columns: our name → theirs.
        attempt: the label to give to every row; None takes the column `attempt`, or "0".
        required: columns that must be there.

    Returns:
        SAMPLES columns in order. A column that the file does not have is null.

    Raises:
        UnreadableError: a column is missing or of the wrong type.
    """
    try:
        schema = frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise UnreadableError(
            f"{path}: cannot be read: {problem}", hint="copy it again"
        ) from problem
    for ours, theirs in columns.items():
        if theirs not in schema:
            raise UnreadableError(
                f"{path}: has no column {theirs!r}, asked for by --column {ours}={theirs}",
                hint=f"it has {_listed(schema)}",
            )
    missing = [name for name in required if columns.get(name, name) not in schema]
    if missing:
        raise UnreadableError(
            f"{path}: the required column {missing[0]!r} is missing",
            hint=f"it has {_listed(schema)}; rename one with --column {missing[0]}=THEIRS",
        )
    chosen = []
    for column in SAMPLES:
        theirs = columns.get(column.name, column.name)
        if column.name == "attempt":
            chosen.append(_attempt(theirs, schema, attempt))
        elif theirs not in schema:
            chosen.append(pl.lit(None, dtype_of(column, pl.Null())).alias(column.name))
        else:
            chosen.append(_cast(column, theirs, schema[theirs], path))
    return frame.select(chosen)


def _attempt(theirs: str, schema: Mapping[str, pl.DataType], attempt: str | None) -> pl.Expr:
    if attempt is None and theirs in schema:
        return pl.col(theirs).cast(pl.String).fill_null("0").alias("attempt")
    return pl.lit(attempt or "0", pl.String).alias("attempt")


def _listed(names: Iterable[str]) -> str:
    """Name some columns; a file may have very many."""
    some = list(names)
    told = ", ".join(name[:60] for name in some[:20]) or "no column"
    return told if len(some) <= 20 else f"{told} and {len(some) - 20:,} more"


def _cast(column: Column, theirs: str, found: pl.DataType, path: Path) -> pl.Expr:
    name = column.name
    is_text = found in (pl.String, pl.Categorical, pl.Enum)
    dtype = dtype_of(column, pl.String() if is_text else pl.Int64())  # ids keep their own type
    if found == pl.Null or (is_text if dtype == pl.String else found.is_integer()):
        return pl.col(theirs).cast(dtype).alias(name)
    wanted = "text" if dtype == pl.String else "integers"
    if name == SAMPLE_ID:
        wanted = "integers or text"
    raise UnreadableError(
        f"{path}: the column {theirs!r} ({name}) holds {found}, not {wanted}",
        hint=f"write it as {wanted}, or name another column with --column {name}=THEIRS",
    )
