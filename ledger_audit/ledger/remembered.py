"""Remembers how tries ended: of a whole run that is asked again and again, and it is not much."""

from collections.abc import Callable
from dataclasses import dataclass, field

import polars as pl

MOST = 1 << 21
"""Ends of tries that are remembered of a ledger, some 70 bytes each."""

Tries = Callable[[str, int, int | None], pl.DataFrame]
"""Attempt, first step, last step (null: to the end) → how its tries ended there."""


@dataclass(frozen=True)
class _Kept:
    first: int
    last: int | None
    rows: pl.DataFrame

    def holds(self, first: int, last: int | None) -> bool:
        """Tell whether all of these steps are among those that were read."""
        return first >= self.first and (
            self.last is None or (last is not None and last <= self.last)
        )


@dataclass(frozen=True)
class Remembered:
    """Reads the ends of tries, and those of steps that were read before from memory."""

    read: Tries
    _kept: dict[str, _Kept] = field(default_factory=dict)

    def tries(self, attempt: str, first: int, last: int | None = None) -> pl.DataFrame:
        """Give how the tries of some steps ended, as `read` does."""
        kept = self._kept.get(attempt)
        if kept is not None and kept.holds(first, last):
            step = pl.col("step")
            within = step >= first if last is None else step.is_between(first, last)
            return kept.rows.filter(within)
        rows = self.read(attempt, first, last)
        others = sum(one.rows.height for label, one in self._kept.items() if label != attempt)
        if others + rows.height <= MOST and (kept is None or rows.height >= kept.rows.height):
            self._kept[attempt] = _Kept(first, last, rows)
        return rows
