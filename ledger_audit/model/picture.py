"""A resume as cells and as a course: what reporters draw, binned so that a page holds it."""

from dataclasses import dataclass
from typing import Literal

from ledger_audit.model.ranges import Ranges

COMMITTED = "committed"
"""The cell of work before the checkpoint that the resumed attempt went on from."""


@dataclass(frozen=True)
class Strip:
    """What neighbouring ranks did, column by column of a picture."""

    ranks: tuple[int, int]
    """The first and the last of them."""
    count: int
    """How many ranks they are; fewer than the range holds where others do not log."""
    reference: tuple[str | None, ...]
    """Of each column `committed`, or the worst outcome in the reference; null: no record."""
    resumed: tuple[str | None, ...]
    """Of each column the worst outcome in the resumed window, `out-of-order` among them."""
    slots: Ranges = ()
    """The accumulation slots that it is about; none: all of them."""


@dataclass(frozen=True)
class Picture:
    """A resume as cells: strips of ranks by columns of steps, binned where there are many."""

    columns: tuple[tuple[int, int], ...]
    """Closed ranges of steps, in their order."""
    strips: tuple[Strip, ...]
    slots: tuple[Strip, ...] = ()
    """The same slot by slot, neighbours that look alike together; none where there is one slot."""


NO_PICTURE = Picture((), ())


@dataclass(frozen=True)
class PlotCell:
    """Resumed records of some steps whose place is in some steps."""

    column: int
    """Of the bins of resumed steps, from 0."""
    row: int
    """Of the bins of the steps where the records belong, from 0."""
    records: int
    kind: Literal["matched", "replayed"]
    """`matched`: the place is in the reference; `replayed`: in what was committed before."""


@dataclass(frozen=True)
class OrderPlot:
    """Where resumed records belong, against where they came; a clean run is the diagonal."""

    across: tuple[int, int]
    """First and last resumed step."""
    up: tuple[int, int]
    """First and last step of the reference, and of what was used again."""
    steps_across: int
    """Resumed steps in one bin."""
    steps_up: int
    cells: tuple[PlotCell, ...]
    skipped: tuple[tuple[int, int], ...]
    """Row and records of the reference that were skipped there."""
    placeless: tuple[tuple[int, int, str], ...]
    """Column, resumed records that have no place of their own in what should have come, and the
    worst outcome among them."""
