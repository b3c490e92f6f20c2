"""
Draws a resume as cells, ranks down and steps across, each cell the worst that happened in it.

Large runs are binned here, so that no reporter meets more cells than a page can show.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import polars as pl

from ledger_audit.continuity.classify import WORST_EXPECTED, WORST_RESUMED, Classified
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.continuity.windows import Windows
from ledger_audit.model import COMMITTED, Expected, Overlay, Picture, Resumed, Strip

MOST_BEFORE = 12
"""Columns before the checkpoint: nothing is judged there."""
MOST_AFTER = 160
MOST_STRIPS = 64

_UNEXPECTED = WORST_RESUMED.index(Resumed.UNEXPECTED)
_SEVERITY = [
    *WORST_RESUMED[: _UNEXPECTED + 1],
    Overlay.OUT_OF_ORDER,
    *WORST_RESUMED[_UNEXPECTED + 1 :],
    *WORST_EXPECTED,
    COMMITTED,
]
_CODE = {str(name): chr(ord("A") + index) for index, name in enumerate(_SEVERITY)}
"""One letter for each kind of cell, the worst first: the least letter of several is the worst."""
_KIND: dict[str, str | None] = {code: name for name, code in _CODE.items()}
_EMPTY = "~"
"""Nothing happened in the cell; after every letter."""
_KIND[_EMPTY] = None

_BEFORE_AND_AFTER = ("reference", "resumed")


def draw(windows: Windows, classified: Classified, disordered: pl.DataFrame) -> Picture:
    """
    Draw one resume.

    Args:
        windows: its three windows.
        classified: what happened to the records of two of them.
        disordered: rows of the resumed window that are out of order.
    """
    parts = [
        _cells(windows.committed.within.filter(IS_USED), COMMITTED),
        _cells(classified.expected, pl.col("worst")),
        _cells(classified.resumed, pl.col("worst"), side="resumed"),
    ]
    if not disordered.is_empty():
        parts.append(_cells(disordered, str(Overlay.OUT_OF_ORDER), side="resumed"))
    cells = pl.concat([*parts, *_alike(windows)])
    columns = _columns(cells["step"], windows.checkpoint_step)
    if not columns or cells.is_empty():
        return Picture((), ())
    starts = pl.Series([first for first, _ in columns], dtype=pl.Int64)
    cells = cells.filter(pl.col("step") >= columns[0][0])
    cells = cells.with_columns(column=starts.search_sorted(cells["step"], side="right") - 1)
    lines = {side: _lines(cells, side, len(columns)) for side in _BEFORE_AND_AFTER}
    ranks = cells["rank"].unique().sort().to_list()
    blank = _EMPTY * len(columns)
    rows = [(lines["reference"].get(one, blank), lines["resumed"].get(one, blank)) for one in ranks]
    return Picture(columns, tuple(_strips(ranks, rows)))


def _alike(windows: Windows) -> Iterator[pl.DataFrame]:
    """Give cells of the steps that both sides are known to have consumed alike."""
    kinds = {"reference": Expected.MATCHED, "resumed": Resumed.IN_PLACE}
    for side, kind in kinds.items():
        window = getattr(windows, side)
        if window.known.is_empty():
            continue
        ranks = window.records.select("rank").unique()
        cells = window.known.select("step").join(ranks, how="cross")
        yield _cells(cells, str(kind), side=side)


def _cells(rows: pl.DataFrame, kind: str | pl.Expr, side: str = "reference") -> pl.DataFrame:
    """Give rank, step, side and code of the worst of each rank's step."""
    named = pl.lit(kind) if isinstance(kind, str) else kind
    return (
        rows.select("rank", "step", side=pl.lit(side), code=named.replace_strict(_CODE))
        .group_by("rank", "step", "side")
        .agg(pl.col("code").min())
    )


def _columns(steps: pl.Series, checkpoint: int) -> tuple[tuple[int, int], ...]:
    """Give the ranges of steps that share a column: single ones as long as there is room."""
    before = steps.filter(steps <= checkpoint).unique().sort().tail(MOST_BEFORE).to_list()
    columns = [(one, one) for one in before]
    last = steps.max()
    if isinstance(last, int) and last > checkpoint:
        width = -(-(last - checkpoint) // MOST_AFTER)
        columns += [
            (first, min(first + width - 1, last))
            for first in range(checkpoint + 1, last + 1, width)
        ]
    return tuple(columns)


def _lines(cells: pl.DataFrame, side: str, columns: int) -> dict[int, str]:
    """Give for each rank one letter a column."""
    own = cells.filter(side=side).group_by("rank", "column").agg(pl.col("code").min())
    places = pl.DataFrame({"column": range(columns)}, schema={"column": own.schema["column"]})
    grid = own.select("rank").unique().join(places, how="cross")
    lines = (
        grid.join(own, on=["rank", "column"], how="left")
        .sort("rank", "column")
        .group_by("rank", maintain_order=True)
        .agg(pl.col("code").fill_null(_EMPTY).str.join(""))
    )
    return dict(lines.iter_rows())


def _strips(ranks: Sequence[int], rows: Sequence[tuple[str, str]]) -> list[Strip]:
    """Fold neighbours that look alike into one strip, then, where there are many, any."""
    found: list[tuple[list[int], tuple[str, str]]] = []
    pairs = zip(ranks, rows, strict=True)
    for row, alike in groupby(pairs, key=lambda pair: pair[1]):
        found.append(([rank for rank, _ in alike], row))
    size = -(-len(found) // MOST_STRIPS)
    folded = [found[start : start + size] for start in range(0, len(found), size)]
    return [
        _strip([rank for one, _ in band for rank in one], [row for _, row in band])
        for band in folded
    ]


def _strip(ranks: list[int], rows: Sequence[tuple[str, str]]) -> Strip:
    reference, resumed = (
        tuple(_KIND[min(letters)] for letters in zip(*lines, strict=True))
        for lines in zip(*rows, strict=True)
    )
    return Strip((ranks[0], ranks[-1]), len(ranks), reference, resumed)
