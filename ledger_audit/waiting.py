"""Follows a live ledger until a resume has left enough whole steps to be judged by."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ledger_audit.continuity.windows import Source, resumed_window, whole_through
from ledger_audit.errors import UnreadableError, UsageError
from ledger_audit.model import Reading
from ledger_audit.printable import counted
from ledger_audit.sources import chosen_resumes, open_source

SHORTEST_PAUSE = 0.5
"""Seconds between two looks; longer where a look takes longer, so that most of the time is idle."""


def wait_for(
    roots: Sequence[Path],
    reading: Reading,
    *,
    timeout: float,
    tell: Callable[[str], None],
) -> bool:
    """
    Wait until the resume that is to be judged has so many whole steps.

    Args:
        roots: of the ledger; it need not be there yet.
        reading: which resume, by default the newest, and how many steps.
        timeout: in seconds.
        tell: told what is there after every look.

    Returns:
        Whether they came in time.
    """
    steps = reading.awaited or 1
    deadline = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        there, told = _look(roots, reading, steps)
        tell(told)
        now = time.monotonic()
        if there >= steps or now >= deadline:
            return there >= steps
        time.sleep(min(max(SHORTEST_PAUSE, 2 * (now - began)), deadline - now))


def _look(roots: Sequence[Path], reading: Reading, steps: int) -> tuple[int, str]:
    """Count the whole resumed steps that are there, and say so."""
    try:
        source = open_source(roots, reading)
        chosen = chosen_resumes(source, reading)
        there = whole_resumed_steps(source, chosen[-1], steps) if chosen else None
    except (UnreadableError, UsageError) as problem:
        return 0, f"waiting: {problem.message}"  # not there yet, or being sealed
    if there is None:
        return 0, "waiting for a resume"
    return there, f"{there:,} of {counted(steps, 'whole resumed step')}"


def whole_resumed_steps(source: Source, index: int, most: int) -> int:
    """Count the whole steps of attempt `index` that follow its checkpoint without a gap."""
    checkpoint = source.lineage.chain[index].resumed_at or 0
    through = whole_through(resumed_window(source, index, checkpoint + most), checkpoint)
    return 0 if through is None else through - checkpoint
