"""Judges a run by its control twice: by all records, and by those that need be opened."""

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger_audit import audit, sources
from ledger_audit.continuity import gating, nearby
from ledger_audit.continuity.contract import GATE, Contract
from ledger_audit.errors import UsageError
from ledger_audit.model import Reading, Report
from ledger_audit.report.json_v1 import to_json


def judged(
    control: Path,
    ours: Path,
    monkeypatch: pytest.MonkeyPatch,
    contract: Contract = GATE,
    **how: Any,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the report of all records, and the one of steps that are settled."""
    reports = []
    for rows in (1 << 60, 0):
        monkeypatch.setattr(sources, "ROWS", rows)
        reading = audit.Reading(full=True, **(how if rows == 0 else {}))
        reports.append(json.loads(to_json(audit.gate([control], [ours], reading, contract))))
    return reports[0], reports[1]


def judged_nearby(
    control: Path, ours: Path, monkeypatch: pytest.MonkeyPatch, reading: Reading
) -> Report | None:
    """Give the report of a machine that does not hold all records; null: it gives none."""
    opened = sources.open_pair

    def larger(*asked: Any) -> list[sources.Opened]:
        return [replace(one, rows=101, most=100) for one in opened(*asked)]

    with monkeypatch.context() as patched:
        patched.setattr(sources, "ROWS", 0)
        patched.setattr(sources, "open_pair", larger)
        patched.setattr(gating, "_ways", lambda _: [])
        patched.setattr(nearby, "Reading", lambda: reading)
        try:
            return audit.gate([control], [ours])
        except UsageError:
            return None


def bare(report: dict[str, Any]) -> dict[str, Any]:
    """Leave out what sums cannot see: slots, distinct samples, epochs' order, places."""
    report = deepcopy(report)
    for part in [report["stream"], *report["resumes"]]:
        part["outcomes"]["overlays"].pop("misplaced")
        part["later_epochs"] = [{**one, "same_order_as": None} for one in part["later_epochs"]]
        part["limits"] = [
            one for one in part["limits"] if one["code"] not in ("frozen-epochs", "no-later-epoch")
        ]
        part["findings"] = [one for one in part["findings"] if one["code"] != "misplaced"]
        part["positions"], part["shift"]["positions"], part["causes"] = None, None, []
        for side in ("resumed", "expected"):
            for amount in part["outcomes"][side].values():
                amount["samples"] = None
    report["options"].pop("trusts_digests", None)
    return report


def is_settled(report: dict[str, Any]) -> bool:
    """Tell whether not all records were opened."""
    return report["stream"]["outcomes"]["overlays"]["misplaced"] is None
