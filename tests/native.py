"""Writes lines of the JSON Lines dialect as a ledger of format 1: Parquet and Arrow segments."""

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Line = dict[str, Any]

SAMPLES = pa.schema(
    [
        ("attempt", pa.string()),
        ("rank", pa.int32()),
        ("step", pa.int64()),
        ("slot", pa.int32()),
        ("row", pa.int32()),
        ("sample_id", pa.int64()),
        ("token_start", pa.int64()),
        ("token_end", pa.int64()),
        ("source", pa.string()),
        ("epoch", pa.int32()),
        ("position", pa.int64()),
        ("stream", pa.string()),
        ("worker", pa.int32()),
        ("stage", pa.string()),
        ("seq", pa.int64()),
    ]
)
EVENTS = pa.schema(
    [
        ("attempt", pa.string()),
        ("rank", pa.int32()),
        ("seq", pa.int64()),
        ("time_ns", pa.int64()),
        ("kind", pa.string()),
        ("step", pa.int64()),
        ("data", pa.string()),
    ]
)
FORMAT = {"format": "1", "run_id": "test", "host": "here"}


def read_lines(folder: Path) -> list[Line]:
    """Read every line of the *.jsonl files of a folder, in the order of their names."""
    return [
        json.loads(text)
        for file in sorted(folder.glob("*.jsonl"))
        for text in file.read_text().splitlines()
    ]


def tables(lines: Iterable[Line]) -> dict[tuple[str, int], tuple[pa.Table, pa.Table]]:
    """Give the samples and the events of each attempt and rank, numbered by `seq`."""
    rows: dict[tuple[str, int], tuple[list[Line], list[Line]]] = {}
    for line in lines:
        key = str(line["attempt"]), line["rank"]
        samples, events = rows.setdefault(key, ([], []))
        numbered = {"seq": len(samples) + len(events), **line, "attempt": key[0]}
        if line["kind"] == "sample":
            samples.append(numbered)
        else:
            data = line.get("data")
            events.append({**numbered, "data": None if data is None else json.dumps(data)})
    return {
        key: (_table(samples, SAMPLES), _table(events, EVENTS))
        for key, (samples, events) in rows.items()
    }


def _table(rows: Sequence[Line], schema: pa.Schema) -> pa.Table:
    ids = {type(row.get("sample_id")) for row in rows}
    if str in ids and "sample_id" in schema.names:
        place = schema.get_field_index("sample_id")
        schema = schema.set(place, pa.field("sample_id", pa.string()))
    return pa.table({name: [row.get(name) for row in rows] for name in schema.names}, schema=schema)


def write_ledger(
    lines: Iterable[Line],
    root: Path,
    *,
    rng: random.Random | None = None,
    sealed: bool = True,
    metadata: dict[str, str] | None = None,
) -> Path:
    """
    Write lines as a ledger's folder.

    Args:
        lines: of the dialect.
        root: the folder to make.
        rng: cuts each rank's rows into several segments, shuffles columns, drops those that are
            null throughout, and chooses row-group sizes; null: one plain segment each.
        sealed: Parquet; else open Arrow streams.
        metadata: of every file, instead of the usual.
    """
    for (attempt, rank), (samples, events) in tables(lines).items():
        folder = root / f"attempt={attempt}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in (("samples", samples), ("events", events)):
            for number, part in enumerate(_parts(table, rng)):
                path = folder / f"{name}-r{rank:05d}x-{number:06d}"
                write_segment(part, path, rng=rng, sealed=sealed, metadata=metadata)
    return root


def _parts(table: pa.Table, rng: random.Random | None) -> list[pa.Table]:
    if rng is None or table.num_rows < 2:
        return [table]
    cut = rng.randrange(1, table.num_rows)
    return [table.slice(0, cut), table.slice(cut)]


def write_segment(
    table: pa.Table,
    path: Path,
    *,
    rng: random.Random | None = None,
    sealed: bool = True,
    metadata: dict[str, str] | None = None,
) -> Path:
    """Write one segment; `path` has no suffix yet."""
    if rng is not None:
        names = [
            name
            for name in table.column_names
            if table[name].null_count < table.num_rows or name in ("rank", "sample_id", "seq")
        ]
        rng.shuffle(names)
        table = table.select(names)
    table = table.replace_schema_metadata(metadata or {**FORMAT, "writer": path.name})
    if sealed:
        file = path.with_suffix(".parquet")
        size = 1_000_000 if rng is None else rng.randint(1, 40)
        dictionary = [name for name in table.column_names if table[name].type == pa.string()]
        pq.write_table(table, file, row_group_size=size, use_dictionary=dictionary)
    else:
        file = path.with_suffix(".arrows")
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
            for batch in table.to_batches(max_chunksize=4):
                stream.write_batch(batch)
    return file
