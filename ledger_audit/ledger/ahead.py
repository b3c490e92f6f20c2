"""
Leaves out what an object store shows of a writer's records before the events among them.

Two objects are not put at one moment: records may stand there before the commits and voids that
were told among them. A writer numbers its lines without a gap, so that the first number after its
last event that is not there tells where an event, or records, may be missing.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledger_audit.ledger.recovery import Hole, OpenRows
from ledger_audit.ledger.store import Segment


def together(growing: Sequence[Segment], opened: Sequence[OpenRows]) -> list[OpenRows]:
    """
    Give the rows of open segments, as far as each writer's two tables tell of one moment.

    Args:
        growing: open segments of object stores and local disks; those of disks stay as they are.
        opened: what each holds.

    Returns:
        The same; what is left out leaves a hole from its first step on.
    """
    last: dict[tuple[str, str], int] = {}
    for segment, found in zip(growing, opened, strict=True):
        seqs = _seqs(found)
        if segment.table == "events" and segment.size is not None and len(seqs):
            key = (segment.attempt, segment.writer)
            last[key] = max(last.get(key, -1), int(seqs.max()))
    told = dict(last)
    cut = list(opened)
    order = sorted(range(len(growing)), key=lambda at: growing[at].number)
    for at in order:
        segment = growing[at]
        key = (segment.attempt, segment.writer)
        if segment.table == "samples" and segment.size is not None and key in last:
            cut[at], told[key] = _until_a_gap(opened[at], last[key], told[key])
    return cut


def _until_a_gap(found: OpenRows, event: int, known: int) -> tuple[OpenRows, int]:
    """
    Cut a segment where a number is missing.

    Args:
        found: its rows.
        event: the number of the writer's last event.
        known: the last number up to which all that followed that event is there.

    Returns:
        What is left, and the last number likewise.
    """
    seqs = _seqs(found)
    later = np.unique(seqs[seqs > event])
    run = later == known + 1 + np.arange(len(later))
    known += int(len(later) if run.all() else np.argmin(run))
    if run.all():
        return found, known
    kept = pa.array(seqs <= known)
    lost = found.rows.filter(pc.invert(kept))
    steps = lost["step"].drop_null() if "step" in lost.column_names else pa.chunked_array([[]])
    step = min(steps.to_pylist(), default=None)
    hole = Hole(0, 0, step)
    return replace(found, rows=found.rows.filter(kept), holes=(*found.holes, hole)), known


def _seqs(found: OpenRows) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Give the numbers of a segment's lines; none where it has no such column."""
    if "seq" not in found.rows.column_names or found.rows["seq"].null_count:
        return np.empty(0, np.int64)
    return np.asarray(found.rows["seq"].to_numpy(), np.int64)
