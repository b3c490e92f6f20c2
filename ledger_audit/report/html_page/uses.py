"""Sets how often samples were used, and how large the share of each data set was, attempt-wise."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledger_audit.model.exposure import Exposure, Generation, Share
from ledger_audit.printable import counted, printable, quoted
from ledger_audit.report.exposure import lost, names
from ledger_audit.report.html_page.drawing import SOURCES, Drawing, Shape, Words, box, cut

MOST_ROWS = 60
MOST_ATTEMPTS = 8
LEFT, WIDTH, ROW, BAR = 150.0, 620.0, 30.0, 20.0


@dataclass(frozen=True)
class Told:
    """How often samples were used, as the page sets it."""

    exposure: Exposure
    passes: tuple[Generation, ...]
    passes_left: int
    attempts: tuple[str, ...]
    """The columns of the shares, oldest first."""
    attempts_left: int
    shares: tuple[tuple[str, int, tuple[float | None, ...]], ...]
    """Data set, the number of its colour, its share in what each attempt gave."""
    shares_left: int
    has_sources: bool
    """Records name data sets."""
    bars: Drawing | None
    lost: tuple[tuple[str, str], ...]
    wasted: tuple[tuple[str, str, str, str], ...]
    """Attempt, the steps that it made, records, and what changed no weights."""


def told_of(exposure: Exposure) -> Told:
    """Set an exposure."""
    every = list(dict.fromkeys(one.attempt for one in exposure.shares))
    attempts = every[-MOST_ATTEMPTS:]
    shares = list(_shares(exposure.shares, attempts))
    return Told(
        exposure=exposure,
        passes=exposure.generations[:MOST_ROWS],
        passes_left=max(0, len(exposure.generations) - MOST_ROWS),
        attempts=tuple(attempts),
        attempts_left=len(every) - len(attempts),
        shares=tuple(shares[:MOST_ROWS]),
        shares_left=max(0, len(shares) - MOST_ROWS),
        has_sources=any(one.source is not None for one in exposure.shares),
        bars=_bars(shares, attempts) if len(shares) > 1 else None,
        lost=(*names(exposure), *(row for row in lost(exposure) if row[0] != "share")),
        wasted=tuple(_wasted(exposure)),
    )


def uses_of(one: Generation) -> str:
    """Say how many samples of a pass were used how often."""
    told = [f"{counted(samples, 'sample')} {_times(uses)}" for uses, samples in one.exposures[:6]]
    left = len(one.exposures) - len(told)
    return ", ".join(told) + (f" and {left:,} more" if left else "")


def _times(uses: int) -> str:
    return {1: "once", 2: "twice"}.get(uses, f"{uses:,} times")


def _shares(
    found: Sequence[Share], attempts: Sequence[str]
) -> Iterator[tuple[str, int, tuple[float | None, ...]]]:
    """Give the shares of each data set over all passes, the largest in the newest attempt first."""
    sums: dict[str | None, dict[str, float]] = {}
    for one in found:
        own = sums.setdefault(one.source, {})
        own[one.attempt] = own.get(one.attempt, 0.0) + one.share
    newest = attempts[-1] if attempts else ""
    order = sorted(sums, key=lambda name: (-sums[name].get(newest, 0.0), name or ""))
    for place, name in enumerate(order):
        title = "without a source" if name is None else quoted(name)
        yield title, min(place, SOURCES), tuple(sums[name].get(one) for one in attempts)


def _bars(
    shares: Sequence[tuple[str, int, tuple[float | None, ...]]], attempts: Sequence[str]
) -> Drawing:
    shapes, words = [], []
    for place, attempt in enumerate(attempts):
        y, x = place * ROW + 2, LEFT
        name = printable(attempt)
        words.append(Words(0, y + 14, f"attempt {cut(name, 12)}", "name", name))
        for title, colour, parts in shares:
            share = parts[place]
            if share:
                width = share * WIDTH
                shapes.append(
                    Shape(
                        box(x, y, width, BAR), f"source-{colour} outlined", f"{title}: {share:.2%}"
                    )
                )
                x += width
    return Drawing(
        "Shares of data sets",
        "One bar an attempt, oldest first; the table beside it has the figures.",
        LEFT + WIDTH + 4,
        ROW * len(attempts),
        tuple(shapes),
        tuple(words),
    )


def _wasted(exposure: Exposure) -> Iterator[tuple[str, str, str, str]]:
    for one in exposure.survival[:MOST_ROWS]:
        wasted = [each for each in exposure.unused if each.attempt == one.attempt]
        fates = dict.fromkeys(each.fate for each in wasted)
        told = [
            f"{counted(sum(each.records for each in wasted if each.fate == fate), 'record')} {fate}"
            for fate in fates
        ]
        steps = "none left" if one.steps is None else f"{one.steps[0]:,} to {one.steps[1]:,}"
        yield one.attempt, steps, f"{one.records:,}", "; ".join(told) or "nothing"
