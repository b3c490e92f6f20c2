"""The attempts that a checkpoint's weights went through, and how far they went in each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ledger_audit.continuity.checkpoints.saves import Told
from ledger_audit.continuity.lineage import Attempt, Lineage, age, chain_to


@dataclass(frozen=True)
class Leg:
    """The own steps of one attempt that are in the weights; none where `last` precedes `first`."""

    attempt: Attempt
    first: int
    last: int


def every_attempt(lineage: Lineage) -> dict[str, Attempt]:
    """Give all attempts by label, each after those that it resumed from, else by age."""
    known = {one.label: one for one in (*lineage.chain, *lineage.outside)}
    ordered: dict[str, Attempt] = {}
    for attempt in sorted(known.values(), key=age):
        for one in chain_to(attempt, known):
            ordered.setdefault(one.label, one)
    return ordered


def legs_of(told: Told, known: Mapping[str, Attempt]) -> tuple[Leg, ...]:
    """Give the legs that a checkpoint's weights went through, oldest first."""
    chain = chain_to(known[told.attempt], known)
    branch = Lineage(chain, ())
    legs = []
    for index, attempt in enumerate(chain):
        until = branch.until(index, len(chain) - 1)
        last = told.step if until is None else min(until, told.step)
        first = 0 if attempt.resumed_at is None else attempt.resumed_at + 1
        legs.append(Leg(attempt, first, last))
    return tuple(legs)


def loaders(known: Mapping[str, Attempt]) -> dict[tuple[str, int], tuple[str, ...]]:
    """Give the attempts that resumed from a step of an attempt."""
    found: dict[tuple[str, int], list[str]] = {}
    for attempt in known.values():
        chain = chain_to(attempt, known)
        if len(chain) > 1 and attempt.resumed_at is not None:
            found.setdefault((chain[-2].label, attempt.resumed_at), []).append(attempt.label)
    return {place: tuple(labels) for place, labels in found.items()}


def edges_of(legs: Iterable[tuple[Leg, ...]]) -> dict[str, list[int]]:
    """Give the steps to which each attempt is to be summed up, ascending."""
    found: dict[str, set[int]] = {}
    for one in legs:
        for leg in one:
            if leg.first <= leg.last:
                found.setdefault(leg.attempt.label, set()).add(leg.last)
    return {label: sorted(steps) for label, steps in found.items()}
