"""The job that is simulated: its sizes, and the order in which it means to use its samples."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """A data-parallel training job. Epochs are whole numbers of steps: nothing need be padded."""

    samples: int = 272
    """Of the data set, with ids from 0."""
    seed: int = 17
    ranks: int = 4
    slots: int = 2
    rows: int = 2
    """Samples in the micro-batch of one rank and slot."""
    workers: int = 3
    """Loader workers of each rank."""
    prefetch: int = 2
    """Micro-batches that each worker reads ahead."""
    every: int = 5
    """Steps between checkpoints."""
    last: int = 45
    """The last step."""

    @property
    def batch(self) -> int:
        """Samples of a step: the global batch, which outlives a change of the world size."""
        return self.ranks * self.slots * self.rows

    def slots_on(self, ranks: int) -> int:
        """Give the slots of a step on so many ranks."""
        return self.batch // (ranks * self.rows)

    def epoch_at(self, step: int) -> tuple[int, int]:
        """Give the epoch that a job stands in after a step, and the samples it has used of it."""
        return divmod(step * self.batch, self.samples)

    def order(self, seed: int, epoch: int) -> list[int]:
        """List the ids of an epoch in its own order."""
        ids = list(range(self.samples))
        random.Random(f"{seed}/{epoch}").shuffle(ids)
        return ids


JOB = Job()
"""The one that `demo` runs."""
