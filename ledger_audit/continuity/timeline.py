"""Lays the attempts of a run out as lanes: what the newest weights kept, and what was lost."""

from collections.abc import Mapping, Sequence

from ledger_audit.continuity.lineage import Attempt, Lineage, age
from ledger_audit.model.checkpoints import Checkpoint
from ledger_audit.model.postmortem import Lane, Save, Timeline

MOST_LANES = 48
MOST_SAVES = 120
"""Checkpoints of one lane."""


def timeline_of(lineage: Lineage, checkpoints: Sequence[Checkpoint]) -> Timeline:
    """
    Lay out a lineage.

    Args:
        lineage: all attempts.
        checkpoints: all of the ledger, in any order.
    """
    attempts = [one for one in (*lineage.chain, *lineage.outside) if not one.is_absent]
    shown, left_out = _chosen(sorted(attempts, key=age), lineage)
    newest = max(attempts, key=age).label if attempts else None
    saves: dict[str, dict[int, Checkpoint]] = {}
    for one in sorted(checkpoints, key=lambda one: (one.step, one.nth)):
        saves.setdefault(one.attempt, {})[one.step] = one  # the last save of a step counts
    lanes = tuple(_lane(one, lineage, saves, is_newest=one.label == newest) for one in shown)
    steps = [step for one in lanes for step in _steps_of(one)]
    return Timeline((min(steps, default=0), max(steps, default=0)), lanes, left_out)


def _chosen(attempts: Sequence[Attempt], lineage: Lineage) -> tuple[list[Attempt], int]:
    """Give the attempts that have a lane: those in the newest weights first, the newest first."""
    inside = {one.label for one in lineage.chain}
    by_worth = sorted(
        enumerate(attempts), key=lambda pair: (pair[1].label in inside, pair[0]), reverse=True
    )
    shown = sorted(by_worth[:MOST_LANES])
    return [one for _, one in shown], len(attempts) - len(shown)


def _lane(
    attempt: Attempt,
    lineage: Lineage,
    saves: Mapping[str, Mapping[int, Checkpoint]],
    *,
    is_newest: bool,
) -> Lane:
    labels = [one.label for one in lineage.chain]
    place = labels.index(attempt.label) if attempt.label in labels else None
    until = None
    if place is not None:
        until = lineage.until(place, len(labels) - 1)
    first, last = attempt.first_step, attempt.last_step
    kept = superseded = None
    if first is not None and last is not None:
        end = last if until is None else min(until, last)
        if place is None:
            superseded = (first, last)
        else:
            kept = (first, end) if first <= end else None
            superseded = (max(first, end + 1), last) if end < last else None
    own = saves.get(attempt.label, {})
    return Lane(
        attempt=attempt.label,
        # what it went on from may be older than what its start event names
        parent=labels[place - 1] if place else attempt.parent,
        resumed_at=attempt.resumed_at,
        in_lineage=place is not None,
        kept=kept,
        superseded=superseded,
        reached=last,
        end="ended" if attempt.has_end else "open" if is_newest else "failed",
        saves=_some(list(own.values())),
        saves_count=len(own),
    )


def _some(found: Sequence[Checkpoint]) -> tuple[Save, ...]:
    """Give the checkpoints that were loaded, the newest, and of the others evenly spread ones."""
    stride = -(-len(found) // MOST_SAVES)
    return tuple(
        Save(one.step, one.wholeness.is_whole, one.loaded_by)
        for place, one in enumerate(found)
        if one.loaded_by or (len(found) - 1 - place) % stride == 0
    )


def _steps_of(lane: Lane) -> list[int]:
    ends = [*(lane.kept or ()), *(lane.superseded or ())]
    ends += [] if lane.resumed_at is None else [lane.resumed_at]
    return ends + [one.step for one in lane.saves]
