"""Writes reports: one to standard output, others beside it into files, whole or not at all."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledger_audit.errors import ExitCode, UsageError
from ledger_audit.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ledger_audit.model import Report, Verdict
    from ledger_audit.report import Screen

FORMATS = ("terminal", "json")
NARROWEST = 60
"""Characters in a line below which tables would lose figures; a narrower terminal folds lines."""


def complain(message: str, hint: str, details: "Iterable[str]" = ()) -> None:
    """Tell an error and its remedy on standard error, with nothing in it that a terminal obeys."""
    click.echo(f"ledger-audit: {printable(message)}", err=True)
    for line in details:
        click.echo(f"  {printable(line)}", err=True)
    click.echo(f"  try: {printable(hint)}", err=True)


def tell(report: "Report", form: str, beside: tuple[tuple[str, Path], ...]) -> int:
    """Write the report in every form asked for, and give the exit code of its verdict."""
    from ledger_audit.report import PAPER, REPORTERS

    for kind, path in beside:
        write_whole(path, REPORTERS[kind](report, PAPER))
    say(REPORTERS[form](report, screen()))
    return exit_code(report.verdict)


def say(text: str) -> None:
    """Write text to standard output as it is; what its encoding lacks is escaped."""
    click.echo(_fit(text), nl=False, color=True)  # its maker knows whether it may be coloured


def page(lines: "Iterable[str]") -> None:
    """Write lines as they come; in a terminal through the pager."""
    if sys.stdout.isatty():
        click.echo_via_pager((_fit(line) for line in lines), color=screen().has_colour)
    else:
        for line in lines:
            say(line)


def _fit(text: str) -> str:
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def screen() -> "Screen":
    """
    Say what standard output is: how wide, and whether it takes colour.

    `COLUMNS` sets the width, `NO_COLOR` takes colour away and `FORCE_COLOR` gives it to a pipe.
    """
    import shutil

    from ledger_audit.report import Screen

    wants_none = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    is_seen = sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
    width = shutil.get_terminal_size((80, 24)).columns
    return Screen(max(NARROWEST, width), is_seen and not wants_none)


def exit_code(verdict: "Verdict") -> int:
    """Give the exit code of a verdict."""
    return {
        "continuous": ExitCode.CONTINUOUS,
        "broken": ExitCode.BROKEN,
        "unproven": ExitCode.UNPROVEN,
    }[verdict.value]


def write_whole(path: Path, text: str) -> None:
    """
    Write a file whole or not at all: readers see the old one or the new one.

    What a link leads to is written, not the link; a pipe or a device is written into as it is.

    Raises:
        UsageError: the folder is not there or cannot be written to.
    """
    import tempfile  # --help must not wait for it

    try:
        path = Path(os.path.realpath(path))
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_text(text, encoding="utf-8")  # to put a file in its place would destroy it
            return
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(part).chmod(0o644)
            Path(part).replace(path)
        finally:
            Path(part).unlink(missing_ok=True)  # interrupted, or the disk is full
    except OSError as problem:
        raise UsageError(
            f"--report: cannot write {path}: {problem.strerror}",
            hint="name a file in a folder that exists and may be written to",
        ) from problem
