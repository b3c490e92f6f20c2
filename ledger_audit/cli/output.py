"""Writes reports: one to standard output, others beside it into files, whole or not at all."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledger_audit.errors import ExitCode, UsageError
from ledger_audit.printable import printable

if TYPE_CHECKING:
    from ledger_audit.model import Report, Verdict

FORMATS = ("terminal", "json")


def complain(message: str, hint: str) -> None:
    """Tell an error and its remedy on standard error, with nothing in it that a terminal obeys."""
    click.echo(f"ledger-audit: {printable(message)}", err=True)
    click.echo(f"  try: {printable(hint)}", err=True)


def render(report: "Report", kind: str) -> str:
    """Give a report as text of one kind."""
    from ledger_audit.report import REPORTERS

    return REPORTERS[kind](report)


def tell(report: "Report", form: str, beside: tuple[tuple[str, Path], ...]) -> int:
    """Write the report in every form asked for, and give the exit code of its verdict."""
    for kind, path in beside:
        write_whole(path, render(report, kind))
    click.echo(render(report, form), nl=False)
    return exit_code(report.verdict)


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

    Raises:
        UsageError: the folder is not there or cannot be written to.
    """
    import tempfile  # --help must not wait for it

    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(part).chmod(0o644)
        Path(part).replace(path)
    except OSError as problem:
        raise UsageError(
            f"--report: cannot write {path}: {problem.strerror}",
            hint="name a file in a folder that exists and may be written to",
        ) from problem
