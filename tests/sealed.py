"""Small ledgers to seal, and what became of them."""

from pathlib import Path

import pyarrow.parquet as pq
from auditing import age
from conftest import FIXTURES
from emitting import emit_ledger
from native import Line

RUN = FIXTURES / "zoo" / "torch-ddp-partial-accum" / "run"


def job(ranks: int = 2, steps: int = 4, attempt: str = "a", rows: int = 2) -> list[Line]:
    """Give the lines of a small job: every rank uses other samples."""
    lines: list[Line] = []
    for rank in range(ranks):
        place = {"attempt": attempt, "rank": rank}
        lines.append({"kind": "start", **place, "data": {"world_size": ranks}})
        for step in range(1, steps + 1):
            lines += [
                {
                    "kind": "sample",
                    **place,
                    "step": step,
                    "slot": 0,
                    "row": row,
                    "sample_id": (step * ranks + rank) * rows + row,
                }
                for row in range(rows)
            ]
            lines.append({"kind": "commit", **place, "step": step, "data": {"samples": rows}})
    return lines


def emitted(root: Path, lines: list[Line] | None = None, segment_bytes: int = 1 << 20) -> Path:
    """Write a ledger with writers that died long ago."""
    emit_ledger(lines or job(), root, segment_bytes=segment_bytes)
    age(root)
    return root


def sealed_files(root: Path, table: str = "samples") -> list[Path]:
    """Give the sealed files of a table."""
    return sorted(root.glob(f"attempt=*/{table}-*.parquet"))


def told_by(path: Path) -> dict[str, str]:
    """Give the metadata of a sealed file."""
    metadata = pq.read_schema(path).metadata
    return {key.decode(): value.decode() for key, value in metadata.items()}
