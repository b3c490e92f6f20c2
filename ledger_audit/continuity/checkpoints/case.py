"""One checkpoint as it is before anything is counted: what was said of it, and its lineage."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ledger_audit.continuity.checkpoints.branch import Leg, legs_of
from ledger_audit.continuity.checkpoints.saves import Told
from ledger_audit.continuity.claims import read_claim
from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.pairs import canonical
from ledger_audit.continuity.fingerprints import at_launch
from ledger_audit.continuity.fingerprints.effects import STATES
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.model.checkpoints import Fingerprint

Launches = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""Attempt → rank → the fingerprint that its launch began with."""


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
    others: Mapping[int, Claim] = field(default_factory=dict)
    """What ranks claim that claim twice, and not the same: the second one."""

    @property
    def own(self) -> tuple[Leg, ...]:
        """The legs that have steps."""
        return tuple(leg for leg in self.legs if leg.first <= leg.last)

    @property
    def every_claim(self) -> tuple[Claim, ...]:
        """All that is claimed."""
        return (*self.claims.values(), *self.others.values())

    def asks(self, units: set[str | None]) -> bool:
        """Tell whether a claim counts in one of some units."""
        counts = [count for claim in self.every_claim for count in claim.counts]
        return any(one.unit in units for one in counts)


def case_of(place: int, told: Told, known: Mapping[str, Attempt], launches: Launches) -> Case:
    """Read the claims of a checkpoint, and find its lineage."""
    saves = told.saves.items()
    claims = {rank: read_claim(save.claim) for rank, save in saves if save.claim is not None}
    others = {
        rank: read_claim(save.other_claim) for rank, save in saves if save.other_claim is not None
    }
    fingerprint = _fingerprint(told, launches.get(told.attempt, {}))
    return Case(place, told, legs_of(told, known), claims, fingerprint, others)


def launches_of(acts: pl.DataFrame, labels: Iterable[str]) -> Launches:
    """Give the fingerprints that launches of some attempts began with."""
    return {label: at_launch(acts, label) for label in dict.fromkeys(labels)}


def _fingerprint(told: Told, launch: Mapping[int, Mapping[str, Any]]) -> Fingerprint:
    """
    Give what was logged by the time of a checkpoint, and what of it changed since the launch.

    What its events say counts for each key; what they leave out is as the launch began. Of a key
    that several ranks log, the lowest one counts.
    """
    own = {
        rank: {key: value for key, value in save.fingerprint.items() if value is not None}
        for rank, save in told.saves.items()
        if save.fingerprint
    }
    then = _lowest(launch)
    if not own:
        return Fingerprint(then, ())
    now = _lowest({rank: {**launch.get(rank, {}), **own.get(rank, {})} for rank in {*launch, *own}})
    # a state moves on: that of the moment counts, whichever rank tells it
    now |= {key: value for key, value in _lowest(own).items() if key in STATES}
    # as texts: NaN is NaN
    changes = tuple(
        (key, then[key], now[key])
        for key in now
        if key in then and canonical(then[key]) != canonical(now[key])
    )
    return Fingerprint(now, changes)


def _lowest(by_rank: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for rank in sorted(by_rank):
        if by_rank[rank].keys() - found.keys():
            found = {**by_rank[rank], **found}
    return found
