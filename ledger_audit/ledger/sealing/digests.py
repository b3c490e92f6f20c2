"""
Compares the digest that each commit of a writer tells with that of the records of its try.

Only tries of which every record is there can be compared: what is missing, the audit tells.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledger_audit.ledger.digest import hash_records, signed
from ledger_audit.ledger.schema import DIGEST_COLUMNS, USED, event_data

Longs = NDArray[np.int64]


@dataclass(frozen=True)
class Mismatch:
    """A try whose records do not have the digest that its commit tells."""

    rank: int
    step: int
    told: int
    found: int


@dataclass(frozen=True)
class Tries:
    """The commits and voids of one writer, and what is found of the records before them."""

    ranks: Longs
    steps: Longs
    seqs: Longs
    told: tuple[tuple[int, int] | None, ...]
    """Records and digest that a commit tells; null: it tells none, or its rank has others."""
    counts: Longs
    sums: NDArray[np.uint64]
    others: frozenset[int] = field(default=frozenset())
    """Ranks that tell digests, of columns that are not ours or that nothing names."""

    def add(self, samples: pa.Table) -> None:
        """Add records, of any stretch of the writer's work."""
        rows = samples.filter(_is_used(samples))
        if not rows.num_rows or not len(self.ranks):
            return
        places = [rows[name].to_numpy() for name in ("rank", "step", "seq")]
        ranks, steps, seqs = (
            np.concatenate([np.asarray(ours, np.int64), theirs])
            for ours, theirs in zip(places, (self.ranks, self.steps, self.seqs), strict=True)
        )
        order = np.lexsort((seqs, steps, ranks))
        tries = order - rows.num_rows
        places_of_tries = np.where(tries >= 0, np.arange(len(order)), len(order))
        following = np.minimum.accumulate(places_of_tries[::-1])[::-1]
        is_record = tries < 0
        mine, next_try = order[is_record], following[is_record]
        has_one = next_try < len(order)
        mine, next_try = mine[has_one], tries[next_try[has_one]]
        fits = (ranks[mine] == self.ranks[next_try]) & (steps[mine] == self.steps[next_try])
        mine, next_try = mine[fits], next_try[fits]
        hashes = hash_records(
            [
                rows[name].combine_chunks() if name in rows.column_names else None
                for name in DIGEST_COLUMNS
            ]
        )
        np.add.at(self.counts, next_try, 1)
        np.add.at(self.sums, next_try, hashes[mine])

    def compared(self) -> tuple[int, tuple[Mismatch, ...]]:
        """Count the tries that have the digest that was told, and give those that do not."""
        sound = 0
        wrong = []
        for place, told in enumerate(self.told):
            if told is None or told[0] != self.counts[place]:
                continue
            found = signed(int(self.sums[place]))
            if found == told[1]:
                sound += 1
            else:
                rank, step = int(self.ranks[place]), int(self.steps[place])
                wrong.append(Mismatch(rank, step, told[1], found))
        return sound, tuple(wrong)


def tries_of(events: list[pa.Table]) -> Tries:
    """Read the commits and voids of one writer from its events."""
    covered: set[int] = set()
    rows: list[tuple[int, int, int, tuple[int, int] | None]] = []
    for table in events:
        starts = table.filter(pc.equal(table["kind"], "start"))
        for rank, data in _each(starts, "rank", "data"):
            if event_data(data).get("digest_columns") == [*DIGEST_COLUMNS]:
                covered.add(rank)
    others = set()
    for table in events:
        ends = table.filter(pc.is_in(table["kind"], pa.array(["commit", "void"])))
        for rank, step, seq, data in _each(ends, "rank", "step", "seq", "data"):
            if None in (rank, step, seq):
                continue
            digest = _digest(event_data(data))
            if digest is not None and rank not in covered:
                others.add(rank)
                digest = None
            rows.append((rank, step, seq, digest))
    places = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3)
    return Tries(
        ranks=places[:, 0].copy(),
        steps=places[:, 1].copy(),
        seqs=places[:, 2].copy(),
        told=tuple(row[3] for row in rows),
        counts=np.zeros(len(rows), np.int64),
        sums=np.zeros(len(rows), np.uint64),
        others=frozenset(others),
    )


def _is_used(samples: pa.Table) -> pa.ChunkedArray:
    """Tell which records entered a step of training."""
    is_used = samples["seq"].is_valid()
    if "stream" in samples.column_names:
        is_used = pc.and_(is_used, samples["stream"].is_null())
    if "stage" in samples.column_names:
        stages = samples["stage"]
        is_used = pc.and_(is_used, pc.equal(stages.fill_null(USED), USED))
    for name in ("rank", "step"):
        if name not in samples.column_names:
            return pc.and_(is_used, pa.scalar(value=False))
        is_used = pc.and_(is_used, samples[name].is_valid())
    return is_used


def _each(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    columns = [
        table[name].to_pylist() if name in table.column_names else [None] * table.num_rows
        for name in names
    ]
    return list(zip(*columns, strict=True))


def _digest(told: dict[str, Any]) -> tuple[int, int] | None:
    """Give records and digest that a commit tells; null: it does not tell both."""
    samples, digest = told.get("samples"), told.get("digest")
    if type(samples) is not int or not isinstance(digest, str):
        return None
    try:
        return samples, int(digest)
    except ValueError:
        return None
