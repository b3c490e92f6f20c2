"""`ledger-audit diff`: minutes after a resume, by the work that the failure rolled back."""

from pathlib import Path
from typing import Any

import click

from ledger_audit.cli.engine import on_engine, running
from ledger_audit.cli.options import JUDGED, LEDGER, Number, seconds, shared, terms_of
from ledger_audit.cli.output import tell
from ledger_audit.cli.pieces import in_pieces, share_in
from ledger_audit.cli.progress import progress


@click.command(epilog=JUDGED)
@click.argument("ledger", nargs=-1, required=True, type=LEDGER)
@click.option("--post", type=LEDGER, help="The log after the resume; LEDGER is the one before it.")
@click.option(
    "--checkpoint-step",
    type=Number(min=0),
    help="With --post: the last step that the loaded checkpoint holds.",
)
@click.option(
    "--reference",
    type=LEDGER,
    metavar="REF",
    help="What the run was to consume: what `reference` or `plan` wrote, or another run.",
)
@click.option(
    "--before",
    type=Number(min=1),
    default=20,
    show_default=True,
    help="Steps to read before the checkpoint.",
)
@click.option(
    "--after",
    type=Number(min=1),
    default=20,
    show_default=True,
    help="Steps to read after the checkpoint.",
)
@click.option("--full", is_flag=True, help="Read everything, not a window of steps.")
@click.option(
    "--wait",
    "awaited",
    type=Number(min=1),
    metavar="STEPS",
    help="Follow a live ledger until the newest resume has so many whole steps.",
)
@click.option(
    "--timeout",
    callback=seconds,
    metavar="TIME",
    default="10m",
    show_default=True,
    help="How long to --wait: 90s, 10m, 2h. Then what is there is judged, and is unproven.",
)
@on_engine
@in_pieces
@shared
def diff(
    ledger: tuple[Path, ...],
    post: Path | None,
    checkpoint_step: int | None,
    reference: Path | None,
    timeout: float,
    form: str,
    reports: tuple[tuple[str, Path], ...],
    **options: Any,
) -> int:
    """
    Judge every resume of LEDGER by the work that the failure rolled back.

    LEDGER is a ledger's folder, several of them (node-local disks), or a foreign log: JSON Lines,
    CSV, TSV (also gzipped), Parquet or Arrow with at least rank, step, slot and sample_id, or the
    data-indices of OLMo. A quoted pattern names several files of one log.
    """
    from ledger_audit import audit
    from ledger_audit.waiting import wait_for

    if (post is None) != (checkpoint_step is None):
        raise click.UsageError("--post and --checkpoint-step belong together")
    if post is not None and options["awaited"] is not None:
        raise click.UsageError("--wait follows a ledger: it does not go with --post")
    if post is not None and reference is not None:
        raise click.UsageError("--reference does not go with --post")
    share, flags = share_in(options, form, reports), dict(options)
    if share is not None and (post is not None or options["full"] or options["awaited"]):
        raise click.UsageError(
            "--bucket shares out what is looked up: --post, --full and --wait do not go with it"
        )
    contract = terms_of(options, "relative")
    options["after"] = max(options["after"], options["awaited"] or 0)
    engine, master = options.pop("engine"), options.pop("master")
    with progress() as told, running(engine, master) as found:
        reading = audit.Reading(**options, engine=found)
        if share is not None:
            from ledger_audit.piecework import Comparison, answer_bucket

            beside = [] if reference is None else [reference]
            asked = Comparison("diff", ledger, beside, reading, contract)
            return share.write(answer_bucket(asked, share.bucket, told), flags)
        if post is None or checkpoint_step is None:
            if reading.awaited is not None:
                wait_for(ledger, reading, timeout=timeout, tell=told)
            report = audit.diff(ledger, reading, contract, told, reference)
        elif len(ledger) > 1:
            raise click.UsageError("--post compares two logs: give one LEDGER, the log before it")
        else:
            report = audit.diff_windows(ledger[0], post, checkpoint_step, reading, contract, told)
    return tell(report, form, reports)
