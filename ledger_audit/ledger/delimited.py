"""
Reads CSV and TSV, plain or gzip: a header line, then one record a line.

Only the columns that are asked for are kept. Every line must have the fields that the header
names; nothing is filled in, and nothing is guessed from half a field.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.lines import Lines, shown
from ledger_audit.ledger.schema import SAMPLE_ID, SAMPLES

if TYPE_CHECKING:
    from _csv import Reader

MOST_COLUMNS = 10_000
"""Of a table; more is no table of records."""

_BATCH = 1 << 16
"""Lines that are turned into columns at once."""


class _TextIdsError(Exception):
    """An id is no integer: then all of them are text."""


def read_delimited(
    path: Path, *, separator: str, columns: Mapping[str, str]
) -> tuple[pl.DataFrame, bool]:
    """
    Read a table of text.

    Args:
        path: the file.
        separator: between fields.
        columns: our name → theirs.

    Returns:
        Rows with the file's own columns; those that nobody asked for are null, and so are empty
        fields. Ids are integers if all of them are, else text. Whether the file is torn: its last
        line has no end, so that its last field may be half of one, and is left out.

    Raises:
        UnreadableError: a line has too few or too many fields, a field is of the wrong type, or
            the file is no table of text.
    """
    try:
        return _Table(path, separator, columns, text_ids=False).read()
    except _TextIdsError:  # begin again: the text of ids such as 007 is gone
        return _Table(path, separator, columns, text_ids=True).read()


class _Table:
    """One reading of a file, in batches of lines."""

    def __init__(
        self, path: Path, separator: str, columns: Mapping[str, str], *, text_ids: bool
    ) -> None:
        self.path = path
        self.separator = separator
        self.lines = Lines(path)
        self.is_torn = False
        self.n_read = 0
        self.kinds: dict[str, str] = {}
        """Their column → what it must hold: `text`, `ids` or `integers`."""
        self.ours: dict[str, str] = {}
        for column in SAMPLES:
            kind = "text" if column.type == "string" else "integers"
            if column.name == SAMPLE_ID:
                kind = "text" if text_ids else "ids"
            theirs = columns.get(column.name, column.name)
            self.kinds[theirs] = max(kind, self.kinds.get(theirs, ""), key=_strength)
            self.ours.setdefault(theirs, column.name)

    def read(self) -> tuple[pl.DataFrame, bool]:
        records = self._records()
        try:
            header = next(records, None)
        except csv.Error as problem:
            raise self._error(1, f"cannot be read: {problem}") from problem
        if header is None:
            return pl.DataFrame(), self._is_known_torn()
        check_names(header, self.path)
        parts = [self._frame(header, batch) for batch in self._batches(records, len(header))]
        frame = pl.concat(parts) if parts else self._frame(header, [])
        for theirs, kind in self.kinds.items():  # without a value nothing tells the type of ids
            if kind in ("ids", "text") and theirs in header and frame[theirs].is_null().all():
                frame = frame.with_columns(pl.col(theirs).cast(pl.Null))
        return frame, self.is_torn or self.lines.is_cut

    def _records(self) -> "Reader":
        return csv.reader(self._texts(), delimiter=self.separator, strict=True)

    def _is_known_torn(self) -> bool:
        if not self.lines.is_cut:
            raise UnreadableError(
                f"{self.path}: cannot be read: it has no header line",
                hint="write a line with the names of the columns first",
            )
        return True

    def _texts(self) -> Iterator[str]:
        """Give whole lines as text; of a last one without its end, only a header."""
        for number, line in enumerate(self.lines, 1):
            if not line.endswith(b"\n"):
                self.is_torn = True
                if number > 1:
                    return
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as problem:
                raise self._error(number, f"is not UTF-8 ({problem.reason})") from problem

    def _batches(self, records: "Reader", width: int) -> Iterator[list[list[str]]]:
        """Give many records at once, each with as many fields as the header."""
        is_over = False
        while not is_over:
            batch: list[list[str]] = []
            try:
                batch.extend(islice(records, _BATCH))
                is_over = len(batch) < _BATCH
            except csv.Error as problem:
                is_over = True
                self._check_end(sum(map(bool, batch)), problem)
            if not {width}.issuperset(map(len, batch)):
                batch = [record for record in batch if record]  # an empty line is no record
                for place, record in enumerate(batch):
                    if len(record) != width:
                        number = self._line_of(place)
                        raise self._error(number, f"has {len(record)} fields, the header {width}")
            if batch:
                yield batch
            self.n_read += len(batch)

    def _check_end(self, place: int, problem: csv.Error) -> None:
        """Refuse what cannot be read, unless the writer died inside quotes."""
        is_open = "unexpected end" in str(problem)
        if is_open and (self.is_torn or self.lines.is_cut):
            return
        said = "opens a quote that nothing closes" if is_open else f"cannot be read: {problem}"
        raise self._error(self._line_of(place - 1) + 1, said) from problem

    def _line_of(self, place: int) -> int:
        """Find the last line of a record of the batch: the file is read again, and counted."""
        again = _Table(self.path, self.separator, {}, text_ids=True)._records()
        wanted = self.n_read + place + 2  # the header is the first
        while wanted:
            wanted -= bool(next(again))
        return again.line_num

    def _frame(self, header: Sequence[str], batch: Sequence[Sequence[str]]) -> pl.DataFrame:
        fields = zip(*batch, strict=True) if batch else ([] for _ in header)
        return pl.DataFrame(
            [
                self._column(name, values)
                if name in self.kinds
                else pl.Series(name, [None] * len(batch), pl.Null)
                for name, values in zip(header, fields, strict=True)
            ]
        )

    def _column(self, name: str, values: Sequence[str]) -> pl.Series:
        texts = pl.Series(name, [value or None for value in values], pl.String)
        kind = self.kinds[name]
        if kind == "text":
            return texts
        integers = texts.cast(pl.Int64, strict=False)
        if integers.null_count() == texts.null_count():
            return integers
        if kind == "ids":
            raise _TextIdsError
        place = (integers.is_null() & texts.is_not_null()).arg_max()
        assert place is not None
        ours = self.ours[name]
        raise UnreadableError(
            f"{self.path}: line {self._line_of(place)}: the column {name!r} ({ours}) holds "
            f"{shown(texts[place])}, not integers",
            hint=f"write it as integers, or name another with --column {ours}=THEIRS",
        )

    def _error(self, number: int, problem: str) -> UnreadableError:
        return UnreadableError(
            f"{self.path}: line {number} {problem}",
            hint="a header, then one record a line, in UTF-8; mend or remove the line",
        )


def check_names(names: Sequence[str], path: Path) -> None:
    """
    Refuse names of columns that are no table's.

    Raises:
        UnreadableError: one is there twice, or there are far too many.
    """
    if len(names) > MOST_COLUMNS:
        raise UnreadableError(
            f"{path}: names {len(names):,} columns, more than {MOST_COLUMNS:,}",
            hint="a log has a column for each of a few facts; give the file its real suffix",
        )
    for name, times in Counter(names).items():
        if times > 1:
            raise UnreadableError(
                f"{path}: the column {shown(name)} is there twice", hint="name every column once"
            )


def _strength(kind: str) -> int:
    return ["", "integers", "ids", "text"].index(kind)
