"""
Gives what a ledger recorded, as frames cut to the steps asked for, and what cannot be read.

Parquet is read lazily: only the columns, and by their statistics the row groups, that are needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger import extents
from ledger_audit.ledger.parts import Part
from ledger_audit.ledger.queries import collect
from ledger_audit.ledger.schema import SAMPLE_ID
from ledger_audit.ledger.streams import streams_of
from ledger_audit.ledger.tables import events_schema, samples_schema
from ledger_audit.model import Unread

MOST_RECORDS = 1 << 40
"""More than one rank can use in one step."""

_NOT_JUDGED = ("writer", "stream", "stage")
"""Columns that say which records to give, or say nothing to the audit."""


@dataclass(frozen=True)
class Ledger:
    """
    One or several roots, opened as one ledger.

    Frames of samples have the columns of the `samples` table but `stream` and `stage`, and
    only used records of one stream; frames of events those of the `events` table.
    """

    name: str
    stream: str | None
    """The stream that the frames hold; None is training."""
    id_type: pl.DataType
    unread: tuple[Unread, ...]
    files: tuple[Path, ...]
    runs: Mapping[str, frozenset[str]]
    """The run ids that the files of each attempt name in their metadata."""
    _samples: Mapping[str, tuple[Part, ...]]
    _events: Mapping[str, tuple[Part, ...]]

    @property
    def attempts(self) -> tuple[str, ...]:
        """Every attempt that left a record or an event, in no particular order."""
        return tuple(sorted({*self._samples, *self._events}))

    def acts(self) -> pl.DataFrame:
        """Give every event that is neither a commit nor a void, of all attempts."""
        frames = [
            frame for _, parts in sorted(self._events.items()) for frame in extents.acts(parts)
        ]
        return collect(pl.concat([pl.LazyFrame(schema=events_schema()), *frames]), self.name)

    def tries(self, attempt: str, first_step: int, last_step: int | None = None) -> pl.DataFrame:
        """
        Give how the tries of an attempt ended, for steps from `first_step` to `last_step`.

        Returns:
            attempt, rank, seq, step, kind (`commit` or `void`), samples (records that the commit
            says the try held; null if it does not say), digest (of those records, likewise).
            Commits count training alone: of other streams both are null.
        """
        rows = self._read(self._events, attempt, first_step, last_step, but=["time_ns"])
        if rows is None:
            rows = pl.DataFrame(schema=events_schema())
        tries = rows.filter(pl.col("kind").is_in(extents.TRY_KINDS)).select(
            "attempt", "rank", "seq", "step", "kind", _said("samples"), _said("digest")
        )
        if self.stream is not None:
            nothing = pl.lit(None, pl.Int64)
            tries = tries.with_columns(samples=nothing, digest=nothing)
        if ((tries["samples"] < 0) | (tries["samples"] > MOST_RECORDS)).any():
            raise UnreadableError(
                f"{self.name}: attempt {attempt} has a commit with impossible 'samples'",
                hint="a commit's 'samples' is the number of records of its try",
            )
        return tries

    def has_commits(self) -> bool:
        """Tell whether any attempt left a commit event."""
        return extents.has_commits(
            [part for parts in self._events.values() for part in parts], self.name
        )

    def records(self, attempt: str, first_step: int, last_step: int | None = None) -> pl.DataFrame:
        """
        Give the used records of an attempt for steps from `first_step` to `last_step`.

        Raises:
            UnreadableError: two files give different content for one place of a writer's order.
        """
        rows = self._read(self._samples, attempt, first_step, last_step)
        return self._no_records() if rows is None else _numbered(self._used(rows))

    def lookup(self, attempt: str, ids: pl.Series) -> pl.DataFrame:
        """Give every used record of an attempt whose `sample_id` is among `ids`."""
        if ids.is_empty():
            return self._no_records()
        return self.found(self.scanned(attempt).filter(pl.col(SAMPLE_ID).is_in(ids.implode())))

    def scanned(
        self, attempt: str, first_step: int | None = None, last_step: int | None = None
    ) -> pl.LazyFrame:
        """
        Give the samples of an attempt as written, not read yet: all streams and stages.

        Args:
            attempt: its label; of an unknown one there is no row.
            first_step: of the rows to give; null: all rows, also those of no step.
            last_step: of the rows to give; null: there is none after which they end.

        Returns:
            The columns of the `samples` table and `writer`.
        """
        if first_step is None:
            frames = [part.rows for part in self._samples.get(attempt, ())]
            return pl.concat(frames) if frames else self._no_rows()
        frames = _stretch(self._samples.get(attempt, ()), first_step, last_step)
        rows = pl.concat(frames) if frames else self._no_rows()
        return rows.filter(_within(first_step, last_step))

    def scanned_used(
        self, attempt: str, first_step: int | None = None, last_step: int | None = None
    ) -> pl.LazyFrame:
        """Give the used records of the ledger's stream likewise, not read and not checked yet."""
        return self.scanned(attempt, first_step, last_step).filter(*extents.used(self.stream))

    def found(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """Give the used records among scanned rows of one attempt, read as a stream."""
        found = self._used(collect(rows, self.name, streams=True))
        # the rest of their micro-batches was not read: the order of writing stands for a row
        return found.with_columns(
            row=pl.coalesce("row", pl.col("seq").cast(pl.Int32, strict=False))
        )

    def extents(self) -> pl.DataFrame:
        """
        Say how far each rank of each attempt got that left a used record, a commit or a void.

        Returns:
            attempt, rank, first_step, last_step (of its used records; null without one).
        """
        found = [
            extents.extents(
                attempt,
                self._samples.get(attempt, ()),
                self._events.get(attempt, ()),
                self.stream,
                self.name,
            )
            for attempt in self.attempts
        ]
        return pl.concat([pl.DataFrame(schema=extents.SCHEMA), *found])

    def streams(self) -> frozenset[tuple[str | None, str | None]]:
        """List each stream (null: training) and stage (null: used) that has a record."""
        parts = [part for of_attempt in self._samples.values() for part in of_attempt]
        return streams_of(parts, self.name)

    def glimpse(self, attempt: str, first_step: int, most: int) -> pl.DataFrame:
        """Give up to `most` used records of an attempt from a step on, as written, any of them."""
        rows = self.scanned_used(attempt, first_step)
        return collect(rows.drop("writer").head(most), self.name)

    def everything(self, attempt: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Give every record and every event of an attempt as written: all streams and stages."""
        samples = [part.rows.drop("writer") for part in self._samples.get(attempt, ())]
        events = [part.rows for part in self._events.get(attempt, ())]
        no_samples = pl.LazyFrame(schema=samples_schema(self.id_type))
        return (
            collect(pl.concat([no_samples, *samples]), self.name),
            collect(pl.concat([pl.LazyFrame(schema=events_schema()), *events]), self.name),
        )

    def _read(
        self,
        table: Mapping[str, tuple[Part, ...]],
        attempt: str,
        first_step: int,
        last_step: int | None,
        but: Sequence[str] = (),
    ) -> pl.DataFrame | None:
        """Read a stretch of steps; of sealed files, only those that may hold a part of it."""
        frames = _stretch(table.get(attempt, ()), first_step, last_step)
        if not frames:
            return None
        rows = pl.concat(frames).filter(_within(first_step, last_step)).drop(but)
        return collect(rows, self.name)

    def _used(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Keep the used records of the stream, once each."""
        # a filter in the plan would make polars decode these columns of every row that it scans
        rows = rows.filter(*extents.used(self.stream))
        return _once(_sound(rows, self.name), self.name).drop(_NOT_JUDGED)

    def _no_rows(self) -> pl.LazyFrame:
        return pl.LazyFrame(schema={**samples_schema(self.id_type), "writer": pl.String()})

    def _no_records(self) -> pl.DataFrame:
        return pl.DataFrame(schema=samples_schema(self.id_type)).drop(_NOT_JUDGED, strict=False)


def in_memory(name: str, samples: pl.DataFrame, events: pl.DataFrame) -> Ledger:
    """
    Give records and events that nobody wrote to a disk as a ledger of training.

    Args:
        name: for messages.
        samples: with the columns of the `samples` table.
        events: with those of the `events` table.
    """
    samples = samples.with_columns(writer=pl.lit(None, pl.String))
    tables = [
        {
            str(label): (Part(rows.lazy()),)
            for (label,), rows in table.partition_by("attempt", as_dict=True).items()
        }
        for table in (samples, events)
    ]
    return Ledger(name, None, samples.schema[SAMPLE_ID], (), (), {}, *tables)


def _stretch(parts: Sequence[Part], first_step: int, last_step: int | None) -> list[pl.LazyFrame]:
    """Give the files, and the rows in memory, that may hold a part of a stretch of steps."""
    found = [part.stretch(first_step, last_step) for part in parts]
    return [frame for frame in found if frame is not None]


def _within(first_step: int, last_step: int | None) -> pl.Expr:
    after = pl.col("step") >= first_step
    return after if last_step is None else after & (pl.col("step") <= last_step)


def _said(key: str) -> pl.Expr:
    """Read an integer, or its text, out of an event's data; null where there is none."""
    found = pl.col("data").str.json_path_match(f"$.{key}")
    return found.cast(pl.Int64, strict=False).alias(key)


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
    refuse_reversed_spans(rows, name)
    return rows


def refuse_reversed_spans(rows: pl.DataFrame, name: str) -> None:
    """
    Refuse used records whose span ends before it begins.

    Raises:
        UnreadableError: there is one.
    """
    reversed_spans = rows.filter(pl.col("token_end") < pl.col("token_start"))
    if reversed_spans.height:
        row = reversed_spans.row(0, named=True)
        raise UnreadableError(
            f"{name}: sample {row[SAMPLE_ID]} in step {row['step']} has the span "
            f"[{row['token_start']}, {row['token_end']}): 'token_end' precedes 'token_start'",
            hint="spans are half-open ranges of tokens: [token_start, token_end)",
        )


def _once(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Read what two segments of one writer both hold once; differing content is corruption."""
    place = ["writer", "rank", "seq"]
    if not rows.select("rank", "seq").is_duplicated().any():
        return rows
    rows = _with_writers(rows)
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


def _with_writers(rows: pl.DataFrame) -> pl.DataFrame:
    """Name the writer where the file stands that it wrote: TABLE-WRITER-NUMBER.SUFFIX."""
    files = rows["writer"].unique().drop_nulls().to_list()
    writers = {one: Path(one).name.split("-", 1)[1].rsplit("-", 1)[0] for one in files}
    return rows.with_columns(pl.col("writer").replace(writers))
