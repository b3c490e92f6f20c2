"""Writes reports: one to standard output, others beside it into files, whole or not at all."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledger_audit.errors import ExitCode, UsageError
from ledger_audit.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from ledger_audit.model import Report, Verdict
    from ledger_audit.report import Screen

SALT = "ledger_audit: salt"
"""Where click keeps the salt of `--redact`: no command can forget to hand it on."""
PAGE = "html"
"""The kind of report that is a page: only `postmortem` knows all that it tells."""
NARROWEST = 60
"""Characters in a line below which tables would lose figures; a narrower terminal folds lines."""


def complain(message: str, hint: str, details: "Iterable[str]" = ()) -> None:
    """Tell an error and its remedy on standard error, with nothing in it that a terminal obeys."""
    click.echo(f"ledger-audit: {printable(message)}", err=True)
    for line in details:
        click.echo(f"  {printable(line)}", err=True)
    click.echo(f"  try: {printable(hint)}", err=True)


def tell(report: "Report", form: str, beside: tuple[tuple[str, Path], ...]) -> int:
    """
    Write the report in every form asked for, and give the exit code of its verdict.

    With `--redact`, no form is given an id. Where `github` is among them and GitHub has a place
    for it, what it shows below the run is written, too.
    """
    from ledger_audit.redaction import redact
    from ledger_audit.report import PAPER, REPORTERS

    salt = salt_in_use()
    if salt is not None:
        report = redact(report, salt)
    if "github" in (form, *(kind for kind, _ in beside)):
        _summarise(report)
    for kind, path in beside:
        write_whole(path, REPORTERS[kind](report, PAPER))
    say(REPORTERS[form](report, screen()))
    return exit_code(report.verdict)


def salt_in_use() -> str | None:
    """Give the salt of `--redact`; null: ids are told as they are."""
    context = click.get_current_context(silent=True)
    salt: str | None = None if context is None else context.meta.get(SALT)
    return salt


def _summarise(report: "Report") -> None:
    """
    Append the report in Markdown to the summary of GitHub's step, if there is one.

    A summary that cannot be written, or has no room left, is said so, and changes no verdict.
    """
    from ledger_audit.report.markdown import COMMENT, SUMMARY, to_markdown

    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if not place:
        return
    try:
        with Path(place).open("ab") as file:
            before = file.tell()
            room = SUMMARY - before - 1
            if room < COMMENT:
                complain(
                    f"GITHUB_STEP_SUMMARY: {place} is nearly full: nothing was added",
                    "let a step of its own run the audit",
                )
                return
            file.write(b"\n" * bool(before) + to_markdown(report, room).encode())
    except OSError as problem:
        complain(
            f"GITHUB_STEP_SUMMARY: cannot append to {place}: {problem.strerror}",
            "the other reports are complete; unset the variable if no summary is wanted",
        )


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


def _stream_at(path: Path) -> "TextIO | None":
    """Give our own standard output or error, if a path (`/dev/stdout`) leads to where it goes."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nothing is there, or the stream is no file
            if os.path.samestat(path.stat(), os.fstat(stream.fileno())):
                return stream
    return None


def write_whole(path: Path, text: str) -> None:
    """
    Write a file whole or not at all: readers see the old one or the new one.

    What a link leads to is written, not the link; a pipe or a device is written into as it is.

    Raises:
        UsageError: the folder is not there or cannot be written to.
    """
    import tempfile  # --help must not wait for it

    try:
        stream = _stream_at(path)
        if stream is not None:
            click.echo(text, file=stream, nl=False)  # a file put in its place would be lost
            return
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_text(text, encoding="utf-8")  # to put a file in its place would destroy it
            return
        path = Path(os.path.realpath(path))
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
