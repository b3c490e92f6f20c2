"""Draws the ladder of a checkpoint: read, queued, used, committed, and what is not known."""

from ledger_audit.model.checkpoints import Ladder
from ledger_audit.report.html_page.drawing import Drawing, Shape, Words, box

RUNGS = (
    ("read", "from disk, since the run began"),
    ("queued", "that entered a loader's queue"),
    ("used", "in a backward pass"),
    ("committed", "by an optimizer update: the authoritative cursor"),
)
LEFT, BASE, EXTRA, RUNG, BAR = 96.0, 220.0, 300.0, 34.0, 20.0


def ahead_of(ladder: Ladder, rung: str) -> int | None:
    """Give how far a rung is ahead of what was committed; null: one of them is not known."""
    value: int | None = getattr(ladder, rung)
    return None if value is None or ladder.committed is None else value - ladder.committed


def draw_rungs(ladder: Ladder, name: str) -> Drawing:
    """Draw the four positions; the part that is ahead of the committed one is drawn to scale."""
    ahead = {rung: ahead_of(ladder, rung) for rung, _ in RUNGS}
    most = max((one for one in ahead.values() if one), default=0)
    shapes: list[Shape] = []
    words: list[Words] = []
    for place, (rung, _) in enumerate(RUNGS):
        y = 6 + place * RUNG
        value, more = getattr(ladder, rung), ahead[rung]
        words.append(Words(0, y + 14, rung, "name"))
        if value is None or more is None:
            shapes.append(Shape(box(LEFT, y, BASE, BAR), "kind-unknown outlined dashed"))
            known = "unknown" if value is None else f"{value:,}"
            words.append(Words(LEFT + BASE + 10, y + 14, known, "value"))
            continue
        end = LEFT + BASE
        shapes.append(Shape(box(LEFT, y, BASE, BAR), "kind-kept"))
        if more > 0:
            width = max(3.0, EXTRA * more / most)
            shapes.append(Shape(box(end, y, width, BAR), "kind-skipped outlined"))
            end += width
        told = f"{value:,}" + ("" if rung == "committed" else f"  ({more:+,})")
        words.append(Words(end + 10, y + 14, told, "value"))
    return Drawing(
        name,
        "; ".join(
            f"{rung} {'unknown' if getattr(ladder, rung) is None else getattr(ladder, rung)}"
            for rung, _ in RUNGS
        ),
        LEFT + BASE + EXTRA + 150,
        RUNG * len(RUNGS) + 4,
        tuple(shapes),
        tuple(words),
    )
