"""
Opens ledgers: finds their files, checks what they say of themselves, and plans how to read them.

Of Parquet, only footers are read here; open segments and foreign logs are read whole.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger import foreign, store
from ledger_audit.ledger.reader import Ledger, collect
from ledger_audit.ledger.schema import FORMAT, SAMPLE_ID
from ledger_audit.ledger.tables import events_schema
from ledger_audit.model import Unread


def open_ledger(
    roots: Sequence[Path],
    *,
    columns: Mapping[str, str] | None = None,
    attempt: str | None = None,
    stream: str | None = None,
) -> Ledger:
    """
    Open a ledger.

    Args:
        roots: folders of one ledger, or folders or files of a foreign log; merged.
        columns: our column name → theirs, for foreign logs.
        attempt: the label for all rows of a foreign log; None takes what the log says.
        stream: the stream to read; None is training.

    Raises:
        UnreadableError: something is missing, damaged or not what its name says.
    """
    parts = _Parts()
    for root in roots:
        if not root.exists():
            raise UnreadableError(f"{root}: does not exist", hint="check the path")
    native = [root for root in roots if store.is_ledger_folder(root)]
    if native:
        _open_native(native, parts)
    for root in roots:
        if root not in native:
            if not root.is_dir():
                store.check_regular(root)
            files = store.foreign_files(root) if root.is_dir() else [root]
            for file in files:
                _open_foreign(file, parts, columns or {}, attempt)
    name = ", ".join(str(root) for root in roots)
    return Ledger(
        name=name,
        stream=stream,
        id_type=parts.id_type(),
        unread=tuple(parts.unread),
        files=tuple(parts.files),
        runs={label: frozenset(ids) for label, ids in parts.runs.items()},
        _samples=parts.merged_samples(name),
        _events={label: pl.concat(frames) for label, frames in parts.events.items()},
    )


class _Parts:
    """What the files of a ledger give, by attempt, while it is opened."""

    def __init__(self) -> None:
        self.samples: dict[str, list[tuple[Path, pl.LazyFrame]]] = {}
        self.events: dict[str, list[pl.LazyFrame]] = {}
        self.unread: list[Unread] = []
        self.files: list[Path] = []
        self.runs: dict[str, set[str]] = {}
        self.id_types: dict[Path, pl.DataType] = {}

    def add_samples(
        self, path: Path, attempt: str, frame: pl.LazyFrame, writer: str | None
    ) -> None:
        dtype = frame.collect_schema()[SAMPLE_ID]
        if dtype != pl.Null:
            self.id_types[path] = dtype
        writer_column = pl.lit(writer, pl.String).alias("writer")
        self.samples.setdefault(attempt, []).append((path, frame.with_columns(writer_column)))

    def add_torn(self, path: Path, attempt: str, last: object) -> None:
        """Note a file that ends in the middle; what it holds of steps before `last` is whole."""
        from_step = last if isinstance(last, int) else None
        self.unread.append(Unread(str(path), attempt, from_step, None, "torn"))

    def add_run(self, attempt: str, metadata: Mapping[bytes, bytes] | None) -> None:
        """Note which run a file says it belongs to."""
        run = (metadata or {}).get(b"run_id")
        if run is not None:
            self.runs.setdefault(attempt, set()).add(run.decode("utf-8", "replace"))

    def id_type(self) -> pl.DataType:
        """Give the one type of the sample ids of this ledger."""
        types = {str(dtype): (path, dtype) for path, dtype in self.id_types.items()}
        if len(types) > 1:
            (one, one_type), (other, other_type) = list(types.values())[:2]
            raise UnreadableError(
                f"'sample_id' is {one_type} in {one} and {other_type} in {other}",
                hint="one ledger has one type of sample ids: convert one of them",
            )
        return next(iter(self.id_types.values()), pl.Int64())

    def merged_samples(self, name: str) -> dict[str, pl.LazyFrame]:
        id_type = self.id_type()
        merged = {}
        for attempt, parts in self.samples.items():
            frames = [frame.with_columns(pl.col(SAMPLE_ID).cast(id_type)) for _, frame in parts]
            try:
                merged[attempt] = pl.concat(frames)
            except pl.exceptions.PolarsError as problem:
                raise UnreadableError(
                    f"{name}: the files of attempt {attempt} do not fit together: {problem}",
                    hint="docs/ledger-format.md names the type of each column",
                ) from problem
        return merged


def _open_foreign(
    path: Path, parts: _Parts, columns: Mapping[str, str], attempt: str | None
) -> None:
    parts.files.append(path)
    if store.kind_of(path) == "jsonl":
        samples, events, is_torn = foreign.read_json_lines(path, columns=columns)
        if attempt is not None:
            samples = samples.with_columns(attempt=pl.lit(attempt, pl.String))
            events = events.with_columns(attempt=pl.lit(attempt, pl.String))
        for (label,), rows in events.partition_by("attempt", as_dict=True).items():
            parts.events.setdefault(str(label), []).append(rows.lazy())
    else:
        events = pl.DataFrame(schema=events_schema())
        frame, is_torn = foreign.scan(path)
        conformed = foreign.conform(frame, path, columns=columns, attempt=attempt)
        samples = collect(conformed, str(path))
    for (label,), rows in samples.partition_by("attempt", as_dict=True).items():
        parts.add_samples(path, str(label), rows.lazy(), None)
    if is_torn:  # at its end, so it is the newest of its attempts that lost something
        lines = samples if samples.height else events
        label = lines["attempt"][-1] if lines.height else "0"
        parts.add_torn(path, label, lines.filter(attempt=label)["step"].max())


def _open_native(roots: Sequence[Path], parts: _Parts) -> None:
    found = [segment for root in roots for segment in store.segments(root)]
    replaced: dict[Path, frozenset[str]] = {}
    for segment in found:
        if segment.is_sealed:
            foreign.check_parquet(segment.path)
            metadata = _parquet_metadata(segment.path)
            _check_format(segment.path, metadata)
            replaced[segment.path] = _replaced_names(segment.path, metadata)
            parts.add_run(segment.attempt, metadata)
    kept = store.counting(found, replaced)
    for segment in kept:
        _open_segment(segment, parts)
    for segment in store.gaps(kept, replaced):
        parts.unread.append(Unread(str(segment.path), segment.attempt, None, None, "missing"))


def _open_segment(segment: store.Segment, parts: _Parts) -> None:
    path = segment.path
    parts.files.append(path)
    is_torn = False
    if segment.is_sealed:
        frame = pl.scan_parquet(path, hive_partitioning=False, glob=False)
    else:
        table, is_torn = foreign.read_arrow(path)
        if table.num_columns == 0:  # the writer died before it had written the schema
            parts.add_torn(path, segment.attempt, None)
            return
        _check_format(path, table.schema.metadata)
        parts.add_run(segment.attempt, table.schema.metadata)
        loaded = pl.from_arrow(table)
        assert isinstance(loaded, pl.DataFrame)
        frame = loaded.lazy()
    if segment.table == "events":
        frame = _conform_events(frame, segment)
        parts.events.setdefault(segment.attempt, []).append(frame)
    else:
        frame = foreign.conform(
            frame, path, columns={}, attempt=segment.attempt, required=("rank", SAMPLE_ID, "seq")
        )
        parts.add_samples(path, segment.attempt, frame, segment.writer)
    if is_torn:
        last = collect(frame.select(pl.col("step").max()), str(path)).item()
        parts.add_torn(path, segment.attempt, last)


def _conform_events(frame: pl.LazyFrame, segment: store.Segment) -> pl.LazyFrame:
    schema = frame.collect_schema()
    for name in ("rank", "seq", "kind"):
        if name not in schema:
            raise UnreadableError(
                f"{segment.path}: the required column {name!r} is missing",
                hint="docs/ledger-format.md describes the events table",
            )
    return frame.select(
        pl.lit(segment.attempt, pl.String).alias("attempt")
        if name == "attempt"
        else (pl.col(name) if name in schema else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in events_schema().items()
    )


def _parquet_metadata(path: Path) -> Mapping[bytes, bytes] | None:
    try:
        metadata: Mapping[bytes, bytes] | None = pq.read_schema(path).metadata
    except (pa.ArrowException, OSError) as problem:
        raise UnreadableError(
            f"{path}: its Parquet footer cannot be read: {problem}",
            hint="copy it again; if its writer died, remove the file: its rows are lost",
        ) from problem
    return metadata


def _replaced_names(path: Path, metadata: Mapping[bytes, bytes] | None) -> frozenset[str]:
    try:
        return store.replaced_names(metadata)
    except (ValueError, TypeError) as problem:
        raise UnreadableError(
            f"{path}: 'replaces' in the file's metadata is not a JSON list of file names",
            hint="write the file again with the tool that merged it",
        ) from problem


def _check_format(path: Path, metadata: Mapping[bytes, bytes] | None) -> None:
    found = (metadata or {}).get(b"format")
    if found is None or found.decode("utf-8", "replace") != FORMAT:
        said = "no format" if found is None else f"format {found.decode('utf-8', 'replace')!r}"
        raise UnreadableError(
            f"{path}: the file's metadata says {said}; this version reads format {FORMAT!r}",
            hint="read it with the version of ledger-audit that wrote it, or a newer one",
        )


def same_id_type(ledgers: Iterable[Ledger]) -> None:
    """
    Refuse to compare ledgers whose sample ids have different types.

    Raises:
        UnreadableError: one has integers, the other text.
    """
    with_rows = [ledger for ledger in ledgers if ledger._samples]
    for one, other in pairwise(with_rows):
        if one.id_type != other.id_type:
            raise UnreadableError(
                f"'sample_id' is {one.id_type} in {one.name} and {other.id_type} in {other.name}",
                hint="ids of different types never match: convert one of the two",
            )
