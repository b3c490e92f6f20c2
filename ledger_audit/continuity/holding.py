"""Says what memory it takes to look at all records at once, and whether it is there."""

from ledger_audit.errors import UsageError

RECORD = 640
"""Bytes that a record takes while all records are looked at, all in all."""


def is_held(rows: int, most: int | None) -> bool:
    """Tell whether memory holds so many records; `most`: those it holds, null: any number."""
    return most is None or rows <= most


def needed(rows: int) -> str:
    """Say what so many records need, which is not there."""
    return f"some {-(-rows * RECORD >> 30)} GiB of memory: more than there is"


def check_held(rows: int, most: int | None) -> None:
    """
    Refuse to look at more records at once than memory holds.

    Raises:
        UsageError: it does not hold them.
    """
    if not is_held(rows, most):
        raise UsageError(
            f"all {rows:,} records would have to be held at once, which needs {needed(rows)}",
            hint="judge the resumes by `diff` without --full, whole runs by `verify`, or use a "
            "machine with so much memory",
        )
