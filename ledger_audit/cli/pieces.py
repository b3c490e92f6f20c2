"""Takes the question of one bucket, and writes the piece that answers it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_audit.cli.options import LEDGER, Command, Reports
from ledger_audit.cli.output import say

if TYPE_CHECKING:
    from ledger_audit.ledger.buckets import Bucket
    from ledger_audit.ledger.pieces import Answer

BUCKETS = 1 << 16
"""The most shares that a ledger is shared out in."""


def _bucket(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    """Read which share is meant, as 3/8."""
    if value is None:
        return None
    found = re.fullmatch(r"([1-9]\d{0,4})/([1-9]\d{0,4})", value.strip())
    number, of = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= of <= BUCKETS:
        raise click.BadParameter(
            f"{value!r} is not I/N, from 1/N to N/N, N at most {BUCKETS:,}", ctx, param
        )
    return number, of


def in_pieces(command: Command) -> Command:
    """Add `--bucket` and `--output`, which `share_in` takes."""
    for option in (_OUTPUT, _BUCKET):
        command = option(command)
    return command


_BUCKET = click.option(
    "--bucket",
    metavar="I/N",
    callback=_bucket,
    help="Answer for one of N shares of the samples, by a hash of their ids, and write what that "
    "came to into --output. `merge` makes the report of all N.",
)
_OUTPUT = click.option(
    "-o",
    "--output",
    type=LEDGER,
    metavar="PIECE",
    help="With --bucket: the file to write.",
)


@dataclass(frozen=True)
class Share:
    """One share of the samples, and where to write what it comes to."""

    bucket: "Bucket"
    output: Path

    def write(self, answer: "Answer", options: Mapping[str, Any]) -> int:
        """
        Write the piece, and say so.

        Args:
            answer: what the samples came to.
            options: `order` and `waived` as they were given, which the contract does not tell apart
                from its own terms.
        """
        from ledger_audit.ledger.pieces import write_piece
        from ledger_audit.printable import printable

        flags = {"order": options.get("order"), "waived": sorted(options["waived"])}
        write_piece(self.output, {**answer.head, "flags": flags}, answer.tables)
        where = printable(str(self.output))
        say(f"{answer.done}: bucket {self.bucket.number} of {self.bucket.of}, in {where}\n")
        return 0


def share_in(options: dict[str, Any], form: str, reports: Reports) -> Share | None:
    """
    Take out of a command's options the share that is asked for; null: it is all.

    Raises:
        UsageError: something was given that makes no sense for a share.
    """
    bucket, output = options.pop("bucket"), options.pop("output")
    if (bucket is None) != (output is None):
        raise click.UsageError("--bucket and --output belong together")
    if bucket is None:
        return None
    if reports or form != "terminal":
        raise click.UsageError("--bucket makes no report: give --format and --report to merge")
    if options["engine"] != "local":
        raise click.UsageError("--bucket is for schedulers without Spark: give one of the two")
    from ledger_audit.ledger.buckets import Bucket

    return Share(Bucket(*bucket), output)
