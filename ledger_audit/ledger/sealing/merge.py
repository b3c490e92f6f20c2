"""Makes one sealed table of several: sorted, and cut into row groups that statistics can prune."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.schema import FORMAT, SAMPLE_ID
from ledger_audit.ledger.sealing.source import REQUIRED, Source, replaced_by, told_by_file
from ledger_audit.ledger.segment import Table, arrow_schema

Codes = NDArray[np.int64]

ROWS = 1 << 15
"""Of a row group, at most."""
FEWEST = 256
"""Rows of one rank below which it shares a row group with others: footers have a size, too."""

_OURS = {b"format", b"run_id", b"writer", b"host", b"replaces", b"replaced_bytes", b"dropped"}
_STALE = {b"pandas", b"ARROW:schema"}
"""Descriptions of the columns of one file."""

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


def metadata_of(
    sources: Sequence[Source], *, run: bytes | None, writer: str, names: Sequence[str]
) -> dict[bytes, bytes]:
    """
    Give what a merged file says of itself, and still of the files that it stands for.

    Args:
        sources: the files.
        run: the run id that they name.
        writer: of the merged file.
        names: all that it stands for.
    """
    hosts = {_text(source.metadata[b"host"]) for source in sources if b"host" in source.metadata}
    told = {
        "format": FORMAT,
        "run_id": None if run is None else run.decode("utf-8", "replace"),
        "writer": writer,
        "host": ", ".join(sorted(hosts)) or None,
        "replaces": json.dumps(sorted(names)),
        "replaced_bytes": json.dumps({one.name: one.size for one in sources}),
        "dropped": _json({name: text for one in sources for name, text in let_go(one)}),
    }
    for key in sorted({key for one in sources for key in one.metadata} - _OURS - _STALE):
        said = {one.name: _text(one.metadata[key]) for one in sources if key in one.metadata}
        agree = len(said) == len(sources) and len(set(said.values())) == 1
        told[_text(key)] = next(iter(said.values())) if agree else _json(said)
    # Parquet knows text alone, and some readers refuse what is none
    return {key.encode(): value.encode() for key, value in told.items() if value is not None}


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _json(told: Mapping[str, str]) -> str | None:
    return json.dumps(dict(sorted(told.items()))) if told else None


def let_go(source: Source) -> list[tuple[str, str]]:
    """Give the files, this one or those that it stands for, whose records were not kept."""
    text = source.metadata.get(b"dropped")
    if text is None:
        return []
    if replaced_by(source.metadata, source.segment.path):
        return [
            (name, str(told)) for name, told in told_by_file(source.metadata, b"dropped").items()
        ]
    return [(source.name, _text(text))]
