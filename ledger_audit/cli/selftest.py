"""`ledger-audit selftest`: whether faults of this very ledger would be found and named."""

from pathlib import Path

import click

from ledger_audit.cli.options import COLUMN, FORMAT, LEDGER, REPORT, Number
from ledger_audit.cli.output import exit_code, say, screen, write_whole
from ledger_audit.cli.progress import progress


@click.command(
    epilog="Exit code: 0 all that was planted is named, 1 a fault was missed or named otherwise, 3 "
    "nothing could be planted, or the untouched copy is unproven; 2 usage, 4 an input cannot be "
    "read."
)
@click.argument("ledger", nargs=-1, required=True, type=LEDGER)
@click.option(
    "--fault",
    "faults",
    metavar="CAUSE",
    multiple=True,
    help="Plant only this fault, by the name of its cause. May be given several times.",
)
@click.option(
    "--steps",
    "most_steps",
    default=64,
    show_default=True,
    type=Number(min=6, max=10_000),
    help="The most steps that are copied; faults of later passes need some of two or three.",
)
@COLUMN
@FORMAT
@REPORT
def selftest(
    ledger: tuple[Path, ...],
    faults: tuple[str, ...],
    most_steps: int,
    columns: dict[str, str],
    form: str,
    reports: tuple[tuple[str, Path], ...],
) -> int:
    """
    Plant every fault into a copy of LEDGER, and see that each is found with its cause.

    The copy is the first whole steps of the longest attempt, in memory; the ledger is only read.
    It is killed and resumed rightly once, and that must stay clean; then wrongly in every way
    that the ledger can show. For what it cannot show, the missing column or event is named.
    """
    from ledger_audit.errors import UsageError
    from ledger_audit.model import Reading
    from ledger_audit.planting import FAULTS
    from ledger_audit.report import PAPER
    from ledger_audit.report.selftest import to_json, to_terminal
    from ledger_audit.selftest import selftest as run

    unknown = [one for one in faults if one not in FAULTS]
    if unknown:
        raise UsageError(
            f"--fault {unknown[0]}: no such fault", hint=f"one of {', '.join(sorted(FAULTS))}"
        )
    chosen = dict.fromkeys(faults or FAULTS)
    with progress() as told:
        report = run(
            ledger, Reading(columns=columns), faults=chosen, most_steps=most_steps, tell=told
        )
    for kind, path in reports:
        write_whole(path, to_json(report) if kind == "json" else to_terminal(report, PAPER))
    say(to_json(report) if form == "json" else to_terminal(report, screen()))
    return exit_code(report.verdict)
