"""`ledger-audit checkpoints`: before a resume, which checkpoint has a coherent data position."""

from pathlib import Path

import click

from ledger_audit.cli.options import COLUMN, FORMAT, LEDGER, REPORT, STREAM
from ledger_audit.cli.output import say, screen, write_whole
from ledger_audit.cli.progress import progress
from ledger_audit.errors import ExitCode

_CODES = {
    "agrees": ExitCode.CONTINUOUS,
    "contradicts": ExitCode.BROKEN,
    "not-compared": ExitCode.UNPROVEN,
}


@click.command(
    epilog="Exit code: 0 the newest whole checkpoint is fit to resume from, 1 it is not, 3 nothing "
    "tells, or there is none; 2 usage, 4 an input cannot be read."
)
@click.argument("ledger", nargs=-1, required=True, type=LEDGER)
@click.option("--attempt", metavar="LABEL", help="Show only the checkpoints of this attempt.")
@click.option(
    "--probe",
    "is_probing",
    is_flag=True,
    help="Look at the files of each checkpoint: there, not empty, metadata beside the shards.",
)
@click.option("--all", "is_long", is_flag=True, help="Explain every checkpoint, not the newest 3.")
@STREAM
@COLUMN
@FORMAT
@REPORT
def checkpoints(
    ledger: tuple[Path, ...],
    attempt: str | None,
    stream: str | None,
    columns: dict[str, str],
    form: str,
    reports: tuple[tuple[str, Path], ...],
    *,
    is_probing: bool,
    is_long: bool,
) -> int:
    """
    Say of every checkpoint of LEDGER whether one can resume from it, newest first.

    Each is whole on all its writers or not; its claim is compared with what committed updates
    had consumed; and what a resume from it would skip or replay is said before there is one.
    Paths in the ledger are looked at with --probe alone; relative ones from the working directory.
    """
    from ledger_audit import survey
    from ledger_audit.ledger.probing import probe
    from ledger_audit.report import PAPER
    from ledger_audit.report.checkpoints import to_terminal
    from ledger_audit.report.checkpoints_json import to_json

    reading = survey.Reading(stream=stream, columns=columns)
    with progress() as told:
        told("reading the checkpoints")
        report = survey.checkpoints(
            ledger, reading, attempt=attempt, probe=probe if is_probing else None
        )
    for kind, path in reports:
        text = to_json(report) if kind == "json" else to_terminal(report, PAPER, is_long=is_long)
        write_whole(path, text)
    say(to_json(report) if form == "json" else to_terminal(report, screen(), is_long=is_long))
    return _CODES[report.agreement]
