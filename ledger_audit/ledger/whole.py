"""
Reads all records of a ledger once, a batch at a time: what is kept is what the caller keeps.

Whole files are shared out among threads, and only the columns that a question needs are read.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import polars as pl

from ledger_audit.ledger.buckets import Bucket
from ledger_audit.ledger.extents import used
from ledger_audit.ledger.parts import Groups, Mask, Part
from ledger_audit.ledger.queries import batches, collect, gathered
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.schema import SAMPLE_ID, USED

_AT_ONCE = 1 << 22
"""Rows of a look for a few of them: the engine keeps the text of all until the look is over."""
_PLACE = ("rank", "step", "slot", "row", "seq")

Work = Callable[[pl.DataFrame], None]
"""Takes a batch of records; several threads call it at once."""


@dataclass(frozen=True)
class Scan:
    """Some steps of one attempt, of which every used record is asked for."""

    attempt: str
    first: int
    last: int
    but: pl.Series
    """Steps among them that are left out."""

    @property
    def where(self) -> pl.Expr:
        """Tell the records of these steps."""
        step = pl.col("step")
        within = step.is_between(self.first, self.last)
        return within & ~step.is_in(self.but.implode()) if len(self.but) else within


@dataclass(frozen=True)
class Whole:
    """All used records of the stream of one ledger, or those of one share of its samples."""

    ledger: Ledger
    bucket: Bucket | None = None
    """Whose samples are asked for; null: all."""

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
        conditions = [*used(self.ledger.stream), *self._where(scan)]

        def one(frame: pl.LazyFrame) -> None:
            rows = frame.filter(*conditions).select(columns)
            for batch in batches(rows, self.ledger.name):
                if batch.height:
                    work(batch)

        threads = pl.thread_pool_size()
        parts = self.ledger._samples.get(scan.attempt, ())
        frames = [frame for part in parts for frame in _shares(part, scan, threads)]
        if len(frames) < 2 or threads < 2:
            for frame in frames:
                one(frame)
            return
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(one, frames):
                pass

    def records(self, scan: Scan, where: pl.Expr) -> pl.DataFrame:
        """Give the used records of some steps that fulfil a condition, as `Ledger.lookup` does."""
        parts = self.ledger._samples.get(scan.attempt, ())
        frames = [one for part in parts for one in _shares(part, scan, _looks(part))]
        rows = [gathered(one.filter(scan.where, where), self.ledger.name) for one in frames]
        nothing = self.ledger.scanned("", scan.first, scan.last)
        found = self.ledger.found(pl.concat([nothing, *(one.lazy() for one in rows)]))
        # few fulfil it: they alone are shared out
        return (
            found if self.bucket is None else found.filter(self.bucket.holds(self.ledger.id_type))
        )

    def sums(self, scan: Scan) -> pl.DataFrame:
        """Add up some steps: source, epoch, records, tokens (of those with spans), spans."""
        span = pl.col("token_end") - pl.col("token_start")
        rows = self._rows(scan)
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
        ids = self._rows(scan).select("source", "epoch", SAMPLE_ID).unique()
        return collect(ids, self.ledger.name, streams=True)

    def lowest(self, scan: Scan, where: pl.Expr, most: int) -> pl.Series:
        """Give the lowest ids of the used records of some steps that fulfil a condition."""
        ids = self._rows(scan).filter(where).select(pl.col(SAMPLE_ID)).unique()
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
        """
        Count the rows of sealed files that may be used records of the stream, as footers tell.

        What is in memory is not counted.
        """
        return sum(
            int(part.groups.rows[self._may_be_used(part.groups)].sum())
            for parts in self.ledger._samples.values()
            for part in parts
            if part.groups is not None
        )

    def _may_be_used(self, groups: Groups) -> Mask:
        """Tell of each row group whether it may hold a used record of the stream."""
        has_stage = groups.is_full("stage") & groups.is_one("stage")
        is_other = has_stage & ~groups.is_only("stage", USED)
        stream = self.ledger.stream
        if stream is None:
            return ~(is_other | groups.is_full("stream"))
        has_stream = groups.is_full("stream") & groups.is_one("stream")
        is_other |= has_stream & ~groups.is_only("stream", stream)
        return ~(is_other | groups.is_null("stream"))

    def _rows(self, scan: Scan) -> pl.LazyFrame:
        rows = self.ledger.scanned_used(scan.attempt, scan.first, scan.last)
        return rows.filter(*self._where(scan))

    def _where(self, scan: Scan) -> list[pl.Expr]:
        return (
            [scan.where]
            if self.bucket is None
            else [scan.where, self.bucket.holds(self.ledger.id_type)]
        )

    def _bounds(self, part: Part, column: str) -> tuple[int, int] | None:
        if part.groups is not None:
            found = part.groups.range_of(column)
            if found is not None or part.groups.is_null(column).all():
                return found
        edges = part.rows.select(low=pl.col(column).min(), high=pl.col(column).max())
        low, high = collect(edges, self.ledger.name, streams=True).row(0)
        return None if low is None else (low, high)


def _looks(part: Part) -> int:
    """Say in how many looks a part is read, so that little is kept of what a look reads."""
    return 1 if part.groups is None else max(1, int(part.groups.rows.sum()) // _AT_ONCE)


def _shares(part: Part, scan: Scan, count: int) -> list[pl.LazyFrame]:
    """Share the files that may hold some steps out into as many frames of about as many rows."""
    groups = part.groups
    if groups is None or part.scan is None:
        return [part.rows]
    chosen = np.unique(groups.file_of[groups.may_hold("step", scan.first, scan.last)])
    sizes = np.bincount(groups.file_of, weights=groups.rows, minlength=len(groups.files))
    shares: list[list[str]] = [[] for _ in range(count)]
    filled = [0.0] * count
    for file in sorted(chosen.tolist(), key=lambda one: -sizes[one]):
        least = filled.index(min(filled))
        shares[least].append(groups.files[file])
        filled[least] += sizes[file]
    return [part.scan(files) for files in shares if files]
