"""The report as GitHub's workflow commands: annotations on a run, the worst first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ledger_audit.model import Limit, Report, Resume, Verdict
from ledger_audit.printable import counted, printable, shortened
from ledger_audit.report import phrases
from ledger_audit.report.opening import opening

MOST = 10
"""Annotations of one kind that GitHub shows of a step; the rest it drops without a word."""
LONGEST_TITLE = 200
"""Characters; GitHub takes 255."""

Level = Literal["error", "warning", "notice"]
_LEVELS: dict[Verdict, Level] = {
    Verdict.BROKEN: "error",
    Verdict.UNPROVEN: "warning",
    Verdict.CONTINUOUS: "notice",
}


@dataclass(frozen=True)
class Annotation:
    """What GitHub shows beside a run."""

    level: Level
    title: str
    lines: tuple[str, ...]


def to_github(report: Report) -> str:
    """
    Give the report as workflow commands, one a line.

    Errors are broken clauses, warnings what leaves something unproven; the verdict comes first.
    Of each kind there are never more than GitHub shows, and the last one says how many are left.
    """
    found: dict[Level, list[Annotation]] = {"error": [], "warning": [], "notice": []}
    for one in _annotations(report):
        found[one.level].append(one)
    return "".join(_command(one) for level in found for one in _bounded(level, found[level]))


def _bounded(level: Level, found: list[Annotation]) -> list[Annotation]:
    if len(found) <= MOST:
        return found
    left = len(found) - MOST + 1
    told = f"{counted(left, 'more annotation')} of this kind: the other reports have them"
    return [*found[: MOST - 1], Annotation(level, f"and {left} more", (told,))]


def _annotations(report: Report) -> Iterator[Annotation]:
    told = opening(report)
    rows = (f"{label}: {text}" for label, text in told.rows)
    lines = (*([] if told.sentence is None else [told.sentence]), *rows)
    title = f"ledger-audit {report.command}: {told.verdict}{told.reach}"
    yield Annotation(_LEVELS[report.verdict], title, lines)
    judged = [
        (f"resume {phrases.number_of(report, number)}, step {one.checkpoint_step}", one)
        for number, one in reversed([*enumerate(report.resumes, 1)])
    ]
    if report.stream is not None:
        judged.insert(0, ("the whole stream", report.stream))
    for where, resume in judged:
        for clause in resume.clauses:
            if clause.verdict == Verdict.BROKEN:
                lines = (clause.because, *_places(resume, str(clause.clause)))
                yield Annotation("error", f"{clause.clause} broken: {where}", lines)
    for clause in report.clauses:
        alike = [each for _, one in judged for each in one.clauses if each == clause]
        if clause.verdict == Verdict.BROKEN and not alike:  # only the whole lineage breaks it
            title = f"{clause.clause} broken: the whole lineage"
            yield Annotation("error", title, (clause.because,))
    for where, resume in judged:
        unproven = {one.clause for one in resume.clauses if one.verdict == Verdict.UNPROVEN}
        for limit in resume.limits:
            blocked = [str(one) for one in limit.blocks if one in unproven]
            if blocked and not limit.is_waived:
                yield _open(limit, where, blocked)


def _open(limit: Limit, where: str, blocked: list[str]) -> Annotation:
    """Say what leaves these clauses unproven, and what would settle it."""
    lines = (limit.text, f"unproven: {', '.join(blocked)}", f"settled by {limit.settled_by}")
    return Annotation("warning", f"{limit.code}: {where}", lines)


def _places(resume: Resume, clause: str) -> Iterator[str]:
    for one in resume.findings:
        if one.clause == clause:
            yield f"{one.code}: {phrases.told(one.amount)}; {phrases.places(one)}"


def _command(one: Annotation) -> str:
    title = shortened(printable(one.title), LONGEST_TITLE)
    text = "\n".join(shortened(printable(line)) for line in one.lines)
    return f"::{one.level} title={_property(title)}::{_data(text)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
