"""
Decides when two records are the same, and gives equal records of all windows one key.

Identity is source, epoch, sample_id, token_start, token_end, less the columns that a window lacks.
"""

from dataclasses import dataclass, replace

import polars as pl

from ledger_audit.continuity.frames import IS_USED, Side
from ledger_audit.continuity.windows import Windows

IDENTITY = ("source", "epoch", "sample_id", "token_start", "token_end")
SPAN = ("token_start", "token_end")


@dataclass(frozen=True)
class Keyed:
    """The windows with their identity decided."""

    windows: Windows
    """Their records carry `key`."""
    columns: tuple[str, ...]
    """The columns that make the identity."""
    left_out: tuple[str, ...]
    """Columns that some windows have and another lacks."""
    has_wrong_labels: bool
    """The epoch was left out because the resumed attempt labels it otherwise."""


def identify(windows: Windows) -> Keyed:
    """Choose the columns of the identity and give every record its key."""
    filled = [
        {name for name in IDENTITY if side.records[name].null_count() < side.records.height}
        for side in windows.sides
        if side.records.height
    ]
    shared = set(IDENTITY).intersection(*filled) if filled else {"sample_id"}
    if not shared.issuperset(SPAN):
        shared -= set(SPAN)
    columns = tuple(name for name in IDENTITY if name in shared)
    left_out = tuple(
        name for name in IDENTITY if name not in shared and any(name in has for has in filled)
    )
    is_wrong = "epoch" in columns and _epoch_is_wrong(windows, columns)
    if is_wrong:
        columns = tuple(name for name in columns if name != "epoch")
    return Keyed(keyed(windows, columns), columns, left_out, is_wrong)


def keyed(windows: Windows, columns: tuple[str, ...]) -> Windows:
    """Give records that agree in all of `columns` (null equals null) the same `key`."""
    frames = [side.records.drop("key", strict=False) for side in windows.sides]
    every = pl.concat([frame.select(columns) for frame in frames]).with_row_index("key")
    keys = every.select(pl.col("key").first().over(columns).cast(pl.Int64))
    sides = []
    start = 0
    for side, frame in zip(windows.sides, frames, strict=True):
        own = keys["key"].slice(start, frame.height)
        sides.append(replace(side, records=frame.with_columns(own)))
        start += frame.height
    return replace(windows, committed=sides[0], reference=sides[1], resumed=sides[2])


def _epoch_is_wrong(windows: Windows, columns: tuple[str, ...]) -> bool:
    """
    Tell whether the first resumed step fits the reference's beginning but for the epoch's label.

    True if none of its records is in the reference with the epoch, and without it all of them are
    among the reference's first as many records, less those that the reference is known to lack.
    """
    first = _first_step(windows.resumed)
    if first.is_empty() or windows.reference.records.is_empty():
        return False
    reference = windows.reference.records
    with_epoch = first.join(reference, on=list(columns), how="semi", nulls_equal=True)
    if with_epoch.height:
        return False
    rest = [name for name in columns if name != "epoch"]
    lost = windows.resumed.steps.filter(pl.col("step") == first["step"][0])["missing"].sum()
    head = reference.filter(IS_USED).head(first.height + int(lost))
    wanted = first.group_by(rest).agg(pl.len().alias("wanted"))
    there = head.group_by(rest).agg(pl.len().alias("there"))
    met = wanted.join(there, on=rest, how="inner", nulls_equal=True)
    found = int(met.select(pl.min_horizontal("there", "wanted").sum()).item())
    lacking = windows.reference.steps.filter(pl.col("step") <= head["step"].max())["missing"].sum()
    return found > 0 and found >= first.height - int(lacking)


def _first_step(side: Side) -> pl.DataFrame:
    """Give the records of the first step of a window, without void tries where others exist."""
    within = side.within
    rows = within.filter(pl.col("step") == pl.col("step").min())
    used = rows.filter(IS_USED)
    return used if used.height else rows
