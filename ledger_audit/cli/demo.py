"""`ledger-audit demo`: a small job is killed and resumed wrongly, before your eyes."""

import shlex
import shutil
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledger_audit.cli.options import LEDGER
from ledger_audit.cli.output import complain, say, screen, tell
from ledger_audit.cli.progress import progress
from ledger_audit.errors import ExitCode, UsageError
from ledger_audit.printable import printable
from ledger_audit.simulation.faults import DEFAULT, FAULTS

if TYPE_CHECKING:
    from ledger_audit.simulation.process import Ran

MADE = ("ledger", "control", "job")
"""The folders that a simulation makes."""


def _known(ctx: click.Context, param: click.Parameter, name: str) -> str:
    if name not in FAULTS:
        raise click.BadParameter(
            f"no fault is called {name!r}; there are {', '.join(FAULTS)}", ctx, param
        )
    return name


@click.command()
@click.option(
    "--fault",
    metavar="NAME",
    default=DEFAULT,
    show_default=True,
    callback=_known,
    help="What goes wrong at the resume; --list names all.",
)
@click.option("--list", "is_list", is_flag=True, help="List the faults and leave.")
@click.option(
    "--keep",
    type=LEDGER,
    metavar="DIR",
    help="Keep everything in DIR, which is new or empty, and run the control as well.",
)
def demo(fault: str, is_list: bool, keep: Path | None) -> int:
    """
    Run a small training job, kill it, resume it wrongly, and audit it.

    The job, its SIGKILL and its ledger are real; only the training is left out. It takes seconds
    and needs no network. The exit code is 0 if the audit finds what was planted.
    """
    if is_list:
        for name, one in FAULTS.items():
            say(f"{name}\n")
            _paragraph(one.wrong, indent=2)
        return 0
    with _folder(keep) as folder:
        return _demonstrate(fault, folder, is_kept=keep is not None)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Give a folder to work in; what is not asked to stay, or not finished, is removed."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="ledger-audit-demo-") as made:
            yield Path(made)
        return
    is_new = not keep.exists()
    try:
        keep.mkdir(parents=True, exist_ok=True)
        is_empty = not any(keep.iterdir())
    except OSError as problem:
        raise UsageError(
            f"--keep: cannot use {keep}: {problem.strerror}",
            hint="name a folder that does not exist yet, where one may be made",
        ) from problem
    if not is_empty:
        raise UsageError(
            f"--keep: {keep} is not empty", hint="nothing is overwritten: name a new folder"
        )
    try:
        yield keep
    except BaseException:  # an interrupt, too, leaves nothing half done
        for name in MADE:
            shutil.rmtree(keep / name, ignore_errors=True)
        if is_new:
            with suppress(OSError):  # somebody else has put something there
                keep.rmdir()
        raise


def _demonstrate(fault: str, folder: Path, *, is_kept: bool) -> int:
    """Tell it in four parts; the exit code says whether what was planted was found."""
    from ledger_audit import audit
    from ledger_audit.simulation.account import check_steps, count
    from ledger_audit.simulation.process import simulate
    from ledger_audit.simulation.story import tell_job, tell_look

    with progress() as told:
        told("training a small job, killing and resuming it")
        ran = simulate(fault, folder, has_control=is_kept)
    account = count(ran.ledger)
    _headline("1. What was simulated")
    for paragraph in tell_job(ran, account):
        _paragraph(paragraph)
    fate = "kept" if is_kept else "removed at the end, unless you say --keep DIR"
    say(f"The ledger is {fate}:\n{printable(str(ran.ledger))}\n\n")
    _headline("2. What step-based checks see")
    checks = check_steps(account)
    for check in checks:
        word = "passes" if check.passes else "FAILS"
        _paragraph(check.told, label=f"{word:<8}", space=False)
    say("\n")
    if all(check.passes for check in checks):
        _paragraph("By its step numbers, nothing happened to this job but a restart.")
    _headline("3. What the audit of the samples finds")
    say(f"$ ledger-audit diff {_quoted(ran.ledger)}\n\n")
    report = audit.diff([ran.ledger])
    tell(report, "terminal", ())
    _headline("4. What to look at", above=True)
    _paragraph(tell_look(ran, account, report))
    _next(ran)
    expected = FAULTS[fault].verdict
    if report.verdict != expected:
        complain(
            f"{fault} was planted, and the verdict is {report.verdict} instead of {expected}",
            "this is our bug: report it with the lines above",
        )
        return ExitCode.INTERNAL
    return 0


def _next(ran: "Ran") -> None:
    """Say what can be done with what is left, and with a job of one's own."""
    if ran.control is None:
        _paragraph(
            "Next: ledger-audit demo --list names more faults to plant with --fault NAME, and "
            "--keep DIR keeps the ledger, beside one of the same job that was never interrupted.",
        )
        _own_job()
        return
    ledger, control = _quoted(ran.ledger), _quoted(ran.control)
    _paragraph(
        "Next: look at the samples themselves, rank by slot, and compare the run with the same "
        "job, never interrupted:"
    )
    say(f"  ledger-audit show {ledger}\n  ledger-audit gate {control} {ledger}\n\n")
    _own_job()


def _own_job() -> None:
    _paragraph(
        "Three lines in a trainer make a ledger of your own job (README.md). After a resume: "
        "ledger-audit diff LEDGER; before one: ledger-audit preflight LEDGER.",
        space=False,
    )


def _headline(text: str, *, above: bool = False) -> None:
    gap = "\n" if above else ""
    say(f"{gap}{text}\n{'-' * len(text)}\n")


def _paragraph(text: str, *, label: str = "", indent: int = 0, space: bool = True) -> None:
    """Write text in lines, after a label that stands out to its left."""
    filled = textwrap.fill(
        printable(text),
        min(80, screen().width),
        initial_indent=label or " " * indent,
        subsequent_indent=" " * (len(label) or indent),
        break_long_words=False,
        break_on_hyphens=False,
    )
    say(filled + ("\n\n" if space else "\n"))


def _quoted(path: Path) -> str:
    return printable(shlex.quote(str(path)))
