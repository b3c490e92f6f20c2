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
    matched = _matched(resumed, windows)
    gone = _gone(matched, windows)
    return matched.join(gone, on=_PLACE, how="semi", maintain_order="left")


def is_order_open(resumed: pl.DataFrame, windows: Windows) -> bool:
    """Tell whether every record that is out of order is open, and none is only known of."""
    gone = _gone(_matched(resumed, windows), windows)
    in_place = gone.filter(pl.col("step") == pl.col("ref_step"))
    return in_place.join(windows.resumed.known, on="step", how="semi").is_empty()


_PLACE = ["step", "ref_step"]


def _matched(resumed: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    excused = declared.reordered(windows.resumed.attempts, windows)
    is_kept = pl.col("ref_fate").ne_missing("void")  # a void try may match another pass's use
    matched = resumed.filter(IS_USED, pl.col("ref").is_not_null(), is_kept, ~excused)
    return matched.sort(*_PLACE, "order")


def _gone(matched: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    """Give the step and the reference step of the records that would have to move."""
    if (matched["ref_step"] == matched["step"]).all():
        return matched.clear().select(_PLACE)
    # what both sides are known to have used in the same step stands in its place
    known = windows.resumed.known.select("step", pl.col("step").alias("ref_step"), "n")
    counts = matched.group_by(_PLACE).agg(pl.len().cast(pl.Int64).alias("n"))
    groups = pl.concat([counts, known]).group_by(_PLACE).agg(pl.col("n").sum()).sort(_PLACE)
    kept = heaviest_non_decreasing(groups["ref_step"].to_list(), groups["n"].to_list())
    return groups.filter(~pl.int_range(pl.len()).is_in(kept)).select(_PLACE)


def heaviest_non_decreasing(values: list[int], weights: list[int]) -> list[int]:
    """Give the indices of a non-decreasing subsequence of the largest weight."""
    tops: list[int] = []
    weight_through: list[int] = []
    top_index: list[int] = []
    before: list[int] = []
    for index, (value, weight) in enumerate(zip(values, weights, strict=True)):
        # of all that may stand before, what is heaviest; a top is lighter than those after it
        place = bisect_right(tops, value)
        before.append(top_index[place - 1] if place else -1)
        through = weight + (weight_through[place - 1] if place else 0)
        begin = place - 1 if place and tops[place - 1] == value else place
        end = bisect_right(weight_through, through, lo=begin)
        tops[begin:end], weight_through[begin:end] = [value], [through]
        top_index[begin:end] = [index]
    kept = []
    index = top_index[-1] if top_index else -1
    while index >= 0:
        kept.append(index)
        index = before[index]
    return kept[::-1]
