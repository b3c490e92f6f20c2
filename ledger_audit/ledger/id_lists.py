"""
Reads lists of sample ids: tables (Parquet, Arrow, CSV, TSV, JSON Lines), or one id a line of text.

A list that loses a line in silence would let that sample pass: what is cut, torn, empty or of
another type is refused, and nothing is guessed.
"""

import csv
import json
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger import remote
from ledger_audit.ledger.address import Address
from ledger_audit.ledger.delimited import check_names
from ledger_audit.ledger.foreign import (
    ARROW_FILE_MAGIC,
    ARROW_MESSAGE,
    check_parquet,
    read_arrow,
)
from ledger_audit.ledger.id_rows import SPAN, Checked
from ledger_audit.ledger.lines import LONGEST_LINE, Lines, shown
from ledger_audit.ledger.store import PACKED, SUFFIXES, kind_of

ARROW_END = ARROW_MESSAGE + b"\x00\x00\x00\x00"
"""How an Arrow IPC stream ends when its writer closes it."""

_DAMAGE = (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError)
_NO_LISTS = {".json": "JSON Lines, one object a line", ".npy": "Parquet", ".pkl": "Parquet"}
"""Suffixes of files that may pass for text and are no list, and what to write instead."""
_NO_TEXT = f"write one id a line, in UTF-8, or a file with {', '.join(sorted(SUFFIXES))}"


def read_ids(
    path: Path,
    *,
    column: str,
    source: str | None,
    id_type: pl.DataType | None,
    keeps_repeats: bool = False,
) -> pl.DataFrame:
    """
    Read a list of sample ids.

    Args:
        path: the file, or its address; its suffix tells the format, and what is no table is one id
            a line.
        column: of the ids, where the file has columns.
        source: of all ids; null: what the file's column `source` says, if it has one.
        id_type: of the ledger's ids; null: the ledger has none, and either type is right.
        keeps_repeats: a line may stand there more than once, and counts as often.

    Returns:
        sample_id, source (null: any), token_start and token_end (null: the whole sample), in the
        order of the file, each line once.

    Raises:
        UnreadableError: the file is missing, damaged, empty, or holds something else than ids.
    """
    if isinstance(path, Address):
        with remote.copied(path) as copy:
            listed = _read(copy, column, source, id_type)
    else:
        listed = _read(path, column, source, id_type)
    return listed if keeps_repeats else listed.unique(maintain_order=True)


def _read(path: Path, column: str, source: str | None, id_type: pl.DataType | None) -> pl.DataFrame:
    suffix = Path(path.stem).suffix if path.suffix.lower() == PACKED else path.suffix
    kind = kind_of(path) if suffix.lower() in SUFFIXES else "text"
    names = (column, *(("source",) if source is None else ()), *SPAN)
    try:
        _check_file(path)
        if kind in ("csv", "tsv"):
            rows = _delimited(path, "," if kind == "csv" else "\t", names)
        elif kind == "jsonl":
            rows = _json_lines(path, names, id_type)
        elif kind == "text":
            rows = _text(path, column)
        else:
            rows = _table(path, kind, names)
    except (*_DAMAGE, csv.Error) as problem:
        raise UnreadableError(
            f"{path}: cannot be read: {problem}",
            hint="mend the line that the message names, or write the list again",
        ) from problem
    row = "line" if kind == "text" else "row"
    checked = Checked(path, rows, row, is_text=kind in ("csv", "tsv", "text"))
    return checked.listed(column, source, id_type)


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise UnreadableError(
            f"{path}: is a folder, not a list of ids", hint="name the file in it that holds them"
        )
    if not path.exists():
        raise UnreadableError(f"{path}: does not exist", hint="check the path of the list of ids")
    if not path.is_file():
        raise UnreadableError(
            f"{path}: is not a regular file", hint="write the ids to a file, and name that"
        )
    stem = path.with_suffix("") if path.suffix.lower() == PACKED else path
    instead = _NO_LISTS.get(stem.suffix.lower())
    if instead is not None:
        raise UnreadableError(
            f"{path}: {stem.suffix} files are not read as lists of ids",
            hint=f"write {instead}, or text with one id a line",
        )


def _table(path: Path, kind: str, names: Iterable[str]) -> pl.DataFrame:
    """Read the wanted columns of Parquet or Arrow."""
    if kind == "parquet":
        check_parquet(path)
        file = pq.ParquetFile(path)  # unlike the engine's own reader, it survives damage
        _check_columns(path, file.schema_arrow.names, names)
        table = file.read([name for name in file.schema_arrow.names if name in set(names)])
        table.validate(full=True)
    else:
        table, is_torn = read_arrow(path)
        if is_torn or not _is_ended(path):
            raise _torn(path)
        _check_columns(path, table.column_names, names)
        table = table.select([name for name in table.column_names if name in set(names)])
    frame = pl.from_arrow(table.replace_schema_metadata(None))  # it need not be text
    assert isinstance(frame, pl.DataFrame)
    return frame.with_row_index("line", offset=1)


def _is_ended(path: Path) -> bool:
    """Tell whether an Arrow file was closed: a stream that is cut between two batches is sound."""
    with path.open("rb") as file:
        head = file.read(6)
        file.seek(-min(8, file.seek(0, 2)), 2)
        return head == ARROW_FILE_MAGIC or file.read() == ARROW_END


