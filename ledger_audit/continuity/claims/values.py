"""Takes numbers out of states that nobody vouches for."""

import json
from dataclasses import dataclass
from typing import Literal

from ledger_audit.continuity.claims.claim import Count, Unit

State = dict[str, object]

LARGEST = 2**63 - 1
"""No loader counts further; a larger integer is a mistake, and costs memory to show."""


LONGEST_TEXT = 1 << 16
"""Of JSON text that is looked into."""


def natural(value: object) -> int | None:
    """Give a non-negative integer; anything else, a truth value too, is null."""
    return value if type(value) is int and 0 <= value <= LARGEST else None


def within(state: object, *names: str) -> State:
    """Give the dictionary that lies under these names; an empty one where there is none."""
    for name in names:
        state = state.get(name) if isinstance(state, dict) else None
    return state if isinstance(state, dict) else {}


def parsed(text: str) -> object:
    """Give the object or list that JSON text holds; null: it holds none, or is too long."""
    if len(text) > LONGEST_TEXT or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


@dataclass(frozen=True)
class Numbers:
    """Counts that were found, and what is to be said of those that are none."""

    counts: tuple[Count, ...] = ()
    notes: tuple[str, ...] = ()

    def __add__(self, other: "Numbers") -> "Numbers":
        return Numbers(self.counts + other.counts, self.notes + other.notes)


def number(
    key: str,
    value: object,
    of: Literal["all", "rank"],
    since: Literal["run", "epoch"],
    unit: Unit | None,
    stage: Literal["consumed", "read", "queued"] = "consumed",
) -> Numbers:
    """
    Read one count.

    Args:
        key: where it stands in the state, dotted.
        value: what stands there; null: nothing does.
        of: whose use it counts.
        since: since when.
        unit: what it counts.
        stage: what was done with what it counts.
    """
    if value is None:
        return Numbers()
    amount = natural(value)
    if amount is None:
        return Numbers(notes=(f"{key} is no count and was left out",))
    return Numbers((Count(key, amount, of, since, unit, stage),))
