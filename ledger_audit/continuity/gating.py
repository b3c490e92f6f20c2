"""
Judges a run, and its resumes, by a control: step by step where both are alike, else by records.

Steps that both consumed alike need no record. Where what is left has a record without a partner,
it may have been used in any of them: then everything is read.
"""

from dataclasses import dataclass, replace

import polars as pl

from ledger_audit.continuity import windows as cut
from ledger_audit.continuity.beside import Beside, look_beside
from ledger_audit.continuity.circumstances import Circumstances
from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.divergence import first_divergence
from ledger_audit.continuity.forbidden import Found
from ledger_audit.continuity.frames import IS_USED, Side
from ledger_audit.continuity.judging import judge_windows, whole_windows
from ledger_audit.continuity.resume import Audited, audit_resume, gather_facts
from ledger_audit.continuity.settling import Both, Settled, settle
from ledger_audit.continuity.terms import asked_of
from ledger_audit.continuity.weights import going_on, held_by
from ledger_audit.continuity.windows import Source, Windows
from ledger_audit.model import Expected, Resume

Judged = tuple[Resume, list[Resume]]
"""The stream, with its first divergence, and each resume."""


def judge_by_control(
    control: Source,
    run: Source,
    indices: list[int],
    contract: Contract,
    forbidden: Found | None = None,
    both: Both | None = None,
) -> Judged:
    """
    Judge the whole surviving stream of a run, and resumes of it, by a control.

    A control that differs from the run before a resume says nothing about that resume: it is
    judged by its own rolled-back window.

    Args:
        control: the control.
        run: the run.
        indices: places in the lineage of the resumes that are judged.
        contract: what the stream promises.
        forbidden: what was found in the run of what the contract forbids.
        both: what finds the steps that both consumed alike; null: all records are looked at.
    """
    control, run = asked_of(control, contract), asked_of(run, contract)
    settled = None if both is None else settle(both, control, run, contract)
    if settled is not None:
        found = _Gate(settled.control, settled.run, contract, forbidden, settled).judged(indices)
        if found is not None:
            return found
    found = _Gate(control, run, contract, forbidden, None).judged(indices)
    assert found is not None, "with all records there is nothing left to look at"
    return found


@dataclass(frozen=True)
class _Gate:
    control: Source
    run: Source
    contract: Contract
    forbidden: Found | None
    settled: Settled | None
    """Null: all records are looked at."""

    def judged(self, indices: list[int]) -> Judged | None:
        """Judge all; null where the records that were left out must be looked at."""
        besides = {
            index: look_beside(self.run, index, self.contract, self.forbidden, None)
            for index in indices
        }
        run = self.run
        for index in range(1, len(run.lineage.chain)):
            run = going_on(run, index, held_by(run, index))
        whole = cut.surviving_stream(self.control, is_reference=True)
        windows = Windows(
            checkpoint_step=0,
            committed=cut.nothing(run),
            reference=whole,
            resumed=cut.surviving_stream(run, is_reference=False),
            reference_kind="control",
        )
        around = self._around(run.has_commits and self.control.has_commits, 0)
        around = replace(around, beside=Beside(forbidden=self.forbidden))
        newest = run.lineage.chain[-1].label
        audited = audit_resume(windows, self.contract, around, from_attempt=None, to_attempt=newest)
        if self._must_look(audited):
            return None
        divergence = first_divergence(audited.facts)
        resumes = []
        for index in indices:
            at = run.lineage.chain[index].resumed_at or 0
            agrees = divergence is None or divergence > at or self._agrees(whole, run, index)
            if self.settled is not None and not agrees:
                return None
            windows = whole_windows(run, index, cut.after(whole, at) if agrees else None)
            own = replace(self._around(run.has_commits, at), beside=besides[index])
            resumes.append(judge_windows(windows, run, index, self.contract, own))
        return replace(audited.told(), first_divergence=divergence), resumes

    def _around(self, has_commits: bool, step: int) -> Circumstances:
        if self.settled is None:
            return Circumstances(has_commits=has_commits)
        later = self.settled.over_after(step)
        return Circumstances(has_commits=has_commits, is_narrow=True, later_epochs=later)

    def _must_look(self, audited: Audited) -> bool:
        """Tell whether a record without a partner may have one among those left out."""
        if self.settled is None:
            return False
        rows, expected = audited.classified.resumed, audited.classified.expected
        lone = expected.filter(
            ~pl.col("worst").is_in([str(Expected.MATCHED), str(Expected.PENDING)])
        )
        return rows.filter(IS_USED, pl.col("ref").is_null()).height > 0 or lone.height > 0

    def _agrees(self, control: Side, run: Source, index: int) -> bool:
        """Tell whether a control consumed, step by step, what the run had at a resume."""
        windows = Windows(
            checkpoint_step=0,
            committed=cut.nothing(run),
            reference=control,
            resumed=cut.committed_window(run, index),
            reference_kind="control",
        )
        return first_divergence(gather_facts(windows, self.contract.token_overlap)) is None
