"""`ledger-audit verify`: of a whole run, whether each sample was used as often as promised."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_audit.cli.engine import on_engine, running
from ledger_audit.cli.options import (
    BUCKET,
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
from ledger_audit.cli.progress import progress

if TYPE_CHECKING:
    from ledger_audit.continuity.contract import Contract
    from ledger_audit.model.exposure import Exposure
    from ledger_audit.verification import Question, Tell


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
@on_engine
@BUCKET
@click.option(
    "-o",
    "--output",
    type=LEDGER,
    metavar="PIECE",
    help="With --bucket: the file to write.",
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
    reports: Reports,
    contract: "Contract",
    waived: frozenset[str],
    bucket: tuple[int, int] | None,
    output: Path | None,
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

    engine, master = options.pop("engine"), options.pop("master")
    if (bucket is None) != (output is None):
        raise click.UsageError("--bucket and --output belong together")
    if bucket is not None and (reports or form != "terminal"):
        raise click.UsageError("--bucket makes no report: give --format and --report to merge")
    if bucket is not None and engine != "local":
        raise click.UsageError("--bucket is for schedulers without Spark: give one of the two")
    names = ("stream", "columns", "memory", "trusts_digests")
    asked = {name: options.pop(name) for name in names}
    contract = contract.with_terms(default="relative", waived=sorted(waived))
    with progress() as told, running(engine, master) as found:
        reading = Reading(**asked, engine=found)
        question = verification.Question(ledger, reading, contract, **options)
        if bucket is not None and output is not None:
            return _count(question, bucket, output, waived, told)
        report = verification.verified(question, told)
    return tell_exposure(report, form, reports)


def _count(
    question: "Question",
    bucket: tuple[int, int],
    output: Path,
    waived: frozenset[str],
    told: "Tell",
) -> int:
    """Write the piece of one bucket."""
    from ledger_audit import verification
    from ledger_audit.ledger.buckets import Bucket
    from ledger_audit.ledger.pieces import write_piece
    from ledger_audit.printable import printable

    head, tables = verification.count_bucket(question, Bucket(*bucket), told)
    write_piece(output, {**head, "waived": sorted(waived)}, tables)
    own, every = int(tables["used"]["records"].sum()), tables["records"].item()
    say(
        f"Counted {own:,} of {every:,} records: bucket {bucket[0]} of {bucket[1]}, in "
        f"{printable(str(output))}\n"
    )
    return 0


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
