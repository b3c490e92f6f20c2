"""The report for pull requests and tickets, in Markdown, cut to what a code host takes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ledger_audit import __version__
from ledger_audit.model import Clause, Finding, Limit, Report, Resume, Verdict
from ledger_audit.model.causes import Cause
from ledger_audit.model.forbidden import ForbiddenHits
from ledger_audit.printable import counted, shortened
from ledger_audit.report import phrases
from ledger_audit.report.beside import PAIRS, against, examples_of, fingerprint_rows, hits_of
from ledger_audit.report.command_line import command_of
from ledger_audit.report.markdown_text import code, name, prose
from ledger_audit.report.opening import opening
from ledger_audit.report.picture import set_picture

COMMENT = 65_536
"""Bytes that a comment at GitHub may have: characters there, which are no more."""
SUMMARY = 1 << 20
"""Bytes that the summary of a step may have; one that is longer is shown to nobody."""
_ROOM_TO_SAY = 600
"""Bytes for saying what was left out."""
_PICTURE = 78
"""Characters that a code host shows of a line without a bar to scroll it."""
_LONGEST_COMMAND = 4_000
_FIRST, _CLAUSES, _FINDINGS, _CAUSES, _LIMITS, _REST = range(6)
"""What is kept before what, where there is not room for all."""


@dataclass(frozen=True)
class Section:
    """Lines that belong together; where there is no room, rows are left out from its end."""

    rank: int
    """Its place among what is kept first."""
    head: tuple[str, ...]
    """Lines above its rows; with no row left, they are left out, too."""
    rows: tuple[str, ...] = ()
    noun: str = ""
    """What one row is, for saying how many were left out."""


def to_markdown(report: Report, most: int = COMMENT) -> str:
    """Give the report as Markdown of at most so many bytes; it says what was left out."""
    return _fitted([*_sections(report)], most)


def _fitted(sections: Sequence[Section], most: int) -> str:
    room = most - _ROOM_TO_SAY
    kept: dict[int, int] = {}
    for place, one in sorted(enumerate(sections), key=lambda each: (each[1].rank, each[0])):
        needed = _bytes(one.head) + 1
        rows = 0
        for row in one.rows:
            if needed + _bytes([row]) > room:
                break
            needed += _bytes([row])
            rows += 1
        if (rows or not one.rows) and needed <= room:
            room -= needed
            kept[place] = rows
    lines: list[str] = []
    left: dict[str, int] = {}
    for place, one in enumerate(sections):
        if place in kept:
            lines += [*one.head, *one.rows[: kept[place]], ""]
        missing = max(len(one.rows), 1) - kept.get(place, 0) if place not in kept or one.rows else 0
        if missing:
            left[one.noun] = left.get(one.noun, 0) + missing
    if left:
        told = ", ".join(counted(number, noun) for noun, number in left.items())
        lines += [f"Left out, so that this fits {most:,} bytes: {told}.", ""]
        lines += ["`--report json=FILE` has everything.", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _bytes(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _sections(report: Report) -> Iterator[Section]:
    told = opening(report)
    head = [f"## ledger-audit {report.command}: {told.verdict}", ""]
    is_joined = told.reach.startswith(":")
    head.append(f"**{told.verdict}**{':' * is_joined} {prose(told.reach.lstrip(':'))}")
    head += [] if told.sentence is None else ["", prose(told.sentence)]
    yield Section(_FIRST, tuple(head), noun="verdict")
    yield Section(_FIRST, (), tuple(_items(told.rows)), "line on what to do")
    for title, judged in _by_need(report):
        is_newest = judged is report.stream or judged is report.resumes[-1]
        if judged.verdict == Verdict.CONTINUOUS and not is_newest:
            text = f"- **{prose(title)}**: continuous {prose(phrases.reach(judged))}"
            yield Section(_LIMITS, (text,), noun="continuous resume")
        else:
            yield from _judged(title, judged)
    if report.forbidden is not None:
        yield from _forbidden(report)
    outside = [name(one.attempt) for one in report.lineage if not one.in_lineage]
    if outside:
        head = [f"Not in the newest weights: {counted(len(outside), 'attempt')}", ""]
        yield Section(_REST, tuple(head), tuple(f"- {one}" for one in outside), "attempt")
    command = shortened(command_of(report), _LONGEST_COMMAND)
    head = [
        "#### How to reproduce",
        "",
        "```sh",
        command,
        "```",
        "",
        f"Told by ledger-audit {__version__}.",
    ]
    yield Section(_FIRST, tuple(head), noun="command")


def _items(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for label, text in rows:
        yield f"- **{label}**: {prose(text)}"


def _by_need(report: Report) -> list[tuple[str, Resume]]:
    """Give what was judged with its title: the whole stream, then the worst, the newest first."""
    numbered = [*enumerate(report.resumes, 1)]
    numbered.sort(key=lambda each: (_badness(each[1]), -each[0]))
    resumes = [(phrases.title_of(report, number), one) for number, one in numbered]
    return [*([] if report.stream is None else [(phrases.WHOLE_STREAM, report.stream)]), *resumes]


def _badness(resume: Resume) -> int:
    return (Verdict.BROKEN, Verdict.UNPROVEN, Verdict.CONTINUOUS).index(resume.verdict)


def _judged(title: str, resume: Resume) -> Iterator[Section]:
    head = [f"### {prose(title)}: {resume.verdict}", ""]
    head += ["| clause | verdict | because |", "|---|---|---|"]
    yield Section(_CLAUSES, tuple(head), tuple(_clause(one) for one in resume.clauses), "clause")
    if resume.findings:
        head = ["#### Findings", ""]
        head += ["| outcome | how much | where | for instance |", "|---|---|---|---|"]
        rows = tuple(_finding(one) for one in resume.findings)
        yield Section(_FINDINGS, tuple(head), rows, "finding")
    if resume.causes:
        rows = tuple(_cause(one, is_first=not place) for place, one in enumerate(resume.causes))
        yield Section(_CAUSES, ("#### Causes", ""), rows, "cause")
    if resume.limits:
        judged = frozenset(one.clause for one in resume.clauses)
        rows = tuple(_limit(one, judged) for one in resume.limits)
        yield Section(_LIMITS, ("#### Limits", ""), rows, "limit")
    if rows := tuple(_beside(resume)):
        yield Section(_REST, ("#### Claims, fingerprints, sources", ""), rows, "fact")
    drawn = _picture(resume)
    if drawn:
        yield Section(_REST, ("#### Rank by step", "", "```text", *drawn, "```"), noun="picture")
    rows = tuple(_items(phrases.windows_of(resume)))
    yield Section(_REST, ("#### What was compared", ""), rows, "line on what was compared")


def _clause(clause: Clause) -> str:
    return f"| {clause.clause} | {clause.verdict} | {prose(clause.because)} |"


def _finding(one: Finding) -> str:
    examples = ", ".join(name(each) for each in one.examples)
    return f"| {one.code} | {phrases.told(one.amount)} | {phrases.places(one)} | {examples} |"


def _cause(cause: Cause, *, is_first: bool) -> str:
    when = ", before the failure already" if cause.is_older else ""
    lines = [f"- **`{cause.code}`**, {cause.confidence}{when}: {prose(cause.title)}"]
    lines.append(f"  - arithmetic: {prose(cause.evidence)}")
    for other in cause.alternatives if is_first else ():
        lines.append(f"  - or `{other.code}`: {prose(other.decided_by)} would decide")
    lines.append(f"  - remedy: {prose(cause.remedy)}")
    return "\n".join(lines)


def _limit(limit: Limit, judged: frozenset[str]) -> str:
    blocked = ", ".join(one for one in limit.blocks if one in judged)
    word = f"blocks {blocked}" if blocked else "note"
    if limit.is_waived:
        word = "allowed" if limit.reason is None else f"allowed ({prose(limit.reason)})"
    lines = [f"- **{word}**: {prose(limit.text)} (`{limit.code}`)"]
    lines.append(f"  - settled by {prose(limit.settled_by)}")
    return "\n".join(lines)


def _beside(resume: Resume) -> Iterator[str]:
    for claim in resume.claims:
        if claim.agreement != "not-compared":
            told = "agrees" if claim.agreement == "agrees" else "**contradicts**"
            yield f"- claim ({PAIRS[claim.pair]}) {told}: {prose(claim.text)}"
    if resume.fingerprints is not None:
        for key, what, text in fingerprint_rows(resume.fingerprints):
            yield f"- {f'{name(key)} {what}: ' if key else ''}{prose(text)}"
    if phrases.has_damage(resume):
        yield from (f"- source {prose(phrases.of_source(one))}" for one in resume.by_source)


def _picture(resume: Resume) -> list[str]:
    lines = set_picture(
        resume.picture,
        resume.checkpoint_step,
        width=_PICTURE,
        sides=(phrases.side_of(resume), phrases.ours_of(resume)),
    )
    return [line.plain.rstrip() for line in lines]


def _forbidden(report: Report) -> Iterator[Section]:
    found = report.forbidden
    for listed in () if found is None else found.lists:
        if listed.records:
            rows = tuple(_hits(one) for one in listed.hits)
            title = f"#### {prose(against(listed))}"
            yield Section(_FINDINGS, (title, ""), rows, "attempt with forbidden samples")
    notes = () if found is None else tuple(f"- note: {prose(one)}" for one in found.notes)
    if notes:
        yield Section(_LIMITS, (), notes, "note")


def _hits(hits: ForbiddenHits) -> str:
    examples = ", ".join(code(one) for one in examples_of(hits))
    return f"- attempt {name(hits.attempt)}: {prose(hits_of(hits))}; for instance {examples}"
