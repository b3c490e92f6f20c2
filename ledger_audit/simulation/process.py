"""Runs the job in processes of its own: one that is killed, one that resumes, one as control."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import ledger_audit
from ledger_audit.errors import LedgerAuditError
from ledger_audit.simulation.faults import FAULTS
from ledger_audit.simulation.job import JOB
from ledger_audit.simulation.training import Launch

DEAD, RESUMED = "0", "1"
"""The labels of the two attempts."""

KILLED_AT = (30, 1, 1)
"""Step, slot and rank after whose micro-batch the first attempt is killed."""


@dataclass(frozen=True)
class Ran:
    """What a simulation left on disk."""

    fault: str
    ledger: Path
    control: Path | None
    """The ledger of the same job, never interrupted."""
    endings: tuple[int, int]
    """How the processes of the two attempts ended, as the system says; -9 is SIGKILL."""


def simulate(fault: str, folder: Path, *, has_control: bool) -> Ran:
    """
    Run the job in real processes: kill it inside a step, and resume it with the fault.

    Args:
        fault: the name of a fault.
        folder: an empty folder; gets `ledger/`, `job/`, and `control/` if asked for.
        has_control: run the same job a second time without interruption.

    Raises:
        LedgerAuditError: a process ended otherwise than it should.
    """
    ledger, job = folder / "ledger", folder / "job"
    job.mkdir()
    planted = FAULTS[fault]
    lost = job / "lost-node"
    first = Launch(
        fault=fault,
        attempt=DEAD,
        ledgers=tuple(
            str(lost if rank in planted.lost_ranks else ledger) for rank in range(JOB.ranks)
        ),
        checkpoints=str(job / "checkpoints"),
        used=str(job / f"used-{DEAD}.jsonl"),
        dies_at=KILLED_AT,
    )
    died = _run(first, expected=-signal.SIGKILL)
    if planted.lost_ranks:
        shutil.rmtree(lost)  # the node is replaced, and its disk with it
    resumed = replace(
        first,
        attempt=RESUMED,
        ledgers=(str(ledger),) * planted.ranks_after,
        used=str(job / f"used-{RESUMED}.jsonl"),
        dies_at=None,
    )
    ended = _run(resumed, expected=0)
    control = folder / "control" if has_control else None
    if control is not None:
        _run(_uninterrupted(fault, control, job), expected=0)
    return Ran(fault, ledger, control, (died, ended))


def _uninterrupted(fault: str, ledger: Path, job: Path) -> Launch:
    return Launch(
        fault=fault,
        attempt="control",
        ledgers=(str(ledger),) * JOB.ranks,
        checkpoints=str(job / "checkpoints-of-control"),
        used=str(job / "used-control.jsonl"),
    )


def _run(launch: Launch, *, expected: int) -> int:
    """Run one launch to its end; whatever happens here, its process does not outlive this call."""
    # -P: no file of the folder that the user stands in may pass for a module
    command = [sys.executable, "-P", "-m", "ledger_audit.simulation", launch.told()]
    process = None
    try:
        with _interrupt_postponed():
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": _search_path()},
            )
        _, said = process.communicate()
    finally:
        if process is not None:
            process.kill()
            process.wait()
    if process.returncode != expected:
        lines = said.decode(errors="replace").strip().splitlines()
        raise LedgerAuditError(
            f"the simulated job ended with {process.returncode} instead of {expected}: "
            f"{lines[-1] if lines else 'it said nothing'}",
            hint="if the disk is not full, this is our bug: report what --debug shows",
        )
    return process.returncode


@contextmanager
def _interrupt_postponed() -> Iterator[None]:
    """Let an interrupt wait: in the middle of making a process, it would leave it to itself."""
    if threading.current_thread() is not threading.main_thread():
        yield  # interrupts never strike here
        return
    waiting: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if waiting:
        raise KeyboardInterrupt


def _search_path() -> str:
    """Let the process find this very package, installed or not."""
    here = str(Path(ledger_audit.__file__).parent.parent)
    return os.pathsep.join(one for one in (os.environ.get("PYTHONPATH"), here) if one)
