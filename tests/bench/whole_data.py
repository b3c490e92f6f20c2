"""
Writes ledgers of a whole epoch, clean and with faults planted: sealed Parquet, as `seal` writes it.

    python whole_data.py FOLDER RECORDS int|text

8 ranks, 4 slots of 32 rows, one attempt from its first step to its end, each id once. Everything
follows from the number of records and the type of ids: the same give the same files.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ledger_audit.ledger.digest import hash_records
from ledger_audit.ledger.merging import ROWS as ROW_GROUP
from ledger_audit.ledger.schema import DIGEST_COLUMNS
from ledger_audit.ledger.segment import (
    arrow_schema,
    attempt_folder,
    encodings,
    metadata_of,
    segment_name,
)

Numbers = NDArray[np.int64]
Ids = Literal["int", "text"]

RANKS, SLOTS, ROWS = 8, 4, 32
OF_RANK = SLOTS * ROWS
OF_STEP = RANKS * OF_RANK

CHUNK = 32 * ROW_GROUP // OF_RANK
"""Steps of one rank that are made at once."""

SHUFFLED = 100
"""One step of so many is shuffled."""
PLANTED = 1000
"""Replays, and as many skips."""

REACH = 20
"""Steps after the checkpoint that `diff` looks at."""
ROLLED_BACK, RESUMED = 5, 60
LOOKED_UP = REACH - ROLLED_BACK
"""Steps of the window whose samples nothing but the whole history can tell."""

VARIANTS = ("control", "same", "shuffled", "faulty", "resumed")
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@dataclass(frozen=True)
class Attempt:
    """One launch, and what its start events say."""

    root: Path
    label: str
    run: str
    first_step: int
    dataset: int
    """Samples of one epoch."""
    origin: Mapping[str, object] | None = None

    def writer(self, rank: int) -> str:
        """Name the writer of a rank."""
        return f"r{rank:05d}-{self.run}{self.label}"

    def path(self, table: Literal["samples", "events"], rank: int) -> Path:
        """Name the only file of a rank."""
        name = segment_name(table, self.writer(rank), 0)
        return attempt_folder(self.root, self.label) / f"{name}.parquet"


@dataclass(frozen=True)
class WholeData:
    """
    The ledgers of one size and one type of ids.

    `control` is an epoch without a fault, `same` a second run with the same records. In `shuffled`
    the samples of some steps are dealt anew among these steps. In `faulty` some records used again
    what was used long before, and left their own samples out. `resumed` is part of a larger
    epoch: it died `ROLLED_BACK` steps after its checkpoint and goes on with what is new.
    """

    folder: Path
    asked: int
    ids: Ids

    @property
    def steps(self) -> int:
        """Whole steps."""
        return max(200, self.asked // OF_STEP)

    @property
    def records(self) -> int:
        """Records of one ledger: what fills whole steps."""
        return self.steps * OF_STEP

    @property
    def shuffled_steps(self) -> int:
        """Steps whose samples are dealt anew."""
        return max(2, self.steps // SHUFFLED)

    @property
    def window(self) -> tuple[int, int]:
        """First and last step of the resumed window whose samples are looked up."""
        return self.steps + 1, self.steps + LOOKED_UP

    @property
    def root(self) -> Path:
        """Where the ledgers are."""
        return self.folder / f"{self.ids}-{self.asked}"

    @property
    def planted(self) -> Mapping[str, int]:
        """What there is to find; it is written when all ledgers are there."""
        told: Mapping[str, int] = json.loads((self.root / "planted.json").read_text())
        return told

    def ledger(self, variant: str) -> Path:
        """Name the ledger of a variant."""
        return self.root / variant

    def samples(self, variant: str, label: str = "0") -> str:
        """Give the pattern of the files that hold an attempt's samples."""
        return str(attempt_folder(self.ledger(variant), label) / "samples-*.parquet")

    def write(self) -> None:
        """Write all ledgers, unless they are there."""
        if (self.root / "planted.json").exists():
            return
        clean = np.random.default_rng(17).permutation(self.records)
        clean = clean.astype(np.int64, copy=False)
        shuffled, moved = _shuffled(clean, self.shuffled_steps)
        self._write("control", clean)
        self._write("same", clean)
        self._write("shuffled", shuffled)
        del shuffled
        self._resume()
        faults = _replay(clean)
        self._write("faulty", clean)
        told = {
            "records": self.records,
            "moved": moved,
            "faults": faults,
            "looked_up": LOOKED_UP * OF_STEP,
        }
        part = self.root / ".planted.part"
        part.write_text(json.dumps(told))
        part.rename(self.root / "planted.json")

    def _write(self, variant: str, numbers: Numbers) -> None:
        attempt = Attempt(self.ledger(variant), "0", variant, 1, self.records)
        for rank in range(RANKS):
            self._write_rank(attempt, rank, numbers)

    def _resume(self) -> None:
        """Write an attempt and its resume; what is new is no larger or smaller than what was."""
        total = self.records + RESUMED * OF_STEP
        numbers = np.random.default_rng(18).permutation(total).astype(np.int64, copy=False)
        root, step = self.ledger("resumed"), self.steps - ROLLED_BACK
        died = Attempt(root, "0", "resumed", 1, total)
        origin = {"attempt": "0", "step": step}
        went_on = Attempt(root, "1", "resumed", step + 1, total, origin)
        again = numbers[step * OF_STEP :][: RESUMED * OF_STEP]
        for rank in range(RANKS):
            self._write_rank(died, rank, numbers[: self.records], ended=False)
            self._write_rank(went_on, rank, again)

    def _write_rank(
        self, attempt: Attempt, rank: int, numbers: Numbers, *, ended: bool = True
    ) -> None:
        own = np.ascontiguousarray(numbers.reshape(-1, SLOTS, RANKS, ROWS)[:, :, rank])
        own = own.reshape(-1, OF_RANK)
        commits: list[pa.Table] = []

        def chunks() -> Iterator[pa.Table]:
            for start in range(0, len(own), CHUNK):
                steps = np.arange(start, min(start + CHUNK, len(own)))
                ids = _named(own[start : start + CHUNK].reshape(-1), self.ids)
                rows = _records(attempt, rank, steps, ids)
                commits.append(_commits(attempt, rank, steps, rows))
                yield rows

        attempt.path("samples", rank).parent.mkdir(parents=True, exist_ok=True)
        _write(attempt, "samples", rank, chunks())
        ends = [_around(attempt, rank, len(own), ended=ended), pa.concat_tables(commits)]
        _write(attempt, "events", rank, ends)


