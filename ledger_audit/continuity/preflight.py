"""Judges a failure before it happens: a rehearsed one, and the evidence that it would leave."""

from dataclasses import replace
from typing import Any

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.forbidden import Found
from ledger_audit.continuity.judging import judge
from ledger_audit.continuity.pieces import take_stock
from ledger_audit.continuity.rehearsal import rehearse, where_to_resume
from ledger_audit.continuity.terms import asked_of
from ledger_audit.continuity.windows import Source
from ledger_audit.errors import UsageError
from ledger_audit.model import Decision, Piece, Reading, Report, Resume, Verdict


def judge_rehearsal(
    source: Source,
    checkpoint_step: int | None,
    contract: Contract,
    reading: Reading,
    forbidden: Found | None = None,
) -> tuple[list[Resume], dict[str, Any]]:
    """
    Judge a right resume of the newest attempt that did not happen yet.

    Args:
        source: the ledger.
        checkpoint_step: where it resumes; null: at the newest whole checkpoint.
        contract: what the stream promises.
        reading: how much to read around the checkpoint.
        forbidden: what was found in the lineage of what the contract forbids.

    Returns:
        The one resume, or none where the attempt left no step; and what the report says of where
        it resumed.

    Raises:
        UsageError: the attempt did nothing at the step.
    """
    if not source.lineage.chain or (found := where_to_resume(source)) is None:
        return [], {"checkpoint_step": None, "checkpoint_step_assumed": False}
    newest = source.lineage.chain[-1]
    step, is_logged = found if checkpoint_step is None else (checkpoint_step, True)
    first, last = newest.first_step or 0, newest.last_step or 0
    if checkpoint_step is not None and not first - 1 <= checkpoint_step <= last:
        raise UsageError(
            f"--checkpoint-step {checkpoint_step}: attempt {newest.label} has the steps {first} "
            f"to {last}",
            hint="name a step of the newest attempt",
        )
    rehearsal = rehearse(asked_of(source, contract), step)
    resume = judge(
        rehearsal.source, rehearsal.index, contract, replace(reading, full=False), forbidden
    )
    resume = replace(resume, checkpoint_step=step)
    if rehearsal.is_at_the_end:
        resume = _without_lost_work(resume)
    return [resume], {"checkpoint_step": step, "checkpoint_step_assumed": not is_logged}


def _without_lost_work(resume: Resume) -> Resume:
    """Say that there is no reference because nothing came after the checkpoint yet."""
    step = resume.checkpoint_step
    text = f"no whole step was done after step {step} yet: there is no lost work to judge skips by"
    said = {one.text for one in resume.limits if one.code == "no-whole-reference-step"}
    return replace(
        resume,
        limits=tuple(replace(one, text=text) if one.text in said else one for one in resume.limits),
        clauses=tuple(
            replace(one, because=text) if one.because in said else one for one in resume.clauses
        ),
    )


def evidence_of(source: Source, judged: list[Resume], contract: Contract) -> tuple[Piece, ...]:
    """Take stock of the newest attempt, in the steps around the checkpoint."""
    if not judged:
        return ()
    newest, resume = source.lineage.chain[-1], judged[-1]
    first, last = resume.read_steps or (0, newest.last_step)
    return take_stock(
        source.acts.filter(pl.col("attempt") == newest.label),
        source.tries(newest.label, first, last),
        source.records(newest.label, first, last),
        newest,
        resume,
        contract,
    )


def advise(report: Report) -> Decision:
    """Say what to do while the job still runs."""
    action, text = {
        Verdict.CONTINUOUS: ("keep-running", "Keep running: a failure now could be judged."),
        Verdict.UNPROVEN: (
            "find-evidence",
            "Let the job log what is missing below, while it still runs.",
        ),
        Verdict.BROKEN: ("find-evidence", "Mend what is broken below before anything is resumed."),
    }[report.verdict]
    blocking = {
        one.code
        for resume in report.resumes
        for one in resume.limits
        if one.blocks and not one.is_waived
    }
    if not report.resumes:
        text = "Run preflight again once the job has committed a few steps."
    elif report.verdict == Verdict.UNPROVEN and blocking == {"no-whole-reference-step"}:
        text = "Run preflight again a few steps after the checkpoint, or let the job log positions."
    return replace(report.decision, action=action, text=text, safe_checkpoint=None)  # type: ignore[arg-type]  # one of the literals above
