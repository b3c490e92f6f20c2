"""
Reads OLMo's `data-indices` files: one file a rank, each line a step and the indices it used.

They are written by `save_data_indices` as `rank0.tsv.gz`, `rank1.tsv.gz` and so on: without a
header, the step first, then the indices of all micro-batches of the rank, in order.
"""

import re
from array import array
from pathlib import Path

import polars as pl
import pyarrow as pa

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.lines import Lines, shown
from ledger_audit.ledger.numbering import Numbering
from ledger_audit.ledger.schema import SAMPLES
from ledger_audit.ledger.tables import dtype_of

_NAME = re.compile(r"rank([0-9]+)\.tsv(\.gz)?", re.IGNORECASE)
_LINE = re.compile(rb"[0-9]+(\t-?[0-9]+)*\t?\r?\n")
_BEGINNING = re.compile(rb"[0-9]*(\t-?[0-9]*)*")


def rank_of(path: Path) -> int | None:
    """
    Name the rank whose data indices a file holds; null where it is another kind of file.

    The name tells, and the first line: where that is a header, the file is an ordinary table.
    """
    name = _NAME.fullmatch(path.name)
    if name is None:
        return None
    first = next(iter(Lines(path)), b"")
    if not (_LINE if first.endswith(b"\n") else _BEGINNING).fullmatch(first):
        return None
    if len(name[1]) > 9:
        raise UnreadableError(
            f"{path}: {name[1][:20]} is no rank", hint="name the file after its rank: rank0.tsv.gz"
        )
    return int(name[1])


def read_data_indices(
    path: Path, rank: int, *, attempt: str | None, numbering: Numbering
) -> tuple[pl.DataFrame, bool]:
    """
    Read the data indices of one rank.

    A step that is no later than the one before it was written by another launch, and so was what
    another file of the same rank holds: launches are attempts, labelled from 0.

    Args:
        path: the file.
        rank: whose it is.
        attempt: the label of the one launch that there may be; null: as many as there are.
        numbering: counts the launches of each rank.

    Returns:
        SAMPLES rows: everything in slot 0, `row` by order. Whether the file is torn: a last line
        without its end may hold half a number, and is left out.

    Raises:
        UnreadableError: a line is no list of numbers, or there is another launch than one.
    """
    steps, rows, ids, launches = (array("q") for _ in range(4))
    lines = Lines(path)
    launch, last = numbering.launch(rank), -1
    is_torn, number = path.stat().st_size == 0, 0
    _check_launch(path, rank, launch, "it", attempt)
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            is_torn = True
            break
        step, indices = _fields(path, number, line)
        if step <= last:
            launch = numbering.launch(rank)
            _check_launch(path, rank, launch, f"line {number} (step {step} after {last})", attempt)
        last = step
        steps.extend([step] * len(indices))
        launches.extend([launch] * len(indices))
        rows.extend(range(len(indices)))
        ids.extend(indices)
    frame = _frame({"step": steps, "row": rows, "sample_id": ids, "attempt": launches})
    known = {
        "rank": pl.lit(rank),
        "slot": pl.lit(0),
        "attempt": pl.col("attempt").cast(pl.String) if attempt is None else pl.lit(attempt),
    }
    return (
        frame.select(
            known.get(one.name, pl.col(one.name) if one.name in frame.columns else pl.lit(None))
            .cast(dtype_of(one, pl.Int64()))
            .alias(one.name)
            for one in SAMPLES
        ),
        is_torn or lines.is_cut,
    )


def _fields(path: Path, number: int, line: bytes) -> tuple[int, list[int]]:
    try:
        if not _LINE.fullmatch(line):
            raise ValueError
        step, *indices = array("q", map(int, line.split()))
    except (ValueError, OverflowError):
        raise UnreadableError(
            f"{path}: line {number} is not a step and the indices that it used: {shown(line)}",
            hint="OLMo writes whole numbers with tabs between them; mend or remove the line",
        ) from None
    return step, indices


def _check_launch(path: Path, rank: int, launch: int, what: str, attempt: str | None) -> None:
    if launch and attempt is not None:
        raise UnreadableError(
            f"{path}: {what} was written by another launch of rank {rank}",
            hint="here a log holds one launch: cut the file before that line, or give one folder",
        )


def _frame(columns: dict[str, "array[int]"]) -> pl.DataFrame:
    """Take arrays over without a copy."""
    table = pa.table(
        {
            name: pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
            for name, values in columns.items()
        }
    )
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
