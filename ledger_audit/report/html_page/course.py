"""Draws the order of a resume: where records came against where they belong."""

from collections.abc import Iterator

from ledger_audit.model.picture import OrderPlot
from ledger_audit.report.html_page.drawing import Drawing, Shape, Words, box, line, ticks

SIDE, LEFT, TOP, BOTTOM = 380.0, 78.0, 46.0, 48.0
RUG = 14.0
"""Pixels beside the plot for what has no partner."""
LEAST = 2.5
"""Pixels of a cell that can still be seen."""


def draw_course(plot: OrderPlot, name: str) -> Drawing:
    """
    Draw a plot: resumed steps to the right, the steps where their records belong upwards.

    A cell is as large as its part of the records of its column. What was skipped stands at the
    left edge, what belongs nowhere at the top.
    """
    frame = _Frame(plot)
    shapes = [
        Shape(box(LEFT, TOP, SIDE, SIDE), "frame"),
        *_rules(frame),
        *_diagonal(frame),
        *_cells(plot, frame),
        *_rugs(plot, frame),
    ]
    words = [
        *_ticks(frame),
        Words(LEFT + SIDE / 2, TOP + SIDE + 38, "step in which it came", "side middle"),
        Words(0, TOP - 30, "step where it belongs", "side"),
    ]
    matched = sum(one.records for one in plot.cells if one.kind == "matched")
    return Drawing(
        name,
        f"{matched:,} records matched with the reference, over resumed steps {plot.across[0]:,} "
        f"to {plot.across[1]:,}; a clean run lies on the diagonal.",
        LEFT + SIDE + 12,
        TOP + SIDE + BOTTOM,
        tuple(shapes),
        tuple(words),
    )


class _Frame:
    """Steps to pixels."""

    def __init__(self, plot: OrderPlot) -> None:
        self.across = plot.across
        both = min(plot.across[0], plot.up[0]), max(plot.across[1], plot.up[1])
        is_near = both[1] - both[0] <= 4 * (plot.across[1] - plot.across[0] + 1)
        self.up = both if is_near else plot.up

    def x(self, step: float) -> float:
        """Give the left edge of a resumed step."""
        return LEFT + SIDE * (step - self.across[0]) / (self.across[1] - self.across[0] + 1)

    def y(self, step: float) -> float:
        """Give the lower edge of a step where records belong."""
        return TOP + SIDE - SIDE * (step - self.up[0]) / (self.up[1] - self.up[0] + 1)


def _rules(frame: _Frame) -> Iterator[Shape]:
    yield Shape(
        "".join(
            line(LEFT, frame.y(step + 0.5), LEFT + SIDE, frame.y(step + 0.5))
            for step in ticks(*frame.up, 6)
        ),
        "rule",
    )


def _ticks(frame: _Frame) -> Iterator[Words]:
    for step in ticks(*frame.across, 6):
        yield Words(frame.x(step + 0.5), TOP + SIDE + 18, f"{step:,}", "tick middle")
    for step in ticks(*frame.up, 6):
        yield Words(LEFT - RUG - 6, frame.y(step + 0.5) + 4, f"{step:,}", "tick end")


def _diagonal(frame: _Frame) -> Iterator[Shape]:
    first = max(frame.across[0], frame.up[0])
    last = min(frame.across[1], frame.up[1]) + 1
    if first < last:
        path = line(frame.x(first), frame.y(first), frame.x(last), frame.y(last))
        yield Shape(path, "diagonal", "a clean run")


def _cells(plot: OrderPlot, frame: _Frame) -> Iterator[Shape]:
    totals: dict[int, int] = {}
    for one in plot.cells:
        totals[one.column] = totals.get(one.column, 0) + one.records
    paths: dict[str, list[str]] = {}
    for one in plot.cells:
        x = frame.x(plot.across[0] + one.column * plot.steps_across)
        width = frame.x(plot.across[0] + plot.steps_across) - LEFT
        low = plot.up[0] + one.row * plot.steps_up
        y, height = frame.y(low + plot.steps_up), frame.y(low) - frame.y(low + plot.steps_up)
        part = (one.records / totals[one.column]) ** 0.5
        w, h = max(LEAST, width * part), max(LEAST, height * part)
        paths.setdefault(one.kind, []).append(box(x + (width - w) / 2, y + (height - h) / 2, w, h))
    for kind, css in (("matched", "kind-matched"), ("replayed", "kind-replayed")):
        if kind in paths:
            yield Shape("".join(paths[kind]), f"cell {css}")


def _rugs(plot: OrderPlot, frame: _Frame) -> Iterator[Shape]:
    """Draw what has no partner along two edges."""
    gone = []
    for row, _ in plot.skipped:
        low = plot.up[0] + row * plot.steps_up
        height = frame.y(low) - frame.y(low + plot.steps_up)
        gone.append(box(LEFT - RUG, frame.y(low + plot.steps_up), RUG - 3, max(LEAST, height - 1)))
    if gone:
        yield Shape("".join(gone), "cell kind-skipped")
    width = frame.x(plot.across[0] + plot.steps_across) - LEFT
    lone: dict[str, list[str]] = {}
    for column, _, kind in plot.placeless:
        path = box(LEFT + column * width, TOP - RUG, max(LEAST, width - 1), RUG - 3)
        lone.setdefault(kind, []).append(path)
    for kind in sorted(lone):
        yield Shape("".join(lone[kind]), f"cell kind-{kind}")
