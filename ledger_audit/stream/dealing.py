"""
Deals what is left of a stream to ranks: which sequences make a step, and who uses which of them.

A step of the plan holds what a step of the reference holds, as long as that can be: from the first
one on where it cannot, sequences are taken in their order, as many as fill all ranks' slots.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ledger_audit.stream.ordered import CONTENT

Integers = NDArray[np.int64]

MOST_RAGGED = 20


@dataclass(frozen=True)
class Shape:
    """Who uses how much."""

    world_size: int
    micro_batch: int
    accumulation: int | None
    """Null: what the reference's batch needs."""

    @property
    def unit(self) -> int:
        """Sequences that fill one slot of all ranks."""
        return self.world_size * self.micro_batch


@dataclass(frozen=True)
class Batches:
    """The steps of a plan."""

    sizes: Integers
    """Sequences of each."""
    shape: Shape
    accumulation: int
    differs_at: int | None
    """Place of the first one that is no step of the reference; null: all are."""
    because: str | None

    @property
    def starts(self) -> Integers:
        """The first sequence of each."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def ragged(self) -> list[tuple[int, int, int]]:
        """List those that do not fill every slot: place, sequences, ranks that have fewer."""
        places = np.flatnonzero(self.sizes % self.shape.unit)
        world = self.shape.world_size
        found = []
        for place in places[:MOST_RAGGED].tolist():
            over = int(self.sizes[place]) % self.shape.unit % world
            found.append((place, int(self.sizes[place]), (world - over) % world))
        return found

    @property
    def n_ragged(self) -> int:
        """Count them."""
        return int(np.count_nonzero(self.sizes % self.shape.unit))


def shape_of(
    world_size: int, micro_batch: int | None, accumulation: int | None, like: tuple[int, int]
) -> Shape:
    """
    Choose what was not asked for, so that a step can hold what a step of the reference holds.

    Args:
        world_size: ranks.
        micro_batch: sequences of a rank and slot; null: as many as the reference has, or fewer.
        accumulation: slots; null: as many as the reference's batch needs.
        like: sequences of a step of the reference, and of its ranks' slots.
    """
    batch, rows = like
    each = batch // world_size if batch % world_size == 0 else None
    if micro_batch is None and accumulation is not None:
        micro_batch = max(1, round(batch / (world_size * accumulation)))
    elif micro_batch is None and each:
        micro_batch = next(one for one in range(min(rows, each), 0, -1) if each % one == 0)
    elif micro_batch is None:
        micro_batch = rows
    return Shape(world_size, micro_batch, accumulation)


def batches_of(full: Sequence[int], rest: Sequence[int], shape: Shape, why: str) -> Batches:
    """
    Cut what is left into steps.

    Args:
        full: sequences of each step of the reference of which something is left.
        rest: how many of them are left.
        shape: who uses how much.
        why: why a step is not whole.
    """
    sizes: list[int] = []
    differs: int | None = None
    because = None
    for place, (whole, left) in enumerate(zip(full, rest, strict=True)):
        is_tail = place == len(full) - 1 or (place > 0 and whole < full[place - 1])
        problem = _problem(whole, shape, is_tail=is_tail)
        if left != whole:
            problem = why
        if problem is not None:
            differs, because = place, problem
            break
        sizes.append(whole)
    first = _slots(full[0], shape) if full else 1
    if differs is not None:
        left, place = sum(rest[differs:]), differs
        while left:
            known = min(place, len(full) - 1)
            like = max(full[max(0, known - 1) : known + 1])  # no step is small on purpose here
            sizes.append(min(left, _slots(like, shape) * shape.unit))
            left, place = left - sizes[-1], place + 1
    return Batches(np.array(sizes, np.int64), shape, first, differs, because)


def dealt(rows: pl.DataFrame, batches: Batches, first_step: int) -> pl.DataFrame:
    """
    Give each sequence its rank, step, slot and row: in the order of steps, slots, ranks and rows.

    Args:
        rows: CONTENT and `sequence`, counted from 0.
        batches: the steps.
        first_step: the number of the first of them.
    """
    shape, starts = batches.shape, batches.starts
    nth = rows["sequence"].to_numpy()
    batch = np.searchsorted(starts, nth, side="right") - 1
    within = nth - starts[batch]
    slot, place = within // shape.unit, within % shape.unit
    tail = batches.sizes[batch] - slot * shape.unit  # sequences of this slot and those after it
    rank, row = place // shape.micro_batch, place % shape.micro_batch
    is_short = tail < shape.unit
    if is_short.any():
        each, more = tail // shape.world_size, tail % shape.world_size
        edge = more * (each + 1)  # so many go to ranks that have one more than others
        high = np.maximum(each, 1)
        short = np.where(place < edge, place // (each + 1), more + (place - edge) // high)
        begin = np.where(short < more, short * (each + 1), edge + (short - more) * each)
        rank, row = np.where(is_short, short, rank), np.where(is_short, place - begin, row)
    return rows.select(
        pl.Series("rank", rank, dtype=pl.Int32),
        pl.Series("step", batch + first_step, dtype=pl.Int64),
        pl.Series("slot", slot, dtype=pl.Int32),
        pl.Series("row", row, dtype=pl.Int32),
        *CONTENT,
    )


def pieces_of(
    rest: Iterator[pl.DataFrame], batches: Batches, first_step: int
) -> Iterator[pl.DataFrame]:
    """Deal pieces of the rest of a stream."""
    for rows in rest:
        yield dealt(rows, batches, first_step)


def _problem(whole: int, shape: Shape, *, is_tail: bool) -> str | None:
    """Say why ranks cannot use a step of the reference as one of theirs."""
    if shape.accumulation is not None:
        full = shape.unit * shape.accumulation
        if whole == full or (is_tail and whole < full):
            return None
        return (
            f"a step of {shape.world_size} ranks, {shape.micro_batch} rows and "
            f"{shape.accumulation} slots has {full} sequences, one of the reference {whole}"
        )
    if whole % shape.unit and not is_tail:
        return (
            f"{whole} sequences of a step of the reference are no multiple of "
            f"{shape.world_size} ranks times {shape.micro_batch} rows"
        )
    return None


def _slots(whole: int, shape: Shape) -> int:
    """Give the slots of a step that is as large as one of the reference, or nearly."""
    if shape.accumulation is not None:
        return shape.accumulation
    return max(1, int(whole / shape.unit + 0.5))
