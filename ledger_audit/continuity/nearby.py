"""
Judges a run by its control around the first step that differs, where memory holds no more.

A fault that shows there is one, whatever comes later; nothing is continuous by so little.
"""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from ledger_audit.continuity import windows as cut
from ledger_audit.continuity.beside import Beside
from ledger_audit.continuity.circumstances import Circumstances
from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.expectation import Expectation
from ledger_audit.continuity.forbidden import Found
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.continuity.judging import judge
from ledger_audit.continuity.resume import Audited, audit_resume
from ledger_audit.continuity.windows import Source, Windows
from ledger_audit.model import Reading, Resume


def judge_nearby(
    control: Source,
    run: Source,
    first: int,
    indices: Sequence[int],
    contract: Contract,
    forbidden: Found | None,
) -> tuple[Resume, list[Resume]]:
    """
    Judge the stream of a run, and resumes of it, by a control of which only a window is read.

    A resume after the first difference is judged by its own rolled-back window, as the control
    says nothing about it.

    Args:
        control: the control.
        run: the run.
        first: the first step that both do not consume alike.
        indices: places in the lineage of the resumes that are judged.
        contract: what the stream promises.
        forbidden: what was found in the run of what the contract forbids.

    Raises:
        UsageError: the contract needs all records.
    """
    rows, reading = control.rows + run.rows, Reading()
    stream = _stream(control, run, first, contract, forbidden, reading)
    resumes = []
    for index in indices:
        is_alike = (run.lineage.chain[index].resumed_at or 0) < first
        expected = Expectation(control, "control") if is_alike else None
        judged = judge(run, index, contract, reading, forbidden, expected, too_large=rows)
        resumes.append(judged)
    return stream, resumes


def _stream(
    control: Source,
    run: Source,
    first: int,
    contract: Contract,
    forbidden: Found | None,
    reading: Reading,
) -> Resume:
    """Judge the steps around the first difference."""
    begin, last = max(0, first - reading.before), first + reading.after
    windows = Windows(
        checkpoint_step=first - 1,
        committed=cut.stream_between(run, begin, first - 1),
        reference=cut.stream_between(control, first, last),
        resumed=cut.settled(cut.stream_between(run, first, last)),
        reference_kind="control",
    )
    around = Circumstances(
        has_commits=run.has_commits and control.has_commits,
        is_narrow=True,
        too_large=control.rows + run.rows,
        unread_from=last + 1,
        later_epochs=(),  # none of them is there as a whole
        beside=Beside(forbidden=forbidden),
    )
    newest = run.lineage.chain[-1].label

    def audited(windows: Windows) -> Audited:
        return audit_resume(windows, contract, around, from_attempt=None, to_attempt=newest)

    found = audited(windows)
    wider = _looked_up(control, run, windows, found, begin, last)
    told = (found if wider is windows else audited(wider)).told()
    return replace(told, first_divergence=first, read_steps=(begin, last))


def _looked_up(
    control: Source, run: Source, windows: Windows, audited: Audited, begin: int, last: int
) -> Windows:
    """Look up what has no match in the steps of both that were not read."""
    rows, expected = audited.classified.resumed, audited.classified.expected
    lone = pl.concat(
        [
            rows.filter(IS_USED, pl.col("ref").is_null())["sample_id"],
            expected.filter(pl.col("resumed").is_null())["sample_id"],
        ]
    ).unique()
    if lone.is_empty():
        return windows
    step = pl.col("step")
    ours, theirs = cut.looked_up(run, lone), cut.looked_up(control, lone)
    earlier = [(one, found.filter(step < begin)) for one, found in ours]
    later = [(one, found.filter(step > last)) for one, found in ours]
    to_come = [(one, found.filter(step > last)) for one, found in theirs]
    return replace(
        windows,
        committed=cut.with_beyond(run, windows.committed, earlier),
        reference=cut.with_beyond(control, windows.reference, to_come),
        resumed=cut.with_beyond(run, windows.resumed, later),
    )
