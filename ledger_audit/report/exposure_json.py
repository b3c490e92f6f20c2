"""
The report of `verify` for programs, `ledger-audit/verify/1`: only ever added to.

`docs/verify.schema.json` is its published schema. Ids are strings.
"""

from dataclasses import asdict
from typing import Any

from ledger_audit.model.exposure import Exposure, Generation, Repeats
from ledger_audit.report.json_text import head, pairs, text_of
from ledger_audit.report.json_v1 import clause_of, limit_of

SCHEMA = "ledger-audit/verify/1"


def to_json(report: Exposure) -> str:
    """Give the report as JSON text in ASCII, so that no id steers whoever prints it."""
    told: dict[str, Any] = {
        **head(SCHEMA, "verify", report.inputs, report.options),
        "verdict": report.verdict,
        "clauses": [clause_of(one) for one in report.clauses],
        "generations": [_generation(one) for one in report.generations],
        "holes": None if report.holes is None else asdict(report.holes),
        "shares": [asdict(one) for one in report.shares],
        "unused": [asdict(one) for one in report.unused],
        "survival": [asdict(one) for one in report.survival],
        "losses": [asdict(one) for one in report.losses],
        "limits": [limit_of(one) for one in report.limits],
        "contract": report.contract,
    }
    return text_of(told)


def _generation(one: Generation) -> dict[str, Any]:
    told = asdict(one)
    told["repeated"], told["skipped"] = one.repeated, one.skipped
    told["exposures"] = [{"uses": uses, "samples": samples} for uses, samples in one.exposures]
    told["repeats"] = [_repeats(each) for each in one.repeats]
    return told


def _repeats(one: Repeats) -> dict[str, Any]:
    return {**asdict(one), "ranks": pairs(one.ranks)}
