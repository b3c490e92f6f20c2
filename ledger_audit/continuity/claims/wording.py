"""Words for what is counted and for who says it."""

from collections.abc import Iterable

from ledger_audit.model.ranges import closed_ranges

MOST_RANGES = 4

SINGULAR = {
    "records": "record",
    "sequences": "sequence",
    "documents": "document",
    "tokens": "token",
    "micro-batches": "micro-batch",
    "steps": "step",
    "elements": "element",
    "samples": "sample",
    "places": "place",
}


def amount(number: int, unit: str) -> str:
    """Give a number and what it counts: `1 sample`, `1,024 micro-batches`."""
    return f"{number:,} {SINGULAR.get(unit, unit) if number == 1 else unit}"


def was(number: int, unit: str, which: str = "") -> str:
    """Give an amount of which something is said: `1 sample was`, `2 places before it were`."""
    told = f"{amount(number, unit)} {which}".rstrip()
    return f"{told} {'was' if number == 1 else 'were'}"


def ranks_told(ranks: Iterable[int]) -> str:
    """Name ranks: `rank 1`, `ranks 0 to 3`, `ranks 0, 2 and 4 to 6`."""
    found = closed_ranges(ranks)
    parts = []
    for first, last in found[:MOST_RANGES]:
        parts += (
            [f"{first} to {last}"] if last > first + 1 else sorted({f"{first}", f"{last}"}, key=int)
        )
    if len(found) > MOST_RANGES:
        parts.append(f"{sum(last - first + 1 for first, last in found[MOST_RANGES:]):,} more")
    if not parts:
        return "no rank"
    told = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{'rank' if found[0] == found[-1] and found[0][0] == found[0][1] else 'ranks'} {told}"


def going_on(ahead: int, unit: str) -> str:
    """Tell what a resume will do that stands so far ahead of what was consumed, or behind it."""
    what = "skip" if ahead > 0 else "replay"
    return f"a resume from here will {what} {amount(abs(ahead), unit)}"
