"""Finds how many matched records would have to change step for the reference's order to hold."""

from bisect import bisect_right
from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity import declared
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.continuity.windows import Windows
from ledger_audit.model import Order


@dataclass(frozen=True)
class Disorder:
    """How many records break the order that the contract asks for."""

    records: int
    is_proven: bool
    """More than are known to be missing, which might have been matched instead."""


def disorder(order: Order, moved: int, disordered: int, facts: Facts) -> Disorder:
    """Count what breaks the order: moved records under `step`, those out of order else."""
    broken = {"step": moved, "relative": disordered, "none": 0}[order]
    return Disorder(broken, broken > facts.missing + facts.known.windows.reference.missing)


def out_of_order(resumed: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    """
    Give the smallest set of matched records whose moving to another step restores the order.

    Reference steps must not decrease along resumed steps; within a step any order is right. So
    all but a longest non-decreasing subsequence are out of order. A stream that starts early or
    late but keeps its order has none. Sources that were deliberately reordered are left out.

    Args:
        resumed: classified RECORDS of the resumed window.
        windows: the windows, for what was declared.

    Returns:
        The rows of `resumed` that are out of order.
    """
    excused = declared.reordered(windows.resumed.attempts, windows)
    is_kept = pl.col("ref_fate").ne_missing("void")  # a void try may match another pass's use
    matched = resumed.filter(IS_USED, pl.col("ref").is_not_null(), is_kept, ~excused).sort(
        "step", "ref_step", "order"
    )
    if (matched["ref_step"] == matched["step"]).all():
        return matched.clear()
    kept = longest_non_decreasing(matched["ref_step"].to_list())
    return matched.filter(~pl.int_range(pl.len()).is_in(kept))


def longest_non_decreasing(values: list[int]) -> list[int]:
    """Give the indices of a longest non-decreasing subsequence (patience sorting, O(n log n))."""
    tops: list[int] = []
    top_index: list[int] = []
    before: list[int] = []
    for index, value in enumerate(values):
        pile = bisect_right(tops, value)
        before.append(top_index[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(value)
            top_index.append(index)
        else:
            tops[pile] = value
            top_index[pile] = index
    kept = []
    index = top_index[-1] if top_index else -1
    while index >= 0:
        kept.append(index)
        index = before[index]
    return kept[::-1]
