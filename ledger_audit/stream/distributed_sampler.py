"""
The stream of PyTorch's `DistributedSampler`: a new permutation each epoch, dealt in turns.

The sampler gives its own order, of one rank; padding, and what is dropped, are reckoned as it does.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from ledger_audit.errors import UsageError
from ledger_audit.stream.pieces import MOST, Derived, Integers, Sharding, piece

EpochEnd = Literal["flush", "carry", "drop"]
"""What becomes of micro-batches that fill no step at the end of an epoch."""

EPOCH_ENDS: tuple[EpochEnd, ...] = ("flush", "carry", "drop")


@dataclass(frozen=True)
class Recipe:
    """All that decides the stream, beside to whom it is dealt."""

    samples: int
    """N: of the data set; ids are 0 to N-1."""
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False
    """The sampler drops what is left where the ranks do not share evenly; else it pads."""
    drop_last_batch: bool = False
    """The loader drops a micro-batch that is not full."""
    accumulation: int = 1
    """A: slots of a step."""
    epoch_end: EpochEnd = "flush"
    """They make a smaller step, go on with the next epoch, or are left out."""
    epochs: int = 1
    first_epoch: int = 0
    """The number of the first epoch, as `set_epoch` got it; it is also the label in the ledger."""


def derive(recipe: Recipe, sharding: Sharding) -> Derived:
    """
    Work out the stream.

    Raises:
        UsageError: PyTorch is not installed, or an epoch has no batch.
    """
    _torch()
    if not _Epoch(recipe, sharding, 0).micro_batches:
        raise UsageError(
            f"{recipe.samples:,} samples fill no micro-batch of {sharding.world_size:,} ranks",
            hint="give the samples, the ranks and the micro-batch that the run has",
        )
    known = {
        "sampler": "DistributedSampler",
        "seed": recipe.seed,
        "dataset_samples": recipe.samples,
        "micro_batch_size": sharding.micro_batch,
        "accumulation": recipe.accumulation,
        "drop_last": recipe.drop_last,
    }
    told = {**asdict(recipe), "micro_batch": sharding.micro_batch}
    return Derived(
        "distributed-sampler", told, sharding.world_size, _pieces(recipe, sharding), known
    )


def _pieces(recipe: Recipe, sharding: Sharding) -> Iterator[pl.DataFrame]:
    before = 0
    for number in range(recipe.epochs):
        epoch = _Epoch(recipe, sharding, before)
        yield from epoch.pieces(recipe.first_epoch + number, number)
        before = epoch.after


@dataclass(frozen=True)
class _Epoch:
    """One epoch, of which it is known how many slots or steps came before it."""

    recipe: Recipe
    sharding: Sharding
    before: int
    """Where micro-batches are carried over: slots of a rank before this epoch; else steps."""

    @property
    def share(self) -> int:
        """Samples of each rank that the sampler gives."""
        ranks, samples = self.sharding.world_size, self.recipe.samples
        if self.recipe.drop_last:  # the sampler leaves out less than a row of ranks
            return samples // ranks
        return -(-samples // ranks)

    @property
    def micro_batches(self) -> int:
        """Micro-batches of each rank that the loader gives."""
        if self.recipe.drop_last_batch:
            return self.share // self.sharding.micro_batch
        return -(-self.share // self.sharding.micro_batch)

    @property
    def after(self) -> int:
        """The same as `before`, of the epoch that follows."""
        slots = self.recipe.accumulation
        steps = self.micro_batches // slots
        if self.recipe.epoch_end == "carry":
            return self.before + self.micro_batches
        if self.recipe.epoch_end == "flush":
            steps = -(-self.micro_batches // slots)
        return self.before + steps

    def pieces(self, epoch: int, number: int) -> Iterator[pl.DataFrame]:
        """Give the records of the epoch in the order of the permutation."""
        order = _order(self.recipe, epoch)
        ranks, size = self.sharding.world_size, self.sharding.micro_batch
        total = self.share * ranks
        most = min(self.micro_batches * size, self.share)
        slots = self.recipe.accumulation
        if self.recipe.epoch_end == "drop":
            most = min(most, self.micro_batches // slots * slots * size)
        for start in range(0, most * ranks, MOST):
            place = np.arange(start, min(start + MOST, most * ranks), dtype=np.int64)
            batch = place // ranks // size
            if self.recipe.epoch_end == "carry":
                step, slot = divmod(batch + self.before, slots)
            else:
                step, slot = batch // slots + self.before, batch % slots
            yield piece(
                {
                    "rank": place % ranks,
                    "step": step + 1,
                    "slot": slot,
                    "row": place // ranks % size,
                    "sample_id": order[place % len(order)],  # padding begins the order again
                    "epoch": np.full(len(place), epoch),
                    "position": place + number * total,
                }
            )


def _order(recipe: Recipe, epoch: int) -> Integers:
    """Give the permutation of an epoch, as the sampler draws it."""
    if not recipe.shuffle:
        return np.arange(recipe.samples, dtype=np.int64)
    torch = _torch()
    generator = torch.Generator()
    generator.manual_seed(recipe.seed + epoch)
    order: Integers = torch.randperm(recipe.samples, generator=generator).numpy()
    return order


def _torch() -> Any:
    try:
        import torch  # noqa: PLC0415  # the extra is needed by this kind alone
    except ImportError as problem:
        raise UsageError(
            "a DistributedSampler's order is drawn by PyTorch, which is not installed",
            hint="pip install 'ledger-audit[torch]', of the version that the run has",
        ) from problem
    return torch
