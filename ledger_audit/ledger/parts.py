"""
Parts of a ledger: sealed files with the same columns, known by their footers, or rows in memory.

A footer is a promise, not a proof: what it does not say, or says wrongly, is unknown, and what is
unknown is read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledger_audit.ledger.address import place_of

KINDS: Mapping[str, type] = {
    "rank": int,
    "step": int,
    "stage": str,
    "stream": str,
    "kind": str,
    "sample_id": int,
    "epoch": int,
    "position": int,
    "token_start": int,
    "source": str,
}
"""The columns whose statistics are of use."""

Scan = Callable[[Sequence[str | Path]], pl.LazyFrame]

Mask = NDArray[np.bool_]
Integers = NDArray[np.integer[Any]]

_TEXT = pa.large_string()


class Bounds(NamedTuple):
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

Told = tuple[Any, ...]
"""Of a row group: its rows; and of each of KINDS low, high and nulls, as in `Bounds`."""

TOLD = pa.struct(
    [pa.field("rows", pa.int64(), nullable=False)]
    + [
        pa.field(f"{name}_{what}", pa.int64() if kind is int or what == "nulls" else _TEXT)
        for name, kind in KINDS.items()
        for what in Bounds._fields
    ]
)
"""The same as a type of Arrow."""


class Group:
    """A row group, as the footer of its file describes it."""

    __slots__ = ("_of", "number")

    def __init__(self, of: "Groups", number: int) -> None:
        self._of = of
        self.number = number
        """Its place among the row groups of its part."""

    @property
    def path(self) -> Path:
        """The file that it is in."""
        return place_of(self.file)

    @property
    def file(self) -> str:
        """The path of the file, as text."""
        return self._of.files[self._of.file_of.item(self.number)]

    @property
    def start(self) -> int:
        """Rows of the file before it."""
        return int(self._of.starts[self.number])

    @property
    def rows(self) -> int:
        """How many it has."""
        return int(self._of.rows[self.number])

    def bounds(self, column: str) -> Bounds:
        """Give what is known of a column; one that is not in the file is null throughout."""
        return self._of.columns[column].bounds(self.number)

    def is_null(self, column: str) -> bool:
        """Tell whether a column is known to be null in every row."""
        return self.bounds(column).nulls == self.rows

    def is_full(self, column: str) -> bool:
        """Tell whether a column is known to be null in no row."""
        return self.bounds(column).nulls == 0


class Column:
    """What footers say of one column, for many row groups: there may be millions."""

    def __init__(self, low: pa.Array, high: pa.Array, nulls: pa.Array) -> None:
        self.is_known: Mask = _lean(pc.and_(low.is_valid(), high.is_valid()))
        self.nulls: Integers = _lean(nulls.fill_null(-1))
        """Negative: unknown."""
        self.texts: list[str] | None = None
        """What `low` and `high` are places in, if they are no numbers themselves."""
        if not pa.types.is_integer(low.type):
            both = pa.chunked_array([low, high]).dictionary_encode().combine_chunks()
            self.texts = both.dictionary.to_pylist()
            low, high = both.indices[: len(low)], both.indices[len(low) :]
        self.low: Integers = _lean(low.fill_null(0))
        self.high: Integers = _lean(high.fill_null(0))

    def bounds(self, number: int) -> Bounds:
        """Give what is known in one row group."""
        nulls = self.nulls.item(number)
        told = None if nulls < 0 else nulls
        if not self.is_known.item(number):
            return Bounds(None, None, told)
        low, high = int(self.low[number]), int(self.high[number])
        if self.texts is not None:
            return Bounds(self.texts[low], self.texts[high], told)
        return Bounds(low, high, told)


def _lean(values: pa.Array) -> NDArray[Any]:
    """Give the values as an array, which takes no room where all of them are the same."""
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    if len(array) and (array == array[0]).all():
        return np.broadcast_to(array[:1].copy(), len(array))
    return array


class Groups(Sequence[Group]):
    """
    The row groups of many files, in their order.

    Args:
        files: their paths.
        counts: how many row groups each has.
        told: of all row groups, of type TOLD.
    """

    def __init__(self, files: Sequence[str], counts: NDArray[Any], told: pa.StructArray) -> None:
        self.files = files
        self.file_of = np.repeat(np.arange(len(files), dtype=np.int32), counts)
        self.rows: Integers = _lean(told.field("rows"))
        before = np.cumsum(self.rows) - self.rows
        first = (np.cumsum(counts) - counts)[self.file_of]
        self.starts = _lean(pa.array(before - before[first]))
        self.columns = {
            name: Column(*(told.field(f"{name}_{what}") for what in Bounds._fields))
            for name in KINDS
        }

    def is_null(self, column: str) -> Mask:
        """Tell of each, as `Group.is_null` of one."""
        return np.asarray(self.columns[column].nulls == self.rows)

    def is_full(self, column: str) -> Mask:
        """Tell of each, as `Group.is_full` of one."""
        return np.asarray(self.columns[column].nulls == 0)

    def is_one(self, column: str) -> Mask:
        """Tell of each whether every value that is not null is known to be the same one."""
        told = self.columns[column]
        return np.asarray(told.is_known & (told.low == told.high))

    def is_only(self, column: str, value: str) -> Mask:
        """Tell of each, as `Bounds.is_only` of one, for a column of text."""
        told = self.columns[column]
        texts = told.texts or []
        place = texts.index(value) if value in texts else -1
        return np.asarray(self.is_one(column) & (told.low == place))

    def may_hold(self, column: str, low: int, high: int | None) -> Mask:
        """Tell of each, as `Bounds.may_hold` of one, for a column of numbers."""
        told = self.columns[column]
        holds = told.high >= low if high is None else (told.high >= low) & (told.low <= high)
        return np.asarray(holds | ~told.is_known)

    def range_of(self, column: str) -> tuple[int, int] | None:
        """Say between which integers all values of a column lie; null: a footer does not say."""
        told = self.columns[column]
        held = (self.rows > 0) & ~self.is_null(column)
        if not told.is_known[held].all() or not held.any():
            return None
        return int(told.low[held].min()), int(told.high[held].max())

    def __len__(self) -> int:
        return len(self.file_of)

    def __getitem__(self, place: Any) -> Any:
        return Group(self, range(len(self))[place])

    def __iter__(self) -> Iterator[Group]:
        return (Group(self, number) for number in range(len(self)))


class Part:
    """
    Rows of one table of one attempt, with the columns of the table.

    Args:
        rows: the rows; null: those of all files.
        groups: the row groups of the files that the rows lie in, in their order; null: in memory.
        scan: paths → the rows of only these files.
        dropped: what its files say of records that were not kept, each.
    """

    def __init__(
        self,
        rows: pl.LazyFrame | None,
        groups: Groups | None = None,
        scan: Scan | None = None,
        dropped: Sequence[str] = (),
    ) -> None:
        self._rows, self.groups, self.scan, self.dropped = rows, groups, scan, dropped

    @property
    def rows(self) -> pl.LazyFrame:
        """All of the rows; of sealed files, not read yet."""
        if self._rows is None:
            assert self.scan is not None
            assert self.groups is not None
            self._rows = self.scan(self.groups.files)
        return self._rows

    def with_column(self, column: pl.Expr) -> "Part":
        """Give the same rows with one column put in another's place."""
        scan = self.scan
        rows = None if self._rows is None else self._rows.with_columns(column)
        if scan is None:
            return Part(rows, dropped=self.dropped)
        return Part(rows, self.groups, lambda paths: scan(paths).with_columns(column), self.dropped)

    def among(self, chosen: Callable[[Group], bool]) -> pl.LazyFrame | None:
        """Give the files of which a row group is chosen; null: there is none."""
        if self.groups is None or self.scan is None:
            return self.rows
        kept = [group.file for group in self.groups if chosen(group)]
        if len(kept) == len(self.groups):
            return self.rows
        return self.scan(list(dict.fromkeys(kept))) if kept else None

    def stretch(self, first: int, last: int | None) -> pl.LazyFrame | None:
        """Give the files that may hold steps from `first` to `last` (null: to the end)."""
        if self.groups is None or self.scan is None:
            return self.rows
        chosen = self.groups.may_hold("step", first, last)
        if chosen.all():
            return self.rows
        files = np.unique(self.groups.file_of[chosen]).tolist()
        return self.scan([self.groups.files[file] for file in files]) if files else None

    def only(self, groups: Iterable[Group]) -> list[pl.LazyFrame]:
        """
        Give the rows of some of the row groups: whole files at once, else stretches of them.

        Nothing is read of the others; rows in memory have no groups.
        """
        wanted = {group.number for group in groups}
        if self.groups is None or self.scan is None or not wanted:
            return []
        if len(wanted) == len(self.groups):
            return [self.rows]
        files = {group.file for group in self.groups if group.number in wanted}
        whole: list[str] = []
        frames = []
        for file, ours in groupby(self.groups, key=lambda group: group.file):
            if file not in files:
                continue
            of_file = list(ours)
            if all(group.number in wanted for group in of_file):
                whole.append(file)
                continue
            for is_wanted, stretch in groupby(of_file, key=lambda group: group.number in wanted):
                run = list(stretch)
                if is_wanted:
                    length = sum(group.rows for group in run)
                    frames.append(self.scan([file]).slice(run[0].start, length))
        return [self.scan(whole), *frames] if whole else frames


def groups_of(path: Path, footer: Any, places: Mapping[str, int | None]) -> Groups:
    """
    Describe the row groups of a sealed file.

    Args:
        path: the file.
        footer: its Parquet metadata.
        places: where the columns are whose statistics are of use.
    """
    told = told_by(footer, places)
    return Groups([str(path)], np.array([len(told)]), arrow_of(told))


def told_by(footer: Any, places: Mapping[str, int | None]) -> list[Told]:
    """Read what a footer says of each row group; arguments as of `groups_of`."""
    found = []
    for number in range(footer.num_row_groups):
        meta = footer.row_group(number)
        rows = meta.num_rows
        told = [rows]
        for name, kind in KINDS.items():
            if name not in places:
                told += (None, None, rows)
            else:
                place = places[name]
                told += _UNKNOWN if place is None else _bounds(meta, place, rows, kind)
        found.append(tuple(told))
    return found


def arrow_of(told: Sequence[Told]) -> pa.StructArray:
    """Give what is told of row groups as an array of type TOLD."""
    columns = zip(*told, strict=True) if told else [()] * TOLD.num_fields
    fields = list(TOLD)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields)


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
