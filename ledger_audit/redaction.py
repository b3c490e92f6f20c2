"""
Puts salted hashes in the place of sample ids, in everything that a report tells.

What it gives is a report like any other: no reporter knows of it.
"""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

from ledger_audit.model import Clause, Limit, Report, Resume
from ledger_audit.model.exposure import Exposure, Generation
from ledger_audit.model.forbidden import Forbidden, ForbiddenList
from ledger_audit.model.plan import Check, Plan
from ledger_audit.model.postmortem import Postmortem

MARK = "redacted:"
LONGEST_SALT = 64
"""Bytes of the longest key that BLAKE2b takes."""
_DIGEST = 8
"""Bytes; written as 16 hexadecimal digits."""

Hide = Callable[[str], str]


def hide(sample_id: str, salt: str) -> str:
    """
    Give what stands for a sample id: the same for the same id and salt, and for no other id.

    Args:
        sample_id: as reports have it; a number in decimal digits.
        salt: 1 to 64 bytes in UTF-8. Who knows it can try out ids: short numbers are soon found.
    """
    told = sample_id.encode("utf-8", "surrogatepass")
    key = salt.encode("utf-8", "surrogateescape")
    return MARK + blake2b(told, key=key, digest_size=_DIGEST).hexdigest()


def redact(report: Report, salt: str) -> Report:
    """
    Give the same report with every sample id hidden: in examples, and in the texts of limits.

    Nothing else changes. What trainers log of themselves (claims, fingerprints, labels, sources),
    positions, and the paths that the command was given are told as they are.
    """

    def hidden(sample_id: str) -> str:
        return hide(sample_id, salt)

    judged = (*report.resumes, *([] if report.stream is None else [report.stream]))
    limits = tuple(limit for one in judged for limit in one.limits)
    return replace(
        report,
        options={**report.options, "redacted": True},
        clauses=_clauses(report.clauses, limits, hidden),
        resumes=tuple(_resume(one, hidden) for one in report.resumes),
        stream=None if report.stream is None else _resume(report.stream, hidden),
        forbidden=None if report.forbidden is None else _forbidden(report.forbidden, hidden),
    )


def redact_exposure(report: Exposure, salt: str) -> Exposure:
    """Give the report of a whole run likewise."""

    def hidden(sample_id: str) -> str:
        return hide(sample_id, salt)

    return replace(
        report,
        options={**report.options, "redacted": True},
        clauses=_clauses(report.clauses, report.limits, hidden),
        generations=tuple(_generation(one, hidden) for one in report.generations),
        limits=tuple(_limit(one, hidden) for one in report.limits),
    )


def redact_postmortem(post: Postmortem, salt: str) -> Postmortem:
    """Give all that a page tells likewise."""
    exposure = None if post.exposure is None else redact_exposure(post.exposure, salt)
    return replace(post, report=redact(post.report, salt), exposure=exposure)


def redact_plan(plan: Plan, salt: str) -> Plan:
    """Give the report of a plan likewise; the plan itself is a ledger, and names every sample."""
    examples = tuple(hide(one, salt) for one in plan.cursor.unmatched_examples)
    cursor = replace(plan.cursor, unmatched_examples=examples)
    return replace(plan, cursor=cursor, options={**plan.options, "redacted": True})


def redact_check(check: Check, salt: str) -> Check:
    """Give the report of a checked plan likewise."""
    return replace(check, missing_examples=tuple(hide(one, salt) for one in check.missing_examples))


def _resume(resume: Resume, hidden: Hide) -> Resume:
    return replace(
        resume,
        clauses=_clauses(resume.clauses, resume.limits, hidden),
        findings=tuple(
            replace(one, examples=tuple(map(hidden, one.examples))) for one in resume.findings
        ),
        limits=tuple(_limit(one, hidden) for one in resume.limits),
    )


def _limit(limit: Limit, hidden: Hide) -> Limit:
    text = limit.text
    for one in limit.ids:
        text = text.replace(one, hidden(one), 1)
    return replace(limit, text=text, ids=tuple(map(hidden, limit.ids)))


def _clauses(
    clauses: tuple[Clause, ...], limits: tuple[Limit, ...], hidden: Hide
) -> tuple[Clause, ...]:
    """A clause that is unproven because of a limit says what the limit says."""
    named = {one.text: _limit(one, hidden).text for one in limits if one.ids}
    told = []
    for clause in clauses:
        because = clause.because
        for before, after in named.items():
            because = because.replace(before, after)
        told.append(replace(clause, because=because))
    return tuple(told)


def _forbidden(found: Forbidden, hidden: Hide) -> Forbidden:
    return replace(found, lists=tuple(_list(one, hidden) for one in found.lists))


def _list(listed: ForbiddenList, hidden: Hide) -> ForbiddenList:
    hits = tuple(
        replace(
            one,
            examples=tuple(
                replace(each, sample_id=hidden(each.sample_id)) for each in one.examples
            ),
        )
        for one in listed.hits
    )
    return replace(listed, hits=hits)


def _generation(one: Generation, hidden: Hide) -> Generation:
    repeats = tuple(
        replace(each, examples=tuple(map(hidden, each.examples))) for each in one.repeats
    )
    return replace(
        one,
        repeats=repeats,
        missing_examples=tuple(map(hidden, one.missing_examples)),
        unlisted_examples=tuple(map(hidden, one.unlisted_examples)),
    )
