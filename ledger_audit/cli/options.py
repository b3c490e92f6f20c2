"""Options that several commands share, and how their words are read."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ledger_audit.cli.output import FORMATS

Command = TypeVar("Command", bound=Callable[..., Any])

LEDGER = click.Path(path_type=Path)


ORDERS = ("step", "relative", "none")


def _pairs(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = []
    for value in values:
        left, separator, right = value.partition("=")
        if not (left and separator and right):
            raise click.BadParameter(f"{value!r} is not of the form {param.metavar}", ctx, param)
        pairs.append((left, right))
    return tuple(pairs)


def seconds(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Read a length of time such as 90s, 10m or 2h; a bare number is seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value.strip())
    if found is None:
        raise click.BadParameter(
            f"{value!r} is not a length of time such as 90s, 10m or 2h", ctx, param
        )
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def _columns(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    from ledger_audit.ledger.schema import SAMPLES

    known = [column.name for column in SAMPLES]
    columns = dict(_pairs(ctx, param, values))
    for name in columns:
        if name not in known:
            raise click.BadParameter(f"{name!r} is none of {', '.join(known)}", ctx, param)
    return columns


def _reports(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, Path], ...]:
    pairs = _pairs(ctx, param, values)
    for kind, _ in pairs:
        if kind not in FORMATS:
            raise click.BadParameter(f"{kind!r} is none of {', '.join(FORMATS)}", ctx, param)
    return tuple((kind, Path(file)) for kind, file in pairs)


def _limits_begun(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete the name of a limit."""
    from ledger_audit.continuity.limits import LIMITS

    return [code for code in LIMITS if code.startswith(incomplete)]


def _limits(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    if not values:
        return frozenset()
    from ledger_audit.continuity.limits import LIMITS

    for value in values:
        if value not in LIMITS:
            raise click.BadParameter(f"{value!r} is none of {', '.join(LIMITS)}", ctx, param)
    return frozenset(values)


STREAM = click.option("--stream", help="Audit this stream instead of training, for instance eval.")
COLUMN = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=THEIRS",
    callback=_columns,
    help="Read our column NAME from THEIRS in a foreign log. Repeatable.",
)

_SHARED = (
    click.option(
        "--order",
        type=click.Choice(ORDERS),
        help="What order the stream promises: every record at its step, in the reference's order, "
        "or none.",
    ),
    click.option(
        "--resume", type=click.IntRange(min=1), help="Judge only the n-th resume, oldest first."
    ),
    STREAM,
    COLUMN,
    click.option(
        "--allow-unproven",
        "waived",
        multiple=True,
        metavar="LIMIT",
        callback=_limits,
        shell_complete=_limits_begun,
        help="Let this limit block no clause. Repeatable.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        default="terminal",
        show_default=True,
        help="What to write to standard output.",
    ),
    click.option(
        "--report",
        "reports",
        multiple=True,
        metavar="KIND=FILE",
        callback=_reports,
        help="Write another report into a file beside it. Repeatable.",
    ),
)


def shared(command: Command) -> Command:
    """Add the options that every judging command has."""
    for option in reversed(_SHARED):
        command = option(command)
    return command
