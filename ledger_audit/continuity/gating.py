"""
Judges a run, and its resumes, by a control: step by step where both are alike, else by records.

Of the steps that both consumed alike, few records are opened. Where these are not enough for the
same report, all are.
"""

from dataclasses import dataclass, replace

from ledger_audit.continuity import windows as cut
from ledger_audit.continuity.beside import Beside, look_beside
from ledger_audit.continuity.circumstances import Circumstances
from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.divergence import first_divergence
from ledger_audit.continuity.expectation import begins_after, departure, with_own_places
from ledger_audit.continuity.forbidden import Found
from ledger_audit.continuity.frames import Side
from ledger_audit.continuity.holding import check_held, is_held
from ledger_audit.continuity.judging import audit_windows, judge_windows, whole_windows
from ledger_audit.continuity.nearby import judge_nearby
from ledger_audit.continuity.resume import audit_resume
from ledger_audit.continuity.settling import Settled, first_unlike, settle
from ledger_audit.continuity.sufficiency import has_lone, is_enough
from ledger_audit.continuity.summing import Both
from ledger_audit.continuity.terms import asked_of
from ledger_audit.continuity.weights import going_on, held_by
from ledger_audit.continuity.windows import Source, Windows
from ledger_audit.model import Resume

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

    Raises:
        UsageError: all records are to be looked at, and memory does not hold them.
    """
    control, run = asked_of(control, contract), asked_of(run, contract)
    for way in _ways(both):
        settled = settle(way, control, run, contract)
        if settled is not None:
            gate = _Gate(settled.control, settled.run, contract, forbidden, settled)
            found = gate.judged(indices)
            if found is not None:
                return found
    rows = control.rows + run.rows
    if both is not None and not is_held(rows, run.most):
        first = first_unlike(both)
        if first is not None:
            return judge_nearby(control, run, first, indices, contract, forbidden)
    check_held(rows, run.most)
    found = _Gate(control, run, contract, forbidden, None).judged(indices)
    assert found is not None, "with all records there is nothing left to look at"
    return found


def _ways(both: Both | None) -> list[Both]:
    """Give the ways to find what is alike: digests may leave open what records tell."""
    if both is None:
        return []
    return [both, replace(both, trusts_digests=False)] if both.trusts_digests else [both]


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
        if self.settled is not None and not _is_plain(self.run, run):
            return None
        whole = cut.surviving_stream(self.control, is_reference=True)
        stream = cut.surviving_stream(run, is_reference=False)
        whole = with_own_places(whole, stream)
        before = begins_after(whole)
        windows = Windows(
            checkpoint_step=before,
            committed=cut.through(stream, before) if before else cut.nothing(run),
            reference=whole,
            resumed=cut.after(stream, before) if before else stream,
            reference_kind="control",
        )
        around = self._around(run.has_commits and self.control.has_commits)
        around = replace(around, beside=Beside(forbidden=self.forbidden))
        newest = run.lineage.chain[-1].label
        audited = audit_resume(windows, self.contract, around, from_attempt=None, to_attempt=newest)
        if self.settled is not None and not is_enough(audited, self.settled):
            return None
        divergence = first_divergence(audited.facts)
        resumes = []
        for index in indices:
            at = run.lineage.chain[index].resumed_at or 0
            agrees = at >= before and (
                divergence is None or divergence > at or self._agrees(whole, run, index)
            )
            if self.settled is not None and not agrees:
                return None
            windows = whole_windows(run, index, cut.after(whole, at) if agrees else None)
            own = replace(self._around(run.has_commits), beside=besides[index])
            if self.settled is not None and not self._is_enough(windows, index, own):
                return None
            resumes.append(judge_windows(windows, run, index, self.contract, own))
        return replace(audited.told(), first_divergence=divergence), resumes

    def _around(self, has_commits: bool) -> Circumstances:
        if self.settled is None or self.settled.columns is not None:
            return Circumstances(has_commits=has_commits)
        return Circumstances(has_commits=has_commits, is_narrow=True, later_epochs=())

    def _is_enough(self, windows: Windows, index: int, around: Circumstances) -> bool:
        """Tell whether what is open is enough to judge a resume, and to say why it is broken."""
        assert self.settled is not None
        audited = audit_windows(windows, self.run, index, self.contract, around)
        if not is_enough(audited, self.settled):
            return False
        if self.settled.columns is None:
            return True
        later = audited.report.later_epochs
        is_asked_more = any(epoch.is_broken and epoch.missing for epoch in later)
        # causes are told by the order of all that came before
        return not is_asked_more and not (audited.asks_why and has_lone(audited))

    def _agrees(self, control: Side, run: Source, index: int) -> bool:
        """Tell whether a control consumed, step by step, what the run had at a resume."""
        committed = cut.committed_window(run, index)
        return departure(control, committed, self.contract.token_overlap) is None


def _is_plain(before: Source, after: Source) -> bool:
    """
    Tell whether every attempt gave the steps after its checkpoint, and up to the next one's.

    Not where weights were ahead of their label, or an attempt went back behind an earlier resume.
    """
    ends = [one.resumed_at or 0 for one in before.lineage.chain[1:]]
    is_ahead = any(held_by(before, index) > end for index, end in enumerate(ends, 1))
    return not is_ahead and before.lineage == after.lineage and ends == sorted(ends)
