"""
Gives what a ledger recorded, as frames cut to the steps asked for, and what cannot be read.

Parquet is read lazily: only the columns, and by their statistics the row groups, that are needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.schema import SAMPLE_ID, USED
from ledger_audit.ledger.tables import events_schema, samples_schema
from ledger_audit.model import Unread

_TRY_KINDS = ("commit", "void")
MOST_RECORDS = 1 << 40
"""More than one rank can use in one step."""


@dataclass(frozen=True)
class Ledger:
    """
    One or several roots, opened as one ledger.

    Frames of samples have the columns of the `samples` table plus `writer` (null in foreign
    logs), and only used records of one stream; frames of events those of the `events` table.
    """

    name: str
    stream: str | None
    """The stream that the frames hold; None is training."""
    id_type: pl.DataType
    unread: tuple[Unread, ...]
    files: tuple[Path, ...]
    runs: Mapping[str, frozenset[str]]
    """The run ids that the files of each attempt name in their metadata."""
    _samples: Mapping[str, pl.LazyFrame]
    _events: Mapping[str, pl.LazyFrame]

    @property
    def attempts(self) -> tuple[str, ...]:
        """Every attempt that left a record or an event, in no particular order."""
        return tuple(sorted({*self._samples, *self._events}))

    def acts(self) -> pl.DataFrame:
        """Give every event that is neither a commit nor a void, of all attempts."""
        frames = [
            collect(frame.filter(~pl.col("kind").is_in(_TRY_KINDS)), self.name)
            for _, frame in sorted(self._events.items())
        ]
        return pl.concat([pl.DataFrame(schema=events_schema()), *frames])

    def tries(self, attempt: str, first_step: int, last_step: int | None = None) -> pl.DataFrame:
        """
        Give how the tries of an attempt ended, for steps from `first_step` to `last_step`.

        Returns:
            attempt, rank, seq, step, kind (`commit` or `void`), samples (records that the commit
            says the try held; null if it does not say).
        """
        frame = self._events.get(attempt)
        if frame is None:
            frame = pl.LazyFrame(schema=events_schema())
        said = pl.col("data").str.json_path_match("$.samples").cast(pl.Int64, strict=False)
        tries = collect(
            frame.filter(pl.col("kind").is_in(_TRY_KINDS), _within(first_step, last_step)).select(
                "attempt", "rank", "seq", "step", "kind", said.alias("samples")
            ),
            self.name,
        )
        if ((tries["samples"] < 0) | (tries["samples"] > MOST_RECORDS)).any():
            raise UnreadableError(
                f"{self.name}: attempt {attempt} has a commit with impossible 'samples'",
                hint="a commit's 'samples' is the number of records of its try",
            )
        return tries

    def has_commits(self) -> bool:
        """Tell whether any attempt left a commit event."""
        return any(
            collect(frame.filter(pl.col("kind") == "commit").head(1), self.name).height
            for frame in self._events.values()
        )

    def records(self, attempt: str, first_step: int, last_step: int | None = None) -> pl.DataFrame:
        """
        Give the used records of an attempt for steps from `first_step` to `last_step`.

        Raises:
            UnreadableError: two files give different content for one place of a writer's order.
        """
        rows = collect(self._used(attempt).filter(_within(first_step, last_step)), self.name)
        return _numbered(_once(_sound(rows, self.name), self.name))

    def lookup(self, attempt: str, ids: pl.Series) -> pl.DataFrame:
        """Give every used record of an attempt whose `sample_id` is among `ids`."""
        if ids.is_empty():
            return self.records("", 0)
        rows = collect(
            self._used(attempt).filter(pl.col(SAMPLE_ID).is_in(ids.implode())), self.name
        )
        # the rest of their micro-batches was not read: the order of writing stands for a row
        return _once(_sound(rows, self.name), self.name).with_columns(
            row=pl.coalesce("row", pl.col("seq").cast(pl.Int32, strict=False))
        )

    def extents(self) -> pl.DataFrame:
        """
        Say how far each rank of each attempt got.

        Returns:
            attempt, rank, first_step, last_step (of its used records; null without one),
            records, has_try (it left a commit or void).
        """
        frames = []
        for attempt in self.attempts:
            of_records = (
                self._used(attempt)
                .group_by("rank")
                .agg(
                    pl.col("step").min().alias("first_step"),
                    pl.col("step").max().alias("last_step"),
                    pl.len().cast(pl.Int64).alias("records"),
                    pl.col("step").null_count().alias("unplaced"),
                )
            )
            events = self._events.get(attempt, pl.LazyFrame(schema=events_schema()))
            tried = events.filter(pl.col("kind").is_in(_TRY_KINDS)).select("rank").unique()
            joined = of_records.join(
                tried.with_columns(has_try=pl.lit(True)), on="rank", how="full", coalesce=True
            )
            ranks = collect(joined, self.name)
            if ranks["unplaced"].sum() or ranks["rank"].null_count():
                raise UnreadableError(
                    f"{self.name}: attempt {attempt} has a used record without 'step' or 'rank'",
                    hint="every used record needs rank, step, slot and sample_id",
                )
            frames.append(
                ranks.select(
                    pl.lit(attempt, pl.String).alias("attempt"),
                    "rank",
                    "first_step",
                    "last_step",
                    pl.col("records").fill_null(0),
                    pl.col("has_try").fill_null(value=False),
                )
            )
        schema = {
            "attempt": pl.String(),
            "rank": pl.Int32(),
            "first_step": pl.Int64(),
            "last_step": pl.Int64(),
            "records": pl.Int64(),
            "has_try": pl.Boolean(),
        }
        return pl.concat([pl.DataFrame(schema=schema), *frames]).sort("attempt", "rank")

    def _used(self, attempt: str) -> pl.LazyFrame:
        frame = self._samples.get(attempt)
        if frame is None:
            return pl.LazyFrame(schema={**samples_schema(self.id_type), "writer": pl.String()})
        return frame.filter(
            pl.col("stage").is_null() | (pl.col("stage") == USED),
            pl.col("stream").eq_missing(pl.lit(self.stream, pl.String)),
        )


def _within(first_step: int, last_step: int | None) -> pl.Expr:
    after = pl.col("step") >= first_step
    return after if last_step is None else after & (pl.col("step") <= last_step)


def collect(frame: pl.LazyFrame, name: str) -> pl.DataFrame:
    """Run a query; whatever a file turns out to hold is the input's fault, and says so."""
    try:
        return frame.collect()
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise UnreadableError(
            f"{name}: cannot be read: {problem}",
            hint="check the file that the message names, and the types of its columns",
        ) from problem


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Give rows within a micro-batch where the log has none: the order of writing."""
    if not rows["row"].null_count():
        return rows
    nth = pl.int_range(pl.len(), dtype=pl.Int32).over("rank", "step", "slot")
    return rows.sort("seq").with_columns(row=pl.coalesce("row", nth))


def _sound(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Refuse used records that are nowhere, or whose span ends before it begins."""
    for column in ("rank", "slot", SAMPLE_ID):
        if rows[column].null_count():
            raise UnreadableError(
                f"{name}: a used record has a null {column!r}",
                hint="every used record needs rank, step, slot and sample_id",
            )
    reversed_spans = rows.filter(pl.col("token_end") < pl.col("token_start"))
    if reversed_spans.height:
        row = reversed_spans.row(0, named=True)
        raise UnreadableError(
            f"{name}: sample {row[SAMPLE_ID]} in step {row['step']} has the span "
            f"[{row['token_start']}, {row['token_end']}): 'token_end' precedes 'token_start'",
            hint="spans are half-open ranges of tokens: [token_start, token_end)",
        )
    return rows


def _once(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Read what two segments of one writer both hold once; differing content is corruption."""
    place = ["writer", "rank", "seq"]
    twice = rows.filter(pl.col("writer").is_not_null() & pl.struct(place).is_duplicated())
    if twice.is_empty():
        return rows
    content = twice.unique()
    clash = content.filter(pl.struct(place).is_duplicated())
    if not clash.is_empty():
        first = clash.row(0, named=True)
        raise UnreadableError(
            f"{name}: writer {first['writer']} rank {first['rank']} has two different records "
            f"as 'seq' {first['seq']}",
            hint="one of the files is corrupt or was copied from another run: remove it",
        )
    return rows.unique(maintain_order=True)
