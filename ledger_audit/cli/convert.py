"""`ledger-audit convert`: a foreign log becomes a ledger, and what it does not tell is listed."""

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from ledger_audit.cli.options import COLUMN, LEDGER, Number
from ledger_audit.cli.output import say, screen
from ledger_audit.cli.progress import progress
from ledger_audit.printable import counted, printable

if TYPE_CHECKING:
    from ledger_audit.ledger.conversion import Conversion


def _origin(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[str, int] | None:
    label, _, step = (value or "").rpartition(":")
    if value is None:
        return None
    if not (label and step.isascii() and step.isdecimal() and len(step) < 19):
        raise click.BadParameter(f"{value!r} is not of the form {param.metavar}", ctx, param)
    return label, int(step)


@click.command()
@click.argument("source", nargs=-1, required=True, type=LEDGER)
@click.option(
    "-o",
    "--output",
    "target",
    required=True,
    type=LEDGER,
    metavar="LEDGER",
    help="A new folder, or a ledger that gets another attempt.",
)
@COLUMN
@click.option("--attempt", metavar="LABEL", help="Label the one attempt of the log.")
@click.option(
    "--resumed-from",
    callback=_origin,
    metavar="ATTEMPT:STEP",
    help="The attempt and its last step that the loaded checkpoint holds.",
)
@click.option("--world-size", type=Number(1, 1_000_000), help="Ranks that shard the data.")
def convert(
    source: tuple[Path, ...],
    target: Path,
    columns: dict[str, str],
    attempt: str | None,
    resumed_from: tuple[str, int] | None,
    world_size: int | None,
) -> int:
    """
    Write SOURCE, a log in any format that is read, as a ledger of sealed Parquet segments.

    LEDGER is a new folder, or a ledger that gets another attempt; nothing is overwritten.
    --resumed-from and --world-size become start events, where the log has none.
    """
    from ledger_audit.ledger import conversion

    origin = conversion.Origin(resumed_from, world_size)
    with progress() as told:
        told("reading the log and writing the ledger")
        done = conversion.convert(source, target, columns=columns, attempt=attempt, origin=origin)
    say(_told(done, target))
    return 0


def _told(done: "Conversion", target: Path) -> str:
    lines = [f"Wrote {counted(len(done.attempts), 'attempt')} to {printable(str(target))}"]
    for one in done.attempts:
        steps = f", steps {one.first_step} to {one.last_step}" if one.last_step is not None else ""
        lines.append(
            f"  {printable(one.attempt)}: {counted(one.ranks, 'rank')}, "
            f"{counted(one.records, 'record')}, {counted(one.events, 'event')}{steps}"
        )
        if one.has_new_start:
            lines.append("    with start events of what the options say")
        if one.is_renumbered:
            lines.append("    numbered anew: the log gives one `seq` of a rank more than once")
    if done.unknowns:
        lines += ["", "The log does not tell:"]
    for unknown in done.unknowns:
        of = f" (attempt {', '.join(unknown.attempts)})" if unknown.attempts else ""
        lines += _wrapped("- ", unknown.what + of)
        lines += _wrapped("    so ", unknown.consequence)
        lines += _wrapped("    try ", unknown.remedy)
    return "\n".join(lines) + "\n"


def _wrapped(head: str, text: str) -> list[str]:
    return wrap(
        printable(text),
        screen().width,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
