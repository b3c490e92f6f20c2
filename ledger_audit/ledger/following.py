"""
Reads what one rank has to do from an expected stream on disk, step after step, from any step on.

Only the row groups of the rank are read, one at a time. Nothing here needs polars: a trainer can
afford it.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ledger_audit.errors import UnreadableError, UsageError
from ledger_audit.ledger import store
from ledger_audit.ledger.schema import FORMAT, SAMPLE_ID, event_data

_COLUMNS = ("rank", "step", "slot", "row", SAMPLE_ID)
_MORE = ("token_start", "token_end", "source", "epoch", "position")


class Row(NamedTuple):
    """One sample, or one span of it; spans of a packed sequence share a row."""

    row: int
    sample_id: int | str
    token_start: int | None
    token_end: int | None
    source: str | None
    epoch: int | None
    position: int | None


class MicroBatch(NamedTuple):
    """What one rank uses in one slot of a step."""

    step: int
    slot: int
    rows: tuple[Row, ...]


class Lane:
    """
    What one rank has to do.

    Args:
        root: the folder of a plan, or of another expected stream.
        rank: whose records to read.

    Raises:
        UnreadableError: there is no expected stream, or a file is damaged.
        UsageError: the stream is dealt to fewer ranks.
    """

    def __init__(self, root: Path, rank: int) -> None:
        self.root, self.rank = root, rank
        found = store.segments(root) if root.is_dir() else []
        told = [self._start(one.path) for one in found if one.table == "events"]
        starts = [one for one in told if one]
        if len(starts) != 1:
            raise UnreadableError(
                f"{root}: holds no plan, and no other expected stream",
                hint="point at a folder that `ledger-audit plan -o` made",
            )
        self.world_size = int(starts[0]["world_size"])
        self.recipe: dict[str, Any] = dict(starts[0]["expected"].get("recipe") or {})
        """All that decides the stream."""
        if not 0 <= rank < self.world_size:
            raise UsageError(
                f"{root}: is dealt to {self.world_size} ranks, and rank {rank} is none of them",
                hint="make a plan for as many ranks as the job has: --world-size",
            )
        self._files = [one.path for one in found if one.table == "samples"]
        self._groups: list[tuple[Path, int, int, int]] = []
        """File, row group, first and last step of each that may hold a record of the rank."""
        self.first_step, self.last_step = 0, -1
        """Of all ranks; the last is smaller than the first where the stream is empty."""
        for path in self._files:
            self._look(path)

    def steps(self, first: int | None = None) -> Iterator[tuple[int, tuple[MicroBatch, ...]]]:
        """
        Give every step from one on, with the micro-batches of this rank in it.

        In a ragged step a rank may have fewer than others, or none.

        Args:
            first: the step to begin with; null: the first of all.
        """
        at = self.first_step if first is None else max(first, self.first_step)
        for step, own in groupby(self.micro_batches(at), key=lambda one: one.step):
            for empty in range(at, step):
                yield empty, ()
            yield step, tuple(own)
            at = step + 1
        for empty in range(at, self.last_step + 1):
            yield empty, ()

    def micro_batches(self, first: int | None = None, slot: int = 0) -> Iterator[MicroBatch]:
        """
        Give the micro-batches of this rank in their order.

        Args:
            first: the step to begin with; null: the first of all.
            slot: of that step.
        """
        begin = (self.first_step if first is None else first, slot)
        place, held = begin, list[Row]()
        for found, row in self._rows(begin[0]):
            if found != place:
                if held:
                    yield MicroBatch(*place, tuple(held))
                if found < place and place != begin:
                    raise UnreadableError(
                        f"{self.root}: rank {self.rank} goes back to step {found[0]}",
                        hint="its files were changed; make the plan again",
                    )
                place, held = found, []
            if found >= begin:
                held.append(row)
        if held:
            yield MicroBatch(*place, tuple(held))

    def count(self, first: int | None = None, slot: int = 0) -> int:
        """Count the micro-batches of this rank from a step and slot on."""
        begin = (self.first_step if first is None else first, slot)
        places: set[tuple[int, int]] = set()
        for table in self._tables(begin[0], ("rank", "step", "slot")):
            columns = (table[name].to_pylist() for name in ("rank", "step", "slot"))
            rows = zip(*columns, strict=True)
            places.update((step, at) for rank, step, at in rows if rank == self.rank)
        return sum(1 for one in places if one >= begin)

    def _rows(self, first: int) -> Iterator[tuple[tuple[int, int], Row]]:
        for table in self._tables(first, (*_COLUMNS, *_MORE)):
            nothing = pa.nulls(table.num_rows).to_pylist()
            columns = [
                table[name].to_pylist() if name in table.column_names else nothing
                for name in (*_COLUMNS, *_MORE)
            ]
            for rank, step, slot, *row in zip(*columns, strict=True):
                if rank == self.rank and step >= first:
                    yield (step, slot), Row(*row)

    def _tables(self, first: int, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        for path, number, _, last in self._groups:
            if last >= first:
                try:
                    with pq.ParquetFile(path) as file:
                        there = [name for name in columns if name in file.schema_arrow.names]
                        yield file.read_row_group(number, columns=there)
                except (OSError, pa.ArrowException) as problem:
                    raise _damaged(path, problem) from problem

    def _look(self, path: Path) -> None:
        """Find the row groups of the rank by what the footer says."""
        try:
            footer = pq.read_metadata(path)
            if (footer.metadata or {}).get(b"format") != FORMAT.encode():
                raise _damaged(path, "its format is not known")
            names = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
            for number in range(footer.num_row_groups):
                group = footer.row_group(number)
                ranks, steps = (group.column(names[one]).statistics for one in ("rank", "step"))
                low, high = steps.min, steps.max
                is_first = self.last_step < self.first_step
                self.first_step = low if is_first else min(self.first_step, low)
                self.last_step = max(self.last_step, high)
                if ranks.min <= self.rank <= ranks.max:
                    self._groups.append((path, number, low, high))
        except (OSError, pa.ArrowException, KeyError, AttributeError) as problem:
            raise _damaged(path, problem) from problem

    def _start(self, path: Path) -> dict[str, Any] | None:
        """Give what a start event says of an expected stream; null: there is none."""
        try:
            table = pq.read_table(path, columns=["kind", "data"])
        except (OSError, pa.ArrowException) as problem:
            raise _damaged(path, problem) from problem
        rows = zip(table["kind"].to_pylist(), table["data"].to_pylist(), strict=True)
        told = [event_data(text) for kind, text in rows if kind == "start"]
        found = [one for one in told if isinstance(one.get("expected"), dict)]
        return found[0] if found and isinstance(found[0].get("world_size"), int) else None


def _damaged(path: Path, problem: object) -> UnreadableError:
    return UnreadableError(
        f"{path}: cannot be read: {problem}", hint="make the plan again, or copy it anew"
    )
