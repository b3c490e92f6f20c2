"""
Pairs the records of the resumed window with those of the reference; nothing is judged here.

First same identity, step, rank and slot; then same identity and step; then same identity. Void
tries take part only in a second pass, after all three rounds.
"""

import polars as pl

from ledger_audit.continuity.frames import IS_USED

_ROUNDS = (("key", "step", "rank", "slot"), ("key", "step"), ("key",))
_PAIRS = {"reference": pl.Int64(), "resumed": pl.Int64()}


def align(reference: pl.DataFrame, resumed: pl.DataFrame) -> pl.DataFrame:
    """
    Pair records of the same identity, the n-th left over with the n-th.

    Args:
        reference: keyed RECORDS.
        resumed: keyed RECORDS.

    Returns:
        PAIRS; each `order` of either side occurs at most once.
    """
    columns = ["order", "key", "step", "rank", "slot"]
    left, right = reference.select(*columns, "fate"), resumed.select(*columns, "fate")
    found: list[pl.DataFrame] = []
    for taking_part in (IS_USED, pl.lit(value=True)):
        for on in _ROUNDS:
            if left.is_empty() or right.is_empty():
                break
            pairs = _meet(left.filter(taking_part), right.filter(taking_part), list(on))
            left = left.join(pairs, left_on="order", right_on="reference", how="anti")
            right = right.join(pairs, left_on="order", right_on="resumed", how="anti")
            found.append(pairs)
    return pl.concat([pl.DataFrame(schema=_PAIRS), *found])


def _meet(left: pl.DataFrame, right: pl.DataFrame, on: list[str]) -> pl.DataFrame:
    if left["key"].n_unique() == left.height and right["key"].n_unique() == right.height:
        ours = left.select(pl.col("order").alias("reference"), *on)
        theirs = right.select(pl.col("order").alias("resumed"), *on)
        return ours.join(theirs, on=on).select("reference", "resumed")
    nth = pl.int_range(pl.len()).over(on).alias("nth")
    ours = left.sort("order").select("order", *on, nth)
    theirs = right.sort("order").select(pl.col("order").alias("resumed"), *on, nth)
    return ours.join(theirs, on=[*on, "nth"]).select(pl.col("order").alias("reference"), "resumed")
