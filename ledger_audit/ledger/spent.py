"""
Keeps a multiset of used records, and strikes out of another stream what is in it, in its order.

Samples whose ids are dense integers have a counter of their own, all others one for each 64-bit key
of their identity. That two records share a key by chance is not ruled out here: whoever asks adds
up digests beside it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ledger_audit.errors import TooLargeError, UsageError
from ledger_audit.ledger.schema import SAMPLE_ID
from ledger_audit.ledger.uses import Pass

_SEEDS = {
    "source": 0xC2B2AE3D27D4EB4F,
    "epoch": 0x9E3779B97F4A7C15,
    "token_start": 0x165667B19E3779F9,
    "token_end": 0x27D4EB2F165667C5,
}
_SHARE = 2
"""Half of the memory is for counters, and for keys while they are sorted."""
_KEY_BYTES = 40
"""Of each key while keys are sorted and counted."""


@dataclass(frozen=True)
class Identity:
    """The columns, beside the id, by which two records are the same; others one side lacks."""

    columns: tuple[str, ...]

    @property
    def has_spans(self) -> bool:
        """Parts of samples are told apart."""
        return "token_start" in self.columns

    @property
    def key(self) -> pl.Expr:
        """Give the column `key` from the `samples` table."""
        found = pl.col(SAMPLE_ID).hash(1)
        for name in self.columns:
            value = pl.col(name) if name == "source" else pl.col(name).cast(pl.Int64)
            found = found + value.hash(_SEEDS[name])
        return found.alias("key")

    def passed(self, of: Pass) -> Pass:
        """Give a pass with what counts of its labels."""
        return (
            of[0] if "source" in self.columns else None,
            of[1] if "epoch" in self.columns else None,
        )


class Spent:
    """
    What was used, each record as often as it was.

    Args:
        identity: by which records are compared.
        bounds: the lowest and the highest id, where they are to have counters of their own.
        memory: bytes that may be used.
        since: the first step whose records count.
    """

    def __init__(
        self, identity: Identity, bounds: tuple[int, int] | None, memory: int, since: int
    ) -> None:
        self._identity, self._allowed = identity, memory // _SHARE
        self.since = since
        """The first step whose records count."""
        self.is_direct = bounds is not None and not identity.has_spans
        self._low, high = bounds or (0, 0)
        self._size = high - self._low + 1
        self.key = pl.col(SAMPLE_ID).alias("key") if self.is_direct else identity.key
        self.earlier = 0
        """Records of steps before `since`."""
        self.records = 0
        """The others."""
        self._begins: dict[Pass, int] = {}
        self._left = np.zeros(0, np.int32)
        self._all: NDArray[np.int32] | None = None
        self._found: list[NDArray[np.uint64]] = []
        self._keys = np.zeros(0, np.uint64)
        self._lock = Lock()
        if self.is_direct and self._size * 4 > self._allowed:
            raise TooLargeError

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns by which records are compared, beside the id."""
        return self._identity.columns

    def see(self, of: Pass, batch: pl.DataFrame) -> None:
        """Note the uses of samples of one pass; several threads may do so at once."""
        is_own = batch["step"] >= self.since
        own = batch if is_own.all() else batch.filter(is_own)
        keys = own["key"].to_numpy()
        with self._lock:
            self.earlier += batch.height - own.height
            self.records += own.height
            if self.is_direct:
                places, times = np.unique(keys - self._low, return_counts=True)
                self._of(self._identity.passed(of))[places] += times.astype(np.int32)
            else:
                if (self.records * _KEY_BYTES) > self._allowed * _SHARE:
                    raise UsageError(
                        f"{self.records:,} used records are more than the memory allowed can hold",
                        hint=f"give more with --memory: each of them takes {_KEY_BYTES} bytes",
                    )
                self._found.append(keys.astype(np.uint64))

    def freeze(self) -> None:
        """Take in no more; what is struck out from now on can be put back by `renew`."""
        if not self.is_direct:
            every = np.concatenate([self._keys, *self._found])
            self._found.clear()
            self._keys, counts = np.unique(every, return_counts=True)
            self._left = counts.astype(np.int32)
        self._all = self._left.copy() if self._identity.has_spans else None

    def renew(self) -> None:
        """Begin to strike out anew; only where spans are told apart."""
        assert self._all is not None
        self._left = self._all.copy()

    def strike(self, rows: pl.DataFrame) -> NDArray[np.bool_]:
        """
        Strike out records of a stream that were used, the first in its order first.

        Args:
            rows: of the stream, in its order; the next ones in the next call.

        Returns:
            Of each row whether it was among what was used, and not struck out before.
        """
        places = self._places(rows)
        is_known = places >= 0
        known = places[is_known]
        if pl.Series(known).n_unique() == len(known):
            is_struck = self._left[known] > 0
            self._left[known[is_struck]] -= 1
        else:
            nth = pl.int_range(pl.len()).over("place")
            times = pl.DataFrame({"place": known}).select(nth).to_series().to_numpy()
            is_struck = times < self._left[known]
            np.subtract.at(self._left, known[is_struck], 1)
        found = np.zeros(len(places), np.bool_)
        found[is_known] = is_struck
        return found

    @property
    def left(self) -> int:
        """Records that were used and not struck out."""
        return int(self._left.sum())

    @property
    def distinct(self) -> int:
        """Different identities among what was used."""
        return int(np.count_nonzero(self._left if self._all is None else self._all))

    def left_keys(self) -> pl.Expr:
        """Give what used records fulfil that were not struck out; others may fulfil it too."""
        if self.is_direct:
            left = np.unique(np.flatnonzero(self._left) % self._size) + self._low
            return pl.col(SAMPLE_ID).is_in(pl.Series(left).implode())
        return self._identity.key.is_in(pl.Series(self._keys[self._left > 0]).implode())

    def left_of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Keep of records that were used as many as were not struck out."""
        places = self._places(rows)
        nth = pl.int_range(pl.len()).over("place")
        times = pl.DataFrame({"place": places}).select(nth).to_series().to_numpy()
        is_known = places >= 0
        is_left = np.zeros(len(places), np.bool_)
        is_left[is_known] = times[is_known] < self._left[places[is_known]]
        return rows.filter(pl.Series(is_left, dtype=pl.Boolean))

    def close(self) -> None:
        """Let go of what was kept."""
        self._left, self._keys, self._all = self._left[:0], self._keys[:0], None
        self._found.clear()

    def _of(self, of: Pass) -> NDArray[np.int32]:
        """Give the counters of a pass."""
        if of not in self._begins:
            size = len(self._left) + self._size
            if size * 4 > self._allowed:
                raise TooLargeError
            self._begins[of] = len(self._left)
            self._left = np.concatenate([self._left, np.zeros(self._size, np.int32)])
        begin = self._begins[of]
        return self._left[begin : begin + self._size]

    def _places(self, rows: pl.DataFrame) -> NDArray[np.int64]:
        """Give the counter of each row; negative: it has none."""
        if not self.is_direct:
            if not len(self._keys):
                return np.full(rows.height, -1, np.int64)
            keys = rows.select(self.key).to_series().to_numpy().astype(np.uint64)
            order = np.argsort(keys)  # neighbours look up what is near in memory
            places = np.empty(len(keys), np.int64)
            places[order] = np.searchsorted(self._keys, keys[order])
            places[places == len(self._keys)] = 0
            return np.where(self._keys[places] == keys, places, -1)
        ids = rows[SAMPLE_ID].to_numpy()
        places = np.full(len(ids), -1, np.int64)
        for of, is_own in self._passes(rows):
            begin = self._begins.get(self._identity.passed(of))
            if begin is not None:
                own = is_own & (ids >= self._low) & (ids < self._low + self._size)
                places[own] = ids[own] - self._low + begin
        return places

    def _passes(self, rows: pl.DataFrame) -> Iterator[tuple[Pass, NDArray[np.bool_]]]:
        for source, epoch in rows.select("source", "epoch").unique().iter_rows():
            is_own = rows.select(
                pl.col("source").eq_missing(pl.lit(source, pl.String))
                & pl.col("epoch").eq_missing(pl.lit(epoch, pl.Int32))
            )
            yield (source, epoch), is_own.to_series().to_numpy()
