"""
A simulator of small data-parallel training jobs and of the ledgers they leave behind.

A `World` orders the data set, a `Recipe` cuts the order into steps, `deal` hands the steps
out, a `Leg` is one attempt and `simulate` plays several of them. `emission.py` writes down
what their ranks would log, `worlds.py` draws jobs at random, `faults.py` breaks them.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

Line = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """A whole sample (tokens null), or the half-open token range of it that one row holds."""

    sample: int | str
    source: str = "corpus"
    start: int | None = None
    stop: int | None = None


@dataclass(frozen=True)
class Item:
    """One sequence at its place in the global stream; two items with one place are a replay."""

    spans: tuple[Span, ...]
    epoch: int
    offset: int
    """Place within the epoch, padding included, from 0."""
    position: int
    """Place within the whole stream, padding included and dropped tails left out, from 0."""
    padding: bool = False

    @property
    def key(self) -> tuple[int, tuple[Span, ...]]:
        """What the sequence is, wherever it stands."""
        return (self.epoch, self.spans)


@dataclass(frozen=True)
class Cursor:
    """The place of the next item."""

    epoch: int = 0
    offset: int = 0
    position: int = 0


@dataclass(frozen=True)
class Recipe:
    """How a step is built: `slots` micro-batches on each of `ranks`, `rows` sequences in each."""

    ranks: tuple[int, ...]
    slots: int
    rows: int
    is_blocked: bool = False
    """Neighbours in the stream share a rank; otherwise they go to the ranks in turn."""

    @property
    def slot_size(self) -> int:
        """Sequences in one slot of all ranks."""
        return len(self.ranks) * self.rows

    @property
    def batch(self) -> int:
        """Sequences in a step, the global batch."""
        return self.slot_size * self.slots


class Ending(StrEnum):
    """What happens at the end of an epoch."""

    PAD = "pad"
    """Repeats from the epoch's head even out the ranks; the last step may be short."""
    DROP = "drop"
    """The tail that fills no global batch is not used."""
    ROLL = "roll"
    """The next epoch follows at once; a step may hold rows of both."""


@dataclass(frozen=True)
class World:
    """A data set and the order in which its epochs are meant to be used."""

    seed: int
    sequences: tuple[tuple[Span, ...], ...]
    ending: Ending
    is_frozen: bool = False
    """Every epoch has the order of the first."""
    echo: int = 1
    """How many times in a row a sequence is used, by design."""

    @property
    def is_unique(self) -> bool:
        """An epoch uses each sequence once."""
        return self.echo == 1 and len(set(self.sequences)) == len(self.sequences)

    def order(self, epoch: int) -> list[tuple[Span, ...]]:
        """List the sequences of one epoch, before padding and dropping."""
        order = list(self.sequences)
        random.Random(f"{self.seed}/{0 if self.is_frozen else epoch}").shuffle(order)
        return [spans for spans in order for _ in range(self.echo)]

    def rest_of(self, cursor: Cursor, recipe: Recipe) -> Iterator[Item]:
        """List what is left of the cursor's epoch, padding included, dropped tail left out."""
        order = self.order(cursor.epoch)
        rows = [(spans, False) for spans in order]
        if self.ending is Ending.PAD:
            missing = -len(order) % len(recipe.ranks)
            rows += [(spans, True) for spans in itertools.islice(itertools.cycle(order), missing)]
        elif self.ending is Ending.DROP:
            left = max(0, len(rows) - cursor.offset)
            rows = rows[: cursor.offset + left - left % recipe.batch]
        for ahead, (spans, padding) in enumerate(rows[cursor.offset :]):
            offset, position = cursor.offset + ahead, cursor.position + ahead
            yield Item(spans, cursor.epoch, offset, position, padding)

    def stream(self, cursor: Cursor, recipe: Recipe) -> Iterator[Item]:
        """Go on from the cursor for ever, as a job of this recipe would."""
        while True:
            position = cursor.position
            for item in self.rest_of(cursor, recipe):
                yield item
                position = item.position + 1
            cursor = Cursor(cursor.epoch + 1, 0, position)


@dataclass(frozen=True)
class Row:
    """One sequence where it was used."""

    slot: int
    rank: int
    row: int
    item: Item


class Fate(StrEnum):
    """What became of a try."""

    COMMIT = "commit"
    VOID = "void"
    RETURNED = "returned"
    """Voided, and the same batch is tried again."""
    OPEN = "open"
    """The attempt died in it."""


@dataclass(frozen=True)
class Try:
    """One batch and what became of it."""

    step: int
    recipe: Recipe
    items: tuple[Item, ...]
    """In stream order: the last one tells where the loader stands."""
    rows: tuple[Row, ...]
    fate: Fate = Fate.COMMIT


class Void(StrEnum):
    """How a trainer goes on after an update that it threw away."""

    ADVANCE = "advance"
    """The step number is used up."""
    NEXT = "next"
    """The step is tried again with the next batch."""
    SAME = "same"
    """The step is tried again with the same batch."""


