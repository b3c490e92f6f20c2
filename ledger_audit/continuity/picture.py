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
from ledger_audit.model.ranges import Ranges, closed_ranges

MOST_BEFORE = 12
"""Columns before the checkpoint: nothing is judged there."""
MOST_AFTER = 160
MOST_STRIPS = 64
MOST_SLOTS = 32
"""Bins of slots of one strip."""
MOST_SLOT_STRIPS = 96

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
_ANY = -1
"""The slot of what is known to be alike on both sides, whose records were not looked at."""

_Columns = tuple[tuple[int, int], ...]
"""The first and the last step of each."""


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
    cells = pl.concat(parts)
    known = [windows.reference.known["step"], windows.resumed.known["step"]]
    columns = _columns(pl.concat([cells["step"], *known]), windows.checkpoint_step)
    if not columns:
        return Picture((), ())
    cells = pl.concat([_in_columns(cells, columns), *_alike(windows, columns)])
    cells = cells.group_by("rank", "slot", "column", "side").agg(pl.col("code").min())
    if cells.is_empty():
        return Picture((), ())
    ranks = [one for (one,) in cells.select("rank").unique().sort("rank").iter_rows()]
    looks = _looks(cells, ["rank"], len(columns))
    strips = _strips([([one], looks[one,]) for one in ranks], MOST_STRIPS)
    told = tuple(_strip(members, pairs) for members, pairs in strips)
    slots = _by_slot(cells, [members for members, _ in strips], len(columns))
    return Picture(columns, told, tuple(slots))


def _in_columns(cells: pl.DataFrame, columns: _Columns) -> pl.DataFrame:
    """Give the cells that have a column, with its place for their step."""
    starts = pl.Series([first for first, _ in columns], dtype=pl.Int64)
    cells = cells.filter(pl.col("step") >= columns[0][0])
    return cells.with_columns(column=starts.search_sorted(cells["step"], side="right") - 1).drop(
        "step"
    )


def _alike(windows: Windows, columns: _Columns) -> Iterator[pl.DataFrame]:
    """Give cells of the steps that both sides are known to have consumed alike, in columns."""
    kinds = {"reference": Expected.MATCHED, "resumed": Resumed.IN_PLACE}
    for side, kind in kinds.items():
        window = getattr(windows, side)
        if window.known.is_empty():
            continue
        ranks = window.records.select("rank").unique()
        known = _in_columns(window.known.select("step"), columns).unique()
        yield ranks.join(known, how="cross").select(
            "rank",
            slot=pl.lit(_ANY, pl.Int32),
            side=pl.lit(side),
            code=pl.lit(_CODE[str(kind)]),
            column="column",
        )


def _cells(rows: pl.DataFrame, kind: str | pl.Expr, side: str = "reference") -> pl.DataFrame:
    """Give rank, slot, step, side and code of the worst of each rank's slot."""
    named = pl.lit(kind) if isinstance(kind, str) else kind
    return (
        rows.select("rank", "slot", "step", side=pl.lit(side), code=named.replace_strict(_CODE))
        .group_by("rank", "slot", "step", "side")
        .agg(pl.col("code").min())
    )


def _columns(steps: pl.Series, checkpoint: int) -> _Columns:
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


_Lines = tuple[str, str]
"""One letter a column, of the reference and of the resumed window."""


def _looks(cells: pl.DataFrame, by: list[str], columns: int) -> dict[tuple[int, ...], _Lines]:
    """Give how each rank, or whatever cells are gathered by, looks on both sides."""
    sides = [_lines(cells.filter(side=side), by, columns) for side in _BEFORE_AND_AFTER]
    blank = _EMPTY * columns
    before, after = sides
    return {
        one: (before.get(one, blank), after.get(one, blank))
        for one in sorted(before.keys() | after.keys())
    }


def _lines(cells: pl.DataFrame, by: list[str], columns: int) -> dict[tuple[int, ...], str]:
    own = cells.group_by(*by, "column").agg(pl.col("code").min())
    places = pl.DataFrame({"column": range(columns)}, schema={"column": own.schema["column"]})
    grid = own.select(by).unique().join(places, how="cross")
    lines = (
        grid.join(own, on=[*by, "column"], how="left")
        .sort(*by, "column")
        .group_by(by, maintain_order=True)
        .agg(pl.col("code").fill_null(_EMPTY).str.join(""))
    )
    return {tuple(row[:-1]): row[-1] for row in lines.iter_rows()}


_Band = tuple[list[int], list[_Lines]]
"""Neighbours, and how they look."""


def _strips(rows: Sequence[tuple[list[int], _Lines]], most: int) -> list[_Band]:
    """Fold neighbours that look alike into one strip, then, where there are many, any."""
    found: list[_Band] = []
    for look, alike in groupby(rows, key=lambda row: row[1]):
        found.append(([one for members, _ in alike for one in members], [look]))
    size = -(-len(found) // most)
    return [_together(found[start : start + size]) for start in range(0, len(found), size)]


def _together(bands: Sequence[_Band]) -> _Band:
    return (
        [one for members, _ in bands for one in members],
        [look for _, looks in bands for look in looks],
    )


def _strip(ranks: list[int], looks: Sequence[_Lines], slots: Ranges = ()) -> Strip:
    reference, resumed = (
        tuple(_KIND[min(letters)] for letters in zip(*lines, strict=True))
        for lines in zip(*looks, strict=True)
    )
    return Strip((ranks[0], ranks[-1]), len(ranks), reference, resumed, slots)


def _by_slot(cells: pl.DataFrame, bands: Sequence[list[int]], columns: int) -> Iterator[Strip]:
    """Give the strips once more, slot by slot; none where there are no several slots."""
    slots = cells.filter(pl.col("slot") != _ANY).select("slot").unique().sort("slot")
    if slots.height < 2:
        return
    size = -(-len(bands) * min(slots.height, MOST_SLOTS) // MOST_SLOT_STRIPS)
    bands = [
        [one for band in bands[start : start + size] for one in band]
        for start in range(0, len(bands), size)
    ]
    band_of = pl.DataFrame(
        [(rank, place) for place, band in enumerate(bands) for rank in band],
        schema={"rank": cells.schema["rank"], "band": pl.Int64},
        orient="row",
    )
    alike = cells.filter(slot=_ANY).drop("slot").join(slots, how="cross")
    every = pl.concat([cells.filter(pl.col("slot") != _ANY), alike.select(cells.columns)])
    looks = _looks(every.join(band_of, on="rank"), ["band", "slot"], columns)
    for place, band in enumerate(bands):
        own = [([slot], look) for (at, slot), look in looks.items() if at == place]
        for members, pairs in _strips(own, MOST_SLOTS):
            yield _strip(band, pairs, closed_ranges(members))
