"""Options in, exit code out; the only place that prints."""

import sys
from collections.abc import Sequence
from importlib import import_module

import click

from ledger_audit import __version__
from ledger_audit.cli.output import complain
from ledger_audit.errors import ExitCode, LedgerAuditError, VanishedError

INTERRUPTED = 130
"""What a shell expects of a program that was interrupted from the keyboard."""

LOOKS = 20
"""Times that a command looks at a ledger that is being sealed before it gives up."""

COMMANDS = {
    "diff": "Judge every resume of a ledger by the work that the failure rolled back.",
    "gate": "Judge a run, and each of its resumes, by an uninterrupted control run.",
    "postmortem": "Tell on one page what happened to a run, what it cost, why, and how to mend it.",
    "verify": "Say of a whole run whether each sample was used as often as promised.",
    "merge": "Make the report of verify, gate or diff out of the pieces of all samples.",
    "reference": "Write the stream that a job should consume, from what decides its order.",
    "plan": "Deal what is left of the stream after a checkpoint to any number of ranks.",
    "init": "Write a contract from what a ledger shows, with a comment on every term.",
    "show": "Show the records around a resume, rank by slot, as they are.",
    "checkpoints": "Say of every checkpoint what it is worth, and which one to resume from.",
    "explain": "Say what a cause, outcome, limit or word of a report is, and how to fix a cause.",
    "preflight": "Say what could be proven if the job died now, and what is missing for the rest.",
    "selftest": "Plant every fault into a copy of a ledger, and see that each is found.",
    "seal": "Recover and seal what dead writers left, and merge small files.",
    "convert": "Write a log of any readable format as a ledger, and list what it does not tell.",
    "demo": "Kill a small job, resume it with a fault of your choice, and audit it.",
}
"""Every command and its one-line help; the module of the same name holds it."""

OCCASIONS = {
    "Minutes after a resume": ("diff", "checkpoints", "plan", "show", "explain"),
    "In continuous integration": ("gate", "reference"),
    "In a post-mortem": ("postmortem", "verify", "merge"),
    "Before anything fails": ("demo", "preflight", "selftest", "init"),
    "To make and keep ledgers": ("convert", "seal"),
}
"""When each command is wanted; what is wanted first stands first."""


EPILOG = """\b
Exit codes:
  0   continuous: every clause of the contract holds, by evidence
  1   broken: samples were replayed, skipped, reordered or forbidden
  2   wrong usage, or a wrong contract
  3   unproven: nothing is broken, but something cannot be known
  4   an input cannot be read
  70  a bug of ours
"""


class _Lazy(click.Group):
    """Loads a command's module when the command runs: `--help` needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"ledger_audit.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {name!r}.{_meant(name)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, COMMANDS))
        for occasion, names in OCCASIONS.items():
            with formatter.section(occasion):
                formatter.write_dl([(f"{name:{width}}", COMMANDS[name]) for name in names])


def _meant(name: str) -> str:
    """Guess what somebody meant who named a command that is none."""
    from difflib import get_close_matches
    from pathlib import Path

    near = get_close_matches(name, COMMANDS, n=1)
    if near:
        return f" Did you mean {near[0]!r}?"
    return " To judge a ledger: ledger-audit diff LEDGER." if Path(name).exists() else ""


@click.group(
    cls=_Lazy,
    name="ledger-audit",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)
@click.version_option(__version__, prog_name="ledger-audit")
@click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")
def cli(debug: bool) -> None:
    """
    Prove, from logs, whether a resumed training job continues its data stream.

    LEDGER is the folder that the LedgerWriter of the job writes, or a log that says which rank
    used which sample in which step. Minutes after a resume, run `ledger-audit diff LEDGER`. Never
    seen it? `ledger-audit demo` takes seconds.
    """


def run(arguments: Sequence[str]) -> int:
    """Run the command line and give the exit code; a crash never gives 1."""
    try:
        return _again(arguments, looks=LOOKS)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as problem:
        problem.show()
        return ExitCode.USAGE
    except LedgerAuditError as problem:
        complain(problem.message, problem.hint, problem.details)
        return problem.exit_code
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as bug:  # a panic of the engine is no Exception
        if "--debug" in arguments:
            sys.excepthook(type(bug), bug, bug.__traceback__)
        return _our_fault(bug)


def _again(arguments: Sequence[str], *, looks: int) -> int:
    """Run a command; where files vanish that it had listed, from its beginning."""
    try:
        return int(cli.main(list(arguments), prog_name="ledger-audit", standalone_mode=False) or 0)
    except VanishedError:
        if looks <= 1:
            raise
    return _again(arguments, looks=looks - 1)


def _our_fault(bug: BaseException) -> int:
    """Own up to what is no fault of the input, or leave quietly if nobody reads any more."""
    if isinstance(bug, BrokenPipeError):
        sys.stderr = None  # Python would complain at its exit
        return ExitCode.INTERNAL
    if isinstance(bug, click.Abort):
        return INTERRUPTED
    complain(
        f"internal error: {type(bug).__name__}: {bug}",
        "this is our bug and says nothing about your data; report what --debug, put before the "
        "command, shows",
    )
    return ExitCode.INTERNAL
