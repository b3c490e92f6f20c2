"""What a drawing on the page is made of: filled shapes, lines and words, in pixels."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ledger_audit.model import COMMITTED, Expected, Overlay, Resumed

Hatch = Literal["plain", "rise", "fall", "cross", "lines", "bars", "dots"]


@dataclass(frozen=True)
class Shape:
    """One path, which may hold thousands of cells of one kind."""

    path: str
    css: str
    title: str | None = None


@dataclass(frozen=True)
class Words:
    """A few words, or one word at several places."""

    x: float
    y: float
    text: str
    css: str = ""
    title: str | None = None


@dataclass(frozen=True)
class Grid:
    """Where the cells of a picture are, so that a pointer can be told what it points at."""

    left: float
    cell: float
    top: float
    strip: float
    """From one strip to the next."""
    row: float
    """The height of a row; a strip has two."""


@dataclass(frozen=True)
class Drawing:
    """One picture of the page."""

    name: str
    """What it is, for those who do not see it."""
    text: str
    """What it shows, for them."""
    width: float
    height: float
    shapes: tuple[Shape, ...]
    words: tuple[Words, ...]
    grid: Grid | None = None

    @property
    def is_wide(self) -> bool:
        """It is better scrolled than made smaller than a hand."""
        return self.width > 620

    @property
    def size(self) -> int:
        """Characters that it takes on the page, roughly."""
        return sum(len(one.path) for one in self.shapes) + 90 * len(self.words)


HATCHES: Mapping[str, Hatch] = {
    Resumed.REPLAYED: "rise",
    Resumed.DUPLICATED: "bars",
    Resumed.REPEAT_UNEXPLAINED: "dots",
    Resumed.UNEXPECTED: "dots",
    Overlay.OUT_OF_ORDER: "lines",
    Resumed.VOID: "rise",
    Resumed.MOVED: "fall",
    Resumed.PADDING: "dots",
    Resumed.IN_PLACE: "plain",
    Resumed.FRESH: "plain",
    Expected.SKIPPED: "fall",
    Expected.UNDECIDED: "cross",
    Expected.DECLARED: "lines",
    Expected.REPEAT_MISSING: "bars",
    Expected.PENDING: "bars",
    Expected.MATCHED: "plain",
    Overlay.MISPLACED: "bars",
    Overlay.FORBIDDEN: "cross",
    COMMITTED: "plain",
    "kept": "plain",
    "superseded": "rise",
    "unknown": "dots",
}
"""Kind of a cell or a stretch → how it is hatched, so that no colour need be told from another."""

CUTS: Mapping[Hatch, str] = {
    "plain": "",
    "rise": "M-1 1L1 -1M0 6L6 0M5 7L7 5",
    "fall": "M-1 5L1 7M0 0L6 6M5 -1L7 1",
    "cross": "M0 0L6 6M6 0L0 6",
    "lines": "M0 1.5H6M0 4.5H6",
    "bars": "M1.5 0V6M4.5 0V6",
    "dots": "M1 1h1.6v1.6h-1.6zM4 4h1.6v1.6h-1.6z",
}
"""What is cut out of a tile of six by six pixels."""

SOURCES = 7
"""Data sets with a colour of their own."""
SOURCE_HATCHES: tuple[Hatch, ...] = ("plain", "rise", "plain", "fall", "plain", "dots", "bars")


def number(value: float) -> str:
    """Give a number of pixels, without what nobody sees."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


def box(x: float, y: float, width: float, height: float) -> str:
    """Give the path of a box."""
    w, h = number(width), number(height)
    return f"M{number(x)} {number(y)}h{w}v{h}h-{w}z"


def line(x: float, y: float, to_x: float, to_y: float) -> str:
    """Give the path of a line."""
    return f"M{number(x)} {number(y)}L{number(to_x)} {number(to_y)}"


def runs(cells: Iterable[str | None]) -> Iterable[tuple[str, int, int]]:
    """Give each stretch of equal cells: what it is, where it begins and how long it is."""
    kind, start, place = None, 0, 0
    for place, cell in enumerate([*cells, None]):
        if cell != kind:
            if kind is not None:
                yield kind, start, place - start
            kind, start = cell, place


def cut(text: str, most: int) -> str:
    """Give so many characters at most."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def ticks(first: int, last: int, most: int) -> list[int]:
    """Give round numbers between two, at most so many."""
    span = max(1, last - first)
    step, factor = 1, 0
    while span / step > most:
        factor += 1
        step = (1, 2, 5)[factor % 3] * 10 ** (factor // 3)
    return list(range(-(-first // step) * step, last + 1, step))
