"""
The path, written once: open → lineage → windows → outcomes → verdict.

`diff` judges every resume of a ledger by itself, `gate` also against an uninterrupted control.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from ledger_audit.continuity import windows as cut
from ledger_audit.continuity.contract import DIFF, GATE, Contract
from ledger_audit.continuity.decision import decide
from ledger_audit.continuity.divergence import first_divergence
from ledger_audit.continuity.frames import IS_USED, Side
from ledger_audit.continuity.limits import Circumstances
from ledger_audit.continuity.lineage import Attempt, Lineage, reconstruct
from ledger_audit.continuity.resume import Audited, audit_resume, gather_facts
from ledger_audit.continuity.windows import Source, Windows
from ledger_audit.errors import UsageError
from ledger_audit.ledger.reader import Ledger, open_ledger, same_id_type
from ledger_audit.model import AttemptFacts, Clause, Order, Report, Resume, Verdict


@dataclass(frozen=True)
class Reading:
    """How much of a ledger to read, and how."""

    before: int = 20
    """Steps before the checkpoint."""
    after: int = 20
    """Steps after the checkpoint."""
    full: bool = False
    """Read everything."""
    resume: int | None = None
    """Judge only the n-th resume of the lineage, from 1."""
    stream: str | None = None
    """The stream to audit; null: training."""
    columns: Mapping[str, str] | None = None
    """Our column name → theirs, in foreign logs."""


def diff(roots: Sequence[Path], reading: Reading, contract: Contract = DIFF) -> Report:
    """Judge the resumes of a ledger by their own rolled-back windows."""
    ledger = open_ledger(roots, columns=reading.columns, stream=reading.stream)
    source = _source(ledger)
    resumes = [
        _audit_one(ledger, source, index, reading, contract) for index in _chosen(source, reading)
    ]
    return _report("diff", {"ledger": _names(roots)}, source, resumes, contract, reading=reading)


def diff_windows(
    pre: Path, post: Path, checkpoint_step: int, reading: Reading, contract: Contract = DIFF
) -> Report:
    """Judge a resume by two plain logs: before the failure, and after the resume."""
    ledgers = {
        label: open_ledger([path], columns=reading.columns, attempt=label, stream=reading.stream)
        for label, path in (("pre", pre), ("post", post))
    }
    same_id_type(ledgers.values())
    before, after = (_plain_attempt(label, ledger) for label, ledger in ledgers.items())
    ranks = before.seen | after.seen
    before = replace(before, parent=None, resumed_at=None, peers=ranks, is_assumed=False)
    after = replace(
        after, parent="pre", resumed_at=checkpoint_step, peers=ranks, is_assumed=False
    )
    source = Source(
        lineage=Lineage((before, after), ()),
        records=lambda label, first, last: ledgers.get(label, ledgers["pre"]).records(
            label, first, last
        ),
        tries=lambda label, first, last: ledgers.get(label, ledgers["pre"]).tries(
            label, first, last
        ),
        has_commits=any(ledger.has_commits() for ledger in ledgers.values()),
        unread=tuple(part for ledger in ledgers.values() for part in ledger.unread),
    )
    resume = _audit_whole(source, 1, contract)
    inputs = {"pre": str(pre), "post": str(post), "checkpoint_step": checkpoint_step}
    return _report("diff", inputs, source, [resume], contract, reading=reading)


def gate(
    control: Sequence[Path], run: Sequence[Path], reading: Reading, contract: Contract = GATE
) -> Report:
    """Judge a run, and each of its resumes, by an uninterrupted control run."""
    control_ledger, run_ledger = (
        open_ledger(roots, columns=reading.columns, stream=reading.stream)
        for roots in (control, run)
    )
    same_id_type([control_ledger, run_ledger])
    expected, source = _source(control_ledger), _source(run_ledger)
    expected, source = _as_peers(expected, source), _as_peers(source, expected)
    stream = _audit_stream(expected, source, contract)
    resumes = [
        _audit_whole(
            source, index, contract, control=expected if _agrees(expected, source, index) else None
        )
        for index in _chosen(source, reading)
    ]
    inputs = {"control": _names(control), "run": _names(run)}
    return _report("gate", inputs, source, resumes, contract, reading=reading, stream=stream.report)


def contract_of(
    command: str, order: Order | None = None, waived: frozenset[str] = frozenset()
) -> Contract:
    """Give the default contract of a command, with another order and waived limits if asked for."""
    contract = replace(GATE if command == "gate" else DIFF, waived=waived)
    return contract if order is None else replace(contract, order=order)


def _source(ledger: Ledger) -> Source:
    return Source(
        lineage=reconstruct(ledger.acts(), ledger.extents()),
        records=ledger.records,
        tries=ledger.tries,
        has_commits=ledger.has_commits(),
        unread=ledger.unread,
    )


def _plain_attempt(label: str, ledger: Ledger) -> Attempt:
    chain = reconstruct(ledger.acts(), ledger.extents()).chain
    return replace(chain[-1], label=label) if chain else Attempt(label)


def _as_peers(source: Source, other: Source) -> Source:
    """Let attempts without a start event miss the ranks that the other side has."""
    ranks = frozenset().union(*(one.everyone for one in other.lineage.chain))
    chain = tuple(
        replace(one, peers=ranks) if one.world_size is None and one.seen else one
        for one in source.lineage.chain
    )
    return replace(source, lineage=replace(source.lineage, chain=chain))


def _chosen(source: Source, reading: Reading) -> list[int]:
    """Give the indices in the chain of the attempts whose resume is to be judged, oldest first."""
    resumed = list(range(1, len(source.lineage.chain)))
    if reading.resume is None:
        return resumed
    if not 1 <= reading.resume <= len(resumed):
        raise UsageError(
            f"--resume {reading.resume}: the lineage has {len(resumed)} resumes",
            hint="resumes are counted from 1, oldest first",
        )
    return [resumed[reading.resume - 1]]


def _audit_one(
    ledger: Ledger, source: Source, index: int, reading: Reading, contract: Contract
) -> Resume:
    """Read narrowly first; what the window does not explain is looked up, then read in full."""
    if reading.full:
        return _audit_whole(source, index, contract)
    after = source.lineage.chain[index].resumed_at or 0
    last = after + reading.after
    windows = Windows(
        checkpoint_step=after,
        committed=cut.committed_window(source, index, max(0, after - reading.before + 1)),
        reference=cut.rolled_back_window(source, index, last),
        resumed=cut.resumed_window(source, index, last),
        reference_kind="rolled-back",
    )
    is_narrow = _cuts_off(source, index, first=after - reading.before + 1, last=last)
    around = Circumstances(has_commits=source.has_commits, is_narrow=is_narrow)
    audited = _audited(windows, source, index, contract, around)
    wider = _looked_up(ledger, source, index, audited, first=after - reading.before, last=last)
    if wider is not windows:
        audited = _audited(wider, source, index, contract, around)
    if audited.has_repeats:
        return _audit_whole(source, index, contract)
    return audited.report


def _cuts_off(source: Source, index: int, *, first: int, last: int) -> bool:
    """Tell whether a window of steps leaves anything of the lineage unread."""
    chain = source.lineage.chain[: index + 1]
    begins = [one.first_step for one in chain if one.first_step is not None]
    ends = [one.last_step for one in chain if one.last_step is not None]
    return min(begins, default=first) < first or max(ends, default=last) > last


def _looked_up(
    ledger: Ledger, source: Source, index: int, audited: Audited, *, first: int, last: int
) -> Windows:
    """Look up what the windows leave unmatched in the rest of the lineage and the lost work."""
    windows = audited.facts.known.windows
    rows, expected = audited.classified.resumed, audited.classified.expected
    unmatched = rows.filter(IS_USED, pl.col("ref").is_null())["sample_id"]
    awaited = expected.filter(pl.col("resumed").is_null())["sample_id"]
    chain = source.lineage.chain
    committed = [
        (one, ledger.lookup(one.label, unmatched).filter(pl.col("step") <= min(first, until)))
        for position, one in enumerate(chain[:index])
        if (until := source.lineage.until(position, index)) is not None
    ]
    lost = ledger.lookup(chain[index - 1].label, unmatched).filter(pl.col("step") > last)
    until = source.lineage.until(index, len(chain) - 1)
    later = ledger.lookup(chain[index].label, awaited).filter(
        (pl.col("step") > last) & (pl.col("step") <= (cut.END if until is None else until))
    )
    return replace(
        windows,
        committed=cut.with_beyond(source, windows.committed, committed),
        reference=cut.with_beyond(source, windows.reference, [(chain[index - 1], lost)]),
        resumed=cut.with_beyond(source, windows.resumed, [(chain[index], later)]),
    )


def _audit_whole(
    source: Source, index: int, contract: Contract, *, control: Source | None = None
) -> Resume:
    after = source.lineage.chain[index].resumed_at or 0
    reference: Side
    if control is None:
        reference, kind = cut.rolled_back_window(source, index), "rolled-back"
    else:
        reference = cut.surviving_stream(control, is_reference=True, after=after)
        kind = "control"
    windows = Windows(
        checkpoint_step=after,
        committed=cut.committed_window(source, index),
        reference=reference,
        resumed=cut.resumed_window(source, index),
        reference_kind=kind,
    )
    around = Circumstances(has_commits=source.has_commits)
    return _audited(windows, source, index, contract, around).report


def _agrees(control: Source, run: Source, index: int) -> bool:
    """Tell whether a control consumed, step by step, what the run had when it was resumed."""
    windows = Windows(
        checkpoint_step=0,
        committed=cut.nothing(run),
        reference=cut.surviving_stream(control, is_reference=True),
        resumed=cut.committed_window(run, index),
        reference_kind="control",
    )
    return first_divergence(gather_facts(windows)) is None


def _audited(
    windows: Windows, source: Source, index: int, contract: Contract, around: Circumstances
) -> Audited:
    chain = source.lineage.chain
    return audit_resume(
        windows,
        contract,
        around,
        from_attempt=chain[index - 1].label,
        to_attempt=chain[index].label,
    )


def _audit_stream(control: Source, run: Source, contract: Contract) -> Audited:
    """Judge the whole surviving stream of a run against its control, from the first step."""
    if not run.lineage.chain or not control.lineage.chain:
        side = "run" if not run.lineage.chain else "control"
        raise UsageError(f"the {side} holds no record", hint="point at a ledger with records")
    windows = Windows(
        checkpoint_step=0,
        committed=cut.nothing(run),
        reference=cut.surviving_stream(control, is_reference=True),
        resumed=cut.surviving_stream(run, is_reference=False),
        reference_kind="control",
    )
    around = Circumstances(has_commits=run.has_commits and control.has_commits)
    audited = audit_resume(
        windows, contract, around, from_attempt=None, to_attempt=run.lineage.chain[-1].label
    )
    report = replace(audited.report, first_divergence=first_divergence(audited.facts))
    return replace(audited, report=report)


def _report(
    command: str,
    inputs: dict[str, Any],
    source: Source,
    resumes: list[Resume],
    contract: Contract,
    *,
    reading: Reading,
    stream: Resume | None = None,
) -> Report:
    judged = resumes + ([] if stream is None else [stream])
    by_clause: dict[str, list[Clause]] = {}
    for one in judged:
        for clause in one.clauses:
            by_clause.setdefault(clause.clause, []).append(clause)
    clauses = []
    for name, found in by_clause.items():
        worst = Verdict.worst([one.verdict for one in found])
        because = next(one.because for one in reversed(found) if one.verdict == worst)
        clauses.append(Clause(name, worst, because))
    return Report(
        command=command,
        inputs=inputs,
        options=_options(reading),
        verdict=Verdict.worst([one.verdict for one in judged]),
        clauses=tuple(clauses),
        resumes=tuple(resumes),
        lineage=tuple(_attempt_facts(source)),
        decision=decide(judged, source.lineage),
        contract=contract.told(),
        stream=stream,
    )


def _options(reading: Reading) -> dict[str, Any]:
    return {
        "before": reading.before,
        "after": reading.after,
        "full": reading.full,
        "resume": reading.resume,
        "stream": reading.stream,
        "columns": dict(reading.columns or {}),
    }


def _names(roots: Sequence[Path]) -> list[str]:
    return [str(root) for root in roots]


def _attempt_facts(source: Source) -> list[AttemptFacts]:
    lineage = source.lineage
    return [
        AttemptFacts(
            attempt=one.label,
            parent=one.parent,
            resumed_at=one.resumed_at,
            in_lineage=one in lineage.chain,
            first_step=one.first_step,
            last_step=one.last_step,
            world_size=one.world_size,
            has_end=one.has_end,
        )
        for one in (*lineage.chain, *lineage.outside)
    ]
