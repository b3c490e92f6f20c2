"""`ledger-audit verify`: of a whole run, whether each sample was used as often as promised."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_audit.cli.options import (
    COLUMN,
    FORMAT,
    JUDGED,
    LEDGER,
    MEMORY,
    REDACT,
    REPORT,
    STREAM,
    WAIVED,
    under_contract,
)
from ledger_audit.cli.output import exit_code, salt_in_use, say, screen, write_whole
from ledger_audit.cli.progress import progress

if TYPE_CHECKING:
    from ledger_audit.continuity.contract import Contract


def _samples(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str | None, int]:
    found: dict[str | None, int] = {}
    for value in values:
        source, _, number = value.rpartition("=")
        if not re.fullmatch(r"[1-9]\d{0,17}", number.strip()):
            raise click.BadParameter(f"{value!r} is neither N nor SOURCE=N", ctx, param)
        found[source or None] = int(number)
    return found


@click.command(epilog=JUDGED)
@click.argument("ledger", nargs=-1, required=True, type=LEDGER)
@click.option(
    "--manifest",
    type=LEDGER,
    metavar="IDS",
    help="A file of all sample ids of a pass: Parquet, Arrow, CSV, JSON Lines or one id a line.",
)
@click.option(
    "--samples",
    multiple=True,
    metavar="[SOURCE=]N",
    callback=_samples,
    help="A pass (over SOURCE) has N samples. Repeatable. Default: dataset_samples, if logged.",
)
@MEMORY
@click.option(
    "--trust-digests",
    "trusts_digests",
    is_flag=True,
    help="Do not compare the digests in commits with the records; where they are those of the "
    "manifest, read no record at all.",
)
@STREAM
@COLUMN
@WAIVED
@REDACT
@FORMAT
@REPORT
@under_contract
def verify(
    ledger: tuple[Path, ...],
    form: str,
    reports: tuple[tuple[str, Path], ...],
    contract: "Contract",
    waived: frozenset[str],
    **options: Any,
) -> int:
    """
    Say whether the newest weights of LEDGER used each sample of each pass as often as promised.

    All attempts of the lineage are followed: what came again, what never came, what was used
    without changing the weights, and what each failure took back. Without positions, what is
    missing is known only of passes that are over and whose samples are counted or listed.
    """
    from ledger_audit.model import Reading
    from ledger_audit.redaction import redact_exposure
    from ledger_audit.report import PAPER
    from ledger_audit.report.exposure import to_terminal
    from ledger_audit.report.exposure_json import to_json
    from ledger_audit.verification import verify as run

    names = ("stream", "columns", "memory", "trusts_digests")
    reading = Reading(**{name: options.pop(name) for name in names})
    contract = contract.with_terms(default="relative", waived=sorted(waived))
    with progress() as told:
        report = run(ledger, reading, contract, **options, tell=told)
    salt = salt_in_use()
    report = report if salt is None else redact_exposure(report, salt)
    for kind, path in reports:
        write_whole(path, to_json(report) if kind == "json" else to_terminal(report, PAPER))
    say(to_json(report) if form == "json" else to_terminal(report, screen()))
    return exit_code(report.verdict)
