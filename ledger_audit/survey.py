"""
The other questions that are asked of one ledger, beside whether its resumes go on as they should.

`show` lays records out as they are, `preflight` rehearses a failure before it happens.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ledger_audit.continuity.conclusion import conclude
from ledger_audit.continuity.contract import DIFF, Contract
from ledger_audit.continuity.preflight import advise, evidence_of, judge_rehearsal
from ledger_audit.continuity.raw import raw_step, raw_window
from ledger_audit.model import Reading, Report
from ledger_audit.model.raw import RawWindow
from ledger_audit.sources import chosen_resumes, open_source

READ_AS_ASKED = Reading()


def preflight(
    roots: Sequence[Path],
    reading: Reading = READ_AS_ASKED,
    contract: Contract = DIFF,
    checkpoint_step: int | None = None,
) -> Report:
    """Say what could be proven of a right resume if the newest attempt died now."""
    source = open_source(roots, reading)
    judged, facts = judge_rehearsal(source, checkpoint_step, contract, reading)
    inputs = {"ledger": [str(root) for root in roots], **facts}
    report = conclude("preflight", inputs, source.lineage, judged, contract, reading)
    return replace(report, evidence=evidence_of(source, judged, contract), decision=advise(report))


def show(
    roots: Sequence[Path],
    reading: Reading = READ_AS_ASKED,
    *,
    step: int | None = None,
    ranks: Sequence[int] = (),
) -> RawWindow:
    """Give the records of one step, or around a resume (by default the newest), unjudged."""
    source = open_source(roots, reading)
    if step is not None:
        return raw_step(source, step, ranks)
    chosen = chosen_resumes(source, reading)
    index = chosen[-1] if chosen else None
    return raw_window(source, index, ranks, before=reading.before, after=reading.after)


__all__ = ["DIFF", "Reading", "preflight", "show"]
