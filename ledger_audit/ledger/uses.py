"""
Notes which samples of which pass were used, in bounded memory, and suspects those used twice.

Samples whose ids are dense integers have bytes of their own, all others a 64-bit key. Different
keys prove that samples differ; the records of equal ones are to be looked at.
"""

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ledger_audit.errors import TooLargeError
from ledger_audit.ledger.keys import Keys, among, repeated
from ledger_audit.ledger.schema import SAMPLE_ID

Pass = tuple[str | None, int | None]
"""Source and epoch."""

_DENSE = 16
"""Ids a record, over all passes, beyond which they are not dense."""
_EPOCH, _SOURCE = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
"""Seeds that make an id of one pass another key than the same id of another."""
_MANY, _SMALL = 1 << 20, 1 << 8
"""Uses from which on keys in memory are sorted in buckets, and how many of these there are."""
_SHARE = 4
"""A fourth of the memory is for what was used: batches, and what is sorted, need the rest."""


@dataclass(frozen=True)
class Met:
    """One pass beside a list of its samples."""

    samples: int
    """Listed ones that were used."""
    missing: pl.Series
    """The first by their ids that were not, in this order."""


class Seen(Protocol):
    """What notes uses; a batch has the column `key`."""

    key: pl.Expr
    """Gives the column `key` from the `samples` table."""

    def see(self, of: Pass, batch: pl.DataFrame) -> None:
        """Note the uses of samples of one pass; several threads may do so at once."""


