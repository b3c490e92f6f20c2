"""
Holds hundreds of millions of 64-bit keys, and finds those that come more than once.

Equal keys are in one bucket. Small buckets are sorted sooner than all keys at once, and several at
a time; keys that do not fit into memory lie on disk, in buckets that do.
"""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ledger_audit.errors import UsageError

U64 = NDArray[np.uint64]

REPEATED = {"key": pl.UInt64(), "n": pl.Int64()}
"""A key that comes more than once, and how often."""

_FLUSHED = 1 << 16
"""Keys of one bucket that are written at once."""


class Keys:
    """Keys, bucket by bucket; the bucket of a key is what its first bits say."""

    def __init__(self, buckets: int, *, on_disk: bool) -> None:
        """Hold keys in memory, or in one file for each bucket."""
        self._bits = (buckets - 1).bit_length()
        self._waiting: list[list[U64]] = [[] for _ in range(1 << self._bits)]
        self._held = [0] * len(self._waiting)
        self._is_sorted = [False] * len(self._waiting)
        self._lock = Lock()
        self._open = ExitStack()
        self._folder: Path | None = None
        if on_disk:
            made = tempfile.TemporaryDirectory(prefix="ledger-audit-")
            self._folder = Path(self._open.enter_context(made))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return len(self._waiting)

    def add(self, keys: U64) -> None:
        """Take keys, before any are given; several threads may do so at once."""
        if not self._bits:
            with self._lock:
                self._waiting[0].append(keys)
            return
        buckets = self.bucket_of(keys)
        ordered = keys[np.argsort(buckets, kind="stable")]
        ends = np.cumsum(np.bincount(buckets, minlength=self.buckets))
        with self._lock:
            for bucket, part in enumerate(np.split(ordered, ends[:-1])):
                if len(part):
                    self._wait(bucket, part)

    def bucket_of(self, keys: U64) -> NDArray[np.uint16]:
        """Give the place of each key's bucket."""
        if not self._bits:
            return np.zeros(len(keys), np.uint16)
        return (keys >> np.uint64(64 - self._bits)).astype(np.uint16)

    def ordered(self) -> Iterator[U64]:
        """Give the keys of each bucket in their order, repeats included."""
        if self._folder is None and not all(self._is_sorted):
            with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
                list(pool.map(self.of, range(self.buckets)))
        for bucket in range(self.buckets):
            yield self.of(bucket)

    def of(self, bucket: int) -> U64:
        """Give the keys of one bucket in their order."""
        parts, path = self._waiting[bucket], self._path(bucket)
        if self._is_sorted[bucket]:
            return np.fromfile(path, dtype=np.uint64) if path is not None else parts[0]
        if path is not None and path.exists():
            parts = [np.fromfile(path, dtype=np.uint64), *parts]
        self._waiting[bucket] = []  # nothing is twice in memory
        keys = np.concatenate(parts) if parts else np.empty(0, np.uint64)
        del parts
        keys.sort()
        if path is None:
            self._waiting[bucket] = [keys]
        else:
            self._write(path, "wb", [keys])
        self._is_sorted[bucket] = True
        return keys

    def _path(self, bucket: int) -> Path | None:
        return None if self._folder is None else self._folder / str(bucket)

    def _write(self, path: Path, mode: Literal["ab", "wb"], parts: list[U64]) -> None:
        try:
            with path.open(mode) as file:
                for part in parts:
                    part.tofile(file)
        except OSError as problem:
            raise UsageError(
                f"cannot keep keys in {path.parent}: {problem}",
                hint="allow more with --memory, or name a larger temporary folder with TMPDIR",
            ) from problem

    def _wait(self, bucket: int, part: U64) -> None:
        self._waiting[bucket].append(part)
        path = self._path(bucket)
        if path is None:
            return
        self._held[bucket] += len(part)
        if self._held[bucket] >= _FLUSHED:
            self._write(path, "ab", self._waiting[bucket])
            self._waiting[bucket], self._held[bucket] = [], 0


def repeated(keys: U64) -> pl.DataFrame:
    """Give the keys that come more than once among sorted ones: REPEATED."""
    again = np.flatnonzero(keys[1:] == keys[:-1])
    if not len(again):
        return pl.DataFrame(schema=REPEATED)
    found, counts = np.unique(keys[again], return_counts=True)
    return pl.DataFrame({"key": found, "n": counts + 1}, schema=REPEATED)


def among(keys: U64, ordered: U64) -> NDArray[np.bool_]:
    """Tell of each key whether it is among sorted ones."""
    if not len(ordered):
        return np.zeros(len(keys), np.bool_)
    places = np.searchsorted(ordered, keys)
    places[places == len(ordered)] = 0
    found: NDArray[np.bool_] = ordered[places] == keys
    return found
