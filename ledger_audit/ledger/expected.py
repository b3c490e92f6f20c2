"""
Writes an expected stream as a ledger of format 1: one attempt that says that it is no run.

A stream of any length is written in bounded memory. Each row group holds one rank, so that what a
rank has to do from some step on is found by the statistics of the files.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from ledger_audit.errors import UnreadableError, UsageError
from ledger_audit.ledger.reader import refuse_reversed_spans
from ledger_audit.ledger.schema import FORMAT, SAMPLE_ID
from ledger_audit.ledger.segment import (
    ROW_GROUP,
    arrow_schema,
    attempt_folder,
    encodings,
    segment_name,
    write_sealed,
)
from ledger_audit.ledger.staging import check_target, publish, staged
from ledger_audit.ledger.tables import samples_schema

EXPECTED = "expected"
"""The key of a start event's data by which an expectation is told from a run."""

REQUIRED = ("rank", "step", "slot", "row", SAMPLE_ID)
OPTIONAL = ("token_start", "token_end", "source", "epoch", "position")

_SEGMENT_ROWS = 1 << 21
_SEGMENT_BYTES = 1 << 28
"""Rows are held until they are so many, or take so much memory; then a segment is written."""


@dataclass(frozen=True)
class Written:
    """What was written of an expected stream."""

    root: Path
    attempt: str
    records: int
    segments: int
    """Files of records; an empty stream has none."""
    first_step: int | None
    """Null: the stream is empty."""
    last_step: int | None


def write_expected(
    root: Path,
    label: str,
    pieces: Iterable[pl.DataFrame],
    *,
    world_size: int,
    expected: Mapping[str, Any],
    fingerprint: Mapping[str, Any] | None = None,
) -> Written:
    """
    Write an expected stream as a ledger, whole or not at all: same input, same bytes.

    Args:
        root: the ledger's folder; it must not exist, or be empty.
        label: of the one attempt.
        pieces: the stream in its global order, of any sizes, with the columns of REQUIRED and any
            of OPTIONAL (null where left out); its steps never go back.
        world_size: ranks that the stream is dealt to; some may have no record.
        expected: `kind`, and `recipe`, which names all that decides the stream.
        fingerprint: as of a start event; null: nothing is said.

    Raises:
        UsageError: there is something at `root`, or it cannot be written.
        UnreadableError: a piece is no part of a stream: a column is missing or null, a rank is
            beyond the world size, or a step goes back.
    """
    check_target(root, {label})
    if root.is_dir() and (there := sorted(path.name for path in root.iterdir())):
        raise UsageError(
            f"{root}: exists and holds {there[0]}, and nothing is overwritten",
            hint="name a new folder, or remove this one first",
        )
    data: dict[str, Any] = {EXPECTED: dict(expected), "world_size": world_size}
    if fingerprint is not None:
        data["fingerprint"] = dict(fingerprint)
    text = json.dumps(data, sort_keys=True, ensure_ascii=False)
    writer = f"expected-{blake2b(f'{label} {text}'.encode(), digest_size=6).hexdigest()}"
    metadata = {"format": FORMAT, "writer": writer}  # no run and no host: nothing ran anywhere
    with staged(root) as folder:
        attempt = attempt_folder(folder, label)
        attempt.mkdir()
        segments = _Segments(attempt, label, metadata, world_size)
        for rows in _gathered(_checked(pieces, world_size)):
            segments.write(rows)
        write_sealed(
            _events(label, text, int(segments.next_seq[0])),
            attempt / f"{segment_name('events', writer, 0)}.parquet",
            metadata,
        )
        publish(folder, root)
    first, last = segments.steps or (None, None)
    return Written(root, label, segments.records, segments.count, first, last)


