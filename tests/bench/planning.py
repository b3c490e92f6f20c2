"""
Times `plan` beside writing the same Parquet plainly: `planning.py [--records N] [--text]`.

Of a stream of N records, 8 ranks consumed a share (`--consumed`, a half); the rest is dealt to
16. Every process starts from nothing, and the plan is checked in the end.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from ledger_audit.ledger.expected import write_expected
from ledger_audit.ledger.segment import arrow_schema, attempt_folder, segment_name, write_sealed

RANKS, ROWS, SLOTS = 8, 16, 8
BATCH = RANKS * ROWS * SLOTS
PIECE = BATCH * 1000

PLAINLY = """
import sys
import pyarrow.parquet as pq
from pathlib import Path
files = sorted(Path(sys.argv[1]).glob("attempt=*/samples-*"))
writer = None
for file in files:
    table = pq.read_table(file)
    writer = writer or pq.ParquetWriter(sys.argv[2], table.schema, compression="zstd")
    writer.write_table(table)
writer.close()
"""
"""Reads a plan and writes it again: what reading and writing alone cost."""


def stream(records: int, *, is_text: bool) -> Iterator[pl.DataFrame]:
    """Give a shuffled stream of one pass, dealt to the ranks, in its order."""
    ids = np.random.default_rng(7).permutation(records)
    for start in range(0, records, PIECE):
        nth = np.arange(start, min(start + PIECE, records))
        place = nth % BATCH
        rows = pl.DataFrame(
            {
                "rank": place % (RANKS * ROWS) // ROWS,
                "step": nth // BATCH + 1,
                "slot": place // (RANKS * ROWS),
                "row": place % ROWS,
                "sample_id": ids[nth],
                "epoch": np.zeros(len(nth), np.int64),
            }
        )
        if is_text:
            rows = rows.with_columns(
                pl.format("doc-{}", pl.col("sample_id").cast(pl.String).str.zfill(12)).alias(
                    "sample_id"
                )
            )
        yield rows


def write_run(root: Path, records: int, share: float, *, is_text: bool) -> int:
    """Write a ledger that consumed the first share of the stream; give its last step."""
    folder = attempt_folder(root, "run")
    folder.mkdir(parents=True)
    last = int(records // BATCH * share)
    schema = arrow_schema("samples", text_ids=is_text)
    for number, piece in enumerate(stream(records, is_text=is_text)):
        rows = piece.filter(pl.col("step") <= last).sort("rank", "step", maintain_order=True)
        if not rows.height:
            break
        nothing = [pl.lit(None).alias(name) for name in schema.names if name not in rows.columns]
        rows = rows.with_columns(nothing).with_columns(
            attempt=pl.lit("run"), seq=pl.int_range(pl.len()).over("rank") + number * (1 << 32)
        )
        name = segment_name("samples", "r", number)
        metadata = {"format": "1", "writer": "r"}
        table = rows.select(schema.names).to_arrow().cast(schema)
        write_sealed(table, folder / f"{name}.parquet", metadata)
    events = [(rank, 0, "start", None, {"world_size": RANKS}) for rank in range(RANKS)]
    for step in range(1, last + 1):
        told = {"samples": ROWS * SLOTS}
        events += [(rank, (1 << 40) + step, "commit", step, told) for rank in range(RANKS)]
    ranks, seqs, kinds, steps, data = zip(*events, strict=True)
    table = pa.table(
        {
            "attempt": ["run"] * len(ranks),
            "rank": ranks,
            "seq": seqs,
            "time_ns": [None] * len(ranks),
            "kind": kinds,
            "step": steps,
            "data": [json.dumps(one) for one in data],
        },
        schema=arrow_schema("events"),
    )
    write_sealed(table, folder / "events-r-000000.parquet", {"format": "1", "writer": "r"})
    return last


def timed(*command: object) -> tuple[float, float, float]:
    """Run a process; give its seconds, those of its processors, and its peak in megabytes."""
    began = time.perf_counter()
    process = subprocess.Popen([str(one) for one in command], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Write a job, plan its rest, and tell what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--text", action="store_true", help="ids are text")
    parser.add_argument("--consumed", type=float, default=0.5, help="this share was consumed")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        last = write_run(root / "run", asked.records, asked.consumed, is_text=asked.text)
        recipe = {"kind": "listing", "recipe": {"seed": 7}}
        pieces = stream(asked.records, is_text=asked.text)
        write_expected(root / "ref", "ref", pieces, world_size=RANKS, expected=recipe)
        tool = [sys.executable, "-m", "ledger_audit", "plan"]
        known = [root / "run", "--reference", root / "ref"]
        wanted = ["--checkpoint-step", last, "--world-size", 2 * RANKS, "-o", root / "plan"]
        rows = {
            "plan": timed(*tool, *known, *wanted),
            "plan --check": timed(*tool, "--check", root / "plan", *known),
            "read the plan, write it plainly": timed(
                sys.executable, "-c", PLAINLY, root / "plan", root / "plain.parquet"
            ),
        }
    sys.stdout.write("| process | s | CPU s | peak MB |\n|---|---|---|---|\n")
    for name, (seconds, cpu, peak) in rows.items():
        sys.stdout.write(f"| {name} | {seconds:.1f} | {cpu:.1f} | {peak:.0f} |\n")


if __name__ == "__main__":
    main()
