"""The preflight report for eyes: what a failure right now would leave unproven, and why."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ledger_audit.model import Piece, Report, Verdict
from ledger_audit.printable import printable, several
from ledger_audit.report.beside import forbidden_block
from ledger_audit.report.marks import VERDICTS
from ledger_audit.report.screen import Screen
from ledger_audit.report.terminal import clauses_table, labelled, limits_table, plain, render

_OF_A_REAL_RESUME = ("no-later-epoch", "steps-not-read")
"""Notes that say something of a resume that happened, and nothing of a rehearsed one."""
_PRESENCE = {"there": "", "partly": "yellow", "absent": "bold yellow"}
_JUDGED = {
    Verdict.CONTINUOUS: "provable",
    Verdict.UNPROVEN: "not provable",
    Verdict.BROKEN: "broken",
}
_WORDS = {
    Verdict.CONTINUOUS: "PROVABLE",
    Verdict.UNPROVEN: "NOT PROVABLE",
    Verdict.BROKEN: "BROKEN ALREADY",
}


def to_terminal(report: Report, screen: Screen) -> str:
    """Give the report as lines for a screen, in colour if it has any."""
    return render([*_blocks(report)], screen)


def _blocks(report: Report) -> Iterator[RenderableType]:
    word = Text(_WORDS[report.verdict], style=VERDICTS[report.verdict])
    if not report.resumes:
        yield word + plain(": the ledger holds no step to resume from")
        yield plain(report.decision.text)
        return
    resume = report.resumes[-1]
    at = resume.checkpoint_step
    yield word + plain(f" if attempt {resume.from_attempt} died now", "bold")
    yield plain(_sentence(report))
    yield ""
    rows = [("decision", report.decision.text), ("resume", f"from step {at}{_told_by(report)}")]
    if report.contract.get("file") is not None:
        rows.append(("contract", str(report.contract["file"])))
    yield labelled(rows)
    yield ""
    yield Padding(clauses_table(report.clauses, _JUDGED), (0, 0, 0, 2))
    yield ""
    yield Padding(_pieces(report.evidence), (0, 0, 0, 2))
    if report.forbidden is not None and (found := [*forbidden_block(report.forbidden)]):
        yield ""
        yield from found
    judged = frozenset(clause.clause for clause in resume.clauses)
    limits = tuple(one for one in resume.limits if one.code not in _OF_A_REAL_RESUME)
    if limits:
        yield ""
        yield Padding(limits_table(limits, judged), (0, 0, 0, 2))


def _sentence(report: Report) -> str:
    open_clauses = [c.clause for c in report.clauses if c.verdict == Verdict.UNPROVEN]
    if report.verdict == Verdict.BROKEN:
        broken = [c.because for c in report.clauses if c.verdict == Verdict.BROKEN]
        return f"The contract is broken before any resume: {'; '.join(broken)}."
    if not open_clauses:
        return "A resume could be judged in every clause of the contract."
    return f"Of a right resume, {', '.join(open_clauses)} could not be proven."


def _told_by(report: Report) -> str:
    if report.inputs.get("checkpoint_step_assumed"):
        return ", assumed: no checkpoint event says where"
    return ""


def _pieces(pieces: tuple[Piece, ...]) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("evidence", "", "what it is for"):
        table.add_column(name, overflow="fold", no_wrap=name != "what it is for")
    for one in pieces:
        is_some = one.presence == "partly" and one.ranks
        lacking = f"not {several('rank', one.ranks)}; " if is_some else ""
        blocks = f"; blocks {', '.join(one.blocks)}" if one.blocks else ""
        table.add_row(
            printable(f"{one.kind} {one.name}"),
            Text(one.presence, style=_PRESENCE[one.presence]),
            plain(f"{lacking}{one.purpose}{blocks}"),
        )
    return table
