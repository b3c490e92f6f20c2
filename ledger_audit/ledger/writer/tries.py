"""Sums up what a rank has used since its last commit."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ledger_audit.ledger.digest import digest, signed
from ledger_audit.ledger.schema import DIGEST_COLUMNS

MOST_OPEN = 64
"""Steps that may be open at once; trainers have one, seldom two."""

Columns = Sequence[pa.Array | None]
"""Those of DIGEST_COLUMNS; null where none is given."""

_START, _END = DIGEST_COLUMNS.index("token_start"), DIGEST_COLUMNS.index("token_end")


class Try:
    """What was used for one step since its last commit or void."""

    def __init__(self) -> None:
        self.records = 0
        self.slots: dict[int, int] = {}
        self._is_whole = True
        self._batches: dict[tuple[pa.DataType | None, ...], list[Columns]] = {}

    def add(self, slot: int, columns: Columns, length: int) -> None:
        """Add one micro-batch; summing up is left to the commit."""
        self.records += length
        self.slots[slot] = self.slots.get(slot, 0) + length
        shape = tuple(None if one is None else one.type for one in columns)
        self._batches.setdefault(shape, []).append(columns)

    def miss(self, length: int) -> None:
        """Count records that could not even be read: the digest cannot cover them."""
        self.records += length
        self._is_whole = False

    def sums(self) -> tuple[int | None, int | None]:
        """Give the tokens (null without spans) and the digest (null if it misses some)."""
        tokens: int | None = None
        total = 0
        for batches in self._batches.values():
            columns = [
                None if parts[0] is None else pa.concat_arrays(parts)
                for parts in zip(*batches, strict=True)
            ]
            total += digest(columns)
            start, end = columns[_START], columns[_END]
            if start is not None and end is not None:
                tokens = (tokens or 0) + _between(start, end)
        return tokens, signed(total) if self._is_whole else None


def _between(start: pa.Array, end: pa.Array) -> int:
    first, last = (one.fill_null(0).to_numpy(zero_copy_only=False) for one in (start, end))
    return int(np.subtract(last, first).sum())


class Tries:
    """The open tries of a rank."""

    def __init__(self) -> None:
        self._open: dict[int, Try] = {}

    def add(self, step: int, slot: int, columns: Columns, length: int) -> None:
        """Add one micro-batch to the try of its step."""
        self._of(step).add(slot, columns, length)

    def miss(self, step: int, length: int) -> None:
        """Count records that cannot be written."""
        self._of(step).miss(length)

    def _of(self, step: int) -> Try:
        if step not in self._open and len(self._open) >= MOST_OPEN:
            del self._open[min(self._open)]
        return self._open.setdefault(step, Try())

    def take(self, step: int) -> Try:
        """End the try of a step; an empty one if nothing was used for it."""
        return self._open.pop(step, Try())

    @property
    def newest(self) -> tuple[int | None, dict[int, int]]:
        """The newest step that is open, and the records of its slots; null: none is."""
        if not self._open:
            return None, {}
        step = max(self._open)
        return step, dict(self._open[step].slots)
