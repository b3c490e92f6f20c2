"""One checkpoint as it is before anything is counted: what was said of it, and its lineage."""

from collections.abc import Mapping
from dataclasses import dataclass

from ledger_audit.continuity.checkpoints.branch import Leg, legs_of
from ledger_audit.continuity.checkpoints.saves import Told
from ledger_audit.continuity.claims import read_claim
from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.model.checkpoints import Fingerprint


@dataclass(frozen=True)
class Case:
    """One checkpoint."""

    place: int
    """Which it is among all that are judged."""
    told: Told
    """What its ranks said."""
    legs: tuple[Leg, ...]
    """What its weights went through, oldest first."""
    claims: Mapping[int, Claim]
    """What its ranks claim."""
    fingerprint: Fingerprint

    @property
    def own(self) -> tuple[Leg, ...]:
        """The legs that have steps."""
        return tuple(leg for leg in self.legs if leg.first <= leg.last)

    def asks(self, units: set[str | None]) -> bool:
        """Tell whether a claim counts in one of some units."""
        counts = [count for claim in self.claims.values() for count in claim.counts]
        return any(one.unit in units for one in counts)


def case_of(place: int, told: Told, known: Mapping[str, Attempt]) -> Case:
    """Read the claims of a checkpoint, and find its lineage."""
    claims = {
        rank: read_claim(save.claim) for rank, save in told.saves.items() if save.claim is not None
    }
    then = known[told.attempt].fingerprint
    now = next((one.fingerprint for one in told.saves.values() if one.fingerprint), then)
    changes = tuple(
        (key, then[key], now[key]) for key in now if key in then and then[key] != now[key]
    )
    return Case(place, told, legs_of(told, known), claims, Fingerprint(now, changes))
