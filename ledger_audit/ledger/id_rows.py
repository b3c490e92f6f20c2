"""Checks the rows of a list of sample ids: ids of one type, and whole spans or none."""

from pathlib import Path

import polars as pl

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.lines import shown
from ledger_audit.ledger.schema import SAMPLE_ID

SPAN = ("token_start", "token_end")
SCHEMA = {
    "sample_id": pl.Int64(),
    "source": pl.String(),
    "token_start": pl.Int64(),
    "token_end": pl.Int64(),
}
"""What a list gives; `sample_id` has the type of the ledger's ids."""


class Checked:
    """The lines of a list, as far as they are what they must be."""

    def __init__(self, path: Path, rows: pl.DataFrame, row: str, *, is_text: bool) -> None:
        self.path = path
        self.rows = rows
        self.row = row
        self.is_text = is_text
        """Everything was read as text, and numbers are yet to be made of it."""

    def listed(self, column: str, source: str | None, id_type: pl.DataType | None) -> pl.DataFrame:
        """
        Give the rows as SCHEMA, with `source` for all where it is not null.

        Raises:
            UnreadableError: there are none, or one of them is not what it must be.
        """
        if self.rows.is_empty():
            raise UnreadableError(
                f"{self.path}: holds no id",
                hint="a list without ids would forbid nothing: write them, or leave it out",
            )
        ids = self._ids(column, id_type)
        columns = {
            "sample_id": ids,
            "source": self._source() if source is None else pl.repeat(source, len(ids), eager=True),
            **{name: self._integers(name) for name in SPAN},
        }
        frame = pl.DataFrame(columns, schema={**SCHEMA, SAMPLE_ID: ids.dtype})
        self._check_spans(frame)
        return frame

    def _ids(self, column: str, id_type: pl.DataType | None) -> pl.Series:
        found = self.rows[column]
        if found.null_count():
            raise self._error(found.is_null(), f"has no id: {column!r} is null")
        if self.is_text:
            return self._numbers(found, column) if id_type == pl.Int64 else found
        is_text = found.dtype in (pl.String, pl.Categorical, pl.Enum)
        if not is_text and not found.dtype.is_integer():
            raise self._wrong(column, found.dtype, "integers or text")
        if id_type is not None and is_text != (id_type == pl.String):
            wanted = "text" if id_type == pl.String else "integers"
            raise self._wrong(column, found.dtype, f"{wanted}, as the ledger's ids are")
        return found.cast(pl.String) if is_text else self._numbers(found, column)

    def _source(self) -> pl.Series:
        if "source" not in self.rows.columns:
            return pl.repeat(None, self.rows.height, dtype=pl.String, eager=True)
        found = self.rows["source"]
        if found.dtype not in (pl.String, pl.Categorical, pl.Enum, pl.Null):
            raise self._wrong("source", found.dtype, "text")
        return found.cast(pl.String)

    def _integers(self, name: str) -> pl.Series:
        if name not in self.rows.columns:
            return pl.repeat(None, self.rows.height, dtype=pl.Int64, eager=True)
        found = self.rows[name]
        if not (self.is_text or found.dtype.is_integer() or found.dtype == pl.Null):
            raise self._wrong(name, found.dtype, "integers")
        return self._numbers(found, name)

    def _numbers(self, found: pl.Series, name: str) -> pl.Series:
        """Make integers of 64 bits."""
        numbers = found.cast(pl.Int64, strict=False)
        is_bad = numbers.is_null() & found.is_not_null()
        if is_bad.any():
            value = found.filter(is_bad)[0]
            raise self._error(is_bad, f"has {shown(value)} as {name!r}, not a 64-bit integer")
        return numbers

    def _check_spans(self, frame: pl.DataFrame) -> None:
        start, end = frame["token_start"], frame["token_end"]
        is_half = start.is_null() != end.is_null()
        if is_half.any():
            raise self._error(is_half, "has one end of a span: it needs both, or none")
        for is_bad, what in (
            (start < 0, "a negative 'token_start'"),
            (end < start, "'token_end' before 'token_start'"),
        ):
            if is_bad.any():
                raise self._error(is_bad.fill_null(value=False), f"has {what}")

    def _wrong(self, name: str, dtype: pl.DataType, wanted: str) -> UnreadableError:
        return UnreadableError(
            f"{self.path}: the column {name!r} holds {dtype}, not {wanted}",
            hint=f"write it as {wanted.partition(',')[0]}, or name another column with `column`",
        )

    def _error(self, is_bad: pl.Series, problem: str) -> UnreadableError:
        number = self.rows["line"].filter(is_bad)[0]
        return UnreadableError(
            f"{self.path}: {self.row} {number} {problem}", hint="mend or remove it"
        )
