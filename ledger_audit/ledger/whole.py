"""
Reads all records of a ledger once, a batch at a time: what is kept is what the caller keeps.

Whole files are shared out among threads, and only the columns that a question needs are read.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl

from ledger_audit.errors import UnreadableError, VanishedError
from ledger_audit.ledger.extents import used
from ledger_audit.ledger.parts import Part, collect
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.schema import SAMPLE_ID

BATCH = 1 << 18
"""Rows that are looked at at once."""

_PLACE = ("rank", "step", "slot", "row", "seq")

Work = Callable[[pl.DataFrame], None]
"""Takes a batch of records; several threads call it at once."""


@dataclass(frozen=True)
class Scan:
    """Some steps of one attempt, of which every used record is asked for."""

    attempt: str
    first: int
    last: int | None
    """Null: to the end."""
    but: pl.Series
    """Steps among them that are left out."""

    @property
    def where(self) -> pl.Expr:
        """Tell the records of these steps."""
        step = pl.col("step")
        within = step >= self.first if self.last is None else step.is_between(self.first, self.last)
        return within & ~step.is_in(self.but.implode()) if len(self.but) else within


@dataclass(frozen=True)
class Whole:
    """All used records of the stream of one ledger."""

    ledger: Ledger

    def each(self, scan: Scan, columns: Sequence[pl.Expr], work: Work) -> None:
        """
        Hand every used record of some steps to a function, once.

        Batches come in no order; the rows of each are neighbours in one file.

        Args:
            scan: the steps.
            columns: what the function needs of the `samples` table.
            work: what is called with each batch that has a row.

        Raises:
            UnreadableError: a file cannot be read, or a record has no id.
        """
        conditions = [*used(self.ledger.stream), scan.where]

        def one(frame: pl.LazyFrame) -> None:
            rows = frame.filter(*conditions).select(columns)
            for batch in batches(rows, self.ledger.name):
                if batch.height:
                    work(batch)

        threads = pl.thread_pool_size()
        frames = [frame for part in self._parts(scan) for frame in _shares(part, threads)]
        if len(frames) < 2 or threads < 2:
            for frame in frames:
                one(frame)
            return
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(one, frames):
                pass

    def records(self, scan: Scan, where: pl.Expr) -> pl.DataFrame:
        """Give the used records of some steps that fulfil a condition, as `Ledger.lookup` does."""
        rows = self.ledger.scanned(scan.attempt, scan.first, scan.last)
        return self.ledger.found(rows.filter(scan.where, where))

    def sums(self, scan: Scan) -> pl.DataFrame:
        """Add up some steps: source, epoch, records, tokens (of those with spans), spans."""
        span = pl.col("token_end") - pl.col("token_start")
        rows = self.ledger.scanned_used(scan.attempt, scan.first, scan.last).filter(scan.where)
        # two files may hold the same rows
        rows = rows.select("source", "epoch", SAMPLE_ID, *_PLACE, "token_start", "token_end")
        summed = (
            rows.unique()
            .group_by("source", "epoch")
            .agg(
                pl.len().cast(pl.Int64).alias("records"),
                span.sum().alias("tokens"),
                span.count().cast(pl.Int64).alias("spans"),
            )
        )
        return collect(summed, self.ledger.name, streams=True)

    def ids(self, scan: Scan) -> pl.DataFrame:
        """Give what some steps used: source, epoch and sample_id, each once."""
        rows = self.ledger.scanned_used(scan.attempt, scan.first, scan.last).filter(scan.where)
        return collect(
            rows.select("source", "epoch", SAMPLE_ID).unique(), self.ledger.name, streams=True
        )

    def lowest(self, scan: Scan, where: pl.Expr, most: int) -> pl.Series:
        """Give the lowest ids of the used records of some steps that fulfil a condition."""
        rows = self.ledger.scanned_used(scan.attempt, scan.first, scan.last)
        ids = rows.filter(scan.where, where).select(pl.col(SAMPLE_ID)).unique()
        return collect(ids.bottom_k(most, by=SAMPLE_ID), self.ledger.name, streams=True)[SAMPLE_ID]

    def times(self, attempt: str, step: int | None) -> pl.DataFrame:
        """
        Say between which moments each rank of an attempt went beyond a step.

        Args:
            attempt: its label.
            step: that the ranks committed; null, or where they did not: since their start.

        Returns:
            rank, since_ns, until_ns (of the last thing that it logged); null: not logged.
        """
        events = self.ledger._events.get(attempt, ())
        columns = {"rank": pl.Int32(), "time_ns": pl.Int64(), "kind": pl.String()}
        rows = pl.concat(
            [pl.LazyFrame(schema=columns | {"step": pl.Int64()})]
            + [part.rows.select(*columns, "step") for part in events]
        )
        is_commit = (pl.col("kind") == "commit") & (pl.col("step") == pl.lit(step, pl.Int64))
        found = rows.group_by("rank").agg(
            since_ns=pl.coalesce(
                pl.col("time_ns").filter(is_commit).max(),
                pl.col("time_ns").filter(pl.col("kind") == "start").min(),
            ),
            until_ns=pl.col("time_ns").max(),
        )
        return collect(found, self.ledger.name, streams=True).sort("rank")

    def bounds(self, column: str) -> tuple[int, int] | None:
        """Say between which integers the values of a column lie; null: there are none."""
        found = [
            bounds
            for parts in self.ledger._samples.values()
            for part in parts
            if (bounds := self._bounds(part, column)) is not None
        ]
        if not found:
            return None
        return min(low for low, _ in found), max(high for _, high in found)

    def rows(self) -> int:
        """Count the rows of sealed files, as their footers do; what is in memory is not counted."""
        return sum(
            group.rows
            for parts in self.ledger._samples.values()
            for part in parts
            for group in part.groups or ()
        )

    def _parts(self, scan: Scan) -> Iterator[Part]:
        """Give the files that may hold records of some steps, and the rows in memory."""
        for part in self.ledger._samples.get(scan.attempt, ()):
            if part.groups is None:
                yield part
                continue
            kept = [g for g in part.groups if g.bounds("step").may_hold(scan.first, scan.last)]
            paths = {group.path for group in kept}
            groups = tuple(group for group in part.groups if group.path in paths)
            if groups:
                yield Part(part.rows, groups, part.scan)

    def _bounds(self, part: Part, column: str) -> tuple[int, int] | None:
        held = [one for one in part.groups or () if one.rows and not one.is_null(column)]
        groups = [one.bounds(column) for one in held]
        if part.groups is None or any(one.low is None for one in groups):
            edges = part.rows.select(low=pl.col(column).min(), high=pl.col(column).max())
            low, high = collect(edges, self.ledger.name, streams=True).row(0)
            return None if low is None else (low, high)
        if not groups:
            return None
        return min(one.low for one in groups), max(one.high for one in groups)


def _shares(part: Part, count: int) -> list[pl.LazyFrame]:
    """Share the files of a part out into as many frames of about as many rows."""
    if part.groups is None or part.scan is None:
        return [part.rows]
    sizes: dict[object, int] = {}
    for group in part.groups:
        sizes[group.path] = sizes.get(group.path, 0) + group.rows
    shares: list[list[object]] = [[] for _ in range(count)]
    filled = [0] * count
    for path, rows in sorted(sizes.items(), key=lambda one: -one[1]):
        least = filled.index(min(filled))
        shares[least].append(path)
        filled[least] += rows
    return [part.scan(paths) for paths in shares if paths]  # type: ignore[arg-type]  # they are paths


def batches(rows: pl.LazyFrame, name: str) -> Iterator[pl.DataFrame]:
    """Run a query a batch at a time; whatever a file turns out to hold is the input's fault."""
    try:
        yield from rows.collect_batches(
            chunk_size=BATCH, maintain_order=False, engine="streaming", lazy=True
        )
    except FileNotFoundError as problem:
        raise VanishedError.of(f"{name}: {problem}") from problem
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as problem:
        raise UnreadableError(
            f"{name}: cannot be read: {problem}",
            hint="check the file that the message names, and the types of its columns",
        ) from problem
