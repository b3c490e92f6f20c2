"""
The path of `plan`: open → cursor → what is left of the stream → deal → write; or check.

It makes no guess: where the ledger does not prove what was consumed, nothing is made.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ledger_audit.continuity.contract import DIFF, Contract
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.errors import UsageError
from ledger_audit.ledger.opening import open_ledger, same_id_type
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.staging import check_target, publish, staged
from ledger_audit.ledger.whole import Whole
from ledger_audit.model import Reading
from ledger_audit.model.plan import Check, Plan
from ledger_audit.sources import Opened, opened_run, read_lists, source_of
from ledger_audit.stream import cursor_file
from ledger_audit.stream.checking import check as check_all
from ledger_audit.stream.consumed import Consumed, at, consumed_at, window_after
from ledger_audit.stream.forbidding import forbidding
from ledger_audit.stream.ordered import Ordered, reference_of, rolled_back
from ledger_audit.stream.plan import LABEL, Wanted, compared, rest, told, write

Tell = Callable[[str], None]


@dataclass(frozen=True)
class _Begun:
    """A ledger at a checkpoint, and the stream that it is to follow."""

    ledger: Ledger
    opened: Opened
    library: Library
    """Its lineage ends with the checkpoint."""
    stream: Ordered

    def has(self, column: str) -> bool:
        """Tell whether the ledger has a value in a column."""
        return Whole(self.ledger).bounds(column) is not None


def plan(
    roots: Sequence[Path],
    target: Path,
    reading: Reading,
    wanted: Wanted,
    *,
    checkpoint_step: int,
    reference: Sequence[Path] = (),
    contract: Contract = DIFF,
    tell: Tell = lambda _: None,
) -> Plan:
    """
    Write who is to use what of the stream after a checkpoint.

    Args:
        roots: of the ledger.
        target: the folder to make.
        reading: the columns, and bytes of memory.
        wanted: ranks, and how their batches look.
        checkpoint_step: the last step that the checkpoint holds.
        reference: roots of the expected stream; none: the work that the failure rolled back.
        contract: its forbidden samples are left out.
        tell: takes a few words on what is being done.

    Raises:
        UsageError: there is something at `target`, or nothing is known of what is to come.
        UnprovenError: the ledger does not prove what was consumed.
    """
    _check_target(target)
    begun = _begin(roots, reference, reading, checkpoint_step, tell)
    if not begun.stream.first_step or begun.stream.last_step < begun.stream.first_step:
        raise UsageError(
            f"{begun.ledger.name}: nothing is known of what comes after step {checkpoint_step}",
            hint="give --reference: a control run, or the expected stream",
        )
    consumed = _consumed(begun, reading, tell)
    opened = begun.opened
    tell("looking at what is left of the stream")
    refused = forbidding(opened, read_lists(contract, opened.search), contract)
    made = rest(begun.stream, consumed, refused, wanted)
    inputs = {"ledger": [str(one) for one in roots], "reference": [str(one) for one in reference]}
    options = {
        "checkpoint_step": checkpoint_step,
        "world_size": wanted.world_size,
        "micro_batch": wanted.micro_batch,
        "accumulation": wanted.accumulation,
        "replay_window": wanted.replay_window,
        "columns": dict(reading.columns),
        "contract": contract.file,
    }
    tell("writing the plan")
    with staged(target) as folder:
        report = told(made, write(made, folder), inputs, options)
        text = cursor_file.text_of(report, made.reference_digest)
        (folder / cursor_file.NAME).write_text(text, encoding="ascii")
        publish(folder, target)
    consumed.spent.close()
    return report


def check(
    folder: Path,
    roots: Sequence[Path],
    reading: Reading,
    *,
    reference: Sequence[Path] = (),
    tell: Tell = lambda _: None,
) -> Check:
    """Say whether what was consumed and a plan make up the stream; arguments as of `plan`."""
    stated = cursor_file.read(folder)
    begun = _begin(roots, reference, reading, stated.checkpoint_step, tell)
    consumed = _consumed(begun, reading, tell)
    ledger = open_ledger([folder])
    same_id_type([begun.ledger, ledger])
    planned = reference_of(ledger, source_of(ledger).library(), reading.memory)
    tell("comparing the plan with the stream")
    asked = compared(begun.stream, begun.has, begun.library.bounds())
    found = check_all(begun.stream, consumed, planned, stated, asked, reading.memory)
    consumed.spent.close()
    inputs = {
        "plan": str(folder),
        "ledger": [str(one) for one in roots],
        "reference": [str(one) for one in reference],
    }
    return replace(found, inputs=inputs)


def _begin(
    roots: Sequence[Path], reference: Sequence[Path], reading: Reading, step: int, tell: Tell
) -> _Begun:
    tell("opening the ledger")
    ledger = open_ledger(roots, columns=reading.columns)
    opened = opened_run(ledger)
    library = at(opened.library(), step)
    if not reference:
        lost = rolled_back(window_after(library), step, ledger.id_type)
        return _Begun(ledger, opened, library, lost)
    other = open_ledger(reference, columns=reading.columns)
    same_id_type([ledger, other])
    stream = reference_of(other, source_of(other).library(), reading.memory)
    return _Begun(ledger, opened, library, stream)


def _consumed(begun: _Begun, reading: Reading, tell: Tell) -> Consumed:
    tell("adding up what was consumed")
    asked = compared(begun.stream, begun.has, begun.library.bounds())
    return consumed_at(begun.library, asked, reading.memory)


def _check_target(target: Path) -> None:
    if os.path.lexists(target):
        raise UsageError(
            f"-o {target}: exists, and nothing is overwritten",
            hint="name a new folder, or remove this one first",
        )
    check_target(target, {LABEL})
