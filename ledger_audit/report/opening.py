"""What every report for people begins with: verdict and reach, one sentence, and what to do."""

from collections.abc import Iterator
from dataclasses import dataclass

from ledger_audit.model import Decision, Report, Verdict
from ledger_audit.printable import counted, quoted
from ledger_audit.report import phrases

_ACTIONS = {"keep-running": "", "go-back": "Go back. ", "find-evidence": ""}


@dataclass(frozen=True)
class Opening:
    """The first lines of a report, in words; whoever shows them escapes them."""

    verdict: str
    """In capitals."""
    reach: str
    """What follows the verdict on its line, with what joins them."""
    sentence: str | None
    """One plain sentence; null: the verdict's line says it all."""
    rows: tuple[tuple[str, str], ...]
    """Label and text: the decision first. A label that comes again belongs to the one before."""


def opening(report: Report) -> Opening:
    """Give the first lines of a report."""
    reach, sentence = _reach(report)
    return Opening(report.verdict.value.upper(), reach, sentence, tuple(_rows(report)))


def _reach(report: Report) -> tuple[str, str | None]:
    judged = phrases.worst_of(report)
    if judged is not None:
        return f" {phrases.reach(judged)}", phrases.sentence(judged)
    broken = [one for one in report.clauses if one.verdict == report.verdict]
    if report.verdict == Verdict.BROKEN and broken:
        return f" in the clause {broken[-1].clause}", f"{broken[-1].because}."
    return ": nothing was resumed", None


def _rows(report: Report) -> Iterator[tuple[str, str]]:
    decision = report.decision
    yield "decision", f"{_ACTIONS[decision.action]}{decision.text}"
    judged = [*report.resumes, *([] if report.stream is None else [report.stream])]
    if judged:
        yield "damage", phrases.damage_of(decision)
        doubt = phrases.in_doubt(report.resumes or judged)
        yield from [] if doubt is None else [("doubt", doubt)]
    yield from phrases.first_cause(report)
    yield from _safe(decision, report)
    open_limits = {
        one.code: one
        for part in judged
        for one in part.limits
        if one.blocks and not one.is_waived and part.verdict == Verdict.UNPROVEN
    }
    yield from (("settle", f"{one.settled_by} [{one.code}]") for one in open_limits.values())
    yield from _unseen_stream(report)
    yield from _what_it_holds(report)
    if report.command == "diff" and _may_come(report):
        yield "follow", "ledger-audit diff LEDGER --wait 8: waits for 8 resumed steps"
    if report.contract.get("file") is not None:
        yield "contract", str(report.contract["file"])


def _safe(decision: Decision, report: Report) -> Iterator[tuple[str, str]]:
    if decision.safe_checkpoint is None:
        return
    attempt, step = decision.safe_checkpoint
    cursor = next(
        (
            one
            for one in report.resumes
            if (one.from_attempt, one.checkpoint_step) == decision.safe_checkpoint
        ),
        None,
    )
    is_off = cursor is not None and any(
        one.pair == "saved-ledger" and one.agreement == "contradicts" for one in cursor.claims
    )
    but = ": its weights, not the data position that was saved with them" * is_off
    yield "safe", f"the checkpoint at step {step} of attempt {attempt}{but}"
    positions = None if cursor is None else cursor.positions
    if positions is not None and positions.expected is not None:
        yield "cursor", f"position {positions.expected:,} comes next"


def _may_come(report: Report) -> bool:
    """Tell whether nothing was resumed yet, by a job that may still be at it."""
    if not report.resumes:
        return True
    newest = report.resumes[-1]
    ended = {one.attempt for one in report.lineage if one.has_end}
    return not newest.windows["resumed"] and newest.to_attempt not in ended


def _unseen_stream(report: Report) -> Iterator[tuple[str, str]]:
    """Say that nothing is there of the stream that was asked for: it may be misspelt."""
    name = report.options.get("stream")
    judged = [*report.resumes, *([] if report.stream is None else [report.stream])]
    if name is not None and judged and not any(sum(one.windows.values()) for one in judged):
        yield "stream", f"no record that was read is of {quoted(name)}: is it called so in the log?"


def _what_it_holds(report: Report) -> Iterator[tuple[str, str]]:
    """Say what a ledger without a resume holds, and what can be done with it."""
    if report.resumes or report.stream is not None:
        return
    if not report.lineage:
        yield "holds", "no attempt and no record"
    for one in report.lineage:
        world = "" if one.world_size is None else f", {counted(one.world_size, 'rank')}"
        held = "no record"
        if one.first_step is not None:
            held = f"steps {one.first_step} to {one.last_step}"
        yield "holds", f"attempt {one.attempt}: {held}{world}"
    yield "compare", "ledger-audit gate CONTROL RUN: also a run that was never resumed"
    yield "rehearse", "ledger-audit preflight LEDGER: what could be proven after a failure"
