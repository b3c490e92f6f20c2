"""
Gives the records of an expected stream in its global order, in pieces that fit into memory.

The order is that of steps; within a step that of positions where all records have one, else of
slots, ranks and rows, and at last that of writing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from ledger_audit.continuity.exposure.counting import Asked, count
from ledger_audit.continuity.exposure.judging import unseen_limits
from ledger_audit.continuity.exposure.legs import legs_of
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.continuity.frames import IS_USED, Side
from ledger_audit.continuity.tries import with_fates
from ledger_audit.continuity.windows import whole_through
from ledger_audit.errors import UnprovenError
from ledger_audit.ledger.queries import collect
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.schema import SAMPLE_ID
from ledger_audit.ledger.searching import Search
from ledger_audit.ledger.whole import Whole

PLACE = ("step", "slot", "rank", "row")
"""What a sequence has of its own."""
CONTENT = (SAMPLE_ID, "token_start", "token_end", "source", "epoch", "position")
COLUMNS = (*PLACE, *CONTENT, "seq")

ROWS_AT_ONCE = 1 << 20
_MOST_LINES = 1 << 40
"""Of one rank: with more, a line and its rank do not fit into one integer."""


@dataclass(frozen=True)
class Ordered:
    """An expected stream."""

    kind: str
    """`reference` or `rolled-back`."""
    first_step: int
    """0: the stream is empty."""
    last_step: int
    id_type: pl.DataType
    has: Callable[[str], bool]
    """Column → whether any record has a value in it."""
    read: Callable[[], Iterator[pl.DataFrame]]
    """→ COLUMNS, in the order of steps; what follows a piece is of later steps."""
    left_out: int = 0
    """Records of its last steps that are not whole: what follows in them is not known."""
    bounds: Callable[[], tuple[int, int] | None] = field(default=lambda: None)
    """→ the lowest and the highest id; null: ids are text, or there is none."""

    @cached_property
    def has_positions(self) -> bool:
        """Some record has a position; those of a step order it where all of them have one."""
        return self.has("position")

    def pieces(self) -> Iterator[pl.DataFrame]:
        """Give COLUMNS in the global order; every step is in one piece."""
        for rows in self.read():
            if not rows.height:
                continue
            by = list(PLACE)
            if self.has_positions and not rows["position"].null_count():
                by = ["step", "position", *by[1:]]
            yield rows.sort(*by, "seq")


def reference_of(ledger: Ledger, library: Library, memory: int) -> Ordered:
    """
    Take a ledger for the expected stream: a control run, a plan, or any log of what is to come.

    Raises:
        UnprovenError: records of a run are known to be missing: it cannot say what was to come.
    """
    source = library.archive.source
    chain = source.lineage.chain
    is_run = not source.lineage.is_expected and (
        source.has_commits or any(one.has_start for one in chain)
    )
    stretches: list[tuple[str, int, int]] = []
    for place, attempt in enumerate(chain):
        last = _whole_until(library, place) if is_run else _until(library, place)
        first = attempt.first_step if not stretches else (attempt.resumed_at or 0) + 1
        if last is not None and first is not None and last >= first:
            stretches.append((attempt.label, first, last))
    if is_run:
        _check(library, memory)
    whole_ledger = Whole(ledger)
    sizes = {row[0]: row[1] for row in _sizes(ledger, stretches)}
    return Ordered(
        kind="reference",
        first_step=stretches[0][1] if stretches else 0,
        last_step=stretches[-1][2] if stretches else 0,
        id_type=ledger.id_type,
        has=lambda column: whole_ledger.bounds(column) is not None,
        read=lambda: _read(ledger, stretches, sizes, is_run=is_run),
        left_out=_beyond(ledger, stretches),
        bounds=library.bounds,
    )


def rolled_back(window: Side, after: int, id_type: pl.DataType) -> Ordered:
    """
    Take the work that a failure rolled back for the expected stream, as far as its steps are whole.

    Args:
        window: what the attempt that made the checkpoint did after it.
        after: the step of the checkpoint.
        id_type: of the ledger.
    """
    through = whole_through(window, after)
    rows = _without_retried(window.within)
    last = after if through is None else through
    known = rows.filter(pl.col("step").is_between(after + 1, last))
    return Ordered(
        kind="rolled-back",
        first_step=after + 1,
        last_step=last,
        id_type=id_type,
        has=lambda column: known[column].null_count() < known.height,
        read=lambda: iter([known]),
        left_out=rows.filter(pl.col("step") > last).height,
        bounds=lambda: _edges(known[SAMPLE_ID]),
    )


def _edges(ids: pl.Series) -> tuple[int, int] | None:
    low, high = ids.min(), ids.max()
    return (low, high) if isinstance(low, int) and isinstance(high, int) else None


def _until(library: Library, place: int) -> int | None:
    """Give the last step that an attempt gives to the stream."""
    lineage = library.archive.source.lineage
    until = lineage.until(place, len(lineage.chain) - 1)
    return lineage.chain[place].last_step if until is None else until


def _whole_until(library: Library, place: int) -> int | None:
    """Give the last committed step of a run: what a later, cut step would hold is not known."""
    found = None
    for leg in legs_of(library, place):
        steps = pl.int_range(leg.first, leg.last + 1, eager=True)
        last = steps.filter(~steps.is_in(leg.left_out.implode())).max()
        found = last if isinstance(last, int) else found
    return found


def _check(library: Library, memory: int) -> None:
    counted = count(library, Asked(memory, trusts_digests=True))
    counted.seen.close()
    if unseen := unseen_limits(library, counted):
        raise UnprovenError(
            "the reference does not hold all records of its run",
            hint="give a control run that is whole, or write the expected stream as a ledger",
            details=[one.text for one in unseen],
        )


def _sizes(ledger: Ledger, stretches: list[tuple[str, int, int]]) -> Iterator[tuple[str, int]]:
    """Say how many steps of each attempt to read at once."""
    for label, first, last in stretches:
        rows = Search(ledger).size(label)
        yield label, max(1, ROWS_AT_ONCE * (last - first + 1) // max(1, rows))


def _read(
    ledger: Ledger, stretches: list[tuple[str, int, int]], sizes: dict[str, int], *, is_run: bool
) -> Iterator[pl.DataFrame]:
    for label, first, last in stretches:
        for start in range(first, last + 1, sizes[label]):
            end = min(last, start + sizes[label] - 1)
            tries = ledger.tries(label, start, end) if is_run else None
            if tries is not None and (tries["kind"] == "void").any():
                rows = with_fates(ledger.records(label, start, end), tries)
                yield _without_retried(rows)
            else:
                yield _stretch(ledger, label, start, end)


def _without_retried(records: pl.DataFrame) -> pl.DataFrame:
    """Leave out what a void try used if it was used again: the stream holds it once."""
    same = [name for name in CONTENT if name != "position"]
    used, void = records.filter(IS_USED), records.filter(~IS_USED)
    never = void.join(used.select(same).unique(), on=same, how="anti", nulls_equal=True)
    return pl.concat([used, never]).select(COLUMNS)


def _stretch(ledger: Ledger, label: str, first: int, last: int) -> pl.DataFrame:
    """Read some steps; as they are where that needs no second look, as most often."""
    scanned = ledger.scanned_used(label, first, last)
    rows = collect(scanned.select(COLUMNS), ledger.name)
    line = pl.col("rank").cast(pl.Int64) * _MOST_LINES + pl.col("seq")
    is_plain = rows.select(
        pl.all_horizontal(pl.col(*PLACE, SAMPLE_ID, "seq").is_not_null().all())
        & pl.col("seq").is_between(0, _MOST_LINES - 1).all()
        & ~(pl.col("token_end") < pl.col("token_start")).any()
        & (line.n_unique() == pl.len())
    ).item()
    return rows if is_plain else ledger.records(label, first, last).select(COLUMNS)


def _beyond(ledger: Ledger, stretches: list[tuple[str, int, int]]) -> int:
    if not stretches:
        return 0
    label, _, last = stretches[-1]
    return ledger.records(label, last + 1).height