def _delimited(path: Path, separator: str, names: Iterable[str]) -> pl.DataFrame:
    """Read the wanted columns of CSV or TSV as text; an empty field is null."""
    _check_quotes(path, separator)
    header = next((line for line in Lines(path) if line.strip()), b"").decode("utf-8")
    found = next(csv.reader([header], delimiter=separator), [])
    _check_columns(path, found, names)
    wanted = [name for name in found if name in set(names)]
    packing = "gzip" if path.suffix.lower() == PACKED else None
    with pa.input_stream(str(path), compression=packing) as file:
        table = pa_csv.read_csv(
            file,
            # without threads a message tells the row
            read_options=pa_csv.ReadOptions(use_threads=False, block_size=LONGEST_LINE),
            parse_options=pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.with_row_index("line", offset=1)


def _check_quotes(path: Path, separator: str) -> None:
    """Refuse packed files that are cut, and quotes that would swallow lines."""
    lines = Lines(path)
    has_quotes = False
    for line in lines:  # to the end, which tells whether it is cut
        has_quotes |= b'"' in line
    if lines.is_cut:
        raise _torn(path)
    if not has_quotes:
        return
    texts = (line.decode("utf-8") for line in Lines(path))
    records = csv.reader(texts, delimiter=separator, strict=True)
    try:
        for _ in records:
            pass
    except csv.Error as problem:
        raise UnreadableError(
            f"{path}: line {records.line_num} cannot be read: {problem}",
            hint='close every quote, and write a quote inside quotes as ""',
        ) from problem


def _json_lines(path: Path, names: Iterable[str], id_type: pl.DataType | None) -> pl.DataFrame:
    """Read the wanted keys of objects, one a line."""
    lines = Lines(path)
    is_empty = True
    for line in lines:
        is_empty &= not line.strip()
    if lines.is_cut:
        raise _torn(path)
    if is_empty:
        return pl.DataFrame()
    column, *others = names
    is_text = id_type == pl.String or (id_type is None and _first_id(path, column) is str)
    kinds = {name: pa.string() if name == "source" else pa.int64() for name in others}
    schema = {**kinds, column: pa.string() if is_text else pa.int64()}
    packing = "gzip" if path.suffix.lower() == PACKED else None
    try:
        with pa.input_stream(str(path), compression=packing) as file:
            table = pa_json.read_json(
                file,
                read_options=pa_json.ReadOptions(block_size=LONGEST_LINE),
                parse_options=pa_json.ParseOptions(
                    explicit_schema=pa.schema(list(schema.items())),
                    unexpected_field_behavior="ignore",
                ),
            )
        table.validate(full=True)  # that its text is UTF-8
    except _DAMAGE as problem:
        told = _bad_line(path, schema) or f"cannot be read: {problem}"
        raise UnreadableError(
            f"{path}: {told}", hint=f"one JSON object a line, with the id as {column!r}"
        ) from problem
    if table[column].null_count:
        told = _bad_line(path, schema, required=column) or f"an object has no {column!r}"
        raise UnreadableError(
            f"{path}: {told}", hint="name the key of the ids with `column`, or mend the line"
        )
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.with_row_index("line", offset=1)


def _first_id(path: Path, column: str) -> type:
    """Give the type of the first id, where no ledger tells which one is right."""
    for line in Lines(path):
        if line.strip():
            try:
                return type(json.loads(line).get(column))
            except (ValueError, RecursionError, AttributeError):
                break
    return int


def _bad_line(path: Path, schema: dict[str, pa.DataType], required: str | None = None) -> str:
    """Find the line that the engine's message only names within a block; empty: none is wrong."""
    for number, line in enumerate(Lines(path), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as problem:
            return f"line {number} is not JSON ({problem})"
        if not isinstance(found, dict):
            return f"line {number} is not a JSON object"
        for name, kind in schema.items():
            value = found.get(name)
            wanted = str if kind == pa.string() else int
            if value is not None and type(value) is not wanted:
                told = "text" if wanted is str else "an integer"
                return f"line {number} has {shown(value)} as {name!r}, not {told}"
        if required is not None and found.get(required) is None:
            return f"line {number} has no {required!r}; it has {_listed(found)}"
    return ""


def _text(path: Path, column: str) -> pl.DataFrame:
    """Read one id a line; blank lines, and those that begin with `#`, are no ids."""
    lines = Lines(path)
    texts: list[str] = []
    try:
        texts += (line.decode("utf-8") for line in lines)
    except UnicodeDecodeError as problem:
        raise UnreadableError(
            f"{path}: line {len(texts) + 1} is not UTF-8 ({problem.reason})", hint=_NO_TEXT
        ) from problem
    if lines.is_cut:
        raise _torn(path)
    ids = pl.Series(column, texts, pl.String)
    if ids.str.contains("\x00", literal=True).any():
        raise UnreadableError(f"{path}: is not text", hint=_NO_TEXT)
    rows = ids.str.strip_chars().to_frame().with_row_index("line", offset=1)
    return rows.filter(pl.col(column) != "", ~pl.col(column).str.starts_with("#"))


def _check_columns(path: Path, found: list[str], names: Iterable[str]) -> None:
    """Refuse a table without ids, with a column twice, or with one end of spans."""
    check_names(found, path)
    column, *others = names
    if column not in found:
        raise UnreadableError(
            f"{path}: has no column {column!r}",
            hint=f"it has {_listed(found)}; name the one of the ids with `column`",
        )
    start, end = (name in found for name in others[-2:])
    if start != end:
        there, missing = SPAN if start else SPAN[::-1]
        raise UnreadableError(
            f"{path}: has {there!r} and no {missing!r}",
            hint="a span needs both; for whole samples leave both out",
        )


def _listed(names: Iterable[str]) -> str:
    """Name some columns; a file may have very many."""
    some = list(names)
    told = ", ".join(name[:60] for name in some[:20]) or "no column"
    return told if len(some) <= 20 else f"{told} and {len(some) - 20:,} more"


def _torn(path: Path) -> UnreadableError:
    return UnreadableError(
        f"{path}: is torn: it ends, or goes bad, before its end",
        hint="write the list again: what is lost of it would pass unnoticed",
    )
