"""
The reports of `plan` for programs, `ledger-audit/plan/1` and `ledger-audit/plan-check/1`.

`docs/plan.schema.json` is their published schema. They are only ever added to; ids and digests are
strings.
"""

from dataclasses import asdict
from typing import Any

from ledger_audit.model.plan import Amounts, Check, Pass, Plan
from ledger_audit.report.json_text import head, text_of

SCHEMA = "ledger-audit/plan/1"
CHECK_SCHEMA = "ledger-audit/plan-check/1"


def to_json(report: Plan) -> str:
    """Give the report as JSON text in ASCII, so that no id steers whoever prints it."""
    cursor, deal = asdict(report.cursor), asdict(report.deal)
    flight = report.cursor.in_flight
    told = {
        **head(SCHEMA, "plan", report.inputs, report.options),
        "extent": report.extent,
        "through_step": report.through_step,
        "cursor": {
            **cursor,
            "consumed": _amounts(report.cursor.consumed),
            "in_flight": {**asdict(flight), "stages": dict(flight.stages)},
        },
        "generations": [_pass(one) for one in report.passes],
        "plan": {
            **deal,
            "digest": str(report.deal.digest),
            "ragged": [
                {"step": step, "sequences": sequences, "ranks_with_fewer": ranks}
                for step, sequences, ranks in report.deal.ragged
            ],
        },
        "replay": {**asdict(report.replay), "digest": str(report.replay.digest)},
        "forbidden": _amounts(report.forbidden),
        "limits": [asdict(one) for one in report.limits],
        "notes": list(report.notes),
    }
    return text_of(told)


def checked_to_json(report: Check) -> str:
    """Give what a check found, likewise."""
    told = {
        **head(CHECK_SCHEMA, "plan", report.inputs, {}),
        "verdict": report.verdict,
        "because": list(report.because),
        "consumed": _amounts(report.consumed),
        "planned": _amounts(report.planned),
        "expected": _amounts(report.expected),
        "missing": report.missing,
        "missing_examples": list(report.missing_examples),
        "surplus": report.surplus,
    }
    return text_of(told)


def _amounts(amounts: Amounts) -> dict[str, Any]:
    return {**asdict(amounts), "digest": str(amounts.digest)}


def _pass(one: Pass) -> dict[str, Any]:
    told = {**asdict(one), "matched_digest": str(one.matched_digest)}
    told["ranges"] = [list(each) for each in one.ranges]
    return told