def place(chunk: Sequence[Item], recipe: Recipe) -> tuple[Row, ...]:
    """Place the items of one step; a short last micro-batch is spread over all ranks too."""
    rows = []
    for slot, start in enumerate(range(0, len(chunk), recipe.slot_size)):
        part = chunk[start : start + recipe.slot_size]
        height = -(-len(part) // len(recipe.ranks))
        for index, item in enumerate(part):
            row, column = divmod(index, len(recipe.ranks))
            if recipe.is_blocked:
                column, row = divmod(index, height)
            rows.append(Row(slot, recipe.ranks[column], row, item))
    return tuple(rows)


def deal(
    items: Sequence[Item],
    recipe: Recipe,
    steps: Iterable[int],
    *,
    voids: Mapping[int, Void],
    one_epoch: bool,
) -> list[Try]:
    """Deal the items to steps in their order; with `one_epoch` no step holds two epochs."""
    tries: list[Try] = []
    start = 0

    def take(step: int, fate: Fate) -> None:
        nonlocal start
        chunk = tuple(items[start : start + recipe.batch])
        if one_epoch:
            epoch = chunk[0].epoch
            chunk = tuple(itertools.takewhile(lambda item: item.epoch == epoch, chunk))
        tries.append(Try(step, recipe, chunk, place(chunk, recipe), fate))
        start += 0 if fate is Fate.RETURNED else len(chunk)

    for step in steps:
        void = voids.get(step)
        if void is not None:
            take(step, Fate.RETURNED if void is Void.SAME else Fate.VOID)
        if void is not Void.ADVANCE:
            take(step, Fate.COMMIT)
    return tries


def used(tries: Iterable[Try]) -> list[Item]:
    """List the items that the tries took from the stream, in its order."""
    return [item for one in tries if one.fate is not Fate.RETURNED for item in one.items]


def cursor_after(tries: Iterable[Try]) -> Cursor:
    """Where a loader stands that has handed out the tries."""
    items = used(tries)
    if not items:
        return Cursor()
    return Cursor(items[-1].epoch, items[-1].offset + 1, items[-1].position + 1)


Bend = Callable[[list[Item]], list[Item]]
"""What comes from the loader, made of what should come."""
Twist = Callable[[list[Try]], list[Try]]
"""The tries as they happen, made of the dealt ones."""


@dataclass(frozen=True)
class Note:
    """An event that ranks log ahead of the first record of a step; `ranks` null means all."""

    step: int
    kind: str
    data: Mapping[str, Any]
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Leg:
    """One attempt: where it begins, how far it comes, and what is wrong with it."""

    world: World
    recipes: tuple[tuple[int, Recipe], ...]
    """(first step, recipe), in the order of steps; the first entry serves all earlier steps too."""
    last: int
    """The last whole step."""
    parent: tuple[int, int] | None = None
    """(attempt, step) that was really loaded."""
    says: tuple[int, int] | None = None
    """(attempt, step) that the start event names, if not the parent."""
    is_cut: bool = False
    """Killed inside the step after the last whole one."""
    has_end: bool = False
    voids: Mapping[int, Void] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    checkpoints: frozenset[int] = frozenset()
    lead: int = 0
    """Sequences by which the checkpoints' claims run ahead of what was used."""
    bend: Bend = list
    loss: int = 0
    """Items that the bend takes away, or reaches beyond the last step, at most."""
    twist: Twist = list

    @property
    def first(self) -> int:
        """The first step."""
        return 1 if self.parent is None else self.parent[1] + 1

    def spells(self) -> list[tuple[Recipe, range]]:
        """Split the steps of the leg, the cut one too, where the recipe changes."""
        stop = self.last + 1 + self.is_cut
        later = (min(max(self.first, step), stop) for step, _ in self.recipes[1:])
        starts = [self.first, *later]
        stops = [*starts[1:], stop]
        spells = zip(self.recipes, starts, stops, strict=True)
        return [(recipe, range(start, stop)) for (_, recipe), start, stop in spells if start < stop]

    @property
    def recipe(self) -> Recipe:
        """The recipe of the first step."""
        fitting = [recipe for step, recipe in self.recipes[1:] if step <= self.first]
        return fitting[-1] if fitting else self.recipes[0][1]


def live(leg: Leg, past: list[Try]) -> list[Try]:
    """Play one leg after the lineage's past."""
    tries: list[Try] = []
    one_epoch = leg.world.ending is not Ending.ROLL
    for recipe, steps in leg.spells():
        stream = leg.world.stream(cursor_after([*past, *tries]), recipe)
        most = (len(steps) + len(leg.voids)) * recipe.batch + leg.loss
        items = list(itertools.islice(stream, most))
        if not tries:
            items = leg.bend(items)
        tries += deal(items, recipe, steps, voids=leg.voids, one_epoch=one_epoch)
    tries = leg.twist(tries)
    return [replace(one, fate=Fate.OPEN) if one.step > leg.last else one for one in tries]


def past_of(leg: Leg, legs: Sequence[Leg], tries: Sequence[list[Try]]) -> list[Try]:
    """List the tries of the lineage that the leg really loaded, from the first step to C."""
    if leg.parent is None:
        return []
    parent, step = leg.parent
    earlier = past_of(legs[parent], legs, tries)
    return [*earlier, *(one for one in tries[parent] if one.step <= step)]


def simulate(legs: Sequence[Leg]) -> list[list[Try]]:
    """Play all legs in order; a leg's parent comes before it."""
    tries: list[list[Try]] = []
    for leg in legs:
        tries.append(live(leg, past_of(leg, legs, tries)))
    return tries


@dataclass(frozen=True)
class Job:
    """A run with its attempts, the run that was never interrupted, and what was planted."""

    seed: int
    fault: str
    clean: bool
    run: tuple[Line, ...]
    """By attempt, then rank, then time."""
    control: tuple[Line, ...]
    truth: Line
    """`planted`, `broken`, `gate`, `at_step` and counts: see `faults.py`."""

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write both ledgers below the folder; returns the folders of run and control."""
        run, control = folder / "run", folder / "control"
        for path, lines in ((run, self.run), (control, self.control)):
            path.mkdir(parents=True)
            for attempt in sorted({line["attempt"] for line in lines}):
                text = [
                    json.dumps(line, separators=(",", ":"))
                    for line in lines
                    if line["attempt"] == attempt
                ]
                (path / f"attempt{attempt}.jsonl").write_text("\n".join(text) + "\n")
        return run, control
