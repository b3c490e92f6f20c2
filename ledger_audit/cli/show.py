"""`ledger-audit show`: the records themselves, rank by slot, with a line at the checkpoint."""

from pathlib import Path
from typing import Any

import click

from ledger_audit.cli.options import COLUMN, LEDGER, STREAM, Number
from ledger_audit.cli.output import page, screen
from ledger_audit.cli.progress import progress


@click.command()
@click.argument("ledger", nargs=-1, required=True, type=LEDGER)
@click.option("--step", type=Number(min=0), help="Show this step in every attempt.")
@click.option(
    "--resume",
    type=Number(min=1),
    help="Show the n-th resume, oldest first, instead of the newest.",
)
@click.option(
    "--rank",
    "ranks",
    type=int,
    metavar="RANK",
    multiple=True,
    help="Show only this rank. Repeatable.",
)
@click.option(
    "--before",
    type=Number(min=1),
    default=3,
    show_default=True,
    help="Steps to show before the checkpoint.",
)
@click.option(
    "--after",
    type=Number(min=1),
    default=3,
    show_default=True,
    help="Steps to show after the checkpoint.",
)
@click.option("--ids", is_flag=True, help="Show every id of a micro-batch, not the first few.")
@click.option("--spans", is_flag=True, help="Add token ranges, as [start:end).")
@click.option("--epochs", is_flag=True, help="Add the epoch, as e0.")
@click.option("--positions", is_flag=True, help="Add the place in the global stream, as @0.")
@click.option("--sources", is_flag=True, help="Add the data set of a blend.")
@STREAM
@COLUMN
def show(
    ledger: tuple[Path, ...],
    step: int | None,
    ranks: tuple[int, ...],
    **options: Any,
) -> int:
    """
    Show the records of LEDGER around a resume, rank by slot, as they are.

    What was rolled back comes after the checkpoint's line, and what the resumed attempt did
    instead after that. A rank with `void` threw the update away, one with `open` never committed
    it. Nothing is judged.
    """
    from ledger_audit import survey
    from ledger_audit.report.grid import Detail, to_grid

    if step is not None and options["resume"] is not None:
        raise click.UsageError("--step shows every attempt: leave --resume away")
    told = ("ids", "spans", "epochs", "positions", "sources")
    detail = Detail(**{name: options.pop(name) for name in told})
    with progress() as tell:
        tell("opening the ledger")
        window = survey.show(ledger, survey.Reading(**options), step=step, ranks=ranks)
    page(to_grid(window, detail, screen()))
    return 0
