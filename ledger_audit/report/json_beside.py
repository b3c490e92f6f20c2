"""The parts of the JSON report that are about more than the records of a resume's windows."""

from typing import Any

from ledger_audit.model import Resume
from ledger_audit.model.fingerprints import Change
from ledger_audit.model.forbidden import Forbidden, ForbiddenHits, ForbiddenList
from ledger_audit.report.json_text import pairs


def beside(resume: Resume) -> dict[str, Any]:
    """Give what a resume's fingerprints and claims tell."""
    facts = resume.fingerprints
    return {
        "claims": [
            {
                "pair": one.pair,
                "agreement": one.agreement,
                "ranks": pairs(one.ranks),
                "text": one.text,
            }
            for one in resume.claims
        ],
        "fingerprint_changes": [] if facts is None else [_change(one) for one in facts.changes],
        "restoring": []
        if facts is None
        else [
            {
                "order": one.order,
                "ranks": pairs(one.ranks),
                "text": one.text,
                "fingerprint": one.fingerprint,
                "differing": list(one.differing),
            }
            for one in facts.restoring
        ],
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "key": change.key,
        "before": change.before,
        "after": change.after,
        "logged": change.logged,
        "is_compared": change.is_compared,
        "can_change_order": change.can_change_order,
        "because": change.because,
        "allowed": change.allowed,
        "must_match": change.must_match,
        "ranks": pairs(change.ranks),
        "count": change.count,
    }


def forbidden(found: Forbidden) -> dict[str, Any]:
    """Give what was found of what the contract forbids."""
    return {
        "lists": [_list(one) for one in found.lists],
        "unseen": [
            {"code": one.code, "attempt": one.attempt, "text": one.text} for one in found.unseen
        ],
        "notes": list(found.notes),
    }


def _list(listed: ForbiddenList) -> dict[str, Any]:
    return {
        "name": listed.name,
        "kind": listed.kind,
        "ids": listed.ids,
        "records": listed.records,
        "since_attempt": listed.since_attempt,
        "voided": listed.voided,
        "uncommitted": listed.uncommitted,
        "undecided": listed.undecided,
        "redrawn": list(listed.redrawn),
        "hits": [_hits(one) for one in listed.hits],
    }


def _hits(hits: ForbiddenHits) -> dict[str, Any]:
    return {
        "attempt": hits.attempt,
        "records": hits.records,
        "samples": hits.samples,
        "tokens": hits.tokens,
        "new_samples": hits.new_samples,
        "former": hits.former,
        "ranks": pairs(hits.ranks),
        "slots": pairs(hits.slots),
        "first_step": hits.first_step,
        "last_step": hits.last_step,
        "examples": [
            {
                "sample_id": one.sample_id,
                "source": one.source,
                "span": None if one.span is None else list(one.span),
            }
            for one in hits.examples
        ],
    }
