"""Concludes: one verdict of all, what to do now, and the report that every reporter tells."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ledger_audit.continuity.beside import AGAINST
from ledger_audit.continuity.clauses import NOTHING_HOLDS
from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.forbidden import Found, hits_of
from ledger_audit.continuity.lineage import Lineage
from ledger_audit.continuity.tolerance import Tolerance
from ledger_audit.model import (
    Amount,
    AttemptFacts,
    Clause,
    ClauseName,
    Decision,
    Expected,
    Overlay,
    Reading,
    Report,
    Resume,
    Resumed,
    Verdict,
)
from ledger_audit.printable import counted, quoted


def conclude(
    command: str,
    inputs: Mapping[str, Any],
    lineage: Lineage,
    resumes: Sequence[Resume],
    contract: Contract,
    reading: Reading,
    *,
    stream: Resume | None = None,
) -> Report:
    """Merge what was judged into one report; the verdict is the worst of all."""
    judged = [*resumes] + ([] if stream is None else [stream])
    return Report(
        command=command,
        inputs=dict(inputs),
        options=reading.told(),
        verdict=Verdict.worst([one.verdict for one in judged]),
        clauses=_merged([clause for one in judged for clause in one.clauses]),
        resumes=tuple(resumes),
        lineage=tuple(_attempt_facts(lineage)),
        decision=decide(judged, lineage),
        contract=contract.told(),
        stream=stream,
    )


def with_forbidden(report: Report, found: Found | None, contract: Contract) -> Report:
    """
    Add what was found in the whole lineage of what the contract forbids.

    What an attempt used that no judged resume is about breaks the contract all the same; it is
    blamed on no resume.
    """
    if found is None:
        return report
    clause = _forbidden(found, report, contract)
    verdict = Verdict.worst([report.verdict, clause.verdict])
    decision = report.decision
    if clause.verdict == Verdict.BROKEN and report.verdict != Verdict.BROKEN:
        since = next(one.since_attempt for one in found.report.lists if one.records)
        text = f"Samples that are forbidden are in the weights since attempt {since}."
        decision = replace(decision, action="go-back", text=text)
    return replace(
        report,
        verdict=verdict,
        clauses=(*(one for one in report.clauses if one.clause != clause.clause), clause),
        decision=decision,
        forbidden=found.report,
    )


def _forbidden(found: Found, report: Report, contract: Contract) -> Clause:
    """
    Judge the clause of the whole lineage.

    Where the lineage itself may be wrong, nothing found in it is trusted.
    """
    name = ClauseName.FORBIDDEN
    judged = [*report.resumes, *filter(None, [report.stream])]
    doubted = [
        limit
        for one in judged
        for limit in one.limits
        if limit.code in NOTHING_HOLDS and not limit.is_waived
    ]
    if doubted:
        return Clause(name, Verdict.UNPROVEN, doubted[-1].text)
    told = "; ".join(
        f"{counted(one.records, 'record')} {AGAINST[one.kind]} {quoted(one.name)} since "
        f"attempt {one.since_attempt}"
        for one in found.report.lists
        if one.records
    )
    by_attempt = [hits_of(found, one.attempt).height for one in report.lineage if one.in_lineage]
    excuse = Tolerance(contract).of(Overlay.FORBIDDEN)(max(by_attempt, default=0))
    if told and excuse is None:
        return Clause(name, Verdict.BROKEN, told)
    unseen = found.report.blocking(contract.waived)
    if unseen and "forbidden-unseen" not in contract.waived:
        return Clause(name, Verdict.UNPROVEN, unseen[0].text)
    if told:
        return Clause(name, Verdict.CONTINUOUS, f"{told}, allowed: {excuse}")
    told_of = [one.because for part in judged for one in part.clauses if one.clause == name]
    return Clause(name, Verdict.CONTINUOUS, told_of[-1] if told_of else "nothing found")


def _merged(clauses: Sequence[Clause]) -> tuple[Clause, ...]:
    """Give the worst judgement of each clause, the newest of equals."""
    by_name: dict[str, list[Clause]] = {}
    for clause in clauses:
        by_name.setdefault(clause.clause, []).append(clause)
    merged = []
    for name, found in by_name.items():
        worst = Verdict.worst([one.verdict for one in found])
        because = next(one.because for one in reversed(found) if one.verdict == worst)
        merged.append(Clause(name, worst, because))
    return tuple(merged)


def _attempt_facts(lineage: Lineage) -> list[AttemptFacts]:
    return [
        AttemptFacts(
            attempt=one.label,
            parent=one.parent,
            resumed_at=one.resumed_at,
            in_lineage=one in lineage.chain,
            first_step=one.first_step,
            last_step=one.last_step,
            world_size=one.world_size,
            has_end=one.has_end,
        )
        for one in (*lineage.chain, *lineage.outside)
    ]


def decide(judged: Sequence[Resume], lineage: Lineage) -> Decision:
    """
    Decide from the verdicts of all resumes (and of the whole stream, last, where there is one).

    A checkpoint is safe if nothing judged broken or unproven lies before it.
    """
    resumes = [one for one in judged if one.from_attempt is not None]
    verdict = Verdict.worst([one.verdict for one in judged])
    damaged = resumes or list(judged)
    replayed = _total([one.resumed[Resumed.REPLAYED] for one in damaged])
    skipped = _total([one.expected[Expected.SKIPPED] for one in damaged])
    safe = None
    for one in resumes:
        if one.from_attempt is not None and one.verdict != Verdict.CONTINUOUS:
            safe = (one.from_attempt, one.checkpoint_step)
            break
    if not judged:
        action, text = "find-evidence", "There is no resume to judge."
    elif verdict == Verdict.CONTINUOUS:
        waived = sorted({one.code for part in judged for one in part.limits if one.is_waived})
        allowed = f" Allowed without proof: {', '.join(waived)}." if waived else ""
        action, text = "keep-running", f"Keep running.{allowed}"
    elif verdict == Verdict.BROKEN and safe is not None:
        action = "go-back"
        text = f"{_remedy(resumes)} step {safe[1]} of attempt {safe[0]}."
    elif verdict == Verdict.BROKEN:
        action, text = "go-back", "The run did not follow its control."
    else:
        action, text = "find-evidence", "Settle the limits below before trusting this run."
    return Decision(
        action=action,  # type: ignore[arg-type]  # one of the three literals above
        text=text,
        replayed=replayed,
        skipped=skipped,
        epoch_share=_share(lineage, replayed, skipped),
        safe_checkpoint=safe,
    )


_REMEDIES = {
    ClauseName.PLACEMENT: "Let every rank go on with its own share: resume again from",
    ClauseName.FORBIDDEN: "Take the forbidden samples out and resume again from",
    ClauseName.RANKS: "Resume again with as many ranks as before, from",
    ClauseName.FINGERPRINT: "Restore what the contract wants as it was, and resume again from",
}
"""Clause → what to do where it is the first that is broken; of others: mend the cursor."""


def _remedy(resumes: Sequence[Resume]) -> str:
    """Say what to do about the first clause that the first broken resume breaks."""
    broken = [
        clause.clause
        for one in resumes
        for clause in one.clauses
        if clause.verdict == Verdict.BROKEN
    ]
    cursor = "Mend the cursor and resume again from"
    return _REMEDIES.get(ClauseName(broken[0]), cursor) if broken else cursor


def _total(amounts: Sequence[Amount]) -> Amount:
    samples = [one.samples for one in amounts]
    tokens = [one.tokens for one in amounts]
    return Amount(
        records=sum(one.records for one in amounts),
        samples=None if None in samples else sum(one for one in samples if one is not None),
        tokens=None if None in tokens else sum(one for one in tokens if one is not None),
    )


def _share(lineage: Lineage, replayed: Amount, skipped: Amount) -> float | None:
    size = lineage.chain[-1].fingerprint.get("dataset_samples") if lineage.chain else None
    if not isinstance(size, int) or size <= 0:
        return None
    return round((replayed.records + skipped.records) / size, 6)
