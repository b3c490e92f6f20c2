"""What a contract forgives, and why: each excuse is a sentence of its reader's, never a silence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ledger_audit.continuity.contract import Bound, Contract
from ledger_audit.model import Amount, Expected, LaterEpoch, Resumed
from ledger_audit.printable import counted

Excuse = Callable[[int], str | None]
"""Records found → why they break nothing; null: they do."""


NOTHING = Amount(0, 0, None)


@dataclass(frozen=True)
class Tolerance:
    """What one resume may do beside what was promised."""

    contract: Contract
    replayed: Amount = NOTHING
    replayed_steps: int = 0
    """Resumed steps that hold a replayed record."""
    ranks: int = 1
    """Ranks of the resumed attempt."""

    def of(self, code: str) -> Excuse:
        """Give the excuse for a finding that nothing but the contract's allowances excuses."""
        is_repeat = code in (Resumed.REPLAYED, Resumed.DUPLICATED)
        if is_repeat and self.contract.promise == "at-least-once":
            return lambda _: "at least once is promised"
        return lambda records: self._allowance(code, records)

    def replayed_records(self, records: int) -> str | None:
        """Excuse the replayed records."""
        samples = self.replayed.samples
        return self._repeat(records, records if samples is None else samples)

    def replay(self, count: int) -> str | None:
        """Excuse so many places, or uses in a later epoch, beyond what each may have."""
        bound = self.contract.bounded_replay
        is_counted = bound is None or bound.samples is not None
        if not is_counted and count > self.replayed.records:
            return self.of(Resumed.REPLAYED)(count)  # nothing bounds them but the replay itself
        return self._repeat(count, count)

    def _repeat(self, records: int, samples: int) -> str | None:
        bound = self.contract.bounded_replay
        within = None
        if self.contract.promise == "bounded-replay" and bound is not None:
            within = self._within(bound, samples)
        return within or self.of(Resumed.REPLAYED)(records)

    def skip(self, records: int, by_rank: Mapping[int, int] | None) -> str | None:
        """Excuse so many skipped records; `by_rank` counts their sequences, null: not known."""
        most = self.contract.shuffle_buffer
        lost = records / self.ranks if by_rank is None else max(by_rank.values(), default=0)
        if most and lost <= most:
            return f"a restart may lose {counted(most, 'sequence')} of each rank's shuffle buffer"
        return self.of(Expected.SKIPPED)(records)

    def unexpected(self, records: int, skipped: int, excuse: str | None) -> str | None:
        """
        Excuse what stands, past the reference's end, in the place of an excused skip.

        Where the whole reference was skipped, a limit leaves it unproven.
        """
        if excuse is not None and records <= skipped:
            return f"in the place of what was skipped: {excuse}"
        return self.of(Resumed.UNEXPECTED)(records)

    def epoch(self, epoch: LaterEpoch, lost: int) -> str | None:
        """Excuse what a later epoch misses or repeats; `lost`: missed since the restart, in all."""
        excuses = []
        if epoch.missing:
            excuses.append(self.skip(lost, None))
        if epoch.repeated:
            excuses.append(self.replay(epoch.repeated))
        return None if None in excuses else "; ".join(one for one in excuses if one is not None)

    def _within(self, bound: Bound, samples: int) -> str | None:
        """Say which bounds hold; null: one does not."""
        found = {
            "sample": (samples, bound.samples),
            "token": (self.replayed.tokens, bound.tokens),
            "step": (self.replayed_steps, bound.steps),
        }
        told = []
        for unit, (used, most) in found.items():
            if most is None:
                continue
            if used is not None and used > most:
                return None
            # where tokens are not logged, a limit leaves the promise unproven
            told.append(f"{'unknown' if used is None else f'{used:,}'} of {counted(most, unit)}")
        return f"bounded replay, {' and '.join(told)}" if told else None

    def _allowance(self, code: str, records: int) -> str | None:
        for one in self.contract.allow:
            if one.finding == code and records <= (one.at_most or 0):
                return one.reason
        return None
