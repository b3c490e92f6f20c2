"""Draws the time line: attempts as lanes, lost work hatched, checkpoints and failures marked."""

from collections.abc import Callable, Iterator, Mapping

from ledger_audit.model.postmortem import Lane, Timeline
from ledger_audit.printable import counted, printable
from ledger_audit.report.html_page.drawing import (
    Drawing,
    Shape,
    Words,
    box,
    cut,
    line,
    number,
    ticks,
)

At = Callable[[float], float]
"""A step → the place behind it, in pixels."""

WIDTH, LEFT, RIGHT = 1000.0, 150.0, 20.0
TOP, LANE, BAR = 34.0, 46.0, 16.0
_ENDS: Mapping[str, str] = {
    "ended": "ended by itself",
    "failed": "failed",
    "open": "no end is logged",
}


def draw_lanes(timeline: Timeline) -> Drawing:
    """Draw every lane, and where each attempt went on from."""
    first, last = timeline.steps
    scale = (WIDTH - LEFT - RIGHT) / max(1, last - first + 1)

    def at(step: float) -> float:
        """Give the place behind a step."""
        return LEFT + (step - first + 1) * scale

    height = TOP + LANE * len(timeline.lanes) + 4
    shapes: list[Shape] = []
    words: list[Words] = []
    for step in ticks(first, last, 12):
        x = at(step) if scale < 12 else at(step - 0.5)
        shapes.append(Shape(line(x, TOP - 8, x, height), "rule"))
        words.append(Words(x, TOP - 14, f"{step:,}", "tick middle"))
    words.append(Words(LEFT - 12, TOP - 14, "step", "side end"))
    places = {one.attempt: place for place, one in enumerate(timeline.lanes)}
    for place, lane in enumerate(timeline.lanes):  # under the bars that they cross
        shapes += _joint(lane, places, TOP + place * LANE + 10, at)
    for place, lane in enumerate(timeline.lanes):
        y = TOP + place * LANE + 10
        shapes += _work(lane, y, at)
        shapes += _saves(lane, y, at)
        shapes += _end(lane, y, at)
        name = printable(lane.attempt)
        words.append(Words(0, y + 8, f"attempt {cut(name, 12)}", "name", name))
        words.append(Words(0, y + 22, _ENDS[lane.end], "side"))
    return Drawing(
        "Time line of attempts",
        f"{counted(len(timeline.lanes), 'attempt')} as lanes, steps {first:,} to {last:,} across. "
        "The table below tells each of them.",
        WIDTH,
        height,
        tuple(shapes),
        tuple(words),
    )


def _work(lane: Lane, y: float, at: At) -> Iterator[Shape]:
    for kind, steps, told in (
        ("kept", lane.kept, "in the newest weights"),
        ("superseded", lane.superseded, "superseded: in no newest weights"),
    ):
        if steps is not None:
            x = at(steps[0] - 1)
            path = box(x, y, max(2.0, at(steps[1]) - x), BAR)
            yield Shape(
                path, f"kind-{kind} outlined", f"steps {steps[0]:,} to {steps[1]:,}: {told}"
            )


def _joint(lane: Lane, places: Mapping[str, int], y: float, at: At) -> Iterator[Shape]:
    """Draw where it went on from."""
    parent = places.get(lane.parent or "")
    if lane.resumed_at is None or parent is None:
        return
    x, start = at(lane.resumed_at), TOP + parent * LANE + 10 + BAR
    told = f"resumed from step {lane.resumed_at:,} of attempt {lane.parent}"
    yield Shape(line(x, start, x, y + BAR / 2), "joint", told)


def _saves(lane: Lane, y: float, at: At) -> Iterator[Shape]:
    for one in lane.saves:
        x, base = at(one.step), y + BAR + 1
        whole = {True: "whole", False: "not whole", None: "not known to be whole"}[one.is_whole]
        loaded = f", loaded by attempt {', '.join(one.loaded_by[:4])}" if one.loaded_by else ""
        size = 5.0 if one.loaded_by else 3.5
        path = (
            f"M{number(x)} {number(base)}l{number(size)} {number(size * 1.7)}h-{number(2 * size)}z"
        )
        css = "save" if one.is_whole else "save hollow"
        yield Shape(path, css, f"checkpoint at step {one.step:,}: {whole}{loaded}")


def _end(lane: Lane, y: float, at: At) -> Iterator[Shape]:
    if lane.reached is None:
        return
    x, middle = at(lane.reached), y + BAR / 2
    if lane.end == "failed":
        cross = line(x - 5, middle - 5, x + 5, middle + 5) + line(
            x - 5, middle + 5, x + 5, middle - 5
        )
        yield Shape(cross, "failure-edge")
        yield Shape(cross, "failure", f"failed in or after step {lane.reached:,}")
    elif lane.end == "ended":
        yield Shape(box(x - 1.5, y - 3, 3, BAR + 6), "stop", f"ended after step {lane.reached:,}")