class Bytes:
    """Says of each id of each pass whether it was used, and on a second look whether again."""

    key = pl.col(SAMPLE_ID).alias("key")

    def __init__(self, bounds: tuple[int, int], allowed: int, first: "Bytes | None" = None) -> None:
        """
        Begin with nothing used.

        Args:
            bounds: the lowest and the highest id.
            allowed: bytes that may be used.
            first: what has seen all uses before; null: this is the first look.
        """
        self._low, self._size = bounds[0], bounds[1] - bounds[0] + 1
        self._allowed, self._first = allowed, first
        self._lock = Lock()
        self._used: dict[Pass, NDArray[np.bool_]] = {}
        self._twice: dict[Pass, NDArray[np.bool_]] = {}

    def see(self, of: Pass, batch: pl.DataFrame) -> None:
        """Note the uses of samples of one pass."""
        places = batch["key"].to_numpy()
        places = places - self._low if self._low else places
        if self._first is None:
            self._of(of, self._used)[places] = True
            return
        places = np.sort(places)
        within = places[1:][places[1:] == places[:-1]]
        with self._lock:
            used, twice = self._of(of, self._used), self._of(of, self._twice)
            twice[places[used[places]]] = True
            twice[within] = True
            used[places] = True

    def is_clean(self, records: int) -> bool:
        """Tell whether so many noted uses were all of different samples."""
        return self._distinct == records

    def again(self) -> "Bytes":
        """Give what tells the samples that are used more than once from the others."""
        bounds = self._low, self._high
        return Bytes(bounds, 2 * self._allowed, first=self)

    def suspects(self, records: int, most: int) -> Iterator[pl.Expr]:
        """Give ranges of ids and those among them that some pass used more than once."""
        is_twice = np.zeros(self._size, np.bool_)
        for twice in self._twice.values():
            is_twice |= twice
        ids = np.flatnonzero(is_twice) + self._low
        repeats = sum(int(np.count_nonzero(twice)) for twice in self._twice.values())
        uses = records - self._distinct + repeats
        each = -(-uses // max(1, len(ids))) + len(self._used) - 1
        yield from _chunks(ids, np.full(len(ids), each), most, pl.col(SAMPLE_ID))

    def met(self, of: Pass, listed: pl.Series, most: int) -> Met:
        """Compare the uses of a pass with a list of ids."""
        ids = listed.to_numpy()
        is_used = (ids >= self._low) & (ids < self._low + self._size)
        if of in self._used:
            is_used[is_used] = self._used[of][ids[is_used] - self._low]
        else:  # none of them is
            is_used[:] = False
        return _met(listed, is_used, most)

    def among(self, asked: pl.DataFrame) -> pl.DataFrame:
        """Keep of some samples (source, epoch, sample_id) those that their pass used."""
        found = [asked.clear()]
        for (source, epoch), rows in asked.partition_by("source", "epoch", as_dict=True).items():
            used = self._used.get((source, epoch))
            if used is not None:
                within = rows.filter(pl.col(SAMPLE_ID).is_between(self._low, self._high))
                found.append(within.filter(used[within[SAMPLE_ID].to_numpy() - self._low]))
        return pl.concat(found)

    def close(self) -> None:
        """Let go of what was kept."""
        self._used.clear()
        self._twice.clear()

    @property
    def _high(self) -> int:
        return self._low + self._size - 1

    @property
    def _distinct(self) -> int:
        return sum(int(np.count_nonzero(used)) for used in self._used.values())

    def _of(self, of: Pass, flags: dict[Pass, NDArray[np.bool_]]) -> NDArray[np.bool_]:
        known = flags.get(of)
        if known is not None:
            return known
        with nullcontext() if self._first is not None else self._lock:
            if of not in flags:
                if (len(self._used) + len(self._twice) + 1) * self._size > self._allowed:
                    raise TooLargeError
                flags[of] = np.zeros(self._size, np.bool_)
            return flags[of]


class Hashes:
    """Keeps a 64-bit key of each use."""

    key = (
        pl.col(SAMPLE_ID).hash(1)
        + pl.col("source").hash(_SOURCE)
        + pl.col("epoch").cast(pl.Int64).hash(_EPOCH)
    ).alias("key")

    def __init__(self, rows: int, memory: int) -> None:
        """Begin with nothing used; at most so many rows come."""
        buckets = 1
        while rows * 8 * _SHARE > memory * buckets and buckets < 1 << 12:
            buckets *= 2
        on_disk = buckets > 1
        if not on_disk and rows > _MANY:
            buckets = _SMALL
        self._open = ExitStack()
        self._keys = self._open.enter_context(Keys(buckets, on_disk=on_disk))

    def see(self, of: Pass, batch: pl.DataFrame) -> None:  # noqa: ARG002  # the key tells it
        """Note the uses of samples."""
        self._keys.add(batch["key"].to_numpy())

    def is_clean(self, records: int) -> bool:  # noqa: ARG002
        """Tell whether all keys differ."""
        return not any((keys[1:] == keys[:-1]).any() for keys in self._keys.ordered())

    def again(self) -> None:
        """Need no second look."""

    def suspects(self, records: int, most: int) -> Iterator[pl.Expr]:  # noqa: ARG002
        """Give the keys that records share."""
        waiting = [repeated(np.empty(0, np.uint64))]
        uses = 0
        for keys in self._keys.ordered():
            waiting.append(repeated(keys))
            uses += int(waiting[-1]["n"].sum())
            if uses >= most:  # each look reads everything: few of a bucket wait for others
                yield from self._shared(waiting, most)
                waiting, uses = waiting[:1], 0
        yield from self._shared(waiting, most)

    def _shared(self, found: list[pl.DataFrame], most: int) -> Iterator[pl.Expr]:
        rows = pl.concat(found)
        yield from _chunks(rows["key"].to_numpy(), rows["n"].to_numpy(), most, self.key)

    def met(self, of: Pass, listed: pl.Series, most: int) -> Met:
        """Compare the uses of a pass with a list of ids."""
        source, epoch = pl.lit(of[0], pl.String), pl.lit(of[1], pl.Int32)
        rows = listed.rename(SAMPLE_ID).to_frame().with_columns(source=source, epoch=epoch)
        return _met(listed, self._are_used(rows), most)

    def among(self, asked: pl.DataFrame) -> pl.DataFrame:
        """Keep of some samples (source, epoch, sample_id) those that their pass used."""
        return asked.filter(self._are_used(asked))

    def close(self) -> None:
        """Remove what lies on disk."""
        self._open.close()

    def _are_used(self, rows: pl.DataFrame) -> NDArray[np.bool_]:
        keys = rows.select(self.key).to_series().to_numpy()
        are_used = np.zeros(len(keys), np.bool_)
        if not len(keys):
            return are_used
        of_bucket = self._keys.bucket_of(keys)
        ends = np.cumsum(np.bincount(of_bucket, minlength=self._keys.buckets))
        own = np.split(np.argsort(of_bucket, kind="stable"), ends[:-1])
        for places, used in zip(own, self._keys.ordered(), strict=True):
            are_used[places] = among(keys[places], used)
        return are_used


class Unnoted:
    """Notes nothing: of no sample is it known whether it was used."""

    key = Bytes.key

    def see(self, of: Pass, batch: pl.DataFrame) -> None:
        """Let uses of samples pass by."""

    def is_clean(self, records: int) -> bool:
        """Tell whether there was none."""
        return records == 0

    def again(self) -> None:
        """Need no second look."""

    def suspects(self, records: int, most: int) -> Iterator[pl.Expr]:  # noqa: ARG002
        """Suspect all."""
        yield pl.lit(value=True)

    def met(self, of: Pass, listed: pl.Series, most: int) -> Met:  # noqa: ARG002
        """Know of none that it was used."""
        return _met(listed, np.zeros(len(listed), np.bool_), most)

    def among(self, asked: pl.DataFrame) -> pl.DataFrame:
        """Know of none that their pass used it."""
        return asked.clear()

    def close(self) -> None:
        """Hold nothing."""


def seen(bounds: tuple[int, int] | None, rows: int, memory: int) -> Bytes | Hashes:
    """
    Choose how to note uses.

    Args:
        bounds: the lowest and the highest id; null: ids are no integers.
        rows: at most so many uses come.
        memory: bytes that may be used.
    """
    if bounds is not None:
        size = bounds[1] - bounds[0] + 1
        if size <= max(rows, 1) * _DENSE and size * _SHARE <= memory:
            return Bytes(bounds, memory // _SHARE)
    return Hashes(rows, memory)


def _met(listed: pl.Series, is_used: NDArray[np.bool_], most: int) -> Met:
    missing = listed.filter(pl.Series(~is_used)).bottom_k(most).sort()
    return Met(int(is_used.sum()), missing)


def _chunks(
    keys: NDArray[Any], uses: NDArray[Any], most: int, column: pl.Expr
) -> Iterator[pl.Expr]:
    """Cut sorted keys into stretches of about as many uses, and give what their records fulfil."""
    if not len(keys):
        return
    parts = np.cumsum(uses) // max(1, most)
    for chosen in np.split(keys, np.flatnonzero(np.diff(parts)) + 1):
        yield column.is_in(pl.Series(chosen).implode())