def _shuffled(clean: Numbers, count: int) -> tuple[Numbers, int]:
    """Deal the samples of some steps anew among them; tell how many came to another step."""
    random = np.random.default_rng(19)
    numbers = clean.reshape(-1, OF_STEP).copy()
    steps = np.sort(random.choice(len(numbers), count, replace=False))
    pool = np.repeat(np.arange(len(steps)), OF_STEP)
    order = random.permutation(len(pool))
    numbers[steps] = numbers[steps].reshape(-1)[order].reshape(-1, OF_STEP)
    return numbers.reshape(-1), int(np.count_nonzero(pool[order] != pool))


def _replay(numbers: Numbers) -> int:
    """Let records of the second half use, instead of their own samples, some of the first half."""
    random = np.random.default_rng(20)
    half = len(numbers) // 2
    faults = min(PLANTED, half // 10)
    late = half + random.choice(half, faults, replace=False)
    numbers[late] = numbers[random.choice(half, faults, replace=False)]
    return faults


def _named(numbers: Numbers, ids: Ids) -> pa.Array:
    """Give the ids of numbers: themselves, or a hash in 16 hex digits that no other number has."""
    if ids == "int":
        return pa.array(numbers)
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)  # splitmix64: one to one
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    octets = (mixed ^ (mixed >> np.uint64(31))).astype(">u8").view(np.uint8).reshape(-1, 8)
    digits = np.empty((len(octets), 16), np.uint8)
    digits[:, 0::2], digits[:, 1::2] = _HEX[octets >> 4], _HEX[octets & 15]
    offsets = np.arange(0, 16 * len(octets) + 1, 16, dtype=np.int32)
    buffers = pa.py_buffer(offsets), pa.py_buffer(digits)
    return pa.StringArray.from_buffers(len(octets), *buffers)


