"""
Opens ledgers: finds their files, checks what they say of themselves, and plans how to read them.

Of Parquet, only footers are read here; open segments and foreign logs are read whole.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from ledger_audit.errors import UnreadableError, VanishedError
from ledger_audit.ledger import foreign, store
from ledger_audit.ledger.matching import located
from ledger_audit.ledger.numbering import Numbering
from ledger_audit.ledger.parts import Part, groups_of, places_of
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.recovery import read_open
from ledger_audit.ledger.schema import FORMAT, SAMPLE_ID
from ledger_audit.ledger.segment import attempt_folder
from ledger_audit.ledger.tables import events_schema
from ledger_audit.model import Unread

_FILE = "the file of the row"
"""A column that is named as no column of a log is."""

_TAIL = 1 << 16
"""Bytes at a file's end that are read at once: most footers are shorter."""


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
        roots: folders of one ledger, or folders or files of a foreign log, or patterns that match
            such; merged.
        columns: our column name → theirs, for foreign logs.
        attempt: the label for all rows of a foreign log; None takes what the log says.
        stream: the stream to read; None is training.

    Raises:
        UnreadableError: something is missing, damaged or not what its name says.
    """
    found = [path for root in roots for path in located(root)]
    native = [path for path in found if store.is_ledger_folder(path)]
    parts = _open_native(native)
    for file in _foreign_files([path for path in found if path not in native]):
        _open_foreign(file, parts, columns or {}, attempt)
    parts.spread_headless(attempt)
    name = ", ".join(str(root) for root in roots)
    id_type = parts.id_type()
    return Ledger(
        name=name,
        stream=stream,
        id_type=id_type,
        unread=tuple(parts.unread),
        files=tuple(parts.files),
        runs={label: frozenset(ids) for label, ids in parts.runs.items()},
        _samples=parts.samples_with(id_type),
        _events={label: tuple(found) for label, found in parts.events.items()},
    )


def open_events(root: Path, attempt: str) -> Ledger:
    """
    Open the events of one attempt alone, without a look at any other folder or file.

    Raises:
        UnreadableError: there is no such attempt, or a file is damaged.
    """
    folder = attempt_folder(root, attempt)
    parts = _open_native(
        [root], lambda _: [one for one in store.in_attempt(folder) if one.table == "events"]
    )
    return Ledger(
        name=str(folder),
        stream=None,
        id_type=parts.id_type(),
        unread=tuple(parts.unread),
        files=tuple(parts.files),
        runs={label: frozenset(ids) for label, ids in parts.runs.items()},
        _samples={},
        _events={label: tuple(found) for label, found in parts.events.items()},
    )


class _Parts:
    """What the files of a ledger give, by attempt, while it is opened."""

    def __init__(self) -> None:
        self.samples: dict[str, list[Part]] = {}
        self.events: dict[str, list[Part]] = {}
        self.unread: list[Unread] = []
        self.files: list[Path] = []
        self.runs: dict[str, set[str]] = {}
        self.id_types: dict[Path, pl.DataType] = {}
        self.numbering = Numbering()
        self.headless: list[Path] = []
        """Torn files of a foreign log that hold nothing: whose they are cannot be told."""

    def add_samples(self, path: Path, attempt: str, part: Part) -> None:
        dtype = part.rows.collect_schema()[SAMPLE_ID]
        if dtype != pl.Null:
            self.id_types[path] = dtype
        self.samples.setdefault(attempt, []).append(part)

    def add_torn(self, path: Path, attempt: str, last: object) -> None:
        """Note a file that ends in the middle; what it holds of steps before `last` is whole."""
        from_step = last if isinstance(last, int) else None
        self.unread.append(Unread(str(path), attempt, from_step, None, "torn"))

    def spread_headless(self, attempt: str | None) -> None:
        """Let files that hold nothing leave every attempt in doubt."""
        for path in self.headless:
            for label in sorted({*self.samples, *self.events}) or [attempt or "0"]:
                self.add_torn(path, label, None)

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

    def samples_with(self, id_type: pl.DataType) -> dict[str, tuple[Part, ...]]:
        """Give the samples of every attempt, with ids of one type."""
        return {
            attempt: tuple(part.with_column(pl.col(SAMPLE_ID).cast(id_type)) for part in parts)
            for attempt, parts in self.samples.items()
        }


def _foreign_files(paths: Sequence[Path]) -> list[Path]:
    """List the files of logs that others wrote; what is named twice counts once."""
    files: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            store.check_regular(path)
        for file in store.foreign_files(path) if path.is_dir() else [path]:
            files.setdefault(file.resolve(), file)
    store.check_unpacked_once(files.values())
    return list(files.values())


def _open_foreign(
    path: Path, parts: _Parts, columns: Mapping[str, str], attempt: str | None
) -> None:
    parts.files.append(path)
    log = foreign.read_log(path, columns=columns, attempt=attempt, numbering=parts.numbering)
    for (label,), rows in log.events.partition_by("attempt", as_dict=True).items():
        parts.events.setdefault(str(label), []).append(Part(rows.lazy()))
    for (label,), rows in log.samples.partition_by("attempt", as_dict=True).items():
        nobody = pl.lit(None, pl.String).alias("writer")
        parts.add_samples(path, str(label), Part(rows.lazy().with_columns(nobody)))
    if log.is_torn:  # at its end, so it is the newest of its attempts that lost something
        lines = log.samples if log.samples.height else log.events
        if lines.is_empty():
            parts.headless.append(path)
            return
        label = lines["attempt"][-1]
        # not the largest: where one rank follows the other, the last one was at another step
        steps = lines.filter(attempt=label)["step"].drop_nulls()
        last = steps[-1] if len(steps) else None
        parts.add_torn(path, label, last + 1 if log.ends_with_step and last is not None else last)


def _open_native(
    roots: Sequence[Path],
    listed: Callable[[Sequence[Path]], list[store.Segment]] = store.listed,
) -> _Parts:
    """Open what a listing names; where files vanish meanwhile, another listing."""
    for look in range(store.LOOKS):
        parts = _Parts()
        found = listed(roots)
        try:
            _open_listed(found, parts)
        except (UnreadableError, FileNotFoundError):
            if look + 1 == store.LOOKS or all(segment.path.exists() for segment in found):
                raise  # they are all there: what is wrong is in them
        else:
            break
    return parts


def _open_listed(found: Sequence[store.Segment], parts: _Parts) -> None:
    replaced: dict[Path, frozenset[str]] = {}
    footers: dict[Path, pq.FileMetaData] = {}
    for segment in found:
        if segment.is_sealed:
            footer = footers[segment.path] = _parquet_metadata(segment.path)
            _check_format(segment.path, footer.metadata)
            replaced[segment.path] = _replaced_names(segment.path, footer.metadata)
            parts.add_run(segment.attempt, footer.metadata)
    kept = store.counting(found, replaced)
    store.check_replaced_once(kept, replaced)
    parts.files += [segment.path for segment in kept]
    for alike in _alike(kept, footers):
        if alike[0].is_sealed:
            _plan_sealed(alike, footers, parts)
        else:
            _open_segment(alike[0], parts)
    for segment in store.gaps(kept, replaced):
        parts.unread.append(Unread(str(segment.path), segment.attempt, None, None, "missing"))


def _alike(
    kept: Sequence[store.Segment], footers: Mapping[Path, pq.FileMetaData]
) -> list[list[store.Segment]]:
    """Gather neighbouring sealed segments of one attempt and table with the same columns."""
    runs: list[list[store.Segment]] = []
    key: object = None
    for segment in kept:
        footer = footers.get(segment.path)
        columns = None if footer is None else (footer.schema, _columns(segment.path, footer))
        found = segment.attempt, segment.table, columns
        if footer is None or found != key:
            runs.append([])
        runs[-1].append(segment)
        key = found
    return runs


def _plan_sealed(
    alike: Sequence[store.Segment], footers: Mapping[Path, pq.FileMetaData], parts: _Parts
) -> None:
    """Plan how to read sealed segments with the same columns."""
    first = alike[0]
    footer = footers[first.path]
    places = places_of(footer, _columns(first.path, footer))
    groups = tuple(
        group for one in alike for group in groups_of(one.path, footers[one.path], places)
    )

    def scan(paths: Sequence[Path]) -> pl.LazyFrame:
        rows = pl.scan_parquet(
            list(paths), hive_partitioning=False, glob=False, include_file_paths=_FILE
        )
        try:
            rows.collect_schema()  # it is kept: what follows does not look again
        except FileNotFoundError as problem:
            raise VanishedError.of(problem) from problem
        return _conformed(rows, first)

    rows = scan([one.path for one in alike])
    if first.table == "events":
        parts.events.setdefault(first.attempt, []).append(Part(rows, groups, scan))
    else:
        parts.add_samples(first.path, first.attempt, Part(rows, groups, scan))


def _open_segment(segment: store.Segment, parts: _Parts) -> None:
    path = segment.path
    opened = read_open(path)
    table = opened.rows
    for hole in opened.holes:
        parts.add_torn(path, segment.attempt, hole.from_step)
    if table.num_columns == 0:  # the writer died before it had written the schema
        return
    _check_format(path, table.schema.metadata)
    parts.add_run(segment.attempt, table.schema.metadata)
    loaded = pl.from_arrow(table.replace_schema_metadata(None))  # it need not be text
    assert isinstance(loaded, pl.DataFrame)
    rows = _conformed(loaded.lazy().with_columns(pl.lit(str(path)).alias(_FILE)), segment)
    if segment.table == "events":
        parts.events.setdefault(segment.attempt, []).append(Part(rows))
    else:
        parts.add_samples(path, segment.attempt, Part(rows))


def _conformed(rows: pl.LazyFrame, segment: store.Segment) -> pl.LazyFrame:
    """Give rows of a segment, and of others like it, the columns of its table."""
    if segment.table == "events":
        return _conform_events(rows, segment)
    columns = {"attempt": _FILE}  # it tells the writer; the folder's name is the attempt
    samples = foreign.conform(
        rows, segment.path, columns=columns, required=("rank", SAMPLE_ID, "seq")
    )
    return samples.with_columns(
        pl.col("attempt").alias("writer"), attempt=pl.lit(segment.attempt, pl.String)
    )


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


def _parquet_metadata(path: Path) -> pq.FileMetaData:
    """Read the footer of a sealed segment, and nothing else of it but its first four bytes."""
    try:
        with path.open("rb", buffering=0) as file:
            head = file.read(4)
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL))
            tail = file.read()
            length = int.from_bytes(tail[-8:-4], "little") + 8
            if len(tail) < length <= size:
                file.seek(size - length)
                tail = file.read()
        if head != foreign.PARQUET_MAGIC or tail[-4:] != foreign.PARQUET_MAGIC or size < 12:
            foreign.check_parquet(path)  # says what is wrong
        return pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowException, OSError) as problem:
        raise UnreadableError(
            f"{path}: its Parquet footer cannot be read: {problem}",
            hint="copy it again; if its writer died, remove the file: its rows are lost",
        ) from problem


def _columns(path: Path, footer: pq.FileMetaData) -> pa.Schema:
    try:
        return footer.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as problem:
        raise UnreadableError(
            f"{path}: its columns cannot be read: {problem}",
            hint="copy it again; if its writer died, remove the file: its rows are lost",
        ) from problem


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
