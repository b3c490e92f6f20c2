"""`ledger-audit seal`: what dead writers left becomes few sealed files, and nothing is lost."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledger_audit.cli.options import LEDGER, seconds
from ledger_audit.cli.output import say
from ledger_audit.cli.progress import progress
from ledger_audit.errors import ExitCode
from ledger_audit.printable import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ledger_audit.ledger.sealing.account import Dropped, SealedAttempt, Sealing

MOST = 20
"""Lines of one kind that are shown of one attempt; the rest is counted."""


@click.command()
@click.argument("ledger", nargs=-1, required=True, type=LEDGER)
@click.option(
    "--idle",
    callback=seconds,
    metavar="TIME",
    default="2m",
    show_default=True,
    help="A writer is dead when nothing was written for so long and no file is locked: 90s, 10m.",
)
def seal(ledger: tuple[Path, ...], idle: float) -> int:
    """
    Seal what dead writers left in LEDGER: sorted Parquet, few files, damaged bytes dropped.

    Files of writers that may be alive are left alone. Killed at any point, it leaves a ledger that
    reads the same; run it again.
    """
    from ledger_audit.ledger.matching import located
    from ledger_audit.ledger.sealing import seal as seal_ledger

    is_sound = True
    for root in (path for one in ledger for path in located(one)):
        with progress() as told:
            done = seal_ledger(root, idle=idle, tell=told)
        say(_told(done))
        is_sound = is_sound and done.is_sound
    return 0 if is_sound else ExitCode.UNREADABLE


def _told(done: "Sealing") -> str:
    lines = [f"{'Sealed' if done.is_sound else 'Sealed in part'} {done.root}"]
    for one in done.attempts:
        lines += _attempt(one)
    return "".join(f"{printable(line)}\n" for line in lines)


def _attempt(one: "SealedAttempt") -> list[str]:
    lines = [f"  attempt {one.attempt}: {_amounts(one)}"]
    if one.digests:
        lines.append(f"    {counted(one.digests, 'digest')} of commits compared, all equal")
    if one.removed:
        told = counted(len(one.removed), "file")
        lines.append(f"    {told} removed that an earlier seal had written anew")
    lines += _some(_dropped(hole) for hole in one.dropped)
    if one.let_go:
        told = counted(len(one.let_go), "file")
        lines.append(f"    {told} empty on purpose: the writer was told not to keep the records")
    lines += _some(f"writer {live.writer} may be alive: {live.why}" for live in one.live)
    lines += _some(one.unchecked)
    lines += _some(f"corrupt, left alone: {problem}" for problem in one.problems)
    return lines


def _amounts(one: "SealedAttempt") -> str:
    if one.is_unchanged:
        return f"{counted(one.files_before, 'file')}, nothing to do"
    rows = {
        table: sum(file.rows for file in one.merged if file.table == table)
        for table in ("samples", "events")
    }
    before = sum(file.bytes_before for file in one.merged)
    after = sum(file.bytes_after for file in one.merged)
    return (
        f"{counted(one.files_before, 'file')} became {one.files_after:,}; "
        f"{counted(rows['samples'], 'record')} and {counted(rows['events'], 'event')} written, "
        f"{before:,} bytes became {after:,}"
    )


def _dropped(hole: "Dropped") -> str:
    since = "any step" if hole.from_step is None else f"step {hole.from_step}"
    return (
        f"dropped: {hole.file} bytes {hole.start:,} to {hole.end:,} were no sound message; "
        f"records from {since} on may be lost"
    )


def _some(lines: "Iterable[str]") -> list[str]:
    shown = list(lines)
    more = [f"    and {len(shown) - MOST:,} more"] if len(shown) > MOST else []
    return [*(f"    {line}" for line in shown[:MOST]), *more]
