"""
Reads logs that our writer did not make: JSON Lines, CSV, plain Parquet and Arrow IPC.

Every reader gives a frame with the file's own columns; `conform` turns it into the `samples`
table, and says which file and field it cannot read.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.schema import (
    EVENT_KINDS,
    EVENTS,
    FOREIGN_REQUIRED,
    SAMPLE_ID,
    SAMPLES,
    Column,
)
from ledger_audit.ledger.store import kind_of
from ledger_audit.ledger.tables import dtype_of, events_schema, samples_schema

PARQUET_MAGIC = b"PAR1"
ARROW_FILE_MAGIC = b"ARROW1"
ARROW_MESSAGE = b"\xff\xff\xff\xff"
"""How every message of an Arrow IPC stream begins, the schema first."""


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


def read_arrow(path: Path) -> tuple[pa.Table, bool]:
    """
    Read an Arrow IPC stream or file up to its last sound batch.

    Returns:
        The rows, and whether the file is torn: it ends, or goes bad, after its last sound batch.
        A file that is cut before the end of its schema has no column.

    Raises:
        UnreadableError: not even the schema can be read, and the file is not empty.
    """
    data = pa.memory_map(str(path)) if path.stat().st_size else pa.BufferReader(b"")
    if data.size() == 0:
        return pa.table({}), True
    try:
        if data.read_at(6, 0) == ARROW_FILE_MAGIC:
            return pa.ipc.open_file(data).read_all(), False
        reader = pa.ipc.open_stream(data)
    except (pa.ArrowInvalid, OSError) as problem:
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
        except (pa.ArrowInvalid, OSError, pa.ArrowException):
            is_torn = True
            break
    return pa.Table.from_batches(batches, schema=reader.schema), is_torn


def scan(path: Path) -> tuple[pl.LazyFrame, bool]:
    """
    Open a tabular file (not JSON Lines) with its own columns.

    Returns:
        The rows, and whether the file is torn (Arrow streams only).
    """
    kind = kind_of(path)
    try:
        if kind == "parquet":
            check_parquet(path)
            return pl.scan_parquet(path, hive_partitioning=False, glob=False), False
        if kind == "csv":
            rows = pl.read_csv(path, infer_schema_length=None, glob=False)
            twice = [name for name in rows.columns if "_duplicated_" in name]
            if twice:
                raise UnreadableError(
                    f"{path}: the column {twice[0].rsplit('_duplicated_', 1)[0]!r} is there twice",
                    hint="name every column once",
                )
            # without a row nothing tells the type of a column: any will do
            return (rows if rows.height else rows.cast(pl.Null)).lazy(), False
        table, is_torn = read_arrow(path)
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise UnreadableError(
            f"{path}: cannot be read: {problem}", hint="check the file and its permissions"
        ) from problem
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.lazy(), is_torn


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
        SAMPLES columns in order. A column that the file does not have is null; a missing `seq`
        is the order of the lines.

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
                hint=f"it has {', '.join(schema)}",
            )
    missing = [name for name in required if columns.get(name, name) not in schema]
    if missing:
        raise UnreadableError(
            f"{path}: the required column {missing[0]!r} is missing",
            hint=f"it has {', '.join(schema) or 'no column'}; rename one with "
            f"--column {missing[0]}=THEIRS",
        )
    chosen = []
    for column in SAMPLES:
        theirs = columns.get(column.name, column.name)
        if column.name == "attempt":
            chosen.append(_attempt(theirs, schema, attempt))
        elif theirs not in schema:
            is_seq = column.name == "seq"
            number = pl.int_range(pl.len(), dtype=pl.Int64)
            empty = pl.lit(None, dtype_of(column, pl.Null()))
            chosen.append((number if is_seq else empty).alias(column.name))
        else:
            chosen.append(_cast(column, theirs, schema[theirs], path))
    return frame.select(chosen)


def _attempt(theirs: str, schema: Mapping[str, pl.DataType], attempt: str | None) -> pl.Expr:
    if attempt is None and theirs in schema:
        return pl.col(theirs).cast(pl.String).alias("attempt")
    return pl.lit(attempt or "0", pl.String).alias("attempt")


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


def read_json_lines(
    path: Path, *, columns: Mapping[str, str]
) -> tuple[pl.DataFrame, pl.DataFrame, bool]:
    """
    Read the JSON Lines dialect, or plain JSON Lines without a `kind`.

    Returns:
        SAMPLES rows, EVENTS rows, and whether the last line is torn (then it is left out).
        A line without `seq` gets the number of its line within its attempt and rank.

    Raises:
        UnreadableError: a line is not an object, or a field is missing or of the wrong type.
    """
    rows = _Rows(path, columns)
    is_torn = False
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if not raw.strip():
                continue
            try:
                line = json.loads(raw)
            except ValueError as problem:
                if not raw.endswith(b"\n"):
                    is_torn = True  # the writer died inside its last line
                    break
                raise rows.error(number, f"is not JSON ({problem})") from problem
            except RecursionError as problem:
                raise rows.error(number, "is nested too deeply") from problem
            try:
                rows.add(number, line)
            except (RecursionError, UnicodeError) as problem:
                raise rows.error(number, f"cannot be read ({problem})") from problem
    return rows.samples(), rows.events(), is_torn


class _Rows:
    """Columns filled line by line; the types are checked where a line still has a number."""

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        self.path = path
        self.theirs = {column.name: columns.get(column.name, column.name) for column in SAMPLES}
        self.sample: dict[str, list[Any]] = {column.name: [] for column in SAMPLES}
        self.event: dict[str, list[Any]] = {column.name: [] for column in EVENTS}
        self.lines_of: dict[tuple[str, int], int] = {}
        self.id_type: type | None = None

    def error(self, number: int, problem: str) -> UnreadableError:
        return UnreadableError(
            f"{self.path}: line {number} {problem}",
            hint="one JSON object a line, as docs/ledger-format.md describes; mend or remove it",
        )

    def add(self, number: int, line: Any) -> None:
        if not isinstance(line, dict):
            raise self.error(number, "is not a JSON object")
        kind = line.get("kind", "sample")
        if kind != "sample" and kind not in EVENT_KINDS:
            raise self.error(number, f"has the unknown kind {kind!r}")
        attempt = str(line.get(self.theirs["attempt"], "0"))
        rank = line.get(self.theirs["rank"])
        if type(rank) is not int:
            raise self.error(number, f"has {rank!r} as 'rank', not an integer")
        order = self.lines_of.get((attempt, rank), 0)
        self.lines_of[attempt, rank] = order + 1
        if kind == "sample":
            self._add_sample(number, line, attempt, order)
        else:
            self._add_event(number, line, attempt, order)

    def _add_sample(self, number: int, line: dict[str, Any], attempt: str, order: int) -> None:
        is_used = line.get("stage") in (None, "used")
        for column in SAMPLES:
            name = column.name
            value = line.get(self.theirs[name])
            if name == "attempt":
                value = attempt
            elif name == "seq" and value is None:
                value = order
            elif name == SAMPLE_ID:
                self._check_id(number, value)
            elif value is None:
                if name in FOREIGN_REQUIRED and is_used:
                    raise self.error(number, f"has no {self.theirs[name]!r}")
            elif type(value) is not (str if column.type == "string" else int):
                raise self.error(number, f"has {value!r} as {self.theirs[name]!r}")
            self.sample[name].append(value)

    def _check_id(self, number: int, value: Any) -> None:
        if type(value) not in (int, str):
            raise self.error(number, f"has {value!r} as {self.theirs[SAMPLE_ID]!r}")
        if self.id_type not in (None, type(value)):
            raise self.error(number, "changes the type of 'sample_id' (integers or text, not both)")
        self.id_type = type(value)

    def _add_event(self, number: int, line: dict[str, Any], attempt: str, order: int) -> None:
        data = line.get("data")
        if data is not None and not isinstance(data, dict):
            raise self.error(number, "has 'data' that is not an object")
        for name in ("step", "time_ns", "seq"):
            if type(line.get(name)) not in (int, type(None)):
                raise self.error(number, f"has {line[name]!r} as {name!r}, not an integer")
        values = {
            "attempt": attempt,
            "rank": line[self.theirs["rank"]],
            "seq": order if line.get("seq") is None else line["seq"],
            "time_ns": line.get("time_ns"),
            "kind": line["kind"],
            "step": line.get("step"),
            "data": None if data is None else json.dumps(data),
        }
        for name, value in values.items():
            self.event[name].append(value)

    def samples(self) -> pl.DataFrame:
        text = self.id_type is str
        return self._frame(self.sample, samples_schema(pl.String() if text else pl.Int64()))

    def events(self) -> pl.DataFrame:
        return self._frame(self.event, events_schema())

    def _frame(self, columns: dict[str, list[Any]], schema: dict[str, pl.DataType]) -> pl.DataFrame:
        try:
            return pl.DataFrame(columns, schema=schema, strict=True)
        except (pl.exceptions.PolarsError, OverflowError, TypeError, UnicodeError) as problem:
            raise UnreadableError(
                f"{self.path}: a number or a text does not fit its column: {problem}",
                hint="docs/ledger-format.md names the type of each column",
            ) from problem
