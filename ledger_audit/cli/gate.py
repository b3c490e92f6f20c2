"""`ledger-audit gate`: in CI, a killed and resumed run against an uninterrupted control."""

from pathlib import Path
from typing import Any

import click

from ledger_audit.cli.engine import on_engine, running
from ledger_audit.cli.options import JUDGED, LEDGER, MEMORY, shared, terms_of
from ledger_audit.cli.output import tell
from ledger_audit.cli.pieces import in_pieces, share_in
from ledger_audit.cli.progress import progress


@click.command(epilog=JUDGED)
@click.argument("control", type=LEDGER)
@click.argument("run", type=LEDGER)
@MEMORY
@click.option(
    "--trust-digests",
    "trusts_digests",
    is_flag=True,
    help="Take what commits tell for what was used: records are read only of steps that differ.",
)
@on_engine
@in_pieces
@shared
def gate(
    control: Path,
    run: Path,
    form: str,
    reports: tuple[tuple[str, Path], ...],
    **options: Any,
) -> int:
    """
    Judge RUN, and each of its resumes, by the uninterrupted CONTROL.

    The whole surviving stream of RUN is compared from the first step, whether or not RUN was ever
    resumed. Both are ledgers' folders or foreign logs; CONTROL may also be what `reference` or
    `plan` wrote, a plan from its checkpoint on.
    """
    from ledger_audit import audit

    share, flags = share_in(options, form, reports), dict(options)
    contract = terms_of(options, "step")
    engine, master = options.pop("engine"), options.pop("master")
    with progress() as told, running(engine, master) as found:
        reading = audit.Reading(full=True, **options, engine=found)
        if share is not None:
            from ledger_audit.piecework import Comparison, answer_bucket

            asked = Comparison("gate", [run], [control], reading, contract)
            return share.write(answer_bucket(asked, share.bucket, told), flags)
        report = audit.gate([control], [run], reading, contract, told)
    return tell(report, form, reports)