class _Segments:
    """Numbers the records of each rank, and writes them segment by segment."""

    def __init__(
        self, folder: Path, label: str, metadata: Mapping[str, str], world_size: int
    ) -> None:
        self._folder, self._label, self._metadata = folder, label, metadata
        self.next_seq = np.ones(world_size, np.int64)
        """Of each rank; the start event is the first thing said."""
        self.count, self.records = 0, 0
        self.steps: tuple[int, int] | None = None

    def write(self, rows: pl.DataFrame) -> None:
        """Write one segment: rank by rank, each in the order of the stream."""
        first, last = int(rows["step"][0]), int(rows["step"][-1])
        nth = pl.int_range(pl.len(), dtype=pl.Int64).over("rank")
        rows = rows.sort("rank", maintain_order=True).with_columns(
            pl.lit(self._label, pl.String).alias("attempt"),
            seq=nth + pl.Series(self.next_seq[rows["rank"].sort().to_numpy()]),
        )
        schema = arrow_schema("samples", text_ids=rows.schema[SAMPLE_ID] == pl.String)
        fields = [field for field in schema if field.name in rows.columns]
        schema = pa.schema(fields, metadata=dict(self._metadata))
        sizes = np.bincount(rows["rank"].to_numpy(), minlength=len(self.next_seq))
        table = rows.select(schema.names).to_arrow().cast(schema)
        name = segment_name("samples", self._metadata["writer"], self.count)
        with pq.ParquetWriter(
            self._folder / f"{name}.parquet", schema, **encodings(schema)
        ) as file:
            start = 0
            for size in sizes[sizes > 0].tolist():
                file.write_table(table.slice(start, size), row_group_size=ROW_GROUP)
                start += size
        self.next_seq += sizes
        self.count, self.records = self.count + 1, self.records + rows.height
        self.steps = (first if self.steps is None else self.steps[0], last)


def _gathered(pieces: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Give the same rows in pieces that are large, and hold whole steps where they can."""
    held: list[pl.DataFrame] = []
    rows, size = 0, 0
    for piece in pieces:
        held.append(piece)
        rows, size = rows + piece.height, size + int(piece.estimated_size())
        while rows >= _SEGMENT_ROWS or (size >= _SEGMENT_BYTES and rows > 1):
            whole = pl.concat(held)
            most = min(_SEGMENT_ROWS, max(1, rows * _SEGMENT_BYTES // max(size, 1)), rows)
            steps = whole["step"].head(most)
            cut = steps.search_sorted(steps[-1]) or most  # one step may be more than can be held
            yield whole.head(cut)
            held = [whole.slice(cut)]
            rows, size = rows - cut, size * (rows - cut) // rows
    if rows:
        yield pl.concat(held)


def _checked(pieces: Iterable[pl.DataFrame], world_size: int) -> Iterator[pl.DataFrame]:
    """Give pieces the columns of the table on disk; refuse what is no part of a stream."""
    before: tuple[int, pl.DataType] | None = None
    for piece in pieces:
        if not piece.height:
            continue
        rows = _conformed(piece)
        low, high = rows.select(low=pl.col("rank").min(), high=pl.col("rank").max()).row(0)
        if low < 0 or high >= world_size:
            raise _no_stream(f"rank {low if low < 0 else high} is none of {world_size}")
        is_later = before is None or before[0] <= rows["step"][0]
        if not (is_later and rows["step"].is_sorted()):
            raise _no_stream("its steps go back")
        if before is not None and before[1] != rows.schema[SAMPLE_ID]:
            raise _no_stream("its 'sample_id' is text in one piece and an integer in another")
        before = rows["step"][-1], rows.schema[SAMPLE_ID]
        refuse_reversed_spans(rows, "the expected stream")
        yield rows


def _conformed(piece: pl.DataFrame) -> pl.DataFrame:
    for column in REQUIRED:
        if column not in piece.columns or piece[column].null_count():
            raise _no_stream(f"a record has no {column!r}")
    id_type = pl.String() if piece.schema[SAMPLE_ID] == pl.String else pl.Int64()
    types = samples_schema(id_type)
    return piece.select(
        (pl.col(name) if name in piece.columns else pl.lit(None)).cast(types[name]).alias(name)
        for name in (*REQUIRED, *OPTIONAL)
    )


def _no_stream(problem: str) -> UnreadableError:
    return UnreadableError(
        f"the expected stream cannot be written: {problem}",
        hint="give rank, step, slot, row and sample_id of each record, in the order of the stream",
    )


def _events(label: str, start: str, seq: int) -> pa.Table:
    """Give the start and the end of the attempt, as the first rank tells them."""
    schema = arrow_schema("events")
    rows = {
        "attempt": [label] * 2,
        "rank": [0, 0],
        "seq": [0, seq],
        "time_ns": [None, None],
        "kind": ["start", "end"],
        "step": [None, None],
        "data": [start, json.dumps({"reason": "the expected stream ends here"})],
    }
    return pa.table(rows, schema=schema)
