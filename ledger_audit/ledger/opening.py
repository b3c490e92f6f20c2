"""
Opens ledgers: finds their files, checks what they say of themselves, and plans how to read them.

Of Parquet, only footers are read here; open segments and foreign logs are read whole.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from ledger_audit.errors import UnreadableError, VanishedError
from ledger_audit.ledger import footers, foreign, index, remote, store, wholeness
from ledger_audit.ledger.address import Address
from ledger_audit.ledger.ahead import together
from ledger_audit.ledger.matching import located
from ledger_audit.ledger.numbering import Numbering
from ledger_audit.ledger.parts import Groups, Part
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.recovery import OpenRows, read_open
from ledger_audit.ledger.schema import SAMPLE_ID
from ledger_audit.ledger.segment import attempt_folder
from ledger_audit.ledger.tables import events_schema
from ledger_audit.model import Unread

_FILE = "the file of the row"
"""A column that is named as no column of a log is."""


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

    def add_samples(self, path: Path, attempt: str, part: Part, dtype: pl.DataType) -> None:
        """Add samples that lie in a file, and in others like it, with ids of a type."""
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

    def add_run(self, attempt: str, run: str) -> None:
        """Note which run a file says it belongs to."""
        self.runs.setdefault(attempt, set()).add(run)

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
        if isinstance(path, Address) or not path.is_dir():
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
        said = index.dropped_of(path) if str(label) == store.label_of(path.parent) else None
        part = Part(rows.lazy().with_columns(nobody), dropped=() if said is None else (said,))
        parts.add_samples(path, str(label), part, rows.schema[SAMPLE_ID])
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
        with _acyclic():
            found = listed(roots)
        try:
            _open_listed(found, parts)
        except (UnreadableError, FileNotFoundError) as problem:
            if look + 1 == store.LOOKS or not _has_vanished(found, problem):
                raise  # they are all there: what is wrong is in them
        else:
            break
    return parts


def _has_vanished(found: Sequence[store.Segment], problem: Exception) -> bool:
    """Tell whether a file that was listed is there no more."""
    if isinstance(problem, VanishedError):
        return True
    return not all(one.path.exists() for one in found if one.size is None)


@contextmanager
def _acyclic() -> Iterator[None]:
    """Look for no cycles while millions of values without any are made: it would take longest."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _open_listed(found: Sequence[store.Segment], parts: _Parts) -> None:
    sealed = [segment for segment in found if segment.is_sealed]
    told = index.footers(sealed)  # footers are let go of as cycles only
    runs = told["run_id"].combine_chunks().dictionary_encode()
    said = zip((segment.attempt for segment in sealed), runs.indices.to_pylist(), strict=True)
    for attempt, place in set(said):
        if place is not None:
            parts.add_run(attempt, runs.dictionary[place].as_py())
    replaced = _replaced(sealed, told)
    with _acyclic():
        kept = store.counting(found, replaced)
        wholeness.check_replaced_once(kept, replaced)
        runs_alike = _alike(kept, sealed, told)
        gaps = wholeness.gaps(kept, replaced)
    for alike in runs_alike:
        parts.files.append(sealed[alike[0]].path)  # it stands for all: there may be millions
        _plan_sealed([sealed[place] for place in alike], told.take(alike), parts)
    growing = [segment for segment in kept if not segment.is_sealed]
    for segment, opened in zip(growing, _read_open(growing), strict=True):
        parts.files.append(segment.path)
        _open_segment(segment, opened, parts)
    for segment in gaps:
        parts.unread.append(Unread(str(segment.path), segment.attempt, None, None, "missing"))


def _replaced(sealed: Sequence[store.Segment], told: pa.Table) -> dict[Path, frozenset[str]]:
    """Give what merged files say that they stand for."""
    texts = told["replaces"]
    places = np.flatnonzero(texts.is_valid()).tolist()
    return {
        sealed[place].path: footers.replaced_names(sealed[place].path, {b"replaces": text.encode()})
        for place, text in zip(places, texts.drop_null().to_pylist(), strict=True)
    }


def _alike(
    kept: Sequence[store.Segment], sealed: Sequence[store.Segment], told: pa.Table
) -> Iterable[list[int]]:
    """Gather the places of the sealed segments of one attempt and table with the same columns."""
    runs: dict[tuple[str, str, int], list[int]] = {}
    counting = iter(segment for segment in kept if segment.is_sealed)
    wanted = next(counting, None)
    for place, (segment, columns) in enumerate(
        zip(sealed, told["columns"].to_pylist(), strict=True)
    ):
        if segment is not wanted:
            continue  # it does not count; those that do are in the same order
        wanted = next(counting, None)
        if columns is None:
            footers.check_columns(segment.path)
        runs.setdefault((segment.attempt, segment.table, columns), []).append(place)
    return runs.values()


def _plan_sealed(alike: Sequence[store.Segment], told: pa.Table, parts: _Parts) -> None:
    """Plan how to read sealed segments with the same columns."""
    first = alike[0]
    counts = told["groups"].combine_chunks()
    groups = Groups(
        [str(segment.file) for segment in alike],
        counts.value_lengths().to_numpy(),
        counts.flatten(),
    )

    def scan(paths: Sequence[str | Path]) -> pl.LazyFrame:
        rows = pl.scan_parquet(
            [str(path) for path in paths],
            hive_partitioning=False,
            glob=False,
            include_file_paths=_FILE,
            **remote.options_of(first.path),
        )
        try:
            rows.collect_schema()  # it is kept: what follows does not look again
        except FileNotFoundError as problem:
            raise VanishedError.of(problem) from problem
        except OSError as problem:
            raise remote.complaint(str(first.file), problem) from problem
        return _conformed(rows, first)

    part = Part(None, groups, scan, told["dropped"].drop_null().to_pylist())
    schema = scan([first.path]).collect_schema()
    if first.table == "events":
        parts.events.setdefault(first.attempt, []).append(part)
    else:
        parts.add_samples(first.path, first.attempt, part, schema[SAMPLE_ID])


def _read_open(growing: Sequence[store.Segment]) -> Iterable[OpenRows]:
    """Read open segments; of an object store, several at once, and as of one moment."""
    is_far = all(one.size is not None for one in growing)
    found = remote.several(lambda one: read_open(one.path, one.size), growing, is_far=is_far)
    return together(growing, list(found)) if is_far else found


def _open_segment(segment: store.Segment, opened: OpenRows, parts: _Parts) -> None:
    path = segment.path
    table = opened.rows
    for hole in opened.holes:
        parts.add_torn(path, segment.attempt, hole.from_step)
    if table.num_columns == 0:  # the writer died before it had written the schema
        return
    metadata = table.schema.metadata or {}
    footers.check_format(path, metadata)
    run = footers.text_of(metadata, b"run_id")
    if run is not None:
        parts.add_run(segment.attempt, run)
    dropped = footers.text_of(metadata, b"dropped")
    loaded = pl.from_arrow(table.replace_schema_metadata(None))  # it need not be text
    assert isinstance(loaded, pl.DataFrame)
    rows = _conformed(loaded.lazy().with_columns(pl.lit(str(path)).alias(_FILE)), segment)
    if segment.table == "events":
        parts.events.setdefault(segment.attempt, []).append(Part(rows))
    else:
        part = Part(rows, dropped=() if dropped is None else (dropped,))
        parts.add_samples(path, segment.attempt, part, rows.collect_schema()[SAMPLE_ID])


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
