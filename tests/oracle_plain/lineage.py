"""Which attempt held which steps of a surviving stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oracle_plain.reading import Attempt, Row

END = float("inf")


#: An attempt and the steps (after, through) that it holds of a surviving stream.
Part = tuple[Attempt, int, float]


@dataclass
class Link:
    """One attempt of a lineage, and the step and the attempt that it was resumed from."""

    attempt: Attempt
    at: int = 0
    parent: Attempt | None = None


def newest(attempts: dict[str, Attempt]) -> Attempt:
    """Give the attempt that started last among those that nobody resumed from."""
    parents = {attempt.parent[0] for attempt in attempts.values() if attempt.parent}
    leaves = [attempt for label, attempt in attempts.items() if label not in parents] or list(
        attempts.values()
    )
    if all(attempt.started_at for attempt in leaves):
        return max(leaves, key=lambda attempt: (min(attempt.started_at), attempt.appeared))
    if all(re.fullmatch(r"\d+", str(attempt.label)) for attempt in leaves):
        return max(leaves, key=lambda attempt: int(attempt.label))
    return max(leaves, key=lambda attempt: attempt.appeared)


def lineage(attempts: dict[str, Attempt]) -> list[Link]:
    """Give the chain of attempts whose committed steps made the newest weights, oldest first."""
    return ancestry(attempts, newest(attempts)) if attempts else []


def ancestry(attempts: dict[str, Attempt], attempt: Attempt) -> list[Link]:
    """Give the lineage of one attempt, oldest first."""
    chain: list[Link] = []
    walked = set[int]()
    while attempt.parent and id(attempt) not in walked:
        walked.add(id(attempt))
        label, at = attempt.parent
        parent = attempts.get(label) or Attempt(attempt.start["resumed_from"]["attempt"])
        chain.append(Link(attempt, at, parent))
        attempt = parent
        # Reading: resumed from p at a step before p's own start: p's lineage up to C is what
        # counts, so p is outside.
        while attempt.parent and at < attempt.parent[1] and attempt.parent[0] in attempts:
            attempt = attempts[attempt.parent[0]]
    chain.append(Link(attempt))
    return chain[::-1]


def kept(chain: Sequence[Link], upto: float) -> list[Part]:
    """Which attempt holds which steps (after, through) of the surviving stream up to a step."""
    ends = [*(link.at for link in chain[1:]), END]
    return [(link.attempt, link.at, min(end, upto)) for link, end in zip(chain, ends, strict=True)]


def held(parts: Iterable[Part], after: float = 0) -> list[Row]:
    """Give the records of the surviving stream after a step, in order."""
    rows = [
        row for attempt, lo, hi in parts for row in attempt.rows if max(lo, after) < row.step <= hi
    ]
    return sorted(rows, key=lambda row: row.order)


def solid(rows: Iterable[Row]) -> list[Row]:
    """All but the void tries."""
    return [row for row in rows if not row.void]


def owner(parts: Sequence[Part], step: int) -> Attempt:
    """Give the attempt that holds a step of a surviving stream."""
    return next((attempt for attempt, lo, hi in parts if lo < step <= hi), parts[-1][0])
