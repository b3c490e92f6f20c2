"""`ledger-audit postmortem`: days later, one page that tells what happened and why."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from ledger_audit.cli.options import JUDGED, LEDGER, MEMORY, shared, terms_of
from ledger_audit.cli.output import PAGE, salt_in_use, tell, write_whole
from ledger_audit.cli.progress import progress

_WORDS = "ledger_audit: words of the command line"
_UNTOLD = ("--report", "--redact")


class _Remembering(click.Command):
    """Keeps the words as they were typed, so that the page can say how it was made."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)


def _command(words: Sequence[str]) -> list[str]:
    """
    Give the command line without the reports, whose places change nothing in the page.

    Nor does it tell the salt, by which hashes could be tried.
    """
    left, told = list(words), ["ledger-audit", "postmortem"]
    while left:
        word = left.pop(0)
        name, _, value = word.partition("=")
        if name not in _UNTOLD:
            told.append(word)
        elif not value:
            left.pop(0)
    return [*told, "--report", "html=page.html"]


@click.command(cls=_Remembering, epilog=JUDGED)
@click.argument("ledger", nargs=-1, required=True, type=LEDGER)
@click.option(
    "--control",
    type=LEDGER,
    help="An uninterrupted run: LEDGER is judged by it, as gate does. Without it: by the work "
    "that each failure rolled back, as diff --full does.",
)
@click.option(
    "--reference",
    type=LEDGER,
    metavar="REF",
    help="What the run was to consume: LEDGER is judged by it, as diff --reference does.",
)
@MEMORY
@partial(shared, also=(PAGE,))
def postmortem(
    ledger: tuple[Path, ...],
    control: Path | None,
    reference: Path | None,
    form: str,
    reports: tuple[tuple[str, Path], ...],
    **options: Any,
) -> int:
    """
    Tell on one page what happened to LEDGER, what it cost, why, and how to mend it.

    The page needs no network and no scripts, and can be printed. It is written to the file of
    --report html=FILE; the verdict, the report on standard output and the exit code are those of
    diff --full, or of gate.
    """
    from ledger_audit.model import Reading
    from ledger_audit.postmortem import postmortem as run
    from ledger_audit.redaction import redact_postmortem
    from ledger_audit.report.html_page import to_html

    pages = [path for kind, path in reports if kind == PAGE]
    if not pages:
        raise click.UsageError("name the page that is to be written: --report html=FILE")
    if control is not None and reference is not None:
        raise click.UsageError("--control and --reference do not go together")
    if control is not None and len(ledger) > 1:
        raise click.UsageError("--control judges one LEDGER")
    contract = terms_of(options, "relative" if control is None else "step")
    reading = Reading(**options)
    words = _command(click.get_current_context().meta[_WORDS])
    with progress() as told:
        found = run(
            ledger,
            control,
            reading,
            contract,
            command=words,
            reference=reference,
            tell=told,
        )
        told("writing the page")
        salt = salt_in_use()
        page = to_html(found if salt is None else redact_postmortem(found, salt))
        for path in pages:
            write_whole(path, page)
    return tell(found.report, form, tuple(one for one in reports if one[0] != PAGE))
