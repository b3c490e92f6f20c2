"""
The report for programs, `ledger-audit/report/1`: frozen, and only ever added to.

`docs/report.schema.json` is its published schema. Sample ids and digests are strings always.
"""

from dataclasses import asdict
from typing import Any

from ledger_audit.model import (
    Amount,
    AttemptFacts,
    Clause,
    Decision,
    Finding,
    LaterEpoch,
    Limit,
    Overlay,
    Piece,
    Positions,
    Report,
    Resume,
)
from ledger_audit.model.causes import Cause
from ledger_audit.report.json_beside import beside, forbidden
from ledger_audit.report.json_text import head, pairs, text_of

SCHEMA = "ledger-audit/report/1"


def to_json(report: Report) -> str:
    """Give the report as JSON text in ASCII, so that no id steers whoever prints it."""
    told: dict[str, Any] = {
        **head(SCHEMA, report.command, report.inputs, report.options),
        "verdict": report.verdict.value,
        "clauses": [clause_of(clause) for clause in report.clauses],
        "resumes": [_resume(resume) for resume in report.resumes],
        "lineage": [_attempt(attempt) for attempt in report.lineage],
        "decision": _decision(report.decision),
        "contract": report.contract,
    }
    if report.stream is not None:
        told["stream"] = {
            **_resume(report.stream),
            "first_divergence": report.stream.first_divergence,
        }
    if report.forbidden is not None:
        told["forbidden"] = forbidden(report.forbidden)
    if report.command == "preflight":
        told["evidence"] = [_piece(piece) for piece in report.evidence]
    return text_of(told)


def _piece(piece: Piece) -> dict[str, Any]:
    return {
        "kind": piece.kind,
        "name": piece.name,
        "presence": piece.presence,
        "ranks": pairs(piece.ranks),
        "blocks": [str(clause) for clause in piece.blocks],
        "purpose": piece.purpose,
    }


def _amount(amount: Amount | None) -> dict[str, int | None] | None:
    if amount is None:
        return None
    return {"records": amount.records, "samples": amount.samples, "tokens": amount.tokens}


def clause_of(clause: Clause) -> dict[str, Any]:
    """Tell a clause."""
    return {
        "clause": str(clause.clause),
        "verdict": clause.verdict.value,
        "because": clause.because,
    }


def _resume(resume: Resume) -> dict[str, Any]:
    return {
        "from_attempt": resume.from_attempt,
        "to_attempt": resume.to_attempt,
        "checkpoint_step": resume.checkpoint_step,
        "verdict": resume.verdict.value,
        "through_step": resume.through_step,
        "clauses": [clause_of(clause) for clause in resume.clauses],
        "reference": {"kind": resume.reference_kind, "through_step": resume.reference_through},
        "identity": list(resume.identity),
        "read_steps": None if resume.read_steps is None else list(resume.read_steps),
        "windows": resume.windows,
        "coverage": {
            "lanes": resume.coverage.lanes,
            "lanes_proven": resume.coverage.lanes_proven,
        },
        "outcomes": {
            "resumed": {str(name): _amount(resume.resumed[name]) for name in resume.resumed},
            "expected": {str(name): _amount(resume.expected[name]) for name in resume.expected},
            "overlays": {str(name): _amount(resume.overlays[name]) for name in Overlay},
        },
        "shift": {
            "records": resume.shift.records,
            "tokens": resume.shift.tokens,
            "positions": resume.shift.positions,
            "by_rank": {str(rank): shift for rank, shift in resume.shift.by_rank.items()},
            "is_lower_bound": resume.shift.is_lower_bound,
        },
        "by_source": [asdict(one) for one in resume.by_source],
        "positions": _positions(resume.positions),
        "later_epochs": [_epoch(epoch) for epoch in resume.later_epochs],
        "findings": [_finding(finding) for finding in resume.findings],
        "draws": None if resume.draws is None else asdict(resume.draws),
        **beside(resume),
        "causes": [cause_of(cause) for cause in resume.causes],
        "limits": [limit_of(limit) for limit in resume.limits],
    }


def cause_of(cause: Cause) -> dict[str, Any]:
    """Give a cause as every report has it."""
    return {
        "code": cause.code,
        "title": cause.title,
        "confidence": cause.confidence,
        "evidence": cause.evidence,
        "remedy": cause.remedy,
        "alternatives": [asdict(one) for one in cause.alternatives],
        "before_failure": cause.is_older,
    }


def _positions(positions: Positions | None) -> dict[str, int | None] | None:
    if positions is None:
        return None
    return {
        "expected": positions.expected,
        "first": positions.first,
        "shift": positions.shift,
        "repeated": positions.repeated,
        "holes": positions.holes,
        "drift": positions.drift,
    }


def _epoch(epoch: LaterEpoch) -> dict[str, Any]:
    return {
        "epoch": epoch.epoch,
        "source": epoch.source,
        "missing": epoch.missing,
        "repeated": epoch.repeated,
        "same_order_as": epoch.same_order_as,
        "is_broken": epoch.is_broken,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "clause": str(finding.clause),
        "outcome": finding.code,
        "ranks": pairs(finding.ranks),
        "slots": pairs(finding.slots),
        "first_step": finding.first_step,
        "last_step": finding.last_step,
        "records": finding.amount.records,
        "samples": finding.amount.samples,
        "tokens": finding.amount.tokens,
        "examples": list(finding.examples),
    }


def limit_of(limit: Limit) -> dict[str, Any]:
    """Tell a limit."""
    return {
        "code": limit.code,
        "blocks": [str(clause) for clause in limit.blocks],
        "text": limit.text,
        "settled_by": limit.settled_by,
        "is_waived": limit.is_waived,
        "reason": limit.reason,
    }


def _attempt(attempt: AttemptFacts) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "parent": attempt.parent,
        "resumed_at": attempt.resumed_at,
        "in_lineage": attempt.in_lineage,
        "first_step": attempt.first_step,
        "last_step": attempt.last_step,
        "world_size": attempt.world_size,
        "has_end": attempt.has_end,
    }


def _decision(decision: Decision) -> dict[str, Any]:
    safe = decision.safe_checkpoint
    return {
        "action": decision.action,
        "text": decision.text,
        "damage": {
            "replayed": _amount(decision.replayed),
            "skipped": _amount(decision.skipped),
            "epoch_share": decision.epoch_share,
        },
        "safe_checkpoint": None if safe is None else {"attempt": safe[0], "step": safe[1]},
    }
