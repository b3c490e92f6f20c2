"""`ledger-audit init`: a contract to begin with, drafted from what a ledger shows."""

from pathlib import Path

import click

from ledger_audit.cli.options import COLUMN, LEDGER, STREAM
from ledger_audit.cli.output import say
from ledger_audit.cli.progress import progress
from ledger_audit.errors import UsageError
from ledger_audit.printable import counted, printable

STDOUT = Path("-")


@click.command()
@click.argument("ledger", nargs=-1, required=True, type=LEDGER)
@click.option(
    "-o",
    "--output",
    "target",
    type=LEDGER,
    default="contract.toml",
    show_default=True,
    metavar="FILE",
    help="The file to write; - is standard output.",
)
@STREAM
@COLUMN
def init(
    ledger: tuple[Path, ...], target: Path, stream: str | None, columns: dict[str, str]
) -> int:
    """
    Write a contract from what LEDGER shows: every term, with what it means and why it is so.

    Terms that the ledger settles are active, the others are comments. Little is read: events, and
    the last steps of the newest attempts. A file that exists is never overwritten.
    """
    from ledger_audit.drafting import draft_contract

    if target != STDOUT:
        _refuse_to_add(target)
    with progress() as told:
        told("looking at the ledger")
        drafted = draft_contract(ledger, columns, stream)
    if target == STDOUT:
        click.echo(drafted.text.encode(), nl=False)  # TOML is UTF-8, whatever the terminal is
        return 0
    _write_new(target, drafted.text)
    from ledger_audit.contract_file import CONTRACT

    say(f"Wrote {printable(str(target))} from {counted(drafted.records, 'record')}\n")
    is_found = target.absolute() == Path(CONTRACT).absolute()
    how = "commands that judge in this folder follow it" if is_found else "--contract names it"
    say(f"Read its comments, and change what is not so; {how}.\n")
    return 0


def _refuse_to_add(target: Path) -> None:
    """Refuse a file that exists, or that would be a second contract of the working directory."""
    from ledger_audit.contract_file import CONTRACT, PROJECT, project_terms

    if target.exists() or target.is_symlink():
        raise _exists(target)
    if target.absolute() == Path(CONTRACT).absolute() and project_terms():
        raise UsageError(
            f"[tool.ledger-audit] in {PROJECT} holds a contract already",
            hint="write elsewhere with -o FILE, or take that table out first",
        )


def _write_new(target: Path, text: str) -> None:
    try:
        with target.open("x", encoding="utf-8", newline="\n") as file:
            try:
                file.write(text)
                file.flush()
            except OSError:  # the disk is full, and half a contract is another contract
                target.unlink()
                raise
    except FileExistsError as problem:
        raise _exists(target) from problem
    except OSError as problem:
        raise UsageError(
            f"-o: cannot write {target}: {problem.strerror}",
            hint="name a new file in a folder that exists and may be written to",
        ) from problem


def _exists(target: Path) -> UsageError:
    return UsageError(
        f"{target}: exists, and nothing is overwritten",
        hint="name another file with -o FILE, or see what it would hold with -o -",
    )
