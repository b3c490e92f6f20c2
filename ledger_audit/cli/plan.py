"""`ledger-audit plan`: what is left of the stream after a checkpoint, dealt to any ranks."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_audit.cli.options import (
    COLUMN,
    FORMAT,
    LEDGER,
    NOTING,
    REDACT,
    REPORT,
    Number,
    under_contract,
)
from ledger_audit.cli.output import salt_in_use, say, screen, write_whole
from ledger_audit.cli.progress import progress
from ledger_audit.errors import ExitCode

if TYPE_CHECKING:
    from ledger_audit.continuity.contract import Contract

_POSITIVE = Number(min=1)
_EXITS = {
    "continuous": ExitCode.CONTINUOUS,
    "broken": ExitCode.BROKEN,
    "unproven": ExitCode.UNPROVEN,
}


@click.command()
@click.argument("ledger", nargs=-1, required=True, type=LEDGER)
@click.option(
    "--checkpoint-step",
    type=_POSITIVE,
    help="The last step that the checkpoint holds; `checkpoints LEDGER` lists them.",
)
@click.option("--world-size", type=_POSITIVE, help="Ranks that are to use the rest.")
@click.option(
    "--micro-batch",
    type=_POSITIVE,
    help="Sequences of a rank and slot. Default: as the reference, or fewer.",
)
@click.option(
    "--accumulation",
    type=_POSITIVE,
    help="Slots of a step. Default: what the reference's batch needs.",
)
@click.option(
    "--reference",
    multiple=True,
    type=LEDGER,
    help="The expected stream: a control run, a plan, or any log of what is to come. Repeatable, "
    "for its parts. Default: the work that the failure rolled back.",
)
@click.option(
    "--replay-window",
    type=Number(min=0),
    default=0,
    show_default=True,
    help="Use so many samples again at most, where a step of the reference is half used.",
)
@click.option("-o", "--output", type=LEDGER, metavar="PLAN", help="The folder to make.")
@click.option(
    "--check",
    type=LEDGER,
    metavar="PLAN",
    help="Make nothing: say whether what was consumed and PLAN are the stream, each sample once.",
)
@NOTING
@COLUMN
@REDACT
@FORMAT
@REPORT
@under_contract
def plan(
    ledger: tuple[Path, ...],
    form: str,
    reports: tuple[tuple[str, Path], ...],
    contract: "Contract",
    check: Path | None,
    **options: Any,
) -> int:
    """
    Deal what is left of the stream after a checkpoint of LEDGER to any number of ranks.

    What committed updates consumed is taken out of the reference, and the rest is written as a
    ledger that says who is to use what, beside `cursor.json`, which proves where it begins. Exit
    code 0: the plan is the whole rest. 3: it is limited, as the report says, or nothing was made
    because the ledger does not prove what was consumed.
    """
    from ledger_audit.redaction import redact_check, redact_plan
    from ledger_audit.report import PAPER
    from ledger_audit.report.plan import checked_to_terminal, to_terminal
    from ledger_audit.report.plan_json import checked_to_json, to_json

    salt = salt_in_use()
    if check is not None:
        checked = _checked(check, ledger, options)
        checked = checked if salt is None else redact_check(checked, salt)
        texts = {"json": lambda _: checked_to_json(checked)}
        texts["terminal"] = lambda screen: checked_to_terminal(checked, screen)
        code = _EXITS[checked.verdict]
    else:
        made = _made(ledger, contract, options)
        made = made if salt is None else redact_plan(made, salt)
        texts = {"json": lambda _: to_json(made)}
        texts["terminal"] = lambda screen: to_terminal(made, screen)
        code = ExitCode.UNPROVEN if made.limits else ExitCode.CONTINUOUS
    for kind, path in reports:
        write_whole(path, texts[kind](PAPER))
    say(texts[form](screen()))
    return code


def _checked(folder: Path, ledger: tuple[Path, ...], options: dict[str, Any]) -> Any:
    from ledger_audit.model import Reading
    from ledger_audit.planning import check

    names = ("checkpoint_step", "world_size", "micro_batch", "accumulation", "replay_window")
    for name in (*names, "output"):
        if options[name]:
            given = "-o" if name == "output" else f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{given} does not go with --check: the plan says it")
    reading = Reading(columns=options["columns"], memory=options["memory"])
    with progress() as told:
        return check(folder, ledger, reading, reference=options["reference"], tell=told)


def _made(ledger: tuple[Path, ...], contract: "Contract", options: dict[str, Any]) -> Any:
    from ledger_audit.model import Reading
    from ledger_audit.planning import plan as run
    from ledger_audit.stream.plan import Wanted

    for name, given in (
        ("checkpoint_step", "--checkpoint-step"),
        ("world_size", "--world-size"),
        ("output", "-o"),
    ):
        if options[name] is None:
            raise click.UsageError(f"Missing option '{given}'.")
    reading = Reading(columns=options["columns"], memory=options["memory"])
    names = ("world_size", "micro_batch", "accumulation", "replay_window")
    with progress() as told:
        return run(
            ledger,
            options["output"],
            reading,
            Wanted(**{name: options[name] for name in names}),
            checkpoint_step=options["checkpoint_step"],
            reference=options["reference"],
            contract=contract,
            tell=told,
        )
