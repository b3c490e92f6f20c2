"""
The report of `checkpoints` for programs, `ledger-audit/checkpoints/1`: only ever added to.

`docs/checkpoints.schema.json` is its published schema. Digests are strings.
"""

from typing import Any

from ledger_audit.model.checkpoints import Checkpoint, Checkpoints, Probed, Wholeness
from ledger_audit.model.claims import ClaimFacts, Comparison
from ledger_audit.report.json_text import head, pairs, text_of

SCHEMA = "ledger-audit/checkpoints/1"


def to_json(report: Checkpoints) -> str:
    """Give the report as JSON text in ASCII, so that no id steers whoever prints it."""
    told: dict[str, Any] = {
        **head(SCHEMA, "checkpoints", report.inputs, report.options),
        "agreement": report.agreement,
        "newest_whole": _place(report.newest_whole),
        "choice": _place(report.choice),
        "checkpoints": [_checkpoint(one) for one in report.found],
        "notes": list(report.notes),
    }
    return text_of(told)


def _place(one: Checkpoint | None) -> dict[str, Any] | None:
    return None if one is None else {"attempt": one.attempt, "step": one.step, "nth": one.nth}


def _checkpoint(one: Checkpoint) -> dict[str, Any]:
    return {
        "attempt": one.attempt,
        "step": one.step,
        "nth": one.nth,
        "in_lineage": one.in_lineage,
        "loaded_by": list(one.loaded_by),
        "agreement": one.agreement,
        "resumable": one.resumable,
        "because": list(one.because),
        "ahead": one.ahead,
        "whole": _wholeness(one.wholeness),
        "label": {"state": one.label.state, "text": one.label.text},
        "ladder": {
            "read": one.ladder.read,
            "queued": one.ladder.queued,
            "used": one.ladder.used,
            "committed": one.ladder.committed,
        },
        "claim": None if one.claim is None else _claim(one.claim),
        "unseen": one.unseen,
        "digest": {
            "value": one.digest.value,
            "cursor": one.digest.cursor,
            "text": one.digest.text,
        },
        "fingerprint": {
            "value": dict(one.fingerprint.value),
            "changes": [
                {"key": key, "start": then, "checkpoint": now}
                for key, then, now in one.fingerprint.changes
            ],
        },
        "paths": list(one.paths),
        "probed": None if one.probed is None else [_probed(each) for each in one.probed],
    }


def _wholeness(one: Wholeness) -> dict[str, Any]:
    return {
        "is_whole": one.is_whole,
        "writers": pairs(one.writers),
        "is_assumed": one.is_assumed,
        "unfinished": pairs(one.unfinished),
        "silent": pairs(one.silent),
        "unsynced": pairs(one.unsynced),
        "text": one.text,
    }


def _claim(claim: ClaimFacts) -> dict[str, Any]:
    return {
        "agreement": claim.agreement,
        "readers": list(claim.readers),
        "ahead": claim.ahead,
        "text": claim.text,
        "comparisons": [_comparison(one) for one in claim.comparisons],
        "notes": list(claim.notes),
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    return {
        "key": one.key,
        "ranks": pairs(one.ranks),
        "claimed": one.claimed,
        "found": one.found,
        "unit": one.unit,
        "agreement": one.agreement,
        "text": one.text,
    }


def _probed(one: Probed) -> dict[str, Any]:
    return {
        "path": one.path,
        "loadable": one.loadable,
        "is_tried": one.is_tried,
        "kind": one.kind,
        "files": one.files,
        "bytes": one.bytes,
        "faults": list(one.faults),
        "notes": list(one.notes),
    }
