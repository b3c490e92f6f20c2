"""
Turns what was found into a verdict, clause by clause.

`broken` beats `unproven` beats `continuous`; what is not proven by evidence is never continuous.
"""

from dataclasses import dataclass

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.order import Disorder
from ledger_audit.model import (
    Amount,
    Clause,
    ClauseName,
    Expected,
    LaterEpoch,
    Limit,
    Overlay,
    Positions,
    Resumed,
    Verdict,
)
from ledger_audit.printable import counted

NOTHING_HOLDS = (
    "mixed-attempt",
    "resume-step-mismatch",
    "parent-missing",
    "lineage-assumed",
    "digest-mismatch",
)
"""Limits under which nothing found can be trusted: the windows themselves may be wrong."""


@dataclass(frozen=True)
class Evidence:
    """All that a verdict is made of."""

    resumed: dict[Resumed, Amount]
    expected: dict[Expected, Amount]
    overlays: dict[Overlay, Amount | None]
    positions: Positions | None
    later_epochs: tuple[LaterEpoch, ...]
    disorder: Disorder
    did_nothing: bool
    """The resumed attempt ended without a record while the reference holds some."""
    limits: tuple[Limit, ...]


def judge(contract: Contract, evidence: Evidence) -> tuple[Clause, ...]:
    """Judge every clause of the contract."""
    faults = {
        ClauseName.PROMISE: _promise(evidence),
        ClauseName.ORDER: _order(contract, evidence),
        ClauseName.UNEXPECTED: _counted(
            evidence.resumed[Resumed.UNEXPECTED], "not in the reference"
        ),
        ClauseName.DRIFT: _drift(evidence.positions),
    }
    limits = [one for one in evidence.limits if not one.is_waived]
    nothing_holds = [one for one in limits if one.code in NOTHING_HOLDS]
    clauses = []
    for name, fault in faults.items():
        blocking = [one for one in limits if name in one.blocks]
        waived = [one.code for one in evidence.limits if one.is_waived and name in one.blocks]
        if nothing_holds:
            clauses.append(Clause(name, Verdict.UNPROVEN, nothing_holds[0].text))
        elif fault:
            clauses.append(Clause(name, Verdict.BROKEN, "; ".join(fault)))
        elif blocking:
            clauses.append(Clause(name, Verdict.UNPROVEN, blocking[0].text))
        else:
            clauses.append(Clause(name, Verdict.CONTINUOUS, _fine(waived)))
    return tuple(clauses)


def _fine(waived: list[str]) -> str:
    return f"nothing found; allowed unproven: {', '.join(waived)}" if waived else "nothing found"


def _promise(evidence: Evidence) -> list[str]:
    found = []
    for outcome in (Resumed.REPLAYED, Resumed.DUPLICATED):
        found += _counted(evidence.resumed[outcome], str(outcome))
    found += _counted(evidence.expected[Expected.SKIPPED], "skipped")
    positions = evidence.positions
    if positions is not None and positions.repeated:
        found.append(f"{counted(positions.repeated, 'position')} repeated")
    if positions is not None and (positions.holes or 0) > positions.lost:
        found.append(f"{counted(positions.holes or 0, 'position')} left out")
    found += [told_epoch(one) for one in evidence.later_epochs if one.is_broken]
    if evidence.did_nothing:
        found.append("the resumed attempt ended without using anything")
    return found


def _order(contract: Contract, evidence: Evidence) -> list[str]:
    found = evidence.disorder
    if not found.records or not found.is_proven:
        return []
    what = {"step": "at another step than in the reference", "relative": "out of order"}
    return [f"{counted(found.records, 'record')} {what[contract.order or 'relative']}"]


def told_epoch(epoch: LaterEpoch) -> str:
    """Tell what is wrong with an epoch that was over after the resume."""
    parts = []
    if epoch.missing:
        parts.append(f"misses {counted(epoch.missing, 'sample')}")
    if epoch.repeated:
        parts.append(f"repeats {epoch.repeated} beyond its padding")
    of = "" if epoch.source is None else f" of {epoch.source}"
    return f"epoch {epoch.epoch}{of} {' and '.join(parts)}"


def _drift(positions: Positions | None) -> list[str]:
    if positions is None or not positions.drift:
        return []
    return [f"{counted(positions.drift, 'position')} with another sample than before"]


def _counted(amount: Amount, what: str) -> list[str]:
    return [f"{counted(amount.records, 'record')} {what}"] if amount.records else []
