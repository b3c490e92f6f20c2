"""`ledger-audit preflight`: before a failure, what could be proven after one."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from ledger_audit.cli.options import LEDGER, Number, shared, terms_of
from ledger_audit.cli.output import tell
from ledger_audit.cli.progress import progress
from ledger_audit.report import EVERYWHERE


@click.command(
    epilog="Exit code: 0 a right resume could be proven in every clause, 3 it could not, 1 the "
    "contract is broken already; 2 usage, 4 an input cannot be read."
)
@click.argument("ledger", nargs=-1, required=True, type=LEDGER)
@click.option(
    "--checkpoint-step",
    type=Number(min=0),
    help="The last step of the checkpoint that a resume would load; by default the newest whole "
    "one.",
)
@partial(shared, kinds=EVERYWHERE)
def preflight(
    ledger: tuple[Path, ...],
    checkpoint_step: int | None,
    form: str,
    reports: tuple[tuple[str, Path], ...],
    **options: Any,
) -> int:
    """
    Say what could be proven of LEDGER if the job died now.

    A failure of the newest attempt is rehearsed: it is resumed as it should be and judged as diff
    would judge it. What cannot be proven then is named, with the ranks, columns and events that
    are missing, while the job can still log them.
    """
    from ledger_audit import survey

    if options["resume"] is not None:
        raise click.UsageError(
            "--resume does not go with preflight, which rehearses the next resume; `diff --resume` "
            "judges one that happened"
        )
    contract = terms_of(options, "relative")
    with progress() as told:
        told("rehearsing a failure")
        report = survey.preflight(
            ledger, survey.Reading(**options), contract, checkpoint_step, told
        )
    return tell(report, form, reports)
