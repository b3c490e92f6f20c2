"""Knows which repeats a contract declares: so many uses of a sample in one pass, by source."""

from collections.abc import Mapping

import polars as pl

from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IS_USED

EVERY_OTHER = "*"
"""The sources that are not named."""


def times(repeats: Mapping[str, int], source: str | None) -> int:
    """Say how often a sample of a source may be used in one pass."""
    named = None if source is None else repeats.get(source)
    return repeats.get(EVERY_OTHER, 1) if named is None else named


def within_declared(facts: Facts, repeats: Mapping[str, int]) -> pl.Expr:
    """
    Tell of each resumed record whether its use is one of those that its source may have.

    Where the reference covers the step, the reference tells how often a sample comes.
    """
    rows = facts.resumed.filter(~pl.col("beyond"))
    if not repeats or rows.is_empty():
        return pl.lit(value=False)
    earlier = facts.committed.filter(IS_USED).group_by("key").agg(pl.len().alias("uses"))
    uses = (
        rows.join(earlier, on="key", how="left", maintain_order="left")
        .select(
            "source",
            nth=pl.col("uses").fill_null(0) + IS_USED.cum_sum().over("key", order_by="order"),
        )
        .with_columns(
            most=pl.col("source").replace_strict(
                repeats, default=repeats.get(EVERY_OTHER, 1), return_dtype=pl.Int64
            )
        )
    )
    return ~pl.col("covered") & pl.lit(uses["nth"] <= uses["most"])
