"""Counts records in every unit that a claim may use."""

from collections.abc import Mapping, Sequence

import polars as pl

AMOUNTS: Mapping[str, pl.DataType] = {
    "records": pl.Int64(),
    "sequences": pl.Int64(),
    "spans": pl.Int64(),
    "tokens": pl.Int64(),
    "micro-batches": pl.Int64(),
    "placed": pl.Int64(),
}
"""`spans` are the records that have one, `tokens` those of their spans, `placed` the records with
a position."""

_MICRO_BATCH = ["rank", "step", "slot", "try_seq"]


def counted(records: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """
    Sum up records by some of their columns.

    What several passes share, a sequence or a micro-batch, counts in the first of them.

    Args:
        records: RECORDS; a try is in one group.
        by: columns, with `rank` and `epoch` among them.

    Returns:
        `by` and AMOUNTS.
    """
    span = pl.col("token_end") - pl.col("token_start")
    lines = records.group_by(by).agg(
        pl.len().cast(pl.Int64).alias("records"),
        span.count().cast(pl.Int64).alias("spans"),
        span.sum().cast(pl.Int64).alias("tokens"),
        pl.col("position").count().cast(pl.Int64).alias("placed"),
    )
    for name, extra in (("sequences", ["row"]), ("micro-batches", [])):
        keys = [*_MICRO_BATCH, *extra]
        rest = [column for column in by if column not in keys and column != "epoch"]
        first = records.group_by([*keys, *rest]).agg(pl.col("epoch").min())
        counts = first.group_by(by).agg(pl.len().cast(pl.Int64).alias(name))
        lines = lines.join(counts, on=by, how="left", nulls_equal=True)
    return lines.with_columns(
        pl.col("sequences").fill_null(0), pl.col("micro-batches").fill_null(0)
    )
