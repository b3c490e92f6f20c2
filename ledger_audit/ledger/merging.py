"""Makes one sealed table of several: sorted, and cut into row groups that statistics can prune."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.schema import SAMPLE_ID
from ledger_audit.ledger.segment import Table, arrow_schema, encodings

Codes = NDArray[np.int64]

ROWS = 1 << 15
"""Of a row group, at most."""
FEWEST = 256
"""Rows of one rank below which it shares a row group with others: footers have a size, too."""

REQUIRED: Mapping[Table, tuple[str, ...]] = {
    "samples": ("attempt", "rank", SAMPLE_ID, "seq"),
    "events": ("attempt", "rank", "seq", "kind"),
}
"""Columns that stay in a file even where it has no row."""

_ORDER: Mapping[Table, tuple[str, ...]] = {
    "samples": ("stream", "stage", "rank", "step", "seq"),
    "events": ("turn", "step", "rank", "seq"),
}
_ALONE: Mapping[Table, tuple[str, ...]] = {
    "samples": ("stream", "stage", "rank"),
    "events": ("turn",),
}
"""Columns that should have one value in a row group; extents.py asks for no more than that."""


def merged(table: Table, parts: Sequence[pa.Table]) -> tuple[pa.Table, list[int]]:
    """
    Give all rows of several files in one table.

    Args:
        table: whose rows they are.
        parts: with the columns that `source.canonical` gives; equal keys, no rank of two writers.

    Returns:
        The rows, and where each row group starts. Of our own columns, those that no row has a
        value in are left out.

    Raises:
        UnreadableError: two different records are the same record of a rank.
    """
    rows = pa.concat_tables(parts or [nothing(table)], promote_options="default")
    if table == "samples":
        _check_once(rows)
    ours = arrow_schema(table).names
    extras = sorted(name for name in rows.column_names if name not in ours)
    kept = [
        name
        for name in ours
        if name in rows.column_names
        and (name in REQUIRED[table] or rows[name].null_count < rows.num_rows)
    ]
    rows = rows.select([*kept, *extras])
    keys = rows if table == "samples" else rows.append_column("turn", _turns(rows["kind"]))
    order = [name for name in _ORDER[table] if name in keys.column_names]
    indices = np.lexsort([_ordered(keys[name]) for name in reversed(order)])
    codes = {
        name: _codes(keys[name].take(indices))
        for name in _ALONE[table]
        if name in keys.column_names
    }
    starts = _starts(codes, rows.num_rows)
    return rows.take(indices), starts


def nothing(table: Table) -> pa.Table:
    """Give no rows; their ids have no type, so that they fit into every ledger."""
    fields = [
        pa.field(field.name, pa.null() if field.name == SAMPLE_ID else field.type)
        for field in arrow_schema(table)
        if field.name in REQUIRED[table]
    ]
    return pa.schema(fields).empty_table()


def _check_once(rows: pa.Table) -> None:
    """Refuse two different records of one place in a rank's order of writing."""
    place = rows.select(["rank", "seq"])
    known = np.flatnonzero(pc.and_(place["rank"].is_valid(), place["seq"].is_valid()).to_numpy())
    known_place = place.take(pa.array(known))
    ranks, seqs = (known_place[name].to_numpy() for name in ("rank", "seq"))
    order = np.lexsort((seqs, ranks))
    ranks, seqs = ranks[order], seqs[order]
    again = np.flatnonzero((ranks[1:] == ranks[:-1]) & (seqs[1:] == seqs[:-1]))
    for at in again.tolist():
        one, other = (rows.take([int(known[order[place]])]) for place in (at, at + 1))
        if one.to_pylist() != other.to_pylist():
            raise UnreadableError(
                f"rank {ranks[at]} has two different records as 'seq' {seqs[at]}",
                hint="one of its files is corrupt or was copied from another run: remove it",
            )


def _turns(kinds: pa.ChunkedArray) -> pa.ChunkedArray:
    """Put what every audit reads first, apart from commits and voids, which steps choose."""
    turns = pc.add(
        pc.equal(kinds, "commit").cast(pa.int8()),
        pc.multiply(pc.equal(kinds, "void").cast(pa.int8()), pa.scalar(2, pa.int8())),
    )
    return turns.fill_null(0)


def _ordered(column: pa.ChunkedArray) -> Codes:
    """Give integers in the order of a column's values, null first."""
    column = column.combine_chunks()
    if pa.types.is_string(column.type):
        encoded = column.dictionary_encode()
        ranks = np.argsort(np.argsort(np.array(encoded.dictionary.to_pylist(), object)))
        codes = np.append(ranks, -1)[encoded.indices.fill_null(len(ranks)).to_numpy()]
        return np.asarray(codes, np.int64)
    lowest = pa.scalar(np.iinfo(np.int64).min, pa.int64())
    return np.asarray(column.cast(pa.int64()).fill_null(lowest).to_numpy(), np.int64)


def _codes(column: pa.ChunkedArray) -> Codes:
    codes = column.combine_chunks().dictionary_encode().indices.fill_null(-1)
    return np.asarray(codes.to_numpy(zero_copy_only=False), np.int64)


def _starts(codes: Mapping[str, Codes], rows: int) -> list[int]:
    """Cut sorted rows where a code changes, and where too many have the same."""
    if not rows:
        return []
    changes, sharp = np.zeros(rows, bool), np.zeros(rows, bool)
    for name, code in codes.items():
        change = np.append(False, code[1:] != code[:-1])
        changes |= change
        if name != "rank":  # only small ranks may share
            sharp |= change
    cuts = [0, *np.flatnonzero(changes).tolist(), rows]
    starts: list[int] = []
    length = 0
    for start, end in pairwise(cuts):
        is_small = length < FEWEST and end - start < FEWEST
        if starts and is_small and not sharp[start]:
            length += end - start
            continue
        starts += range(start, end, ROWS)
        length = end - starts[-1]
    return starts


def write_rows(rows: pa.Table, starts: Sequence[int], sink: object) -> None:
    """Write sorted rows as Parquet, with a row group from each of the starts on."""
    with pq.ParquetWriter(sink, rows.schema, **encodings(rows.schema)) as writer:
        for start, end in pairwise([*starts, rows.num_rows]):
            writer.write_table(rows.slice(start, end - start), row_group_size=end - start)
