"""
Writes a foreign log as a ledger of format 1: sealed segments that hold all that the log holds.

Nothing is made up. What the log does not tell stays unknown in the ledger too, and is listed, so
that an audit of the ledger says what an audit of the log says.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from ledger_audit.errors import UnreadableError, UsageError
from ledger_audit.ledger import store
from ledger_audit.ledger.data_indices import rank_of
from ledger_audit.ledger.foreign import ARROW_MESSAGE
from ledger_audit.ledger.matching import located
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.reader import Ledger, refuse_reversed_spans
from ledger_audit.ledger.schema import FORMAT, SAMPLE_ID, USED
from ledger_audit.ledger.segment import (
    OpenSegment,
    Table,
    arrow_schema,
    attempt_folder,
    segment_name,
    write_sealed,
)
from ledger_audit.ledger.staging import check_target, publish, staged
from ledger_audit.ledger.tables import events_schema
from ledger_audit.ledger.unknowns import Told, Unknown, unknowns
from ledger_audit.model import Unread

_BATCH = 1 << 20
"""Records that become columns on disk at once."""

_LARGEST_SEQ = 1 << 62
"""Larger ones leave no room after them."""


@dataclass(frozen=True)
class Origin:
    """What the user knows of one attempt and its log does not say; null: not known either."""

    resumed_from: tuple[str, int] | None = None
    """The attempt and its last step that the loaded checkpoint holds."""
    world_size: int | None = None

    @property
    def is_empty(self) -> bool:
        """The user says nothing."""
        return self.resumed_from is None and self.world_size is None


@dataclass(frozen=True)
class Converted:
    """What was written of one attempt."""

    attempt: str
    ranks: int
    records: int
    events: int
    first_step: int | None
    last_step: int | None
    has_new_start: bool
    """Start events were written that the log does not have."""
    is_renumbered: bool
    """The log gives one `seq` of a rank twice, or the start events need the first."""


@dataclass(frozen=True)
class Conversion:
    """What was written, and what the log did not tell."""

    attempts: tuple[Converted, ...]
    unknowns: tuple[Unknown, ...]


@dataclass(frozen=True)
class _Rows:
    """All that a log holds of one attempt."""

    attempt: str
    samples: pl.DataFrame
    events: pl.DataFrame
    torn: tuple[Unread, ...]


def convert(
    roots: Sequence[Path],
    target: Path,
    *,
    columns: Mapping[str, str],
    attempt: str | None = None,
    origin: Origin = Origin(),
) -> Conversion:
    """
    Write a foreign log as a ledger, whole or not at all.

    Args:
        roots: files, folders or patterns of one log.
        target: the ledger's folder; it is made, or gets the attempts that it does not have yet.
        columns: our column name → theirs.
        attempt: the label to give to the one attempt of the log.
        origin: what the start events of the one attempt are to say; they are only written where
            the log has none.

    Raises:
        UnreadableError: the log cannot be read.
        UsageError: the ledger has such an attempt, or cannot be written; the options contradict
            the log, or are about one attempt and the log has several; there is nothing to write.
    """
    for root in roots:
        for path in located(root):
            if store.is_ledger_folder(path):
                raise UsageError(
                    f"{path}: is a ledger of format {FORMAT} already",
                    hint="copy the folder; diff takes several ledgers and reads them as one",
                )
    ledger = open_ledger(roots, columns=columns)
    _check_options(ledger, attempt, origin)
    labels = {label: attempt or label for label in ledger.attempts}
    check_target(target, set(labels.values()))
    has_slots = any(store.kind_of(file) != "tsv" or rank_of(file) is None for file in ledger.files)
    written, told = [], []
    with staged(target) as folder:
        for label, new in labels.items():
            rows = _rows_of(ledger, label, new)
            _check(rows.samples, ledger.name)
            has_start = not rows.events.filter(kind="start").is_empty()
            if has_start:
                _check_agreement(rows, origin)
            starts = None if has_start or origin.is_empty else _starts(rows, origin)
            rows, is_renumbered = _numbered(rows, starts)
            _write(folder, rows)
            written.append(_converted(rows, starts is not None, is_renumbered))
            told.append(_told(rows, has_slots))
        publish(folder, target)
    return Conversion(tuple(written), unknowns(told))


def _check_options(ledger: Ledger, attempt: str | None, origin: Origin) -> None:
    labels = ledger.attempts
    if not labels:
        raise UsageError(
            f"{ledger.name}: holds no record and no event",
            hint="there is nothing to convert; point at a log with records",
        )
    if len(labels) > 1 and (attempt is not None or not origin.is_empty):
        raise UsageError(
            f"{ledger.name}: holds the attempts {', '.join(labels)}",
            hint="--attempt, --resumed-from and --world-size are about one: give a log of one",
        )
    if not all(labels) or attempt == "":
        raise UsageError(
            f"{ledger.name}: an attempt has an empty label", hint="give it one with --attempt"
        )
    if origin.resumed_from is not None and origin.resumed_from[0] == (attempt or labels[0]):
        raise UsageError(
            f"--resumed-from: attempt {attempt or labels[0]} cannot resume from itself",
            hint="label this attempt with --attempt, and name the one before it",
        )


def _rows_of(ledger: Ledger, label: str, new: str) -> _Rows:
    samples, events = ledger.everything(label)
    attempt = pl.lit(new, pl.String).alias("attempt")
    return _Rows(
        new,
        samples.with_columns(attempt),
        events.with_columns(attempt),
        tuple(replace(part, attempt=new) for part in ledger.unread if part.attempt == label),
    )


def _check(samples: pl.DataFrame, name: str) -> None:
    """Refuse records that a ledger cannot hold, or that no audit accepts."""
    used = samples.filter(pl.col("stage").is_null() | (pl.col("stage") == USED))
    for column in ("rank", "step", "slot", SAMPLE_ID):
        rows = used if column in ("step", "slot") else samples
        if rows[column].null_count():
            raise UnreadableError(
                f"{name}: a record has a null {column!r}",
                hint="every record needs rank and sample_id, every used one step and slot too",
            )
    refuse_reversed_spans(used, name)


def _check_agreement(rows: _Rows, origin: Origin) -> None:
    """Refuse to say something else than the start events that the log has."""
    wanted: dict[str, Any] = {
        "resumed_from": origin.resumed_from,
        "world_size": origin.world_size,
    }
    for start in _start_data(rows):
        found = start.get("resumed_from")
        said = {
            "resumed_from": (str(found.get("attempt")), found.get("step"))
            if isinstance(found, dict)
            else None,
            "world_size": start.get("world_size"),
        }
        for name, value in wanted.items():
            if value is not None and value != said[name]:
                raise UsageError(
                    f"--{name.replace('_', '-')}: a start event of attempt {rows.attempt} says "
                    f"{json.dumps(start.get(name))}",
                    hint="leave the option away, or mend the log: the trainer's own words count",
                )


def _start_data(rows: _Rows) -> list[dict[str, Any]]:
    return [json.loads(text or "{}") for text in rows.events.filter(kind="start")["data"]]


def _ranks(rows: _Rows) -> list[int]:
    return pl.concat([rows.samples["rank"], rows.events["rank"]]).unique().sort().to_list()


def _starts(rows: _Rows, origin: Origin) -> pl.DataFrame:
    """Give a start event for each rank that the log knows, of what the user says."""
    ranks = _ranks(rows)
    if origin.world_size is not None and ranks[-1] >= origin.world_size:
        raise UsageError(
            f"--world-size {origin.world_size}: the log holds rank {ranks[-1]}",
            hint="ranks are counted from 0; the world size is one more than the largest, or larger",
        )
    data: dict[str, Any] = {}
    if origin.world_size is not None:
        data["world_size"] = origin.world_size
    if origin.resumed_from is not None:
        label, step = origin.resumed_from
        data["resumed_from"] = {"attempt": label, "step": step}
    return pl.DataFrame(
        {
            "attempt": [rows.attempt] * len(ranks),
            "rank": ranks,
            "seq": [0] * len(ranks),
            "kind": ["start"] * len(ranks),
            "data": [json.dumps(data)] * len(ranks),
            "time_ns": None,
            "step": None,
        },
        schema_overrides=events_schema(),
    ).select(list(events_schema()))


def _numbered(rows: _Rows, starts: pl.DataFrame | None) -> tuple[_Rows, bool]:
    """Give every line of a rank a `seq` of its own, in the order that the log has."""
    first = 0 if starts is None else 1
    place = pl.concat(
        [rows.samples.select("rank", "seq"), rows.events.select("rank", "seq")]
    ).with_row_index("line")
    has_room = (place["seq"] < _LARGEST_SEQ).all()
    is_sound = has_room and not place.select("rank", "seq").is_duplicated().any()
    if is_sound and starts is None:
        return rows, False
    nth = pl.int_range(pl.len(), dtype=pl.Int64).over("rank") + first
    numbers = (
        place.sort("rank", "seq", "line").with_columns(nth=nth).sort("line")["nth"].alias("seq")
    )
    height = rows.samples.height
    events = rows.events.with_columns(numbers.slice(height))
    return (
        replace(
            rows,
            samples=rows.samples.with_columns(numbers.slice(0, height)),
            events=events if starts is None else pl.concat([starts, events]),
        ),
        True,
    )


def _write(folder: Path, rows: _Rows) -> None:
    """Write the segments of one attempt, and a torn one for each file that was torn."""
    attempt = attempt_folder(folder, rows.attempt)
    attempt.mkdir()
    frames: dict[Table, pl.DataFrame] = {"samples": rows.samples, "events": rows.events}
    tables = {name: _arrow(name, frame) for name, frame in frames.items() if frame.height}
    writer = f"converted-{_digest(tables.values())}"
    # the run and the host are not those of the machine that converts: they stay unknown
    metadata = {"format": FORMAT, "writer": writer}
    for name, table in tables.items():
        write_sealed(table, attempt / f"{segment_name(name, writer, 0)}.parquet", metadata)
    rank = min(_ranks(rows))
    known = [frame.filter(rank=rank)["seq"].max() for frame in frames.values()]
    last = max(seq for seq in known if isinstance(seq, int))
    for number, part in enumerate(rows.torn):
        stem = segment_name("events", writer, number + ("events" in tables))
        segment = OpenSegment(attempt / f"{stem}.arrows", arrow_schema("events"), metadata)
        data = {"file": Path(part.file).name, "dropped": "what follows its last sound line"}
        event = {"kind": "recovered", "step": part.from_step, "data": json.dumps(data)}
        place = {"attempt": rows.attempt, "rank": rank, "seq": last + 1 + number}
        segment.append({key: [value] for key, value in {**place, **event}.items()})
        segment.close()
        with segment.path.open("ab") as file:  # as if its writer had died: so it reads as torn
            file.write(ARROW_MESSAGE)


def _arrow(name: Table, frame: pl.DataFrame) -> pa.Table:
    """Give rows with the columns of a table on disk, sorted so that a window of steps is short."""
    schema = arrow_schema(name, text_ids=name == "samples" and frame[SAMPLE_ID].dtype == pl.String)
    ordered = frame.select(schema.names).sort("step", "rank", "seq")
    return pa.concat_tables(
        ordered.slice(start, _BATCH).to_arrow().cast(schema)
        for start in range(0, frame.height, _BATCH)
    )


def _digest(tables: Iterable[pa.Table]) -> str:
    """Name a writer after what it writes: other rows are another writer's, the same are not."""
    found = blake2b(digest_size=6)
    for table in tables:
        for column in table.columns:
            for chunk in column.chunks:
                batch = pa.record_batch([chunk], names=["column"])
                found.update(batch.serialize())
    return found.hexdigest()


def _converted(rows: _Rows, has_new_start: bool, is_renumbered: bool) -> Converted:
    steps = rows.samples["step"]
    first, last = steps.min(), steps.max()
    return Converted(
        attempt=rows.attempt,
        ranks=len(_ranks(rows)),
        records=rows.samples.height,
        events=rows.events.height,
        first_step=first if isinstance(first, int) else None,
        last_step=last if isinstance(last, int) else None,
        has_new_start=has_new_start,
        is_renumbered=is_renumbered and not has_new_start,
    )


def _told(rows: _Rows, has_slots: bool) -> Told:
    keys: set[str] = set()
    for start in _start_data(rows):
        fingerprint = start.get("fingerprint")
        keys |= {*start, *(fingerprint if isinstance(fingerprint, dict) else ())}
    samples = rows.samples
    columns = [name for name in samples.columns if samples[name].null_count() < samples.height]
    return Told(
        attempt=rows.attempt,
        columns=frozenset(columns),
        kinds=frozenset(rows.events["kind"]),
        start_keys=frozenset(keys),
        torn=rows.torn,
        has_slots=has_slots,
    )
