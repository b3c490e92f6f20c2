"""
The path, written once: open → lineage → windows → outcomes → verdict → report.

`diff` judges every resume of a ledger by the work that its failure rolled back, `gate` judges a
run by an uninterrupted control.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ledger_audit.continuity.conclusion import conclude
from ledger_audit.continuity.contract import DIFF, GATE, Contract
from ledger_audit.continuity.judging import judge_by_control, judge_narrowly, judge_whole
from ledger_audit.model import Order, Reading, Report
from ledger_audit.sources import chosen_resumes, open_pair, open_source, open_windows

READ_AS_ASKED = Reading()


def diff(
    roots: Sequence[Path], reading: Reading = READ_AS_ASKED, contract: Contract = DIFF
) -> Report:
    """Judge the resumes of a ledger by their own rolled-back windows."""
    source = open_source(roots, reading)
    resumes = [
        judge_whole(source, index, contract)
        if reading.full
        else judge_narrowly(source, index, contract, before=reading.before, after=reading.after)
        for index in chosen_resumes(source, reading)
    ]
    inputs = {"ledger": [str(root) for root in roots]}
    return conclude("diff", inputs, source.lineage, resumes, contract, reading)


def diff_windows(
    pre: Path,
    post: Path,
    checkpoint_step: int,
    reading: Reading = READ_AS_ASKED,
    contract: Contract = DIFF,
) -> Report:
    """Judge a resume by two plain logs: before the failure, and after the resume."""
    source = open_windows(pre, post, checkpoint_step, reading)
    resumes = [judge_whole(source, 1, contract)]
    inputs = {"pre": str(pre), "post": str(post), "checkpoint_step": checkpoint_step}
    return conclude("diff", inputs, source.lineage, resumes, contract, reading)


def gate(
    control: Sequence[Path],
    run: Sequence[Path],
    reading: Reading = READ_AS_ASKED,
    contract: Contract = GATE,
) -> Report:
    """Judge a run, and each of its resumes, by an uninterrupted control run."""
    expected, source = open_pair(control, run, reading)
    chosen = chosen_resumes(source, reading)
    stream, resumes = judge_by_control(expected, source, chosen, contract)
    inputs = {
        "control": [str(root) for root in control],
        "run": [str(root) for root in run],
    }
    return conclude("gate", inputs, source.lineage, resumes, contract, reading, stream=stream)


def contract_of(
    command: str, order: Order | None = None, waived: frozenset[str] = frozenset()
) -> Contract:
    """Give the default contract of a command, with another order and waived limits if asked for."""
    contract = replace(GATE if command == "gate" else DIFF, waived=waived)
    return contract if order is None else replace(contract, order=order)


__all__ = ["Reading", "contract_of", "diff", "diff_windows", "gate"]
