"""Random runs with planted faults, beside the control that they should have followed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiny import Line, attempt, write

STEPS, RANKS, ROWS = 40, 2, 2
BATCH = RANKS * ROWS

Sample = tuple[int, int]
"""Epoch and id."""


def _epochs(rng: random.Random, size: int, *, is_padded: bool) -> list[list[Sample]]:
    """Give the batches of a stream that shuffles anew in each epoch."""
    batches: list[list[Sample]] = []
    epoch = 0
    while len(batches) < STEPS:
        order = rng.sample(range(size), size)
        rest = -size % BATCH
        order = order + order[:rest] if is_padded else order[: size - size % BATCH]
        batches += [
            [(epoch, one) for one in order[start : start + BATCH]]
            for start in range(0, len(order), BATCH)
        ]
        epoch += 1
    return batches[:STEPS]


def _plant(rng: random.Random, batches: list[list[Sample]], fault: str) -> None:
    """Plant a fault in a stream."""
    at, other, row = rng.randrange(1, STEPS), rng.randrange(STEPS), rng.randrange(BATCH)
    earlier = rng.randrange(at)
    if fault == "replayed":
        batches[at][row] = batches[earlier][row]
    elif fault == "replayed-at-the-end":
        batches[-1][row] = batches[earlier][row]
    elif fault == "foreign":
        batches[at][row] = (batches[at][row][0], 100_000)
    elif fault == "skipped":
        del batches[at][row]
    elif fault == "added":
        batches[at] = [*batches[at], batches[other][row]]
    elif fault == "of-another-epoch":
        epoch, one = batches[at][row]
        batches[at][row] = (epoch ^ 1, one)
    elif fault == "steps-swapped":
        batches[at], batches[other] = batches[other], batches[at]
    elif fault == "blocks-swapped":
        first, second = rng.randrange(STEPS // 2 - 4), rng.randrange(STEPS // 2, STEPS - 4)
        ours, theirs = slice(first, first + 3), slice(second, second + 3)
        batches[ours], batches[theirs] = batches[theirs], batches[ours]


FAULTS = (
    "none",
    "replayed",
    "replayed-at-the-end",
    "foreign",
    "skipped",
    "added",
    "of-another-epoch",
    "steps-swapped",
    "blocks-swapped",
)


def _lines(
    batches: Sequence[Sequence[Sample]],
    label: int,
    steps: range,
    after: tuple[int, int] | None = None,
    **start: Any,
) -> list[Line]:
    used = {
        step: [
            [
                {"sample_id": one, "epoch": epoch}
                for epoch, one in batches[step - 1][rank * ROWS : (rank + 1) * ROWS]
            ]
            for rank in range(RANKS)
        ]
        for step in steps
    }
    for step, by_rank in used.items():  # what was added is of the last rank
        by_rank[-1] += [
            {"sample_id": one, "epoch": epoch} for epoch, one in batches[step - 1][BATCH:]
        ]
    return attempt(label, used, after=after, world_size=RANKS, **start)


@dataclass(frozen=True)
class Pair:
    """A control, and runs with one fault."""

    control: Path
    runs: tuple[Path, Path]
    """One was never resumed; the other was, with the fault before or after."""


def random_pair(fault: str, folder: Path) -> Pair:
    """Write a control and its runs; the same fault gives the same bytes."""
    rng = random.Random(fault)
    # an epoch of a few steps that ends full, padded or short, or one that does not end
    size = rng.choice([BATCH * 13, BATCH * 12 - 1, BATCH * 15 - 2, BATCH * STEPS])
    told = {"fingerprint": {"dataset_samples": size}} if rng.random() < 0.7 else {}
    clean = _epochs(rng, size, is_padded=rng.random() < 0.6)
    faulty = [list(batch) for batch in clean]
    _plant(rng, faulty, fault)
    control = write(folder / "control", _lines(clean, 0, range(1, STEPS + 1), **told))
    at = rng.randrange(12, 28)
    whole = range(1, STEPS + 1)
    once = write(folder / "run0", _lines(faulty, 0, whole, **told))
    lines = [
        *_lines(faulty, 0, range(1, at + 3), **told),
        *_lines(faulty, 1, whole[at:], (0, at), **told),
    ]
    return Pair(control, (once, write(folder / "run1", lines)))
