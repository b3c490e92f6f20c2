"""Options that several commands share, and how their words are read."""

import os
import re
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ledger_audit.cli.output import PAGE, SALT
from ledger_audit.report import EVERYWHERE, REPORTERS

if TYPE_CHECKING:
    from ledger_audit.continuity.contract import Contract
    from ledger_audit.model import Order

Command = TypeVar("Command", bound=Callable[..., Any])


class _Place(click.Path):
    """A path on this machine, or an address in an object store."""

    def convert(
        self,
        value: "str | os.PathLike[str]",
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        from ledger_audit.ledger.address import Address, place_of

        place = place_of(value)
        return place if isinstance(place, Address) else super().convert(value, param, ctx)


LEDGER = _Place(path_type=Path)


class Number(click.IntRange):
    """A whole number of a range, which help and messages call so."""

    name = "whole number"

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """Give what stands for it in help."""
        return "N"


JUDGED = "Exit code: 0 continuous, 1 broken, 3 unproven; 2 usage, 4 an input cannot be read."
"""What judging commands end with, for the end of their help."""

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


Pairs = tuple[tuple[str, str], ...]
Reports = tuple[tuple[str, Path], ...]


def _reports_in(
    kinds: Collection[str],
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], Reports]:
    """Make what reads `--report KIND=FILE` of a command that has these kinds."""

    def read(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Reports:
        pairs = _pairs(ctx, param, values)
        for kind, _ in pairs:
            if kind not in kinds:
                told = f"{kind!r} is none of {', '.join(kinds)}, the kinds of {ctx.info_name}"
                told += f"; {PAGE} is written by postmortem" * (kind == PAGE)
                raise click.BadParameter(told, ctx, param)
        files = [file for _, file in pairs if not file.startswith("/dev/")]
        for file in files:
            if files.count(file) > 1:
                told = f"two reports into {file!r}: the second would replace the first"
                raise click.BadParameter(told, ctx, param)
        from ledger_audit.ledger.address import place_of

        return tuple((kind, place_of(file)) for kind, file in pairs)

    return read


def _salt(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Keep the salt where whoever tells a report finds it."""
    from ledger_audit.redaction import LONGEST_SALT

    if value is None:
        return
    if not 0 < len(value.encode("utf-8", "surrogateescape")) <= LONGEST_SALT:
        raise click.BadParameter(f"a salt has 1 to {LONGEST_SALT} bytes", ctx, param)
    ctx.meta[SALT] = value


def _limits_begun(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete the name of a limit."""
    from ledger_audit.continuity.limit_codes import LIMITS

    return [code for code in LIMITS if code.startswith(incomplete)]


def _limits(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    if not values:
        return frozenset()
    from difflib import get_close_matches

    from ledger_audit.continuity.limit_codes import LIMITS

    for value in values:
        if value not in LIMITS:
            near = get_close_matches(value, LIMITS, n=3)
            meant = f"did you mean {' or '.join(near)}? " if near else ""
            told = f"{value!r} is no limit: {meant}`ledger-audit explain` lists them all"
            raise click.BadParameter(told, ctx, param)
    return frozenset(values)


_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20}
_UNITS |= {"GIB": 1 << 30, "TIB": 1 << 40, "TB": 10**12}
LEAST = 64 << 20
"""Bytes below which nothing can be counted."""


def _memory(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """Read an amount of memory such as 2GiB or 512MB; a bare number is bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B)?", value.strip(), re.IGNORECASE)
    if found is None:
        raise click.BadParameter(f"{value!r} is no amount such as 2GiB or 512MB", ctx, param)
    amount = int(float(found[1]) * _UNITS[(found[2] or "").upper()])
    if amount < LEAST:
        raise click.BadParameter(f"{value!r} is less than {LEAST >> 20} MiB", ctx, param)
    return amount


_NO_CONTRACT = "ledger_audit: no contract"
"""Where click keeps that none is wanted, until the other option is looked at."""


def _no_contract(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001
    ctx.meta[_NO_CONTRACT] = value


def _contract(ctx: click.Context, param: click.Parameter, value: Path | None) -> "Contract":
    """Read the contract that is named, else the one of the working directory, else no terms."""
    from ledger_audit.continuity.contract import Contract
    from ledger_audit.contract_file import find_contract, read_contract

    if ctx.meta[_NO_CONTRACT]:
        if value is not None:
            raise click.BadParameter("it does not go with --no-contract", ctx, param)
        return Contract()
    found = find_contract() if value is None else value
    return Contract() if found is None else read_contract(found)


def under_contract(command: Command) -> Command:
    """Add `--contract` and `--no-contract`; the command gets a `Contract` as `contract`."""
    for option in (NO_CONTRACT, CONTRACT):
        command = option(command)
    return command


CONTRACT = click.option(
    "--contract",
    type=LEDGER,
    metavar="FILE",
    callback=_contract,
    help="What the stream promises, as TOML. Where this is not given: contract.toml, or "
    "[tool.ledger-audit] of pyproject.toml, in the working directory.",
)
NO_CONTRACT = click.option(
    "--no-contract",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_no_contract,
    help="Judge by the command's defaults, whatever the working directory holds.",
)


_memory_for = partial(
    click.option,
    "--memory",
    metavar="SIZE",
    default="2GiB",
    show_default=True,
    callback=_memory,
)
MEMORY = _memory_for(
    help="Memory for counting; what does not fit lies in temporary files. The report is the same."
)
NOTING = _memory_for(
    help="Memory for noting what was consumed; more is asked for where that is not enough."
)
STREAM = click.option(
    "--stream", metavar="NAME", help="Audit this stream instead of training, for instance eval."
)
COLUMN = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=THEIRS",
    callback=_columns,
    help="Read our column NAME from THEIRS in a foreign log. Repeatable.",
)
REDACT = click.option(
    "--redact",
    metavar="SALT",
    envvar="LEDGER_AUDIT_REDACT",
    show_envvar=True,
    expose_value=False,
    callback=_salt,
    help="Tell hashes instead of sample ids, in every report. The salt is a secret: in the "
    "environment it stands in no list of processes.",
)


def _format_in(kinds: Collection[str]) -> Callable[[Command], Command]:
    return click.option(
        "--format",
        "form",
        type=click.Choice(tuple(kinds)),
        default="terminal",
        show_default=True,
        help="What to write to standard output.",
    )


def _report_in(kinds: Collection[str]) -> Callable[[Command], Command]:
    return click.option(
        "--report",
        "reports",
        multiple=True,
        metavar="KIND=FILE",
        callback=_reports_in(kinds),
        help=f"Write another report into a file beside it. Repeatable. KIND: {', '.join(kinds)}.",
    )


FORMAT = _format_in(EVERYWHERE)
REPORT = _report_in(EVERYWHERE)
ANY_FORMAT = _format_in(REPORTERS)
ANY_REPORT = _report_in(REPORTERS)

WAIVED = click.option(
    "--allow-unproven",
    "waived",
    multiple=True,
    metavar="LIMIT",
    callback=_limits,
    shell_complete=_limits_begun,
    help="Let this limit block no clause. Repeatable.",
)

_SHARED = (
    click.option(
        "--order",
        type=click.Choice(ORDERS),
        help="What order the stream promises: every record at its step, in the reference's order, "
        "or none.",
    ),
    click.option("--resume", type=Number(min=1), help="Judge only the n-th resume, oldest first."),
    STREAM,
    COLUMN,
    WAIVED,
    REDACT,
)


def shared(
    command: Command,
    kinds: Collection[str] = tuple(REPORTERS),
    also: Collection[str] = (),
) -> Command:
    """
    Add the options that every judging command has; the contract is among them.

    `kinds` of reports it tells, and `also` those that it only writes into files.
    """
    for option in reversed((*_SHARED, _format_in(kinds), _report_in((*kinds, *also)))):
        command = option(command)
    return under_contract(command)


def terms_of(options: dict[str, Any], default: "Order") -> "Contract":
    """Take the contract out of a judging command's options, as its flags change it."""
    contract: Contract = options.pop("contract")
    if contract.draws_anew and options["order"] not in (None, "none"):
        raise click.UsageError(
            f"--order {options['order']}: the contract lets samples be drawn anew, in no order"
        )
    return contract.with_terms(
        default=default, order=options.pop("order"), waived=options.pop("waived")
    )
