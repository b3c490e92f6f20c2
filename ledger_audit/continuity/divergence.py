"""Finds the first step in which a run and its control consumed different samples."""

import polars as pl

from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IS_USED


def first_divergence(facts: Facts) -> int | None:
    """
    Give the first step whose samples differ between a stream and its control; null: none.

    Rank and slot do not matter. Padding is forgiven, and so are as many records as are known to
    be missing in the step. Steps that only one of the two has are no difference.

    Args:
        facts: of the stream (resumed) against the control (reference), from step 1.
    """
    with_padding = _differing(facts, pl.lit(value=True))
    without = _differing(facts, ~pl.col("tail"))
    step = with_padding.join(without, on="step", how="semi")["step"].min()
    return step if isinstance(step, int) else None


def _differing(facts: Facts, compared: pl.Expr) -> pl.DataFrame:
    """Give the steps in which the compared records differ by more than is known to be missing."""
    windows = facts.known.windows
    ours = _by_step(facts.resumed.filter(compared), windows.resumed.steps, "ours")
    theirs = _by_step(facts.reference.filter(compared), windows.reference.steps, "theirs")
    last = min(_last(windows.resumed.steps), _last(windows.reference.steps))
    lost = [
        side.steps.group_by("step").agg(pl.col("missing").sum().alias(name))
        for side, name in ((windows.resumed, "ours_lost"), (windows.reference, "theirs_lost"))
    ]
    return (
        ours.join(theirs, on=["step", "key"], how="full", coalesce=True)
        .filter(pl.col("step") <= last)
        .with_columns(pl.col("ours", "theirs").fill_null(0))
        .group_by("step")
        .agg(
            more=(pl.col("ours") - pl.col("theirs")).clip(0).sum(),
            fewer=(pl.col("theirs") - pl.col("ours")).clip(0).sum(),
        )
        .join(lost[0], on="step", how="left")
        .join(lost[1], on="step", how="left")
        .filter(
            (pl.col("more") > pl.col("theirs_lost").fill_null(0))
            | (pl.col("fewer") > pl.col("ours_lost").fill_null(0))
        )
    )


def _by_step(rows: pl.DataFrame, steps: pl.DataFrame, name: str) -> pl.DataFrame:
    settled = steps.filter("committed").select("step").unique()
    used = rows.filter(IS_USED).join(settled, on="step", how="semi")
    return used.group_by("step", "key").agg(pl.len().cast(pl.Int64).alias(name))


def _last(steps: pl.DataFrame) -> int:
    last = steps.filter("committed")["step"].max()
    return last if isinstance(last, int) else -1
