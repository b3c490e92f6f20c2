"""Sets each judged part of a report, as the sections of the page need it: once, then by place."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ledger_audit.model import Amount, Finding, Report, Resume, Verdict
from ledger_audit.model.checkpoints import Checkpoint
from ledger_audit.model.postmortem import Postmortem
from ledger_audit.report import phrases
from ledger_audit.report.beside import PAIRS, fingerprint_rows
from ledger_audit.report.html_page.cells import Sheet, sheet_of, slots_of
from ledger_audit.report.html_page.course import draw_course
from ledger_audit.report.html_page.drawing import Drawing
from ledger_audit.report.html_page.rungs import draw_rungs

MOST_PARTS = 20
"""Resumes that are told in full; the others are named."""
MOST_FINDINGS = 24
MOST_ROWS = 24
"""Claims, and changes, of one resume."""
BUDGET = 1_400_000
"""Characters of drawings; what does not fit is told in words alone."""
MOST_STRIPS, FEWER_STRIPS, FEW = 64, 24, 3
"""Strips of a picture, where there are at most three pictures and where there are more."""


@dataclass(frozen=True)
class Part:
    """A resume, or the whole stream, as the page tells it."""

    ident: str
    title: str
    resume: Resume
    reach: str
    sentence: str
    findings: tuple[tuple[Finding, str], ...]
    findings_left: int
    counts: tuple[tuple[str, tuple[tuple[str, Amount | None], ...]], ...]
    """Group of outcomes; outcome and amount, zero included."""
    sheet: Sheet | None
    slots: Sheet | None
    course: Drawing | None
    is_drawn: bool
    """False: there was no room for its drawings."""
    checkpoint: Checkpoint | None
    rungs: Drawing | None
    claims: tuple[tuple[str, str, str], ...]
    changes: tuple[tuple[str, str, str], ...]
    sources: tuple[str, ...]
    read: tuple[tuple[str, str], ...]


def parts_of(post: Postmortem) -> list[Part]:
    """Give the whole stream, if it was judged, then the resumes, newest first."""
    judged = list(_judged(post))
    most = MOST_STRIPS if len(judged) <= FEW else FEWER_STRIPS
    order = sorted(range(len(judged)), key=lambda place: _worth(judged[place][2]))
    drawings: dict[int, _Drawn] = {}
    left = BUDGET
    for place in order[:MOST_PARTS]:
        drawn = _drawn(judged[place][2], judged[place][0], most)
        if drawn.size <= left:
            drawings[place] = drawn
            left -= drawn.size
    return [
        _part(*one, drawings.get(place))
        for place, one in enumerate(judged)
        if place in order[:MOST_PARTS]
    ]


def _judged(post: Postmortem) -> Iterator[tuple[str, str, Resume, Checkpoint | None]]:
    report = post.report
    if report.stream is not None:
        yield "stream", phrases.WHOLE_STREAM, report.stream, None
    pairs = list(zip(report.resumes, post.loaded, strict=True))
    for number, (resume, loaded) in reversed(list(enumerate(pairs, 1))):
        yield f"resume-{number}", phrases.title_of(report, number), resume, loaded


def _worth(resume: Resume) -> int:
    """Order what is told in full: broken first, then unproven; the newest of equals first."""
    return [Verdict.BROKEN, Verdict.UNPROVEN, Verdict.CONTINUOUS].index(resume.verdict)


@dataclass(frozen=True)
class _Drawn:
    sheet: Sheet | None
    slots: Sheet | None
    course: Drawing | None

    @property
    def size(self) -> int:
        sheets = [one for one in (self.sheet, self.slots) if one is not None]
        letters = sum(
            len(row.before) + len(row.after) + 120 for one in sheets for row in one.letters
        )
        drawings = [
            *(one.drawing for one in sheets),
            *([] if self.course is None else [self.course]),
        ]
        return letters + sum(one.size for one in drawings)


def _drawn(resume: Resume, ident: str, most: int) -> _Drawn:
    sides = (phrases.side_of(resume), phrases.ours_of(resume))
    at = resume.checkpoint_step
    named = ident.replace("-", " ")
    return _Drawn(
        sheet_of(resume.picture, at, sides, name=f"Ranks by steps of {named}", most=most),
        slots_of(resume.picture, at, sides, name=f"Slots by steps of {named}"),
        None if resume.plot is None else draw_course(resume.plot, f"Order of {named}"),
    )


def _part(
    ident: str,
    title: str,
    resume: Resume,
    checkpoint: Checkpoint | None,
    drawn: _Drawn | None,
) -> Part:
    facts = resume.fingerprints
    shown = resume.findings[:MOST_FINDINGS]
    return Part(
        ident=ident,
        title=title,
        resume=resume,
        reach=phrases.reach(resume),
        sentence=phrases.sentence(resume),
        findings=tuple((one, phrases.finding(one)) for one in shown),
        findings_left=len(resume.findings) - len(shown),
        counts=_counts(resume),
        sheet=None if drawn is None else drawn.sheet,
        slots=None if drawn is None else drawn.slots,
        course=None if drawn is None else drawn.course,
        is_drawn=drawn is not None,
        checkpoint=checkpoint,
        rungs=None if checkpoint is None else draw_rungs(checkpoint.ladder, f"Ladder of {ident}"),
        claims=tuple(
            (PAIRS[one.pair], one.agreement, one.text) for one in resume.claims[:MOST_ROWS]
        ),
        changes=() if facts is None else tuple(fingerprint_rows(facts)[:MOST_ROWS]),
        sources=tuple(phrases.of_source(one) for one in resume.by_source[:MOST_ROWS])
        if phrases.has_damage(resume)
        else (),
        read=tuple(phrases.windows_of(resume)),
    )


def _counts(resume: Resume) -> tuple[tuple[str, tuple[tuple[str, Amount | None], ...]], ...]:
    groups: Sequence[tuple[str, Mapping[str, Amount | None]]] = (
        ("resumed", {str(name): one for name, one in resume.resumed.items()}),
        ("expected", {str(name): one for name, one in resume.expected.items()}),
        ("overlays", {str(name): one for name, one in resume.overlays.items()}),
    )
    return tuple((title, tuple(found.items())) for title, found in groups)


def untold(report: Report, parts: Sequence[Part]) -> list[str]:
    """Name the resumes that are not told in full, with their verdicts."""
    told = {part.ident for part in parts}
    return [
        f"{phrases.title_of(report, number)}: {one.verdict}"
        for number, one in enumerate(report.resumes, 1)
        if f"resume-{number}" not in told
    ]
