"""What the causes of one resume are named from: its report, its clues, and what is around it."""

from dataclasses import dataclass

from ledger_audit.model import Expected, Overlay, Resume, Resumed
from ledger_audit.model.causes import Clues, Steps

_FEW = 4
"""Sequences of a step that are a stretch of an order by chance."""


@dataclass(frozen=True)
class Case:
    """One resume that did not continue."""

    resume: Resume
    clues: Clues
    checkpoints: tuple[int, ...] = ()
    """Steps of all other checkpoints of the lineage."""
    earlier: tuple[int, ...] = ()
    """Steps from which the lineage was resumed before."""
    voids: int = 0
    """Updates that were thrown away before the checkpoint."""
    loaders: tuple[int, int] | None = None
    """Workers and prefetched batches of each rank's loader, 0 of none; null: not logged."""
    shuffle_buffer: int | None = None
    """Samples that a shuffle buffer holds; null: not logged."""
    declared: tuple[int, ...] = ()
    """Samples of each skip that the lineage declared before."""
    claimed_ahead: int | None = None
    """How far the saved claim is ahead of the committed records; null: it is not known."""

    @property
    def step(self) -> int:
        """C."""
        return self.resume.checkpoint_step

    @property
    def shift(self) -> int | None:
        """D: sequences from where the stream should go on to where it does; null: not known."""
        if self.clues.is_repacked or self.is_scattered:
            return None  # other pieces of the documents, or no place at all
        if self.clues.by_position is not None:
            return self.clues.by_position
        if self.clues.is_packed:  # places, counts and claims are of sequences
            is_place = self.clues.skips_first and not self.is_disordered
            return self.clues.shift if is_place else None
        if self.resume.first_place is not None:
            return self.resume.first_place
        if self.clues.begins_at is not None and self.is_all_read:
            return self.clues.begins_at - self.clues.distinct
        is_least = self.resume.shift.is_lower_bound or self.clues.is_open
        return None if is_least or not self.clues.skips_first else self.resume.shift.records

    @property
    def least(self) -> int | None:
        """Skipped at least, where the reference ends too early to tell; null: it is known."""
        is_one_way = self.clues.skips_first and not self.clues.mixed_ranks
        is_open = self.resume.shift.is_lower_bound and is_one_way and self.is_even
        return self.resume.shift.records if is_open and self.shift is None else None

    @property
    def is_scattered(self) -> bool:
        """What comes first is no stretch of any order."""
        deal = self.clues.deal
        is_small = deal.ranks * deal.rows * deal.slots < _FEW
        is_mixed = self.clues.mixed_ranks > 0 and self.is_disordered
        return self.clues.is_scattered or (is_small and is_mixed)

    @property
    def is_shifted(self) -> bool:
        """The stream goes on at another place, in its own order."""
        return self.resume.first_place is not None and not self.is_scattered

    @property
    def unit(self) -> str:
        """What places are counted in."""
        return "sequence" if self.clues.is_packed else "record"

    @property
    def is_all_read(self) -> bool:
        """Everything before the checkpoint was read."""
        return self.resume.read_steps is None

    @property
    def consumed(self) -> int | None:
        """Used by all committed steps up to the checkpoint; null: not all were read."""
        return sum(count for _, count in self.clues.before) if self.is_all_read else None

    @property
    def of_pass(self) -> int | None:
        """Used in the pass of the checkpoint; null: no epoch is logged, or it was not all read."""
        return self.clues.of_pass if self.is_all_read or self.clues.is_pass_read else None

    @property
    def amounts(self) -> tuple[tuple[int, str], ...]:
        """What was used before the checkpoint, of the run and of its pass, and since when."""
        consumed = self.consumed
        distinct = None if consumed is None else self.clues.distinct
        since = [(consumed, "since the run began"), (self.of_pass, "in this pass")]
        if distinct != consumed:
            since.append((distinct, "since the run began, repeats aside"))
        return tuple((amount, told) for amount, told in since if amount)

    @property
    def batch(self) -> int | None:
        """G: sequences of the last committed step, or of the first expected."""
        return _usual(self.clues.before or self.clues.ahead)

    @property
    def batch_now(self) -> int | None:
        """G of the resumed attempt."""
        return _usual(self.clues.now)

    def since(self, step: int) -> int | None:
        """Count the sequences of the committed steps after a step; null: they were not all read."""
        steps = [one for one, _ in self.clues.before]
        if step > self.step or not steps or (step < min(steps) - 1 and not self.is_all_read):
            return None
        return sum(count for at, count in self.clues.before if at > step)

    def until(self, step: int) -> int | None:
        """Count the sequences of the reference up to a step; null: it does not go so far."""
        steps = [one for one, _ in self.clues.ahead]
        if step <= self.step or not steps or step > max(steps):
            return None
        return sum(count for at, count in self.clues.ahead if at <= step)

    def amount(self, outcome: Resumed | Expected) -> int:
        """Count the records with an outcome."""
        if isinstance(outcome, Resumed):
            return self.resume.resumed[outcome].records
        return self.resume.expected[outcome].records

    @property
    def is_even(self) -> bool:
        """All ranks are shifted, by as much but for what pads a pass."""
        shifts = self.clues.by_rank.values()
        if len(shifts) < self.clues.deal.ranks or not shifts:
            return False
        spread = max(shifts) - min(shifts)
        return spread == 0 or (spread == 1 and min(shifts) > 0)  # a pad at the end of a pass

    @property
    def is_replaying(self) -> bool:
        """More is used again than evens out the ranks at the end of a pass."""
        return self.clues.replayed >= self.clues.deal.ranks

    @property
    def is_disordered(self) -> bool:
        """Records come in another order."""
        found = self.resume.overlays.get(Overlay.OUT_OF_ORDER)
        return found is not None and found.records > 0

    def changed(self, *keys: str) -> tuple[str, ...]:
        """Name the keys of the fingerprint, of these, that changed with the resume."""
        facts = self.resume.fingerprints
        changes = () if facts is None else facts.changes
        return tuple(
            one.key for one in changes if one.is_compared and one.key.split(".")[0] in keys
        )


def _usual(steps: Steps) -> int | None:
    """Give how many sequences a step has, most often."""
    counts = [count for _, count in steps]
    return max(sorted(set(counts)), key=counts.count) if counts else None
