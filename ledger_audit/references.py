"""
The path of `reference`: what decides the order → pieces of the stream → a ledger on disk.

Such a ledger stands where a control run would: `diff --reference`, `gate`, `plan --reference`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from ledger_audit.errors import UsageError
from ledger_audit.ledger.expected import Written, write_expected
from ledger_audit.ledger.id_lists import read_ids
from ledger_audit.stream.pieces import Derived

LABEL = "reference"
"""The attempt that an expected stream is written as."""


def write(expected: Derived, target: Path, tell: Callable[[str], None]) -> Written:
    """
    Write an expected stream as a ledger.

    Raises:
        UsageError: there is something at the target.
        UnreadableError: what decides the order is damaged.
    """
    tell("working out the stream")
    return write_expected(
        target,
        LABEL,
        _counted(expected.pieces, tell),
        world_size=expected.world_size,
        expected={"kind": expected.kind, "recipe": dict(expected.recipe)},
        fingerprint=expected.fingerprint,
    )


def _counted(pieces: Iterator[pl.DataFrame], tell: Callable[[str], None]) -> Iterator[pl.DataFrame]:
    done = 0
    for piece in pieces:
        yield piece
        done += piece.height
        tell(f"{done:,} records of the stream")


def listed_ids(path: Path, column: str, source: str | None) -> pl.DataFrame:
    """
    Read a list whose order counts: sample_id, source, token_start, token_end.

    An id may stand there more than once. Where all ids are integers, written as such, so they are.

    Raises:
        UnreadableError: it is missing, damaged, or holds something else than ids.
        UsageError: it is a ledger.
    """
    if path.is_dir():
        raise UsageError(
            f"{path}: is a folder, and no list of ids",
            hint="a ledger needs no listing: name it as --reference, or as CONTROL of gate",
        )
    ids = read_ids(path, column=column, source=source, id_type=None, keeps_repeats=True)
    numbers = ids["sample_id"].cast(pl.Int64, strict=False)
    if (numbers.cast(pl.String) == ids["sample_id"].cast(pl.String)).fill_null(value=False).all():
        ids = ids.with_columns(sample_id=numbers)
    return ids
