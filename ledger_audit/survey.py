"""
The other questions that are asked of one ledger, beside whether its resumes go on as they should.

`show` lays records out as they are, `checkpoints` says which can be resumed from, `preflight`
rehearses a failure before it happens.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ledger_audit.continuity.checkpoints.archive import Probe
from ledger_audit.continuity.checkpoints.judging import judge
from ledger_audit.continuity.conclusion import conclude, with_forbidden
from ledger_audit.continuity.contract import DIFF, Contract
from ledger_audit.continuity.preflight import advise, evidence_of, judge_rehearsal
from ledger_audit.continuity.raw import raw_step, raw_window
from ledger_audit.model import Reading, Report
from ledger_audit.model.checkpoints import Checkpoints
from ledger_audit.model.raw import RawWindow
from ledger_audit.sources import chosen_resumes, forbidden_in, open_source

READ_AS_ASKED = Reading()


def checkpoints(
    roots: Sequence[Path],
    reading: Reading = READ_AS_ASKED,
    *,
    attempt: str | None = None,
    probe: Probe | None = None,
) -> Checkpoints:
    """Judge every checkpoint of a ledger, or of one attempt; `probe` looks at their files."""
    found, notes = judge(open_source(roots, reading).archive(), attempt, probe)
    options = {
        "stream": reading.stream,
        "columns": dict(reading.columns),
        "attempt": attempt,
        "probe": probe is not None,
    }
    return Checkpoints({"ledger": [str(root) for root in roots]}, options, found, notes)


def preflight(
    roots: Sequence[Path],
    reading: Reading = READ_AS_ASKED,
    contract: Contract = DIFF,
    checkpoint_step: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Say what could be proven of a right resume if the newest attempt died now."""
    contract = contract.of_stream(reading.stream)
    source = open_source(roots, reading)
    forbidden = forbidden_in(source, contract, tell)
    judged, facts = judge_rehearsal(source, checkpoint_step, contract, reading, forbidden)
    inputs = {"ledger": [str(root) for root in roots], **facts}
    report = conclude("preflight", inputs, source.lineage, judged, contract, reading)
    report = with_forbidden(report, forbidden, contract)
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


__all__ = ["DIFF", "Reading", "checkpoints", "preflight", "show"]
