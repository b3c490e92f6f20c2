"""
Lets a trainer follow a plan: as a sampler of a PyTorch `DataLoader`, or as plain iterators.

No framework is needed: a `DataLoader` takes any iterable of lists for its `batch_sampler`.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ledger_audit.errors import UsageError
from ledger_audit.ledger.address import place_of
from ledger_audit.ledger.following import Lane, MicroBatch


def steps(
    plan: str | os.PathLike[str], rank: int, *, first: int | None = None
) -> Iterator[tuple[int, tuple[MicroBatch, ...]]]:
    """
    Give every step of a plan, with the micro-batches that a rank has in it: in a ragged one, none.

    Args:
        plan: the folder that `ledger-audit plan` made.
        rank: whose.
        first: the step to begin with; null: the first of the plan.

    Raises:
        UnreadableError: there is no plan, or a file is damaged.
        UsageError: the plan is for fewer ranks.
    """
    return Lane(place_of(plan), rank).steps(first)


def micro_batches(
    plan: str | os.PathLike[str], rank: int, *, first: int | None = None
) -> Iterator[MicroBatch]:
    """Give the micro-batches of a rank: step, slot and rows; arguments as of `steps`."""
    return Lane(place_of(plan), rank).micro_batches(first)


class PlanSampler:
    """
    Gives the samples of one rank, a list for each micro-batch: a `batch_sampler`.

    A loader with workers asks for batches long before they are used: what the sampler handed out is
    not what was consumed. So save `state_dict(step)` with the step that was committed last.

    Args:
        plan: the folder that `ledger-audit plan` made.
        rank: whose.
        index: sample id → what the data set is asked for; null: the id itself.

    Raises:
        UnreadableError: there is no plan, or a file is damaged.
        UsageError: the plan is for fewer ranks.
    """

    def __init__(
        self,
        plan: str | os.PathLike[str],
        rank: int,
        *,
        index: Callable[[Any], Any] | None = None,
    ) -> None:
        self._lane = Lane(place_of(plan), rank)
        self._index = index
        self._start = (self._lane.first_step, 0)
        self._next = self._start

    @property
    def place(self) -> tuple[int, int]:
        """Step and slot of the micro-batch that is handed out next."""
        return self._next

    def __iter__(self) -> Iterator[list[Any]]:
        """Hand out the micro-batches from where it was loaded, or from the beginning."""
        self._next = self._start
        for step, slot, rows in self._lane.micro_batches(*self._start):
            self._next = (step, slot + 1)
            ids: list[Any] = [one.sample_id for one in rows]
            yield ids if self._index is None else [self._index(one) for one in ids]

    def __len__(self) -> int:
        """Count the micro-batches that `__iter__` gives."""
        return self._lane.count(*self._start)

    def state_dict(self, committed_step: int | None = None) -> dict[str, Any]:
        """
        Say where to go on.

        Args:
            committed_step: the last step whose update was applied; null: go on after what was
                handed out last, which is right only where nothing is read ahead.
        """
        step, slot = self._next if committed_step is None else (committed_step + 1, 0)
        return {"step": step, "slot": slot, "plan": dict(self._lane.recipe)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """
        Go on from a saved place.

        Raises:
            UsageError: it is of another plan, or no place of this one.
        """
        if state.get("plan") != self._lane.recipe:
            raise UsageError(
                f"{self._lane.root}: the saved place is of another plan",
                hint="follow the plan that the checkpoint was made with, or plan from it anew",
            )
        step: Any = state.get("step")
        slot: Any = state.get("slot")
        last = max(self._lane.last_step, self._lane.first_step - 1) + 1
        is_place = isinstance(step, int) and isinstance(slot, int)
        if not is_place or slot < 0 or not self._lane.first_step <= step <= last:
            raise UsageError(
                f"{self._lane.root}: step {step!r}, slot {slot!r} is no place of this plan",
                hint=f"it has steps {self._lane.first_step} to {self._lane.last_step}",
            )
        self._start = self._next = (step, slot)
