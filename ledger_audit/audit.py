"""
The path, written once: open → lineage → windows → outcomes → verdict → report.

`diff` judges every resume of a ledger by the work that its failure rolled back, `gate` judges a
run by an uninterrupted control. What is `opened` already is not opened by either again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ledger_audit import sources
from ledger_audit.continuity.causes.around import explained, with_reasons
from ledger_audit.continuity.conclusion import conclude, with_forbidden
from ledger_audit.continuity.contract import DIFF, GATE, Contract
from ledger_audit.continuity.expectation import Expectation
from ledger_audit.continuity.gating import judge_by_control
from ledger_audit.continuity.judging import judge
from ledger_audit.expectations import judge_by_best, named, open_following
from ledger_audit.model import Reading, Report
from ledger_audit.sources import Opened

READ_AS_ASKED = Reading()
Tell = Callable[[str], None]
"""Takes a few words on what is being done now."""


def diff(
    roots: Sequence[Path],
    reading: Reading = READ_AS_ASKED,
    contract: Contract = DIFF,
    tell: Tell = lambda _: None,
    reference: Path | None = None,
    opened: tuple[Opened, Expectation | None] | None = None,
) -> Report:
    """Judge the resumes of a ledger by a reference, or by their own rolled-back windows."""
    tell("opening the ledger")
    contract = contract.of_stream(reading.stream)
    source, expected = opened or open_following(roots, reference, reading)
    chosen = sources.chosen_resumes(source, reading)
    forbidden = sources.forbidden_in(source, contract, tell)
    resumes = []
    for number, index in enumerate(chosen, 1):
        tell(f"judging resume {number} of {len(chosen)}")
        reading_of = replace(reading, awaited=reading.awaited if index == chosen[-1] else None)
        resume = judge_by_best(source, index, contract, reading_of, forbidden, expected)
        resumes.append(with_reasons(resume, source, index, source.archive))
    inputs = {"ledger": [str(root) for root in roots]} | named("reference", reference)
    report = conclude("diff", inputs, source.lineage, resumes, contract, reading)
    return with_forbidden(report, forbidden, contract)


def diff_windows(
    pre: Path,
    post: Path,
    checkpoint_step: int,
    reading: Reading = READ_AS_ASKED,
    contract: Contract = DIFF,
    tell: Tell = lambda _: None,
) -> Report:
    """Judge a resume by two plain logs: before the failure, and after the resume."""
    tell("reading both windows")
    contract = contract.of_stream(reading.stream)
    source = sources.open_windows(pre, post, checkpoint_step, reading)
    forbidden = sources.forbidden_in(source, contract, tell)
    judged = judge(source, 1, contract, replace(reading, full=True), forbidden)
    resumes = [explained(judged, source, 1)]
    inputs = {"pre": str(pre), "post": str(post), "checkpoint_step": checkpoint_step}
    report = conclude("diff", inputs, source.lineage, resumes, contract, reading)
    return with_forbidden(report, forbidden, contract)


def gate(
    control: Sequence[Path],
    run: Sequence[Path],
    reading: Reading = READ_AS_ASKED,
    contract: Contract = GATE,
    tell: Tell = lambda _: None,
    opened: tuple[Opened, Opened] | None = None,
) -> Report:
    """Judge a run, and each of its resumes, by an uninterrupted control run."""
    tell("opening both ledgers")
    contract = contract.of_stream(reading.stream)
    expected, source = opened or sources.open_pair(control, run, reading)
    chosen = sources.chosen_resumes(source, reading)
    forbidden = sources.forbidden_in(source, contract, tell)
    tell(f"comparing whole streams, then {len(chosen)} resumes")
    alike = sources.both_of(expected, source, reading)
    stream, judged = judge_by_control(expected, source, chosen, contract, forbidden, alike)
    resumes = [
        with_reasons(resume, source, index, source.archive)
        for resume, index in zip(judged, chosen, strict=True)
    ]
    inputs = {"control": [str(root) for root in control], "run": [str(root) for root in run]}
    report = conclude("gate", inputs, source.lineage, resumes, contract, reading, stream=stream)
    return with_forbidden(report, forbidden, contract)


__all__ = ["DIFF", "GATE", "Reading", "diff", "diff_windows", "gate"]
