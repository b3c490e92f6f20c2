"""Sets the picture of a resume in lines of letters, as wide as there is room."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from ledger_audit.model import COMMITTED, Picture, Strip
from ledger_audit.report.marks import LETTERS, STYLES

MOST_BANDS = 12
TICK = 10
"""Columns from one named step to the next."""

Cells = tuple[str | None, ...]
_WORST_FIRST = tuple(LETTERS)


def set_picture(
    picture: Picture, checkpoint: int, *, width: int, sides: tuple[str, str]
) -> Iterator[Text]:
    """
    Give the lines of a picture: steps across, two lines for each band of ranks, a legend.

    Args:
        picture: the cells.
        checkpoint: C; a bar stands after its column.
        width: of the screen, in characters.
        sides: what to call the reference and the resumed window.
    """
    if not picture.strips:
        return
    bands = _alike(folded(picture.strips, MOST_BANDS))
    names = [name_of(strip) for strip in bands]
    label = max(len(name) for name in names) + 2 + max(len(side) for side in sides) + 2
    before = sum(1 for _, last in picture.columns if last <= checkpoint)
    groups = _groups(len(picture.columns), before, max(10, width - label - 3))
    columns = [(picture.columns[group[0]][0], picture.columns[group[-1]][1]) for group in groups]
    bar = sum(1 for _, last in columns if last <= checkpoint)
    if checkpoint and bar:
        yield Text(f"{'':{label}}{_over(bar, checkpoint)}", style="bold")
    yield Text(f"{'step':<{label}}{_axis([first for first, _ in columns], bar)}", style="dim")
    for name, strip in zip(names, bands, strict=True):
        for title, side, cells in zip(
            (name, ""), sides, (strip.reference, strip.resumed), strict=True
        ):
            line = Text(f"{title:<{label - len(max(sides, key=len)) - 2}}{side}")
            line.pad_right(label - line.cell_len)
            yield line + _line([_worst(cells, group) for group in groups], bar)
    yield from _legend(picture, width, columns[-1])


def name_of(strip: Strip) -> str:
    """Name the ranks of a strip, and how many they are where not all of them log."""
    first, last = strip.ranks
    if first == last:
        return f"rank {first}"
    some = "" if strip.count == last - first + 1 else f" ({strip.count})"
    return f"ranks {first}-{last}{some}"


def folded(strips: Sequence[Strip], most: int) -> list[Strip]:
    """Fold neighbours, alike or not, into at most so many."""
    size = -(-len(strips) // most)
    return [_fold(strips[start : start + size]) for start in range(0, len(strips), size or 1)]


def _alike(bands: Sequence[Strip]) -> list[Strip]:
    """Set neighbours in one band that show the same once they are folded."""
    groups = groupby(bands, key=lambda one: (one.reference, one.resumed))
    return [_fold(list(group)) for _, group in groups]


def _fold(strips: Sequence[Strip]) -> Strip:
    if len(strips) == 1:
        return strips[0]
    return Strip(
        (strips[0].ranks[0], strips[-1].ranks[1]),
        sum(strip.count for strip in strips),
        _folded([strip.reference for strip in strips]),
        _folded([strip.resumed for strip in strips]),
    )


def _folded(lines: Sequence[Cells]) -> Cells:
    return tuple(_worst(cells, range(len(cells))) for cells in zip(*lines, strict=True))


def _worst(cells: Cells, group: range) -> str | None:
    there = [cell for cell in (cells[index] for index in group) if cell is not None]
    return min(there, key=_WORST_FIRST.index, default=None)


def _groups(columns: int, before: int, room: int) -> list[range]:
    """Fold columns after the checkpoint until they fit; those before it stay single, or go."""
    kept = min(before, room // 4)
    after = columns - before
    size = max(1, -(-after // (room - kept)))
    singles = [range(index, index + 1) for index in range(before - kept, before)]
    return singles + [
        range(index, min(index + size, columns)) for index in range(before, columns, size)
    ]


def _over(bar: int, checkpoint: int) -> str:
    """Write the checkpoint's name so that its last character stands over its column."""
    name = f"checkpoint {checkpoint}"
    return f"{name:>{bar}}" if len(name) <= bar else f"{'':{bar}}|{name}"


def _axis(firsts: Sequence[int], bar: int) -> str:
    """Name some of the steps over their columns."""
    line = ""
    named = [0, *range(bar, len(firsts), TICK)]
    for index in sorted(set(named)):
        place = index + (1 if bar and index >= bar else 0)
        text = str(firsts[index])
        if place >= len(line) + (1 if line else 0):
            line = f"{line:<{place}}{text}"
    if bar and len(line) > bar and line[bar] == " ":
        line = f"{line[:bar]}|{line[bar + 1 :]}"
    return line


def _line(cells: Sequence[str | None], bar: int) -> Text:
    line = Text()
    for index, cell in enumerate(cells):
        if bar and index == bar:
            line.append("|", style="bold")
        line.append(" " if cell is None else LETTERS[cell], STYLES.get(cell or "", ""))
    if bar and bar == len(cells):
        line.append("|", style="bold")
    return line


def _legend(picture: Picture, width: int, last: tuple[int, int]) -> Iterator[Text]:
    """Say what the letters that occur mean, and how many steps share one."""
    told = [f"{letter} {name}" for letter, name in legend_of(picture.strips)]
    steps = max(last[1] - last[0] + 1, picture.columns[-1][1] - picture.columns[-1][0] + 1)
    if steps > 1:
        told.append(f"one letter: the worst of up to {steps:,} steps")
    if len(picture.strips) > MOST_BANDS:
        told.append("one band: the worst of its ranks")
    line = ""
    for part in told:
        if line and len(line) + 3 + len(part) > width:
            yield Text(line, style="dim")
            line = ""
        line += f"   {part}" if line else part
    yield Text(line, style="dim")


def legend_of(strips: Sequence[Strip]) -> list[tuple[str, str]]:
    """Give the letters that occur and what they mean, the worst first."""
    seen = {cell for strip in strips for cell in (*strip.reference, *strip.resumed) if cell}
    parts: dict[str, list[str]] = {}
    for name, letter in LETTERS.items():
        if name in seen:
            parts.setdefault(letter, []).append(name)
    if COMMITTED in seen:
        parts[LETTERS[COMMITTED]] = ["committed before the checkpoint"]
    return [(letter, " or ".join(dict.fromkeys(names))) for letter, names in parts.items()]
