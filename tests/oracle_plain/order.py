"""Order, and positions as a second line of evidence."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from oracle_plain.case import Case
from oracle_plain.epochs import Key, pick
from oracle_plain.expected import position_place
from oracle_plain.lineage import solid
from oracle_plain.matching import freed
from oracle_plain.reading import Row

#: The numbers of the positions, or null.
Block = dict[str, int] | None


def out_of_order(case: Case) -> int:
    """Count matched records less the longest non-decreasing run of their reference steps."""
    # Reading: void tries are not counted here, of either side.
    # Decision: nor what was reset, reshuffled or blended anew by declaration.
    pairs = sorted(
        (row.step, mate.step)
        for row, mate in case.mate.items()
        if not row.void and not mate.void and not freed(case, row)
    )
    tails: list[int] = []
    for _, step in pairs:
        at = bisect_right(tails, step)
        tails[at : at + 1] = [step]
    return len(pairs) - len(tails)


def positions(case: Case) -> Block:
    """Give the second line of evidence, by positions; null where a record has none."""
    rows = case.committed + case.resumed
    # Decision: and null after a declared reset.
    if case.reset or not case.resumed or any(row.position is None for row in rows):
        return None
    # Reading: and null where nothing was committed by C: there is no position to go on from.
    if case.at and not case.committed:
        return None
    done = {row.position for row in case.committed}
    expected = max((p for p in done if p is not None), default=-1) + 1
    first = min(
        p
        for row in case.resumed
        if row.step == case.resumed[0].step and (p := row.position) is not None
    )
    uses = [row.position for row in {row.sequence: row for row in solid(case.resumed)}.values()]
    fresh = {p for p in uses if p not in done}
    return {
        "expected": expected,
        "first": first,
        "shift": first - expected,
        "repeated": len(uses) - len(fresh),
        "holes": 0 if case.sampled else holes(case, expected),
        "drift": drift(case),
    }


def holes(case: Case, expected: int) -> int:
    """Positions from the expected one up to the frontier that nobody used, dropped or declared."""
    # Reading: holes below the expected position were there before the resume; void and dropped
    # samples leave none.
    rows = case.before + case.resumed
    gone = {row.position for row in rows} | case.to.dropped
    gone |= {row.position for row in case.reference if case.outcome[row] == "declared"}
    skips = [act for act in case.acts if act.kind == "skip"]
    for attempt, _, _ in case.past:
        gone |= attempt.dropped
    by_step: dict[int, list[Row]] = defaultdict(list)
    for row in case.resumed:
        by_step[row.step].append(row)
    places = [
        place for mine in by_step.values() if (place := position_place(case, mine)) is not None
    ]
    behind = range(expected, int(max(places, default=expected)))
    return sum(
        1
        for place in behind
        if place not in gone and not any(act.names(None, place, None) for act in skips)
    )


def drift(case: Case) -> int:
    """Resumed positions that hold another sample than in the reference or before C."""

    def contents(rows: Iterable[Row]) -> dict[int | None, list[set[Key]]]:
        names = [name for name in case.columns if name != "epoch"]
        sequences: dict[tuple[int, ...], tuple[int | None, set[Key]]] = {}
        for row in rows:
            sequences.setdefault(row.sequence, (row.position, set()))[1].add(pick(row, names))
        found: dict[int | None, list[set[Key]]] = defaultdict(list)
        for place, spans in sequences.values():
            found[place].append(spans)
        return found

    before, expected, now = (
        contents(case.committed),
        contents(case.reference),
        contents(case.resumed),
    )
    # Reading: where records are known to be missing, fewer spans at a position are no other
    # sample.
    loose = case.missing > 0

    def other(one: set[Key], two: set[Key]) -> bool:
        return one != two and not (loose and (one <= two or two <= one))

    return sum(
        1
        for place, mine in now.items()
        if place is not None
        and any(other(a, b) for a in mine for b in before[place] + expected[place])
    )
