"""The outcome of every expected record, and the frontier that the stream has moved past."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from oracle_plain.case import Case
from oracle_plain.epochs import Key
from oracle_plain.lineage import END, owner, solid
from oracle_plain.matching import declared, met
from oracle_plain.reading import Row


def classify_expected(case: Case) -> None:
    """Give every reference record the first outcome that fits; `undecided` comes out of skips."""
    budgets: dict[Key, int] = {}
    past = moved_past(case)
    for row in case.reference:
        if met(case, row):
            case.outcome[row] = "matched"
        elif declared(case, row):
            case.outcome[row] = "declared"
        elif repeat_missing(case, row, budgets):
            case.outcome[row] = "repeat-missing"
        else:
            case.outcome[row] = "skipped" if past(row) else "pending"
    # Reading: as many as are missing, first of what would be skipped, then of the missing ranks'
    # lanes: any missing record could hold any of them, and a rank taken away must not make a
    # verdict broken.
    left = END if case.sampled else case.missing
    for row in [row for row in case.reference if case.outcome[row] == "skipped"]:
        if left > 0:
            case.outcome[row], left = "undecided", left - 1
    left = 0 if case.missing == 0 else min(left, case.missing)
    for row in [row for row in case.reference if case.outcome[row] == "pending"]:
        if left > 0 and row.rank in case.to.logged(row.step) and row.rank not in case.to.seen:
            case.outcome[row], left = "undecided", left - 1


def repeat_missing(case: Case, row: Row, budgets: dict[Key, int]) -> bool:
    """Find a padding repeat of the reference that is not needed: consumed already in its epoch."""
    epochs = case.ref_epochs
    epoch = epochs.of(row)
    if epoch is None or not epochs.closing(row) or case.key(row) not in case.consumed_by_all:
        return False
    if epoch not in budgets:
        # Reading: the largest padding of the arithmetic, for each epoch; without `dataset_samples`
        # as many as are seen.
        allowed = epochs.paddings(row.step)
        budgets[epoch] = max(allowed) if allowed else epochs.repeat_count[epoch]
    budgets[epoch] -= 1
    return budgets[epoch] >= 0


def moved_past(case: Case) -> Callable[[Row], bool]:
    """Its epoch is over, or it is before the lane's frontier, or at it while whole steps go on."""
    frontier = frontiers(case)
    last_whole = max(case.whole_resumed, default=0)

    def past(row: Row) -> bool:
        # Reading: "over in the resumed attempt" by the window alone; what a cut step holds is not
        # consumed yet.
        if case.window_epochs.over(case.window_epochs.of(row)):
            return True
        if case.order == "none" and not case.by_positions:
            return False
        place = row.position if case.by_positions else row.step
        reached, when = frontier.get(-1 if case.by_positions else row.rank, (None, 0))
        if place is None or reached is None:
            return False
        return place < reached or (place == reached and last_whole > when)

    return past


def frontiers(case: Case) -> dict[int, tuple[float, int]]:
    """Find each lane's largest place (-1: positions) and the resumed step that first gave it."""
    found: dict[int, tuple[float, int]] = {}
    steps: dict[int, list[Row]] = defaultdict(list)
    for row in case.resumed:
        steps[row.step].append(row)
    for step, rows in sorted(steps.items()):
        places = {-1: position_place(case, rows)} if case.by_positions else lane_places(case, rows)
        for lane, place in places.items():
            if place is not None and (lane not in found or place > found[lane][0]):
                found[lane] = (place, step)
    if case.by_positions or largest_step(case.resumed) >= largest_step(case.reference):
        return found
    # Decision: of smaller steps it takes several to use up one of the reference, so the frontier
    # is reached with the last that has any match there.
    latest: dict[float, int] = {}
    for row, mate in case.mate.items():
        latest[mate.step] = max(row.step, latest.get(mate.step, row.step))
    return {
        lane: (place, max(first, latest.get(place, first)))
        for lane, (place, first) in found.items()
    }


def largest_step(rows: Iterable[Row]) -> int:
    """Count the sequences of the largest step."""
    # Reading: tries of one step are counted one by one: a retry makes no batch larger.
    tries: dict[tuple[int, int], set[tuple[int, ...]]] = defaultdict(set)
    for row in rows:
        tries[row.step, row.turn].add(row.sequence)
    return max(map(len, tries.values()), default=0)


def position_place(case: Case, rows: Sequence[Row]) -> float | None:
    """Of a step, the smallest position not consumed before C."""
    done = {row.position for row in case.committed}
    return min(
        (row.position for row in rows if row.position is not None and row.position not in done),
        default=None,
    )


def lane_places(case: Case, rows: Sequence[Row]) -> dict[int, float | None]:
    """Give each lane its smallest matched reference step, or the end if only strangers stand."""
    places: dict[int, float | None] = {}
    for lane in sorted({row.rank for row in case.reference}):
        mates = [
            case.mate[row].step for row in rows if row in case.mate and case.mate[row].rank == lane
        ]
        stand = [row for row in solid(rows) if row.rank == lane or world_changed(case)]
        strangers = all(
            row not in case.mate and case.key(row) not in case.consumed for row in stand
        )
        places[lane] = min(mates) if mates else END if stand and strangers else None
    return places


def world_changed(case: Case) -> bool:
    """Whether other ranks take part than in the reference."""
    other = owner(case.source, case.at + 1)
    moved = bool(case.to.memberships or other.memberships)
    return moved or case.to.members(case.at + 1) != other.members(case.at + 1)
