"""
Sums up what an attempt used, by streams that read each row once and keep no record.

A long attempt is summed up stretch by stretch of its steps, so that the sums fit into memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from ledger_audit.ledger.parts import Part
from ledger_audit.ledger.queries import collect
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.schema import SAMPLE_ID, USED
from ledger_audit.ledger.searching import Search
from ledger_audit.ledger.tables import events_schema

MOST = 1 << 23
"""Rows whose sums are in memory at once."""

_MICRO_BATCH = ["rank", "step", "slot", "epoch"]
_MOST_LINES = 1 << 40
"""More than any rank writes."""


@dataclass(frozen=True)
class Sums:
    """Questions about amounts, asked of one ledger; a record is a used one of its stream."""

    ledger: Ledger

    def stretches(self, attempt: str, first: int, last: int) -> list[tuple[int, int]]:
        """Cut steps from `first` to `last` into stretches of about as many rows, at most MOST."""
        groups = [
            (steps.low, steps.high, group.rows)
            for part in self.ledger._samples.get(attempt, ())
            for group in part.groups or ()
            if (steps := group.bounds("step")).low is not None and steps.may_hold(first, last)
        ]
        total = sum(rows for _, _, rows in groups)
        count = min(-(-total // MOST), last - first + 1)
        if count <= 1:
            return [(first, last)]
        low, high, rows = (np.array(column, np.float64) for column in zip(*groups, strict=True))

        def before(step: int) -> float:
            return float((rows * np.clip((step - low) / (high - low + 1), 0, 1)).sum())

        start, goal = before(first), before(last + 1)
        ends = [
            _first_reaching(before, first, last, start + (goal - start) * part / count)
            for part in range(1, count)
        ]
        cuts = sorted({first, *(end for end in ends if first < end <= last), last + 1})
        return [(one, other - 1) for one, other in pairwise(cuts)]

    def usage(
        self, attempt: str, first: int, last: int | None, before: int | None = None
    ) -> pl.DataFrame:
        """
        Sum up what was used in each micro-batch of a stretch of steps.

        Args:
            attempt: its label.
            first: step.
            last: step; null: to the end.
            before: only records with a lower `seq`; null: all.

        Returns:
            rank, step, slot, epoch; n (lines), sequences, spans and tokens (of the lines that
            have both ends), placed (lines with a position), seq_low, seq_high; is_odd: the lines
            may not be what they seem, for instance there twice, and must be looked at.

        Raises:
            UnreadableError: a used record is nowhere, or its span ends before it begins.
        """
        rows = self.ledger.scanned_used(attempt, first, last)
        if before is not None:
            rows = rows.filter(pl.col("seq") < before)
        span = pl.col("token_end") - pl.col("token_start")
        sums = rows.group_by(_MICRO_BATCH).agg(
            pl.len().cast(pl.Int64).alias("n"),
            pl.col("row").min().alias("row_low"),
            pl.col("row").max().alias("row_high"),
            pl.col("row").null_count().alias("rowless"),
            span.count().cast(pl.Int64).alias("spans"),
            span.sum().alias("tokens"),
            (span < 0).sum().alias("reversed"),
            pl.col("position").count().cast(pl.Int64).alias("placed"),
            pl.col("seq").min().alias("seq_low"),
            pl.col("seq").max().alias("seq_high"),
            *self._files(attempt),
        )
        found = collect(sums, self.ledger.name, streams=True)
        self._check(attempt, found)
        width = (pl.col("row_high") - pl.col("row_low") + 1).cast(pl.Int64)
        has_rows = pl.col("rowless") == 0
        is_odd = (pl.col("n") > pl.col("seq_high") - pl.col("seq_low") + 1) | (
            has_rows & (pl.col("spans") == 0) & (pl.col("n") > width)
        )
        if found["epoch"].n_unique() > 1:  # a micro-batch of two passes is there twice
            is_odd |= pl.struct("rank", "step", "slot").is_duplicated()
        if "one_file" in found.columns:
            is_odd |= pl.col("one_file") != pl.col("other_file")
        return found.with_columns(
            sequences=pl.when(has_rows).then(pl.min_horizontal("n", width)).otherwise("n"),
            is_odd=is_odd,
        ).select(
            *_MICRO_BATCH,
            "n",
            "sequences",
            "spans",
            "tokens",
            "placed",
            "seq_low",
            "seq_high",
            "is_odd",
        )

    def records(self, attempt: str, steps: pl.Series) -> pl.DataFrame:
        """Give the used records of some steps, as `Ledger.records` gives those of a stretch."""
        first, last = steps.min(), steps.max()
        if not isinstance(first, int) or not isinstance(last, int):
            return self.ledger.records(attempt, 0, -1)
        rows = self.ledger.scanned(attempt, first, last)
        return self.ledger.found(rows.filter(pl.col("step").is_in(steps.implode())))

    def places(self, attempt: str, first: int, last: int, but: pl.Series) -> pl.DataFrame:
        """
        Give the positions that each step of a stretch used, as ranges.

        Args:
            attempt: its label.
            first: step.
            last: step.
            but: steps that are left out.

        Returns:
            step, start, stop: half-open ranges without a gap.
        """
        rows = self.ledger.scanned_used(attempt, first, last).filter(
            ~pl.col("step").is_in(but.implode()), pl.col("position").is_not_null()
        )
        position = pl.col("position")
        by_step = rows.group_by("step").agg(
            position.min().alias("start"),
            (position.max() + 1).alias("stop"),
            pl.len().alias("n"),
            position.hash().sum().alias("mixed"),
        )
        found = collect(by_step, self.ledger.name, streams=True)
        if is_gapless(found, lambda every: int(every.hash().sum())):
            return found.select("step", "start", "stop")
        each = collect(rows.select("step", "position").unique(), self.ledger.name, streams=True)
        return ranges_by(each, "step")

    def documents(
        self, attempt: str, ranks: Sequence[int], last: int, but: pl.Series
    ) -> pl.LazyFrame:
        """
        Give each document of some ranks and the first step that used it, not read yet.

        Args:
            attempt: its label.
            ranks: whose.
            last: step.
            but: steps that are left out.

        Returns:
            rank, epoch, source, sample_id, step.
        """
        rows = self.ledger.scanned_used(attempt, 0, last).filter(
            pl.col("rank").is_in(list(ranks)), ~pl.col("step").is_in(but.implode())
        )
        return rows.group_by("rank", "epoch", "source", SAMPLE_ID).agg(pl.col("step").min())

    def read(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """Read what was asked for and not read yet, as a stream."""
        return collect(rows, self.ledger.name, streams=True)

    def stages(self) -> frozenset[str]:
        """List the stages other than `used` that the stream has records of."""
        return frozenset(
            stage
            for stream, stage in self.ledger.streams()
            if stream == self.ledger.stream and stage not in (None, USED)
        )

    def staged(self, attempt: str, cuts: pl.DataFrame) -> pl.DataFrame:
        """
        Count the records that were not used, by stage, before some places in the order of writing.

        Args:
            attempt: its label.
            cuts: rank, seq: the places.

        Returns:
            rank, stage, seq, n: how many the rank wrote before each of its cuts; and with a null
            `seq` how many it wrote at all.
        """
        ranks = cuts["rank"].unique().sort()
        # so that rank and order of writing fit into one integer, whatever a log calls a rank
        turn = pl.col("rank").replace_strict(
            ranks, pl.int_range(len(ranks), eager=True), default=-1
        )
        key = turn.cast(pl.Int64) * _MOST_LINES + pl.col("seq").clip(0, _MOST_LINES - 1)
        edges = cuts.select(key).to_series().unique().sort()
        bucket = key.map_batches(
            lambda keys: edges.search_sorted(keys, side="right"),
            return_dtype=pl.UInt32(),
            is_elementwise=True,
        )
        rows = self.ledger.scanned(attempt).filter(*_unused(self.ledger.stream))
        counted = rows.select("rank", "stage", bucket=bucket).group_by("rank", "stage", "bucket")
        found = collect(
            counted.agg(pl.len().cast(pl.Int64).alias("n")), self.ledger.name, streams=True
        ).sort("bucket")
        places = cuts.select("rank", "seq").unique()
        own = edges.search_sorted(places.select(key).to_series(), side="left")
        places = places.with_columns(bucket=own).sort("bucket")
        sums = [
            found.group_by("rank", "stage")
            .agg(pl.col("n").sum())
            .select("rank", "stage", pl.lit(None, pl.Int64).alias("seq"), "n")
        ]
        for (stage,), of_stage in found.partition_by("stage", as_dict=True).items():
            running = of_stage.select("rank", "bucket", n=pl.col("n").cum_sum().over("rank"))
            joined = places.join_asof(
                running, on="bucket", by="rank", strategy="backward", check_sortedness=False
            )
            sums.append(
                joined.select("rank", pl.lit(stage).alias("stage"), "seq", pl.col("n").fill_null(0))
            )
        return pl.concat(sums)

    def dropped(self, attempt: str) -> pl.Series:
        """Give the positions that were dropped, each once."""
        rows = self.ledger.scanned(attempt).filter(
            *_unused(self.ledger.stream), pl.col("stage") == "dropped"
        )
        found = rows.select("position").drop_nulls().unique()
        return collect(found, self.ledger.name, streams=True)["position"]

    def tokens(self, attempt: str, first: int, last: int) -> pl.DataFrame:
        """Give what each commit says of the tokens of its try: rank, seq, tokens."""
        rows = self.ledger._read(self.ledger._events, attempt, first, last)
        if rows is None:
            rows = pl.DataFrame(schema=events_schema())
        said = pl.col("data").str.json_path_match("$.tokens").cast(pl.Int64, strict=False)
        commits = rows.filter(kind="commit").unique(["rank", "seq"])
        return commits.select("rank", "seq", tokens=said)

    def sources(self, attempt: str) -> frozenset[str | None]:
        """List the data sets of an attempt's records; null: some have none."""
        return Search(self.ledger).sources(attempt)

    def size(self, attempt: str) -> int:
        """Count the rows of an attempt, of all streams and stages."""
        return Search(self.ledger).size(attempt)

    def put_away(self) -> Mapping[str, tuple[int, int]]:
        """Give, by attempt, the segments and records that writers did not keep on purpose."""
        return Search(self.ledger).put_away()

    def _files(self, attempt: str) -> list[pl.Expr]:
        """Tell micro-batches that lie in two files, where a writer of the attempt has several."""
        files = [
            Path(path).name.rsplit("-", 1)[0]
            for part in self.ledger._samples.get(attempt, ())
            for path in _paths(part)
        ]
        if len(files) == len(set(files)):
            return []  # one for each writer: nothing can be there twice
        return [
            pl.col("writer").first().alias("one_file"),
            pl.col("writer").last().alias("other_file"),
        ]

    def _check(self, attempt: str, found: pl.DataFrame) -> None:
        """Let what is wrong with a record be said where all records are read."""
        wrong = found.filter(
            pl.col("rank").is_null() | pl.col("slot").is_null() | (pl.col("reversed") > 0)
        )
        if wrong.height:
            step = int(wrong["step"][0])
            self.ledger.records(attempt, step, step)


