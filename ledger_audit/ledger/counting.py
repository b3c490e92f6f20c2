"""
Counts, in one look at all records, what each rank used in each step, and what each pass came to.

What is seen on the way is handed on to what notes the uses of samples.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.schema import DIGEST_COLUMNS, SAMPLE_ID
from ledger_audit.ledger.tables import hash_frame
from ledger_audit.ledger.uses import Pass, Seen
from ledger_audit.ledger.whole import Scan, Whole

COUNTS = {
    "rank": pl.Int32(),
    "step": pl.Int64(),
    "n": pl.Int64(),
    "tokens": pl.Int64(),
    "spans": pl.Int64(),
    "mixed": pl.UInt64(),
}
"""
The records of a rank and step: how many, their tokens and spans where these are added up, and the
sum of their hashes where it is asked for (else 0).
"""

SUMS = {
    "source": pl.String(),
    "epoch": pl.Int32(),
    "records": pl.Int64(),
    "tokens": pl.Int64(),
    "spans": pl.Int64(),
    "inner": pl.Int64(),
    "placed": pl.Int64(),
    "first_step": pl.Int64(),
    "last_step": pl.Int64(),
}
"""
What one pass used: tokens of the records with spans; `inner`, those that begin inside a document;
`placed`, those with a position.
"""

Hashing = Literal["digest", "quick"]
"""
How records are hashed: as commits tell the sum of it, or only so that records that differ have
different hashes within this process, at a thirtieth of the cost.
"""

_PASS = ["source", "epoch"]
_ODD = np.uint64(0x9E3779B97F4A7C15)
_SPAN = pl.col("token_end") - pl.col("token_start")


@dataclass(frozen=True)
class Tally:
    """What passed by of one attempt, while it grows."""

    name: str
    """The ledger, for messages."""
    seen: Seen
    has_spans: bool
    has_positions: bool
    hashing: Hashing | None = None
    """How records are hashed; null: they are not."""
    _counts: list[pl.DataFrame] = field(default_factory=list)
    _sums: list[pl.DataFrame] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    @property
    def columns(self) -> list[pl.Expr]:
        """What it needs of the `samples` table."""
        span = [pl.col("token_start")] if self.has_spans else []
        tokens = [_SPAN.alias("tokens")] if self.has_spans else []
        place = [pl.col("position")] if self.has_positions else []
        whole = [pl.col(name) for name in DIGEST_COLUMNS if name not in _PASS]
        if self.hashing is None:
            whole = span
        elif self.hashing == "quick" and not self.has_spans:
            whole = [pl.col(SAMPLE_ID)]
        key = [pl.col("rank"), pl.col("step"), pl.col(*_PASS), self.seen.key]
        return [*key, *tokens, *whole, *place]

    def take(self, batch: pl.DataFrame) -> None:
        """Count a batch of records, and note the uses; several threads may do so at once."""
        self._check(batch)
        counts = _runs(batch, self._hashes(batch))
        sums = []
        for of, part in _passes(batch):
            self.seen.see(of, part)
            sums.append((*of, part.height, *_amounts(part), part["step"].min(), part["step"].max()))
        with self._lock:
            self._counts.append(counts)
            self._sums.append(pl.DataFrame(sums, schema=SUMS, orient="row"))

    def counts(self) -> pl.DataFrame:
        """Give COUNTS."""
        every = pl.concat([pl.DataFrame(schema=COUNTS), *self._counts])
        return every.group_by("rank", "step").agg(pl.col("n", "tokens", "spans", "mixed").sum())

    def sums(self) -> pl.DataFrame:
        """Give SUMS."""
        every = pl.concat([pl.DataFrame(schema=SUMS), *self._sums])
        return every.group_by(_PASS).agg(
            pl.col("records", "tokens", "spans", "inner", "placed").sum(),
            pl.col("first_step").min(),
            pl.col("last_step").max(),
        )

    def _hashes(self, batch: pl.DataFrame) -> pl.Series | None:
        if self.hashing is None:
            return None
        return hash_frame(batch) if self.hashing == "digest" else hash_quickly(batch)

    def _check(self, batch: pl.DataFrame) -> None:
        if batch["key"].null_count() or batch["rank"].null_count():
            raise unnamed(self.name)
        if self.has_spans and batch.filter(pl.col("tokens") < 0).height:
            raise turned_round(self.name)


def unnamed(name: str) -> UnreadableError:
    """Refuse a ledger for a record of which nobody knows whose it is, or what."""
    return UnreadableError(
        f"{name}: a used record has no rank or no 'sample_id'",
        hint="every used record needs rank, step, slot and sample_id",
    )


def turned_round(name: str) -> UnreadableError:
    """Refuse a ledger for a span that ends before it begins."""
    return UnreadableError(
        f"{name}: in a used record, 'token_end' precedes 'token_start'",
        hint="spans are half-open ranges of tokens: [token_start, token_end)",
    )


def look(whole: Whole, scan: Scan, rows: Iterable[pl.DataFrame], tally: Tally) -> None:
    """
    Let all records of some steps of an attempt pass by.

    Args:
        whole: the ledger.
        scan: the steps.
        rows: further records, of steps that were looked at one by one: the `samples` table.
        tally: what takes them.
    """
    whole.each(scan, tally.columns, tally.take)
    for frame in rows:
        if frame.height:
            tally.take(frame.select(tally.columns))


def sizes(whole: Whole, scan: Scan) -> tuple[pl.DataFrame, pl.DataFrame]:
    """
    Count all used records of some steps, whoever asks for their samples.

    Returns:
        rank, step, n; and the passes that they are of: source, epoch.
    """
    every = replace(whole, bucket=None)
    counts = [pl.DataFrame(schema=COUNTS)]
    passes: set[Pass] = set()
    lock = Lock()

    def take(batch: pl.DataFrame) -> None:
        found = _runs(batch, None)
        own = {of for of, _ in _passes(batch)}
        with lock:
            counts.append(found)
            passes.update(own)

    every.each(scan, [pl.col("rank", "step", *_PASS)], take)
    summed = pl.concat(counts).group_by("rank", "step").agg(pl.col("n").sum())
    schema = {name: SUMS[name] for name in _PASS}
    return summed, pl.DataFrame([*passes], schema=schema, orient="row")


def hash_quickly(records: pl.DataFrame) -> pl.Series:
    """
    Hash each record for comparison within this process.

    Records hash alike if their labels, ids and spans (where there are such columns) are the same.
    Labels are factors, no summands: else a sum would not tell which of two records has which.
    """
    ids = records[SAMPLE_ID]
    hashes = _hashes(ids.cast(pl.Int64) if ids.dtype.is_integer() else ids)
    for name in ("token_start", "token_end"):
        if name in records.columns:
            hashes = (hashes ^ _hashes(records[name])) * _ODD
    labels = records.select("source", pl.col("epoch").cast(pl.Int64))
    if all(_is_one(values) for values in labels):
        labels = labels.head(1)  # neighbours are most often of one pass
    for values in labels:
        hashes = hashes * (_hashes(values) | np.uint64(1))
    return pl.Series(hashes)


def _hashes(values: pl.Series) -> NDArray[Any]:
    return values.hash(1).to_numpy()


def _runs(batch: pl.DataFrame, hashes: pl.Series | None) -> pl.DataFrame:
    """Sum up the records of a batch: as ranks write step after step, they are runs."""
    rank, step = batch["rank"].to_numpy(), batch["step"].to_numpy()
    is_new = (rank[1:] != rank[:-1]) | (step[1:] != step[:-1])
    starts = np.concatenate([[0], np.flatnonzero(is_new) + 1])
    none = np.zeros(len(starts), np.int64)
    runs = {
        "rank": rank[starts],
        "step": step[starts],
        "n": np.diff(starts, append=batch.height),
        "tokens": none,
        "spans": none,
        "mixed": none.view(np.uint64),
    }
    if "tokens" in batch.columns:
        tokens = batch["tokens"]
        runs["tokens"] = np.add.reduceat(tokens.fill_null(0).to_numpy(), starts)
        runs["spans"] = np.add.reduceat(tokens.is_not_null().to_numpy().astype(np.int64), starts)
    if hashes is not None:
        runs["mixed"] = np.add.reduceat(hashes.to_numpy(), starts)
    return pl.DataFrame(runs, schema=COUNTS)


def _passes(batch: pl.DataFrame) -> Iterator[tuple[Pass, pl.DataFrame]]:
    """Cut a batch into passes; most often it is of one."""
    if all(_is_one(batch[name]) for name in _PASS):
        yield (batch["source"][0], batch["epoch"][0]), batch
        return
    for of, part in batch.partition_by(_PASS, as_dict=True).items():
        yield (of[0], of[1]), part


def _is_one(values: pl.Series) -> bool:
    nulls = values.null_count()
    return nulls == len(values) or (nulls == 0 and values.min() == values.max())


def _amounts(part: pl.DataFrame) -> tuple[int, int, int, int]:
    """Give tokens, and how many records have spans, begin inside a document, have a place."""
    placed = part["position"].count() if "position" in part.columns else 0
    if "tokens" not in part.columns:
        return 0, 0, 0, placed
    tokens = part["tokens"]
    inner = int((part["token_start"] > 0).sum())
    return int(tokens.sum()), tokens.count(), inner, placed
