"""
Leaves out what an object store shows of a writer's records before the events among them.

Two objects are not put at one moment: records may stand there before the commits and voids that
were told among them. A writer numbers its lines without a gap, so the first number after its last
event that is not there tells where an event may be missing. What is left is what was there a moment
earlier: a prefix of what was told. Segments of a writer that has ended are sealed, and whole.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledger_audit.ledger.recovery import OpenRows
from ledger_audit.ledger.store import Segment


def together(growing: Sequence[Segment], opened: Sequence[OpenRows]) -> list[OpenRows]:
    """
    Give the rows of open segments, as far as each writer's two tables tell of one moment.

    Args:
        growing: open segments in object stores.
        opened: what each holds.

    Returns:
        The same, without records that follow a missing number behind their writer's last event.
    """
    last: dict[tuple[str, str], int] = {}
    for segment, found in zip(growing, opened, strict=True):
        seqs = _seqs(found)
        if segment.table == "events" and len(seqs):
            key = (segment.attempt, segment.writer)
            last[key] = max(last.get(key, -1), int(seqs.max()))
    known = dict(last)
    cut = list(opened)
    for at in sorted(range(len(growing)), key=lambda at: growing[at].number):
        segment = growing[at]
        key = (segment.attempt, segment.writer)
        if segment.table == "samples" and key in last:
            seqs = _seqs(opened[at])
            known[key] = _until_a_gap(seqs[seqs > last[key]], known[key])
            if (seqs > known[key]).any():
                rows = opened[at].rows.filter(pa.array(seqs <= known[key]))
                cut[at] = replace(opened[at], rows=rows)
    return cut


def _until_a_gap(later: NDArray[Any], known: int) -> int:
    """Give the last number up to which every one after a known one is there."""
    found = np.unique(later)
    run = found == known + 1 + np.arange(len(found))
    return known + int(len(found) if run.all() else np.argmin(run))


def _seqs(found: OpenRows) -> NDArray[Any]:
    """Give the numbers of a segment's lines; none where it has no such column."""
    if "seq" not in found.rows.column_names or found.rows["seq"].null_count:
        return np.empty(0, np.int64)
    return np.asarray(found.rows["seq"].to_numpy())
