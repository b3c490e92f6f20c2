"""
Sets where resumed records belong against where they came: a clean run is the diagonal.

Large runs are binned here, so that no reporter meets more cells than a page can show.
"""

import polars as pl

from ledger_audit.continuity.classify import WORST_RESUMED, Classified
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.model import Expected, Resumed
from ledger_audit.model.picture import OrderPlot, PlotCell

MOST_BINS = 96
"""Bins of either axis."""

_PLACED = pl.Schema({"step": pl.Int64, "place": pl.Int64, "kind": pl.String, "n": pl.Int64})
"""Resumed step, the step where its records belong, `matched` or `replayed`, how many."""


def plot(facts: Facts, classified: Classified) -> OrderPlot | None:
    """
    Plot one resume.

    A record that has a match belongs to the match's step; one that was replayed to the last step
    before the checkpoint that had used it. What is fresh, unexpected or used twice has no place of
    its own. Void tries are left out.

    Returns:
        Null where the resumed attempt used nothing.
    """
    windows = facts.known.windows
    rows = classified.resumed.filter(IS_USED)
    placed = pl.concat([_matched(facts, rows), _replayed(facts, rows)])
    steps = pl.concat([rows["step"], windows.resumed.known["step"]])
    if steps.is_empty():
        return None
    skipped = classified.expected.filter(pl.col("worst") == Expected.SKIPPED)
    reference = pl.concat([windows.reference.within["step"], windows.reference.known["step"]])
    places = pl.concat([placed["place"], reference, skipped["step"]])
    across = _ends(steps)
    up = _ends(places if len(places) else steps)
    width, height = _bin(across), _bin(up)
    column = ((pl.col("step") - across[0]) // width).alias("column")
    row = ((pl.col("place") - up[0]) // height).alias("row")
    cells = placed.group_by(column, row, "kind").agg(pl.col("n").sum())
    gone = skipped.group_by(_row_of(up[0], height)).agg(pl.col("record").n_unique().alias("n"))
    lone = (
        _placeless(rows).group_by(column).agg(pl.col("record").n_unique(), pl.col("severity").min())
    )
    return OrderPlot(
        across=across,
        up=up,
        steps_across=width,
        steps_up=height,
        cells=tuple(
            PlotCell(one["column"], one["row"], one["n"], one["kind"])
            for one in cells.sort("column", "row", "kind").iter_rows(named=True)
        ),
        skipped=tuple(gone.sort("row").iter_rows()),
        placeless=tuple(
            (place, records, str(WORST_RESUMED[severity]))
            for place, records, severity in lone.sort("column").iter_rows()
        ),
    )


def _row_of(first: int, height: int) -> pl.Expr:
    """Give the row of a reference step."""
    return ((pl.col("step") - first) // height).alias("row")


def _matched(facts: Facts, rows: pl.DataFrame) -> pl.DataFrame:
    """Count matched records, and those of steps that both sides consumed alike."""
    found = rows.filter(pl.col("ref").is_not_null()).group_by("step", place="ref_step")
    matched = found.agg(n=pl.col("record").n_unique().cast(pl.Int64))
    known = facts.known.windows.resumed.known.select("step", "n", place="step")
    named = [one.with_columns(kind=pl.lit("matched")) for one in (matched, known)]
    return pl.concat([one.select(list(_PLACED)).cast(_PLACED) for one in named])


def _replayed(facts: Facts, rows: pl.DataFrame) -> pl.DataFrame:
    """Count replayed records by the last committed step that had used them."""
    again = rows.filter(pl.col("worst") == Resumed.REPLAYED, pl.col("ref").is_null())
    before = facts.committed.filter(IS_USED, pl.col("key").is_in(again["key"].unique().implode()))
    last = before.group_by("key").agg(place=pl.col("step").max())
    found = again.join(last, on="key").group_by("step", "place")
    counted = found.agg(n=pl.col("record").n_unique()).with_columns(kind=pl.lit("replayed"))
    return counted.select(list(_PLACED)).cast(_PLACED)


def _placeless(rows: pl.DataFrame) -> pl.DataFrame:
    rank_of = {str(name): index for index, name in enumerate(WORST_RESUMED)}
    severity = pl.col("worst").replace_strict(rank_of, return_dtype=pl.Int8)
    lone = rows.filter(pl.col("ref").is_null(), pl.col("worst") != Resumed.REPLAYED)
    return lone.with_columns(severity=severity)


def _ends(steps: pl.Series) -> tuple[int, int]:
    first, last = steps.min(), steps.max()
    assert isinstance(first, int)
    assert isinstance(last, int)
    return first, last


def _bin(ends: tuple[int, int]) -> int:
    return -(-(ends[1] - ends[0] + 1) // MOST_BINS)
