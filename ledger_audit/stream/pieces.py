"""What every kind of expected stream gives, and how a global batch is dealt to ranks and slots."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ledger_audit.errors import UsageError

Integers = NDArray[np.int64]

MOST = 1 << 18
"""Sequences of one piece."""

PIECE: dict[str, pl.DataType] = {
    "rank": pl.Int32(),
    "step": pl.Int64(),
    "slot": pl.Int32(),
    "row": pl.Int32(),
    "sample_id": pl.Int64(),
    "token_start": pl.Int64(),
    "token_end": pl.Int64(),
    "source": pl.String(),
    "epoch": pl.Int32(),
    "position": pl.Int64(),
}
"""Columns of a piece; `sample_id` may be text, and any of the last five null throughout."""


@dataclass(frozen=True)
class Derived:
    """A stream that is expected, and what it was worked out from."""

    kind: str
    recipe: Mapping[str, Any]
    """All that decides it: from the same recipe comes the same stream."""
    world_size: int
    pieces: Iterator[pl.DataFrame]
    """Frames of PIECE, in the global order of the stream; to be gone through once."""
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    """What a run that follows the stream would say of it."""


@dataclass(frozen=True)
class Sharding:
    """How the sequences of a step are dealt to ranks, slots and rows."""

    world_size: int
    """W."""
    micro_batch: int
    """b: sequences of a rank and slot."""
    is_strided: bool = False
    """Every W-th sequence is a rank's; else a rank has b neighbours in each slot."""

    @property
    def slot_size(self) -> int:
        """Sequences of all ranks in one slot."""
        return self.world_size * self.micro_batch

    def slots(self, batch: int) -> int:
        """
        Give the slots of a global batch.

        Raises:
            UsageError: the ranks cannot share it evenly.
        """
        if batch % self.slot_size:
            raise UsageError(
                f"a global batch of {batch:,} cannot be shared by {self.world_size:,} ranks with "
                f"micro-batches of {self.micro_batch:,}",
                hint=f"it must be a multiple of {self.slot_size:,}",
            )
        return batch // self.slot_size

    def places(self, within: Integers) -> tuple[Integers, Integers, Integers]:
        """Give rank, slot and row of sequences by their place in their step, from 0."""
        if self.is_strided:
            own = within // self.world_size
            return within % self.world_size, own // self.micro_batch, own % self.micro_batch
        in_slot = within % self.slot_size
        return in_slot // self.micro_batch, within // self.slot_size, in_slot % self.micro_batch


@dataclass(frozen=True)
class Leg:
    """Neighbouring steps of one size."""

    first_step: int
    first: int
    """Position of its first sequence."""
    size: int
    """Sequences of a step."""
    count: int
    """Sequences in all; the last step may have fewer."""

    def steps(self) -> Iterator[tuple[Integers, Integers, Integers]]:
        """Give positions, steps and places within the step, MOST at a time at most."""
        for start in range(0, self.count, MOST):
            at = np.arange(start, min(start + MOST, self.count), dtype=np.int64)
            yield at + self.first, at // self.size + self.first_step, at % self.size


def sharded(
    legs: Iterator[Leg], sharding: Sharding
) -> Iterator[tuple[Integers, dict[str, Integers]]]:
    """Give positions, and the columns that say who uses the sequences there, and when."""
    for leg in legs:
        for positions, steps, within in leg.steps():
            rank, slot, row = sharding.places(within)
            yield positions, {"rank": rank, "step": steps, "slot": slot, "row": row}


def piece(columns: Mapping[str, Any]) -> pl.DataFrame:
    """Make a piece of the columns that there are; the others are null."""
    ids = columns["sample_id"]
    is_text = isinstance(ids, pl.Series) and ids.dtype == pl.String
    types = {**PIECE, "sample_id": pl.String() if is_text else pl.Int64()}
    frame = pl.DataFrame(dict(columns))
    return frame.select(
        (pl.col(name) if name in columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in types.items()
    )
