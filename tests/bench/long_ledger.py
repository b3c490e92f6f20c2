"""
Writes a long ledger of a job that died and was resumed: sealed Parquet, as our writer seals it.

Everything follows from the number of records: the same number gives the same files.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RANKS, SLOTS, ROWS = 64, 4, 4
OF_RANK = SLOTS * ROWS
OF_STEP = RANKS * OF_RANK

ROW_GROUP = 1 << 17
CHECKPOINT_EVERY = 500
RESUMED_STEPS = 60

SAMPLES = ("attempt", "rank", "step", "slot", "row", "sample_id", "token_start", "token_end")
SAMPLES += ("source", "epoch", "position", "stream", "worker", "stage", "seq")
NUMBERS = dict.fromkeys(("rank", "slot", "row", "epoch", "worker"), pa.int32())
TEXTS = ("attempt", "source", "stream", "stage")
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


@dataclass(frozen=True)
class Resume:
    """How attempt 1 went on."""

    checkpoint: int
    """The last step that the loaded checkpoint holds."""
    stream_step: int
    """The step of the stream from which it read on; the one after the checkpoint is right."""


@dataclass(frozen=True)
class LongLedger:
    """Attempt 0, written once, and attempts 1 that resumed it rightly and wrongly."""

    root: Path
    records: int

    @property
    def steps(self) -> int:
        """Steps of attempt 0."""
        return max(120, self.records // OF_STEP)

    @property
    def resumes(self) -> Mapping[str, Resume]:
        """
        Every variant, by its name.

        `matched`: the rolled-back work explains every record. `fresh`: the job died five steps
        after its checkpoint, so most of what was resumed must be looked up. `replayed`: the
        stream went on from a tenth of the run.
        """
        late, early = self.steps - 40, self.steps - 5
        return {
            "matched": Resume(late, late + 1),
            "fresh": Resume(early, early + 1),
            "replayed": Resume(late, self.steps // 10),
        }

    def folder(self, variant: str) -> Path:
        """Name the ledger of a variant."""
        return self.root / variant

    def write(self) -> None:
        """Write all variants; they share the files of attempt 0."""
        first = self.root / "first"
        self._write_attempt(first, "0", range(1, self.steps + 1), 1, origin=None)
        for name, resume in self.resumes.items():
            folder = self.folder(name)
            steps = range(resume.checkpoint + 1, resume.checkpoint + 1 + RESUMED_STEPS)
            origin = {"attempt": "0", "step": resume.checkpoint}
            self._write_attempt(folder / "attempt=1", "1", steps, resume.stream_step, origin=origin)
            (folder / "attempt=0").symlink_to(first, target_is_directory=True)

    def _write_attempt(
        self,
        folder: Path,
        label: str,
        steps: range,
        stream_step: int,
        *,
        origin: Mapping[str, object] | None,
    ) -> None:
        folder.mkdir(parents=True)
        bits = ((self.steps + RESUMED_STEPS) * OF_STEP - 1).bit_length()
        start = {
            "world_size": RANKS,
            "resumed_from": origin,
            "fingerprint": {
                "dataset_samples": 1 << bits,
                "micro_batch_size": ROWS,
                "accumulation": SLOTS,
                "workers": 0,
            },
        }
        for rank in range(RANKS):
            samples = _samples(label, rank, steps, stream_step, bits)
            _seal(samples, folder, "samples", label, rank)
            _seal(_events(label, rank, steps, start), folder, "events", label, rank)


def _samples(label: str, rank: int, steps: range, stream_step: int, bits: int) -> pa.Table:
    """Give what one rank used: the stream is dealt slot by slot, rank by rank, row by row."""
    nth = np.arange(len(steps) * OF_RANK)
    step, within = nth // OF_RANK, nth % OF_RANK
    slot, row = within // ROWS, within % ROWS
    position = (step + stream_step - 1) * OF_STEP + slot * RANKS * ROWS + rank * ROWS + row
    columns = {
        "rank": np.full(len(nth), rank),
        "step": step + steps.start,
        "slot": slot,
        "row": row,
        "sample_id": _shuffled(position, bits),
        "epoch": np.zeros(len(nth)),
        "position": position,
        "seq": 1 + step * (OF_RANK + 1) + within,
    }
    arrays = {}
    for name in SAMPLES:
        kind = pa.string() if name in TEXTS else NUMBERS.get(name, pa.int64())
        if name == "attempt":
            arrays[name] = pa.repeat(pa.scalar(label), len(nth))
        elif name in columns:
            arrays[name] = pa.array(columns[name]).cast(kind)
        else:
            arrays[name] = pa.nulls(len(nth), kind)
    return pa.table(arrays)


def _shuffled(position: np.ndarray, bits: int) -> np.ndarray:
    """Give every position below 2^bits another number below 2^bits, in no visible order."""
    mask = (1 << bits) - 1
    mixed = position * 0x2545F491 & mask
    mixed ^= mixed >> (bits // 2)
    mixed = mixed * 0x1B873593 & mask
    return mixed ^ (mixed >> (bits // 2))


def _events(label: str, rank: int, steps: range, start: Mapping[str, object]) -> pa.Table:
    """Give the start, a commit for every step, and on the first rank the checkpoints."""
    nth = np.arange(len(steps))
    commits = {
        "seq": 1 + nth * (OF_RANK + 1) + OF_RANK,
        "time_ns": 10**18 + nth * 10**9,
        "kind": np.full(len(nth), "commit"),
        "step": nth + steps.start,
        "data": np.full(len(nth), json.dumps({"samples": OF_RANK})),
    }
    first = {"seq": 0, "time_ns": 10**18 + steps.start, "kind": "start", "data": json.dumps(start)}
    rows = [_table([first], label, rank), _table(commits, label, rank)]
    if rank == 0:
        rows.append(
            _table(
                [
                    {"seq": seq, "kind": "checkpoint", "step": step, "data": '{"phase":"begin"}'}
                    for step, seq in zip(
                        commits["step"].tolist(), commits["seq"].tolist(), strict=True
                    )
                    if step % CHECKPOINT_EVERY == 0
                ],
                label,
                rank,
            )
        )
    return pa.concat_tables(rows).sort_by("seq")


def _table(
    rows: "list[dict[str, object]] | dict[str, np.ndarray]", label: str, rank: int
) -> pa.Table:
    if isinstance(rows, list):
        columns = {name: [row.get(name) for row in rows] for name in EVENTS.names}
        length = len(rows)
    else:
        columns = dict(rows)
        length = len(rows["seq"])
    columns |= {"attempt": [label] * length, "rank": [rank] * length}
    return pa.table(columns).select(EVENTS.names).cast(EVENTS)


def _seal(table: pa.Table, folder: Path, name: str, label: str, rank: int) -> None:
    writer = f"r{rank:05d}a{label}"
    metadata = {"format": "1", "run_id": "long", "writer": writer, "host": f"node{rank // 8}"}
    text = [field.name for field in table.schema if pa.types.is_string(field.type)]
    pq.write_table(
        table.replace_schema_metadata(metadata),
        folder / f"{name}-{writer}-000000.parquet",
        row_group_size=ROW_GROUP,
        use_dictionary=text,
        compression="zstd",
    )
