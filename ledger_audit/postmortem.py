"""
The path of `postmortem`: judge as `diff --full` or `gate` does, then ask the rest of the whole run.

Attempts as lanes, the checkpoints that were loaded, how often each sample was used, and what it
takes to make the page again. None of it changes the verdict. A ledger is opened once, so that all
of a page tells of one moment of it, however it grows meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from ledger_audit import audit
from ledger_audit.continuity.checkpoints.judging import judge as judge_checkpoints
from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.exposure import judge as count_uses
from ledger_audit.continuity.exposure.promised import Promised
from ledger_audit.continuity.timeline import timeline_of
from ledger_audit.expectations import open_following
from ledger_audit.ledger.inputs import inputs_of
from ledger_audit.model import Reading, Report
from ledger_audit.model.checkpoints import Checkpoint
from ledger_audit.model.exposure import Exposure
from ledger_audit.model.postmortem import Input, Postmortem, Recipe
from ledger_audit.sources import Opened, open_pair

LIBRARIES = ("polars", "pyarrow", "numpy")
"""Whose versions are told: what is found could depend on them."""


def postmortem(
    roots: Sequence[Path],
    control: Path | None,
    reading: Reading,
    contract: Contract,
    *,
    command: Sequence[str],
    reference: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Postmortem:
    """
    Judge a ledger, and tell all that a page of its failure and its resumes needs.

    Args:
        roots: of the ledger.
        control: an uninterrupted run; null: it is judged by the work that was rolled back.
        reading: the stream and the columns; everything is read.
        contract: what the stream promises.
        command: the words of the command line, for the page.
        reference: what the run was to consume; it does not go with a control.
        tell: takes a few words on what is being done.
    """
    reading = replace(reading, full=True)
    every = [*filter(None, (control, reference)), *roots]
    before = inputs_of(every)
    tell("opening the ledger")
    if control is None:
        following = open_following(roots, reference, reading)
        source = following[0]
        report = audit.diff(roots, reading, contract, tell, reference, following)
    else:
        pair = open_pair([control], roots, reading)
        source = pair[1]
        report = audit.gate([control], roots, reading, contract, tell, pair)
    archive = source.archive()
    tell("judging the checkpoints")
    checkpoints, _ = judge_checkpoints(archive)
    exposure, unexposed = _exposure(source, reading, contract.of_stream(reading.stream), tell)
    tell("taking digests of the inputs")
    return Postmortem(
        report=replace(report, command="postmortem"),
        timeline=timeline_of(archive.source.lineage, checkpoints),
        loaded=_loaded(report, checkpoints),
        exposure=exposure,
        unexposed=unexposed,
        recipe=Recipe(
            command=tuple(command),
            versions=tuple((name, version(name)) for name in ("ledger-audit", *LIBRARIES)),
            inputs=_unchanged(before, inputs_of(every)),
        ),
    )


def _unchanged(before: Sequence[Input], after: Sequence[Input]) -> tuple[Input, ...]:
    """Describe the inputs; of one that changed while it was read, no digest is that of the page."""
    return tuple(
        now if then == now else replace(now, sha256=None, has_changed=True)
        for then, now in zip(before, after, strict=True)
    )


def _loaded(report: Report, checkpoints: Sequence[Checkpoint]) -> tuple[Checkpoint | None, ...]:
    """Give the checkpoint that each resume loaded; of several saves of the step, the last."""
    found = {(one.attempt, one.step): one for one in sorted(checkpoints, key=lambda one: one.nth)}
    return tuple(found.get((one.from_attempt or "", one.checkpoint_step)) for one in report.resumes)


def _exposure(
    source: Opened, reading: Reading, contract: Contract, tell: Callable[[str], None]
) -> tuple[Exposure | None, str | None]:
    """Count how often each sample was used; else say why that would mean nothing."""
    if contract.draws_anew:
        return None, "the contract lets samples be drawn anew: none is promised once"
    if not any(one.seen for one in source.lineage.chain):
        return None, "no attempt of the lineage left a record"
    promised = Promised({}, None, reading.trusts_digests)
    told = count_uses(source.library(), promised, contract, reading.memory, tell, ({}, {}))
    return told, None
