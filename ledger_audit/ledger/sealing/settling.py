"""Removes what does not count any more: what a seal that was killed had written anew already."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ledger_audit.errors import UnreadableError, VanishedError
from ledger_audit.ledger import store
from ledger_audit.ledger.sealing.publish import remove, sync_folder
from ledger_audit.ledger.sealing.source import read, replaced_by, told_by_file, whole

Metadata = Mapping[bytes, bytes]


def settle(
    segments: Sequence[store.Segment], live: Mapping[str, str], problems: list[str]
) -> tuple[list[store.Segment], list[str]]:
    """
    Remove the files of dead writers that a seal has written anew, and open copies of sealed ones.

    Args:
        segments: all of an attempt.
        live: writers whose files are left alone.
        problems: gets what is corrupt, and therefore stays.

    Returns:
        The segments that are left and count, and the names of the removed files.
    """
    told = _told(segments, problems)
    names = {file: replaced_by(metadata, file.path) for file, metadata in told.items()}
    dead = {one.path.name: one for one in segments if one.writer not in live}
    doomed: dict[store.Segment, None] = {}
    for file, replaced in names.items():
        # what another tool merged does not count either, but was not compared: it stays
        sizes = told_by_file(told[file], b"replaced_bytes")
        there = [dead[name] for name in sizes if name in dead and name in replaced]
        there = [one for one in there if one != file and one not in doomed]
        if there and file not in doomed and _is_sound(file, problems):
            doomed.update(dict.fromkeys(_not_grown(file, there, sizes, problems)))
    sealed = {(one.table, one.writer, one.number): one for one in told if one not in doomed}
    for one in dead.values():
        twin = sealed.get((one.table, one.writer, one.number))
        is_twin = not one.is_sealed and one not in doomed and twin is not None
        if is_twin and twin is not None and _holds_no_more(one, twin, problems):
            doomed[one] = None
    removed = remove(one.path for one in doomed)
    if removed:
        sync_folder(segments[0].path.parent)
    left = [one for one in segments if one not in doomed]
    return store.counting(left, {file.path: found for file, found in names.items()}), removed


def _told(segments: Sequence[store.Segment], problems: list[str]) -> dict[store.Segment, Metadata]:
    """Read what every sealed file says of itself."""
    told: dict[store.Segment, Metadata] = {}
    for one in segments:
        if not one.is_sealed:
            continue
        try:
            found = pq.read_metadata(one.path).metadata or {}
            replaced_by(found, one.path)
            told[one] = found
        except FileNotFoundError as problem:
            raise VanishedError.of(one.path) from problem
        except UnreadableError as problem:
            problems.append(problem.message)
        except (pa.ArrowException, OSError) as problem:
            problems.append(f"{one.path}: its Parquet footer cannot be read: {problem}")
    return told


def _is_sound(file: store.Segment, problems: list[str]) -> bool:
    """Tell whether a merged file can be read from end to end."""
    try:
        whole(file.path)
    except (pa.ArrowException, OSError, ValueError) as problem:
        problems.append(f"{file.path}: cannot be read, so what it replaces stays: {problem}")
        return False
    return True


def _not_grown(
    file: store.Segment,
    there: Sequence[store.Segment],
    sizes: Mapping[str, Any],
    problems: list[str],
) -> list[store.Segment]:
    """Keep what somebody wrote to after a merged file took its place."""
    kept = []
    for one in there:
        size = one.path.stat().st_size
        known = sizes[one.path.name]
        if isinstance(known, int) and size > known:
            problems.append(
                f"{one.path}: has grown since {file.path.name} took its place: its writer was "
                "alive, and what it wrote since is not read; keep a copy, and remove it"
            )
        else:
            kept.append(one)
    return kept


def _holds_no_more(twin: store.Segment, sealed: store.Segment, problems: list[str]) -> bool:
    """Tell whether the open copy of a sealed segment, which does not count, has nothing else."""
    try:
        more = _places(read(twin).rows) - _places(read(sealed).rows)
    except VanishedError:
        raise
    except UnreadableError as problem:
        problems.append(problem.message)
        return False
    if more:
        problems.append(
            f"{twin.path}: holds {len(more)} lines that its sealed copy does not; keep the better "
            "one of the two"
        )
    return not more


def _places(rows: pa.Table) -> set[tuple[int, int]]:
    known = rows.select(["rank", "seq"]).drop_null()
    pairs = np.column_stack([known[name].to_numpy() for name in ("rank", "seq")])
    return set(map(tuple, pairs.tolist()))
