"""Epochs of one stretch of stream: which are over, and the repeats that pad their ends."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from oracle_plain.lineage import Part, owner, solid
from oracle_plain.reading import Attempt, Row

Key = tuple[Any, ...]


@dataclass(eq=False)
class Epochs:
    """The epochs of one stretch of stream; there are none unless the epoch is in the identity."""

    columns: tuple[str, ...]
    rows: list[Row]
    parts: list[Part]
    verdicts: dict[Key, bool] = field(default_factory=dict)

    def of(self, row: Row) -> Key | None:
        """Give the pass over its source that a record belongs to."""
        if "epoch" not in self.columns or row.epoch is None:
            return None
        return (row.source if "source" in self.columns else None, row.epoch)

    @cached_property
    def last(self) -> dict[Key, tuple[int, ...]]:
        """Where the last record of each epoch stands."""
        return {epoch: row.order for row in self.rows if (epoch := self.of(row)) is not None}

    @cached_property
    def distinct(self) -> dict[Key, set[Key]]:
        """The samples used in each epoch."""
        samples: dict[Key, set[Key]] = defaultdict(set)
        for row in self.rows:
            if (epoch := self.of(row)) is not None:
                samples[epoch].add((row.source, row.sample_id))
        return samples

    def over(self, epoch: Key | None) -> bool:
        """Tell if a later epoch follows it, or its distinct samples reach `dataset_samples`."""
        if epoch is None:
            return False
        if epoch not in self.verdicts:
            size = self.parts[-1][0].fact("dataset_samples")
            here = self.last.get(epoch, (0,))
            follows = any(
                e[0] == epoch[0] and e[1] > epoch[1] and at > here for e, at in self.last.items()
            )
            full = size is not None and len(self.distinct.get(epoch, ())) >= size
            self.verdicts[epoch] = follows or full
        return self.verdicts[epoch]

    def at_end(self, row: Row) -> bool:
        """Whether a record stands in the last step of its epoch."""
        epoch = self.of(row)
        return epoch is not None and self.last.get(epoch, (0,))[0] == row.step

    def closing(self, row: Row) -> bool:
        """Whether a record stands in the last step of an epoch that is over."""
        return self.at_end(row) and self.over(self.of(row))

    @cached_property
    def repeats_at_end(self) -> set[Row]:
        """Repeats in the last step of an epoch, over or not."""
        found, seen = set[Row](), set[Key]()
        for row in solid(self.rows):
            key = pick(row, self.columns)
            if key in seen and self.at_end(row):
                found.add(row)
            seen.add(key)
        return found

    @cached_property
    def repeats(self) -> set[Row]:
        """Repeats in the last step of an epoch that is over."""
        return {row for row in self.repeats_at_end if self.closing(row)}

    @cached_property
    def repeat_count(self) -> Counter[Key | None]:
        """How many repeats each epoch has in its last step, matched ones included."""
        return Counter(self.of(row) for row in self.repeats_at_end)

    def rounds(self, step: int) -> list[int]:
        """To what a sampler rounds an epoch up: ranks, micro-batches, global batches."""
        attempt = owner(self.parts, step)
        world = len(attempt.members(step))
        if attempt.fact("sampler") == "DistributedSampler" or not world:
            return [world] if world else []
        # Reading: b and A as seen (the fullest micro-batch, the most slots) or as configured: a
        # fingerprint key taken away must not make a verdict broken.
        seen = (fullest_batch(attempt), max((row.slot + 1 for row in attempt.rows), default=1))
        told = (attempt.fact("micro_batch_size"), attempt.fact("accumulation"))
        recipes = {seen, (int(told[0] or seen[0]), int(told[1] or seen[1]))}
        return sorted({n for b, a in recipes for n in (world, world * b, world * b * a)})

    def paddings(self, step: int) -> set[int]:
        """How many repeats a sampler adds at the end of an epoch."""
        size = owner(self.parts, step).fact("dataset_samples")
        return set() if size is None else {-int(size) % each for each in self.rounds(step)}

    def most(self, step: int) -> int:
        """The largest padding there can be; where N is not logged, short of a whole round."""
        return max(self.paddings(step) or {n - 1 for n in self.rounds(step)}, default=0)


def fullest_batch(attempt: Attempt) -> int:
    """Give the most sequences that any rank had in one slot."""
    sequences = {row.sequence for row in attempt.rows}
    return max(Counter(sequence[:4] for sequence in sequences).values(), default=1)


def pick(row: Row, names: Iterable[str]) -> Key:
    """Give some columns of a record."""
    return tuple(getattr(row, name) for name in names)