def ranges_by(places: pl.DataFrame, key: str) -> pl.DataFrame:
    """
    Put neighbouring positions of one key together.

    Args:
        places: the key, and position; each pair once.
        key: the column.

    Returns:
        The key, start, stop: half-open ranges without a gap.
    """
    ordered = places.select(key, "position").sort(key, "position")
    is_next = (pl.col("position") == pl.col("position").shift(1) + 1) & pl.col(key).eq_missing(
        pl.col(key).shift(1)
    )
    ranges = ordered.with_columns(run=(~is_next).fill_null(value=True).cum_sum())
    return (
        ranges.group_by("run")
        .agg(
            pl.col(key).first(),
            pl.col("position").min().alias("start"),
            (pl.col("position").max() + 1).alias("stop"),
        )
        .drop("run")
    )


def is_gapless(steps: pl.DataFrame, mixed: Callable[[pl.Series], int]) -> bool:
    """
    Tell whether each step used every position of its range once, and no two share any.

    As many as the range holds may still be one twice and one not at all: sums of hashes tell.

    Args:
        steps: start, stop, n and mixed (the sum of the hashes of its positions) of each.
        mixed: positions → the sum of their hashes, as it is modulo 2^64.
    """
    width = pl.col("stop") - pl.col("start")
    ordered = steps.sort("start")
    is_apart = (ordered["start"] >= ordered["stop"].shift(1)).fill_null(value=True)
    if not is_apart.all() or not steps.filter(width != pl.col("n")).is_empty():
        return False
    every = steps.select(pl.int_ranges("start", "stop").explode()).to_series()
    return (mixed(every) - int(steps["mixed"].sum())) % (1 << 64) == 0


def _paths(part: Part) -> list[str]:
    if part.groups is not None:
        return list(dict.fromkeys(str(group.path) for group in part.groups))
    names = part.rows.select(pl.col("writer").unique()).collect()["writer"]
    return [str(one) for one in names.drop_nulls()]


def _unused(stream: str | None) -> list[pl.Expr]:
    return [
        pl.col("stage").is_not_null() & (pl.col("stage") != USED),
        pl.col("stream").eq_missing(pl.lit(stream, pl.String)),
    ]


def _first_reaching(before: Callable[[int], float], low: int, high: int, goal: float) -> int:
    """Give the first step of which so many rows lie before."""
    while low < high:
        middle = (low + high) // 2
        if before(middle) < goal:
            low = middle + 1
        else:
            high = middle
    return low