def _records(attempt: Attempt, rank: int, steps: Numbers, ids: pa.Array) -> pa.Table:
    """Give what one rank used in some steps, numbered from 0 in its attempt."""
    within = np.tile(np.arange(OF_RANK), len(steps))
    nth = np.repeat(steps, OF_RANK)
    columns = {
        "rank": np.full(len(nth), rank),
        "step": nth + attempt.first_step,
        "slot": within // ROWS,
        "row": within % ROWS,
        "sample_id": ids,
        "epoch": np.zeros(len(nth), np.int32),
        "seq": 1 + nth * (OF_RANK + 1) + within,
    }
    return _table("samples", attempt, columns, text_ids=ids.type == pa.string())


def _commits(attempt: Attempt, rank: int, steps: Numbers, rows: pa.Table) -> pa.Table:
    """Give the commits of some steps, with the digests of their records."""
    hashed = [
        rows[name].combine_chunks() if name in rows.column_names else None
        for name in DIGEST_COLUMNS
    ]
    sums = hash_records(hashed).reshape(-1, OF_RANK).sum(axis=1, dtype=np.uint64)
    columns = {
        "rank": np.full(len(steps), rank),
        "seq": 1 + steps * (OF_RANK + 1) + OF_RANK,
        "time_ns": _time(attempt, rank) + (1 + steps) * 10**9,
        "kind": ["commit"] * len(steps),
        "step": steps + attempt.first_step,
        "data": [
            f'{{"samples":{OF_RANK},"tokens":null,"digest":"{one}"}}'
            for one in sums.view(np.int64).tolist()
        ],
    }
    return _table("events", attempt, columns)


def _around(attempt: Attempt, rank: int, steps: int, *, ended: bool) -> pa.Table:
    """Give what a rank says before its first step and after its last."""
    start = {
        "world_size": RANKS,
        "resumed_from": attempt.origin,
        "restored": None,
        "launcher": {},
        "digest_columns": DIGEST_COLUMNS,
        "fingerprint": {
            "dataset_samples": attempt.dataset,
            "micro_batch_size": ROWS,
            "accumulation": SLOTS,
            "workers": 0,
        },
    }
    count = 1 + ended
    began = _time(attempt, rank)
    told = [json.dumps(one, separators=(",", ":")) for one in (start, {"reason": "done"})]
    columns = {
        "rank": [rank] * count,
        "seq": [0, 1 + steps * (OF_RANK + 1)][:count],
        "time_ns": [began, began + (steps + 1) * 10**9][:count],
        "kind": ["start", "end"][:count],
        "step": pa.nulls(count, pa.int64()),
        "data": told[:count],
    }
    return _table("events", attempt, columns)


def _time(attempt: Attempt, rank: int) -> int:
    return 10**18 + rank * 1000 + attempt.first_step * 10**9


def _table(
    table: Literal["samples", "events"],
    attempt: Attempt,
    columns: Mapping[str, Any],
    *,
    text_ids: bool = False,
) -> pa.Table:
    """Give rows with the columns that have a value, in their order and with their types."""
    length = len(columns["seq"])
    given = {**columns, "attempt": pa.repeat(pa.scalar(attempt.label), length)}
    kinds = {field.name: field.type for field in arrow_schema(table, text_ids=text_ids)}
    made = {name: pa.array(given[name]).cast(kinds[name]) for name in kinds if name in given}
    return pa.table(made)


def _write(
    attempt: Attempt,
    table: Literal["samples", "events"],
    rank: int,
    parts: "Iterator[pa.Table] | Sequence[pa.Table]",
) -> None:
    """Write a sealed file: each part begins a row group, none of which is larger than seal's."""
    host = f"node{rank // 8}"
    metadata = metadata_of(attempt.writer(rank), run_id=attempt.run, host=host)
    writer = None
    for part in parts:
        if writer is None:
            schema = part.schema.with_metadata(metadata)
            writer = pq.ParquetWriter(attempt.path(table, rank), schema, **encodings(schema))
        cuts = [*range(0, part.num_rows, ROW_GROUP), part.num_rows]
        for start, end in pairwise(cuts):
            rows = part.slice(start, end - start).replace_schema_metadata(metadata)
            writer.write_table(rows, row_group_size=end - start)
    if writer is not None:
        writer.close()


if __name__ == "__main__":
    folder, asked, kind = sys.argv[1:]
    WholeData(Path(folder), int(asked), "int" if kind == "int" else "text").write()
