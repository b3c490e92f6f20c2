"""
Parts of a ledger: sealed files with the same columns, known by their footers, or rows in memory.

A footer is a promise, not a proof: what it does not say, or says wrongly, is unknown, and what is
unknown is read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from ledger_audit.errors import UnreadableError, VanishedError

KINDS: Mapping[str, type] = {
    "rank": int,
    "step": int,
    "stage": str,
    "stream": str,
    "kind": str,
}
"""The columns whose statistics are of use."""


@dataclass(frozen=True)
class Bounds:
    """What a footer says of one column of a row group; null where it does not say."""

    low: Any
    """No value is lower."""
    high: Any
    nulls: int | None

    def may_hold(self, low: Any, high: Any) -> bool:
        """Tell whether a value from `low` to `high` (null: open) may be there."""
        if self.low is None:
            return True
        return bool(self.high >= low and (high is None or self.low <= high))

    def is_only(self, values: Sequence[Any]) -> bool:
        """Tell whether every value that is not null is the same one of `values`."""
        return self.low is not None and self.low == self.high and self.low in values


_UNKNOWN = Bounds(None, None, None)


@dataclass(frozen=True)
class Group:
    """A row group, as the footer of its file describes it."""

    path: Path
    start: int
    """Rows of the file before it."""
    rows: int
    _bounds: Mapping[str, Bounds]

    def bounds(self, column: str) -> Bounds:
        """Give what is known of a column; one that is not in the file is null throughout."""
        return self._bounds.get(column, Bounds(None, None, self.rows))

    def is_null(self, column: str) -> bool:
        """Tell whether a column is known to be null in every row."""
        return self.bounds(column).nulls == self.rows

    def is_full(self, column: str) -> bool:
        """Tell whether a column is known to be null in no row."""
        return self.bounds(column).nulls == 0


@dataclass(frozen=True)
class Part:
    """Rows of one table of one attempt, with the columns of the table."""

    rows: pl.LazyFrame
    groups: tuple[Group, ...] | None = None
    """The row groups of the files that the rows lie in, in their order; null: in memory."""
    scan: Callable[[Sequence[Path]], pl.LazyFrame] | None = None
    """Paths → the rows of only these files."""

    def with_column(self, column: pl.Expr) -> "Part":
        """Give the same rows with one column put in another's place."""
        scan = self.scan
        if scan is None:
            return Part(self.rows.with_columns(column))
        return Part(
            self.rows.with_columns(column),
            self.groups,
            lambda paths: scan(paths).with_columns(column),
        )

    def among(self, chosen: Callable[[Group], bool]) -> pl.LazyFrame | None:
        """Give the files of which a row group is chosen; null: there is none."""
        if self.groups is None or self.scan is None:
            return self.rows
        paths = list(dict.fromkeys(group.path for group in self.groups))
        kept = list(dict.fromkeys(group.path for group in self.groups if chosen(group)))
        if len(kept) == len(paths):
            return self.rows
        return self.scan(kept) if kept else None

    def only(self, groups: Iterable[Group]) -> list[pl.LazyFrame]:
        """
        Give the rows of some of the row groups: whole files at once, else stretches of them.

        Nothing is read of the others; rows in memory have no groups.
        """
        wanted = set(map(id, groups))
        if self.groups is None or self.scan is None or not wanted:
            return []
        if len(wanted) == len(self.groups):
            return [self.rows]
        whole: list[Path] = []
        frames = []
        for path, ours in groupby(self.groups, key=lambda group: group.path):
            of_file = list(ours)
            if all(id(group) in wanted for group in of_file):
                whole.append(path)
                continue
            for is_wanted, stretch in groupby(of_file, key=lambda group: id(group) in wanted):
                run = list(stretch)
                if is_wanted:
                    length = sum(group.rows for group in run)
                    frames.append(self.scan([path]).slice(run[0].start, length))
        return [self.scan(whole), *frames] if whole else frames


def groups_of(path: Path, footer: Any, places: Mapping[str, int | None]) -> list[Group]:
    """
    Describe the row groups of a sealed file.

    Args:
        path: the file.
        footer: its Parquet metadata.
        places: where the columns are whose statistics are of use.
    """
    groups = []
    start = 0
    for number in range(footer.num_row_groups):
        meta = footer.row_group(number)
        rows = meta.num_rows
        bounds = {
            name: _UNKNOWN if place is None else _bounds(meta, place, rows, KINDS[name])
            for name, place in places.items()
        }
        groups.append(Group(path, start, rows, bounds))
        start += rows
    return groups


def places_of(footer: Any, schema: pa.Schema) -> dict[str, int | None]:
    """
    Find the columns whose statistics are of use; null: those of the column cannot be compared.

    Args:
        footer: the Parquet metadata of a file.
        schema: its columns.
    """
    paths = [footer.schema.column(place).path for place in range(footer.num_columns)]
    places: dict[str, int | None] = {}
    for name, kind in KINDS.items():
        if name not in schema.names:
            continue
        found = [place for place, path in enumerate(paths) if path == name]
        is_plain = len(found) == 1 and _is_plain(schema.field(name).type, kind)
        places[name] = found[0] if is_plain else None
    return places


def _is_plain(found: pa.DataType, kind: type) -> bool:
    """Tell whether the values of a column are ordered in the file as they are here."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if kind is int:  # unsigned and narrow ones are rare, and have been written in a wrong order
        return bool(pa.types.is_int32(found) or pa.types.is_int64(found))
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))


def _bounds(meta: Any, place: int, rows: int, kind: type) -> Bounds:
    """Read the statistics of a column of a row group; what contradicts itself says nothing."""
    try:
        chunk = meta.column(place)
        told = chunk.statistics
        if told is None or chunk.num_values != rows:
            return _UNKNOWN
        nulls = told.null_count if told.has_null_count else None
        low, high = (told.min, told.max) if told.has_min_max else (None, None)
    except (ValueError, TypeError, pa.ArrowException):  # for instance text that is no UTF-8
        return _UNKNOWN
    if nulls is not None and not 0 <= nulls <= rows:
        return _UNKNOWN
    if low is None or high is None:
        return Bounds(None, None, nulls)
    if type(low) is not kind or type(high) is not kind or low > high or nulls == rows:
        return _UNKNOWN
    return Bounds(low, high, nulls)


def collect(frame: pl.LazyFrame, name: str, *, streams: bool = False) -> pl.DataFrame:
    """Run a query; whatever a file turns out to hold is the input's fault, and says so."""
    try:
        return frame.collect(engine="streaming" if streams else "auto")
    except FileNotFoundError as problem:
        raise VanishedError.of(f"{name}: {problem}") from problem
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as problem:
        raise UnreadableError(
            f"{name}: cannot be read: {problem}",
            hint="check the file that the message names, and the types of its columns",
        ) from problem
