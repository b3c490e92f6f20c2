"""Sets raw records in a grid, ranks down and slots across, with a line at the checkpoint."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ledger_audit.model.raw import RawRecord, RawTry, RawWindow
from ledger_audit.printable import as_said, printable, quoted
from ledger_audit.report.screen import Screen

NARROWEST = 18
"""Characters of a slot's column; where they do not fit side by side, the next follow below."""
_LABEL = 20
_FEW = 2
"""Lines of a cell that are shown unless all ids are asked for."""
_FATES = {"commit": "", "unknown": "", "void": " void", None: " open"}
_MEANT = {"void": "void: its update was thrown away", None: "open: it was never committed"}
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


@dataclass(frozen=True)
class Detail:
    """What to tell of each record."""

    ids: bool = False
    """All ids, however many."""
    spans: bool = False
    epochs: bool = False
    positions: bool = False
    sources: bool = False


def to_grid(window: RawWindow, detail: Detail, screen: Screen) -> Iterator[str]:
    """Give the lines of a window, as they are read."""
    seen: set[str | None] = set()
    parts = groupby(_noted(window.tries, seen), key=lambda one: (one.attempt, one.part))
    is_before = window.checkpoint_step is not None
    for (attempt, part), tries in parts:
        if is_before and part != "committed":
            yield _line_at(window.checkpoint_step, screen)
            is_before = False
        is_dim = screen.has_colour and part == "rolled back"
        for each in _part(f"attempt {printable(attempt)}, {part}", tries, detail, screen):
            line = as_said(each)
            yield f"{_DIM}{line}{_PLAIN}\n" if is_dim else f"{line}\n"
    if is_before:
        yield _line_at(window.checkpoint_step, screen)
    if told := [meaning for fate, meaning in _MEANT.items() if fate in seen]:
        yield f"{'; '.join(told)}\n"


def _noted(tries: Iterable[RawTry], seen: set[str | None]) -> Iterator[RawTry]:
    """Note how tries ended, as they pass by: they are read once."""
    for one in tries:
        seen.add(one.fate)
        yield one


def _line_at(checkpoint: int | None, screen: Screen) -> str:
    return f" checkpoint step {checkpoint} ".center(screen.width, "-") + "\n"


def _part(title: str, tries: Iterable[RawTry], detail: Detail, screen: Screen) -> Iterator[str]:
    yield title
    for step, ranks in groupby(tries, key=lambda one: one.step):
        rows = list(ranks)
        slots = sorted({slot for row in rows for slot in row.slots})
        fit = max(1, (screen.width - _LABEL) // NARROWEST)
        for start in range(0, len(slots), fit):
            yield from _band(step, rows, slots[start : start + fit], detail, screen)
    yield ""


def _band(
    step: int, rows: Sequence[RawTry], slots: Sequence[int], detail: Detail, screen: Screen
) -> Iterator[str]:
    """Set some slots of one step side by side."""
    width = (screen.width - _LABEL) // len(slots)
    heads = "".join(f"slot {slot}".ljust(width) for slot in slots)
    yield f"  step {step}".ljust(_LABEL) + heads.rstrip()
    for row in rows:
        cells = [_cell(row.slots.get(slot, ()), detail, width - 2) for slot in slots]
        for number in range(max(len(cell) for cell in cells)):
            label = f"    rank {row.rank}{_FATES[row.fate]}" if number == 0 else ""
            texts = [cell[number] if number < len(cell) else "" for cell in cells]
            yield (label.ljust(_LABEL) + "".join(text.ljust(width) for text in texts)).rstrip()


def _cell(records: Sequence[RawRecord], detail: Detail, width: int) -> list[str]:
    """Break the records of one micro-batch into lines; neither comma nor blank is in a bare id."""
    told = [_told(record, detail) for record in records]
    between = ", " if any(" " in text for text in told) else " "
    lines = _broken(between.join(told), width)
    if detail.ids or len(lines) <= _FEW:
        return lines or ["-"]
    shown = 1
    while len(_broken(between.join(told[: shown + 1]), width)) < _FEW:
        shown += 1
    first = _broken(between.join(told[:shown]), width)
    return [*first[: _FEW - 1], f"and {len(told) - shown:,} more"]


def _broken(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


def _told(record: RawRecord, detail: Detail) -> str:
    parts = [quoted(record.sample_id)]
    if detail.sources and record.source is not None:
        parts.append(quoted(record.source))
    if detail.spans and record.span is not None:
        parts.append(f"[{record.span[0]}:{record.span[1]})")
    if detail.epochs and record.epoch is not None:
        parts.append(f"e{record.epoch}")
    if detail.positions and record.position is not None:
        parts.append(f"@{record.position}")
    return " ".join(parts)
