"""Draws the picture of a resume: ranks down, steps across, a line at the checkpoint."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ledger_audit.model import Picture, Strip
from ledger_audit.printable import ranges_of
from ledger_audit.report.html_page.drawing import (
    Drawing,
    Grid,
    Shape,
    Words,
    box,
    cut,
    line,
    runs,
    ticks,
)
from ledger_audit.report.marks import LETTERS
from ledger_audit.report.picture import folded, legend_of, name_of

WIDTH = 1000
SIDE, LETTER = 92, 7.2
"""Pixels for the name of a side, and for one letter of the name of a strip."""
SHORTEST, LONGEST = 12, 26
"""Letters of the name of a strip that there is room for."""
TOP = 38
WIDEST, LOWEST_WITH_LETTERS = 24.0, 11.0
MOST_LETTERED = 1600
"""Cells beyond which letters would be a grey mass."""
SLOTS_BEFORE, SLOTS_AFTER = 3, 33
"""Columns of the picture of slots on either side of the checkpoint."""


@dataclass(frozen=True)
class Letters:
    """One row of a picture in letters: for those who do not see it, or want to be sure."""

    ranks: str
    side: str
    before: str
    """Letters of the columns up to the checkpoint."""
    after: str


@dataclass(frozen=True)
class Sheet:
    """A picture, and the same in letters."""

    drawing: Drawing
    letters: tuple[Letters, ...]
    legend: tuple[tuple[str, str, str], ...]
    """Letter, what it means, and a kind of cell that it stands for."""
    columns: str
    """What one column is, in words."""
    steps: str
    """First and last step of every column, for the scripts."""


def sheet_of(
    picture: Picture, checkpoint: int, sides: tuple[str, str], *, name: str, most: int
) -> Sheet | None:
    """
    Draw a resume.

    Args:
        picture: the cells.
        checkpoint: C; a line stands after its column.
        sides: what to call the reference and the resumed window.
        name: of the drawing.
        most: strips; more are folded.

    Returns:
        Null where there is nothing to draw.
    """
    if not picture.strips:
        return None
    return _sheet(picture, folded(picture.strips, most), checkpoint, sides, name)


def slots_of(
    picture: Picture, checkpoint: int, sides: tuple[str, str], *, name: str
) -> Sheet | None:
    """Draw the steps around the checkpoint slot by slot; null where there is one slot."""
    if not picture.slots:
        return None
    bar = _bar(picture, checkpoint)
    near = slice(max(0, bar - SLOTS_BEFORE), bar + SLOTS_AFTER)
    strips = [
        replace(one, reference=one.reference[near], resumed=one.resumed[near])
        for one in picture.slots
    ]
    return _sheet(replace(picture, columns=picture.columns[near]), strips, checkpoint, sides, name)


def _bar(picture: Picture, checkpoint: int) -> int:
    """Count the columns up to the checkpoint."""
    return sum(1 for _, last in picture.columns if last <= checkpoint)


def _sheet(
    picture: Picture, strips: Sequence[Strip], checkpoint: int, sides: tuple[str, str], name: str
) -> Sheet:
    count = len(picture.columns)
    bar = _bar(picture, checkpoint)
    names = max(len(_title(strip)) for strip in strips)
    left = SIDE + LETTER * min(max(names, SHORTEST), LONGEST)
    cell = min(WIDEST, (WIDTH - left - 4) / max(1, count))
    row = 18.0 if len(strips) <= 12 else 12.0 if len(strips) <= 32 else 9.0
    grid = Grid(left, cell, TOP, 2 * row + (8 if len(strips) <= 32 else 4), row)
    height = TOP + grid.strip * len(strips) + 4
    words = [*_names(strips, grid, sides), *_axis(picture, grid, bar)]
    if count * len(strips) * 2 <= MOST_LETTERED and min(cell, row) >= LOWEST_WITH_LETTERS:
        words += _lettered(strips, grid)
    shapes = [*_cells(strips, grid)]
    if bar:
        x = left + bar * cell
        shapes.append(Shape(line(x, 20, x, height - 2), "checkpoint"))
        words.append(Words(x, 14, f"checkpoint {checkpoint:,}", "strong middle"))
    legend = [
        (letter, meaning, next(_kinds(strips, letter))) for letter, meaning in legend_of(strips)
    ]
    width = max(last - first + 1 for first, last in picture.columns)
    worst = legend[0][1] if legend else "nothing"
    return Sheet(
        Drawing(
            name,
            f"Steps {picture.columns[0][0]:,} to {picture.columns[-1][1]:,} across, ranks down; "
            f"the worst that occurs is {worst}. The letters below tell every cell.",
            left + cell * count + 4,
            height,
            tuple(shapes),
            tuple(words),
            grid,
        ),
        tuple(_letters(strips, bar, sides)),
        tuple(legend),
        "one step" if width == 1 else f"the worst of up to {width:,} steps",
        " ".join(
            f"{first}-{last}" if first != last else f"{first}" for first, last in picture.columns
        ),
    )


def _title(strip: Strip) -> str:
    slots = (
        f", slot{'s' if _several(strip) else ''} {ranges_of(strip.slots)}" if strip.slots else ""
    )
    return name_of(strip) + slots


def _several(strip: Strip) -> bool:
    return len(strip.slots) > 1 or strip.slots[0][0] != strip.slots[0][1]


def _names(strips: Sequence[Strip], grid: Grid, sides: tuple[str, str]) -> Iterator[Words]:
    is_high = grid.row >= 11
    for place, strip in enumerate(strips):
        y = grid.top + place * grid.strip
        title = _title(strip)
        yield Words(0, y + min(13, grid.row + 3), cut(title, LONGEST), "name", title)
        for nth, side in enumerate(sides if is_high else ()):
            base = y + grid.row * nth + grid.row / 2 + 4
            yield Words(grid.left - 8, base, side, "side end")


def _axis(picture: Picture, grid: Grid, bar: int) -> Iterator[Words]:
    """Name some of the steps over their columns."""
    firsts = [first for first, _ in picture.columns]
    room = max(1, int(len(firsts) * grid.cell / 60))
    named = set(ticks(0, len(firsts) - 1 - bar, room))
    reached = -1.0
    for place in sorted({0, *(bar + one for one in named if bar + one < len(firsts))}):
        x = grid.left + (place + 0.5) * grid.cell
        text = f"{firsts[place]:,}"
        if x - 4 * len(text) > reached:
            yield Words(x, grid.top - 6, text, "tick middle")
            reached = x + 4 * len(text) + 6


def _cells(strips: Sequence[Strip], grid: Grid) -> Iterator[Shape]:
    """Give one path for each kind of cell; neighbours of a kind are one box."""
    paths: dict[str, list[str]] = {}
    for place, strip in enumerate(strips):
        for nth, cells in enumerate((strip.reference, strip.resumed)):
            y = grid.top + place * grid.strip + nth * grid.row
            for kind, start, length in runs(cells):
                x = grid.left + start * grid.cell
                paths.setdefault(kind, []).append(
                    box(x, y, length * grid.cell, grid.row - (1 if grid.row > 8 else 0.5))
                )
    for kind in LETTERS:
        if kind in paths:
            yield Shape("".join(paths[kind]), f"cell kind-{kind}")


def _lettered(strips: Sequence[Strip], grid: Grid) -> Iterator[Words]:
    for place, strip in enumerate(strips):
        for nth, cells in enumerate((strip.reference, strip.resumed)):
            y = grid.top + place * grid.strip + nth * grid.row + grid.row / 2 + 3.5
            for kind, start, length in runs(cells):
                if LETTERS[kind] not in ".=+":  # what is in order needs no letter
                    x = grid.left + (start + length / 2) * grid.cell
                    yield Words(x, y, LETTERS[kind], "letter middle")


def _letters(strips: Sequence[Strip], bar: int, sides: tuple[str, str]) -> Iterator[Letters]:
    for strip in strips:
        for side, cells in zip(sides, (strip.reference, strip.resumed), strict=True):
            text = "".join(" " if one is None else LETTERS[one] for one in cells)
            yield Letters(_title(strip), side, text[:bar], text[bar:])


def _kinds(strips: Sequence[Strip], letter: str) -> Iterator[str]:
    seen = {kind for strip in strips for kind in (*strip.reference, *strip.resumed)}
    return (kind for kind, its in LETTERS.items() if its == letter and kind in seen)
