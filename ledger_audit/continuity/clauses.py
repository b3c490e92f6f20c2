"""
Turns what was found into a verdict, clause by clause.

`broken` beats `unproven` beats `continuous`; what is not proven by evidence is never continuous.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.order import Disorder
from ledger_audit.continuity.tolerance import Excuse, Tolerance
from ledger_audit.model import (
    Amount,
    Clause,
    ClauseName,
    Draws,
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
    replayed_steps: int = 0
    """Resumed steps that hold a replayed record."""
    is_resume: bool = True
    """It is about a resume, not about a whole stream."""
    ranks: int = 1
    """Ranks of the resumed attempt."""
    skipped_by_rank: Mapping[int, int] = field(default_factory=dict)
    """Rank → skipped sequences."""
    draws: Draws | None = None
    """Only where the contract lets samples be drawn anew."""
    others: Mapping[ClauseName, tuple[str, ...]] = field(default_factory=dict)
    """What breaks the clauses that are about more than records of the windows."""
    remarks: Mapping[ClauseName, tuple[str, ...]] = field(default_factory=dict)
    """What was found of them and is not to be blamed on the resume."""


@dataclass(frozen=True)
class _Faults:
    """What breaks a clause, and what would but for the contract."""

    broken: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def add(self, text: str, excuse: str | None) -> None:
        """Note something found, and why it is allowed; null: it is not."""
        if excuse is None:
            self.broken.append(text)
        else:
            self.allowed.append(f"{text}, allowed: {excuse}")


def clauses_of(contract: Contract, *, is_resume: bool = True) -> tuple[ClauseName, ...]:
    """
    Give the clauses that a contract judges, in the order of reports.

    Ranks and fingerprints are promised across a resume: of a whole stream they say nothing.
    """
    asked = {
        ClauseName.PROMISE: True,
        ClauseName.ORDER: True,
        ClauseName.UNEXPECTED: True,
        ClauseName.DRIFT: True,
        ClauseName.PLACEMENT: contract.placement == "kept",
        ClauseName.FORBIDDEN: contract.forbids,
        ClauseName.RANKS: is_resume and not contract.ranks.may_change,
        ClauseName.FINGERPRINT: is_resume and contract.asks_fingerprint,
    }
    return tuple(name for name, is_asked in asked.items() if is_asked)


def judge(contract: Contract, evidence: Evidence) -> tuple[Clause, ...]:
    """Judge every clause of the contract."""
    replayed = evidence.resumed[Resumed.REPLAYED]
    tolerance = Tolerance(contract, replayed, evidence.replayed_steps, evidence.ranks)
    clauses = []
    for name in clauses_of(contract, is_resume=evidence.is_resume):
        faults = _faults(name, contract, evidence, tolerance)
        remarks = evidence.remarks.get(name, ())
        waived = [one for one in evidence.limits if one.is_waived and name in one.blocks]
        fine = _fine([*faults.allowed, *remarks], waived)
        clauses.append(decided(name, faults.broken, evidence.limits, fine))
    return tuple(clauses)


def decided(name: ClauseName, broken: Sequence[str], limits: Sequence[Limit], fine: str) -> Clause:
    """
    Decide one clause: what may be wrong with the ledger itself comes first, then what was found.

    Args:
        name: of the clause.
        broken: what breaks it.
        limits: what cannot be known; waived ones block nothing.
        fine: what to say where neither breaks nor blocks it.
    """
    standing = [one for one in limits if not one.is_waived]
    nothing_holds = [one for one in standing if one.code in NOTHING_HOLDS]
    blocking = [one for one in standing if name in one.blocks]
    if nothing_holds:
        return Clause(name, Verdict.UNPROVEN, nothing_holds[0].text)
    if broken:
        return Clause(name, Verdict.BROKEN, "; ".join(broken))
    if blocking:
        return Clause(name, Verdict.UNPROVEN, blocking[0].text)
    return Clause(name, Verdict.CONTINUOUS, fine)


def _fine(allowed: list[str], waived: list[Limit]) -> str:
    parts = allowed or ["nothing found"]
    if waived:
        told = [one.code if one.reason is None else f"{one.code} ({one.reason})" for one in waived]
        parts = [*parts, f"allowed unproven: {', '.join(told)}"]
    return "; ".join(parts)


def _faults(
    name: ClauseName, contract: Contract, evidence: Evidence, tolerance: Tolerance
) -> _Faults:
    faults = _Faults()
    if name == ClauseName.PROMISE and contract.draws_anew:
        _draws(faults, evidence.draws)
    elif name == ClauseName.PROMISE:
        _promise(faults, evidence, tolerance)
    elif name == ClauseName.ORDER:
        _order(faults, contract, evidence.disorder, tolerance)
    elif name == ClauseName.UNEXPECTED:
        skipped = evidence.expected[Expected.SKIPPED].records
        excuse = tolerance.skip(skipped, evidence.skipped_by_rank) if skipped else None
        _count(
            faults,
            evidence.resumed[Resumed.UNEXPECTED],
            "not in the reference",
            lambda records: tolerance.unexpected(records, skipped, excuse),
        )
    elif name == ClauseName.DRIFT and evidence.positions is not None:
        if drift := evidence.positions.drift:
            faults.add(f"{counted(drift, 'position')} with another sample than before", None)
    elif name == ClauseName.PLACEMENT:
        misplaced = evidence.overlays[Overlay.MISPLACED] or Amount(0, 0, None)
        _count(faults, misplaced, "at another rank or slot", tolerance.of(Overlay.MISPLACED))
    found = evidence.overlays[Overlay.FORBIDDEN] if name == ClauseName.FORBIDDEN else None
    excuse = None if found is None else tolerance.of(Overlay.FORBIDDEN)(found.records)
    for text in evidence.others.get(name, ()):
        faults.add(text, excuse)
    return faults


def _promise(faults: _Faults, evidence: Evidence, tolerance: Tolerance) -> None:
    replayed, again = evidence.resumed[Resumed.REPLAYED], evidence.resumed[Resumed.DUPLICATED]
    _count(faults, replayed, str(Resumed.REPLAYED), tolerance.replayed_records)
    _count(faults, again, str(Resumed.DUPLICATED), tolerance.of(Resumed.DUPLICATED))
    skipped = evidence.expected[Expected.SKIPPED]
    excuse = tolerance.skip(skipped.records, evidence.skipped_by_rank)
    _count(faults, skipped, "skipped", lambda _: excuse)
    positions = evidence.positions
    if positions is not None and positions.repeated:
        text = f"{counted(positions.repeated, 'position')} repeated"
        faults.add(text, tolerance.replay(positions.repeated))
    holes = 0 if positions is None else positions.holes or 0
    if positions is not None and holes > positions.lost:
        lanes = evidence.skipped_by_rank if skipped.records >= holes else None
        text = f"{counted(holes, 'position')} left out"
        faults.add(text, tolerance.skip(holes, lanes))
    missed = 0
    for epoch in evidence.later_epochs:
        if epoch.is_broken:
            # a restart loses a buffer once: what later epochs miss adds up, and what was skipped
            # in the first of them is missing there
            missed += epoch.missing or 0
            lost = max(skipped.records, missed)
            faults.add(told_epoch(epoch), tolerance.epoch(epoch, lost))
    if evidence.did_nothing:
        faults.add("the resumed attempt ended without using anything", None)


def _draws(faults: _Faults, draws: Draws | None) -> None:
    if draws is None:
        return
    if draws.reproduces is not None:
        text = f"the draws of attempt {draws.reproduces} again, from its start: the seed stayed"
        faults.add(text, None)
    elif draws.expected_repeats is not None:
        told = f"{draws.repeats:,} of {counted(draws.records, 'draw')} repeat a sample"
        faults.allowed.append(f"{told}, {draws.expected_repeats:,.1f} expected by chance")


def _order(faults: _Faults, contract: Contract, found: Disorder, tolerance: Tolerance) -> None:
    if not found.records or not found.is_proven:
        return
    what, code = {
        "step": ("at another step than in the reference", str(Resumed.MOVED)),
        "relative": ("out of order", str(Overlay.OUT_OF_ORDER)),
    }[contract.order or "relative"]
    faults.add(f"{counted(found.records, 'record')} {what}", tolerance.of(code)(found.records))


def told_epoch(epoch: LaterEpoch) -> str:
    """Tell what is wrong with an epoch that was over after the resume."""
    parts = []
    if epoch.missing:
        parts.append(f"misses {counted(epoch.missing, 'sample')}")
    if epoch.repeated:
        parts.append(f"repeats {epoch.repeated} beyond its padding")
    of = "" if epoch.source is None else f" of {epoch.source}"
    return f"epoch {epoch.epoch}{of} {' and '.join(parts)}"


def _count(faults: _Faults, amount: Amount, what: str, excuse: Excuse) -> None:
    if amount.records:
        faults.add(f"{counted(amount.records, 'record')} {what}", excuse(amount.records))
