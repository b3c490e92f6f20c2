"""`ledger-audit verify`: of a whole run, whether each sample was used as often as promised."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_audit.cli.engine import on_engine, running
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
    Reports,
    under_contract,
)
from ledger_audit.cli.output import exit_code, salt_in_use, say, screen, write_whole
from ledger_audit.cli.pieces import in_pieces, share_in
from ledger_audit.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledger_audit.continuity.contract import Contract
    from ledger_audit.model.exposure import Exposure


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
@click.option(
    "--effects",
    type=LEDGER,
    metavar="FILE",
    help="Write a Parquet file of the net effect on each sample that came again, was lost with a "
    "failure or an update, never came, or is not listed.",
)
@on_engine
@in_pieces
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
    reports: Reports,
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
    from ledger_audit import verification
    from ledger_audit.model import Reading

    share = share_in(options, form, reports)
    if share is not None and options["effects"] is not None:
        raise click.UsageError("--effects is written by one process: it does not go with --bucket")
    engine, master = options.pop("engine"), options.pop("master")
    names = ("stream", "columns", "memory", "trusts_digests")
    asked = {name: options.pop(name) for name in names}
    contract = contract.with_terms(default="relative", waived=sorted(waived))
    with progress() as told, running(engine, master) as found:
        reading = Reading(**asked, engine=found)
        question = verification.Question(ledger, reading, contract, **options, hide=_hide())
        if share is not None:
            answer = verification.count_bucket(question, share.bucket, told)
            return share.write(answer, {"waived": waived})
        report = verification.verified(question, told)
    return tell_exposure(report, form, reports)


def _hide() -> "Callable[[str], str] | None":
    """Give what stands for a sample id, with `--redact`."""
    from ledger_audit.redaction import hide

    salt = salt_in_use()
    return None if salt is None else partial(hide, salt=salt)


def tell_exposure(report: "Exposure", form: str, reports: Reports) -> int:
    """Write what was found of a whole run in every form asked for; give the exit code."""
    from ledger_audit.redaction import redact_exposure
    from ledger_audit.report import PAPER
    from ledger_audit.report.exposure import to_terminal
    from ledger_audit.report.exposure_json import to_json

    salt = salt_in_use()
    report = report if salt is None else redact_exposure(report, salt)
    for kind, path in reports:
        write_whole(path, to_json(report) if kind == "json" else to_terminal(report, PAPER))
    say(to_json(report) if form == "json" else to_terminal(report, screen()))
    return exit_code(report.verdict)
