"""Sums up what a rank has used since its last commit, and what all its commits had used."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

MOST_OPEN = 64
"""Steps that may be open at once; trainers have one, seldom two."""


@dataclass
class Try:
    """What was used for one step since its last commit or void."""

    records: int = 0
    tokens: int | None = None
    slots: dict[int, int] = field(default_factory=dict)
    batches: list[Sequence[pa.Array | None]] = field(default_factory=list)
    """The digest columns of each micro-batch."""

    def add(self, slot: int, columns: Sequence[pa.Array | None]) -> None:
        """Add one micro-batch."""
        length = len(columns[0]) if columns[0] is not None else 0
        self.records += length
        self.slots[slot] = self.slots.get(slot, 0) + length
        self.batches.append(columns)
        start, end = columns[1], columns[2]
        if start is not None and end is not None:
            import pyarrow.compute as pc  # noqa: PLC0415  # only where spans are logged

            tokens = pc.sum(pc.subtract(end, start)).as_py()
            if tokens is not None:
                self.tokens = (self.tokens or 0) + tokens

    def digest(self) -> int:
        """Give the digest of the try."""
        from ledger_audit.ledger.digest import digest, signed  # noqa: PLC0415  # loads numpy

        if not self.batches:
            return 0
        shapes = {tuple(None if one is None else one.type for one in each) for each in self.batches}
        if len(shapes) > 1:
            return signed(sum(digest(columns) for columns in self.batches))
        return digest(
            [
                None if parts[0] is None else pa.concat_arrays(parts)
                for parts in zip(*self.batches, strict=True)
            ]
        )


class Tries:
    """The open tries of a rank."""

    def __init__(self) -> None:
        self._open: dict[int, Try] = {}

    def add(self, step: int, slot: int, columns: Sequence[pa.Array | None]) -> None:
        """Add one micro-batch to the try of its step."""
        if step not in self._open and len(self._open) >= MOST_OPEN:
            del self._open[min(self._open)]
        self._open.setdefault(step, Try()).add(slot, columns)

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
