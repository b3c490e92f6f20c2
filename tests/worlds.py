"""Random worlds, recipes, logs and histories for the job simulator, bent to what a fault needs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from emission import Log
from jobs import Ending, Leg, Line, Recipe, Span, Try, World, past_of, simulate

WINDOW = 8
"""Tokens in a sequence."""


@dataclass(frozen=True)
class Wish:
    """What a fault needs of the world that it is planted in; null leaves it to chance."""

    kind: str = "samples"
    """samples (whole ones), spans (of long documents) or packed (many documents a sequence)."""
    ids: str = "integers"
    """integers, strings or negative."""
    blend: str = "none"
    """none, upsampled (one of two sources is used more than once) or shared (ids in both)."""
    echo: int = 1
    ending: Ending | None = None
    keeps_epochs: bool = False
    """The epoch's length must not depend on the recipe: no dropped tails."""
    min_ranks: int = 1
    min_slots: int = 1
    min_rolled: int = 0
    min_resumed: int = 1
    min_checkpoint: int = 1
    crosses: bool = False
    """The job is longer than an epoch, and epochs do not end with a whole global batch."""
    is_frozen: bool | None = None
    has_epoch: bool | None = None
    has_position: bool | None = None
    has_commits: bool = True
    has_counts: bool | None = None
    min_workers: int = 0
    eval_every: int = 0
    other_batch: str | None = None
    """same or other: another recipe must exist that has the same (another) global batch."""


def all_recipes() -> list[Recipe]:
    """Every recipe of 1-4 ranks, 1-3 slots and 1-3 rows."""
    sizes = itertools.product(range(1, 5), range(1, 4), range(1, 4))
    return [Recipe(tuple(range(n_ranks)), slots, rows) for n_ranks, slots, rows in sizes]


def other_recipes(recipe: Recipe, batch: str) -> list[Recipe]:
    """Recipes of another world size with the same, or with another, global batch."""
    return [
        Recipe(other.ranks, other.slots, other.rows, recipe.is_blocked)
        for other in all_recipes()
        if len(other.ranks) != len(recipe.ranks)
        and (other.batch == recipe.batch) == (batch == "same")
    ]


def draw_recipe(wish: Wish, rng: random.Random) -> Recipe:
    """Draw a recipe that the wish allows."""
    packed = wish.kind == "packed"
    fitting = [
        recipe
        for recipe in all_recipes()
        if len(recipe.ranks) >= wish.min_ranks
        and recipe.slots >= wish.min_slots
        and (wish.other_batch is None or other_recipes(recipe, wish.other_batch))
        and not (packed and recipe.batch > 12)
    ]
    chosen = rng.choice(fitting)
    return Recipe(chosen.ranks, chosen.slots, chosen.rows, rng.random() < 0.4)


def draw_ids(wish: Wish, n_ids: int, rng: random.Random) -> list[int | str]:
    """So many distinct ids."""
    if wish.ids == "strings":
        return [f"doc-{index:05d}" for index in range(n_ids)]
    if wish.ids == "negative":
        return [index - n_ids // 2 for index in range(n_ids)]
    start = rng.choice([0, 0, 1, 1000])
    return [start + index for index in range(n_ids)]


def whole_samples(wish: Wish, n_sequences: int, rng: random.Random) -> list[tuple[Span, ...]]:
    """One sample a sequence, from one source or a blend of two."""
    if wish.blend == "none":
        return [(Span(sample),) for sample in draw_ids(wish, n_sequences, rng)]
    if wish.blend == "shared":
        shared = draw_ids(wish, n_sequences // 2, rng)
        return [(Span(sample, source),) for source in ("code", "web") for sample in shared]
    times = rng.randint(2, 3)
    n_code = max(1, n_sequences // 5)
    ids = draw_ids(wish, n_sequences - (times - 1) * n_code, rng)
    draws = [(Span(sample, "code"), times) for sample in ids[:n_code]]
    draws += [(Span(sample, "web"), 1) for sample in ids[n_code:]]
    return [(span,) for span, repeat in draws for _ in range(repeat)]


def token_sequences(wish: Wish, n_sequences: int, rng: random.Random) -> list[tuple[Span, ...]]:
    """Documents cut into windows: each by itself (spans), or all of them end to end (packed)."""
    cut: list[tuple[Span, ...]] = []
    room = WINDOW
    open_row: list[Span] = []
    for sample in draw_ids(wish, 3 * n_sequences, rng):
        start, length = 0, rng.randint(2, 20)
        while start < length:
            if wish.kind == "spans":
                room = WINDOW
            stop = min(length, start + room)
            open_row.append(Span(sample, "corpus", start, stop))
            start, room = stop, room - (stop - start)
            if wish.kind == "spans" or room == 0:
                cut.append(tuple(open_row))
                open_row, room = [], WINDOW
    return cut[:n_sequences]


def draw_world(wish: Wish, recipe: Recipe, steps: int, rng: random.Random) -> World:
    """Draw a world that a job of so many steps goes through 0.6 to 3 times."""
    passes = rng.uniform(1.3 if wish.crosses else 0.6, 3.0)
    wanted = round(steps * recipe.batch / passes / wish.echo)
    n_sequences = max(10, recipe.batch + 1, min(150, wanted))
    if wish.crosses and n_sequences * wish.echo % recipe.batch == 0:
        n_sequences += 1
    if wish.crosses and wish.ending is Ending.PAD and n_sequences % len(recipe.ranks) == 0:
        n_sequences += 1
    make = whole_samples if wish.kind == "samples" else token_sequences
    sequences = tuple(make(wish, n_sequences, rng))
    endings = [Ending.PAD, Ending.ROLL] + ([] if wish.keeps_epochs else [Ending.DROP])
    ending = wish.ending or rng.choice(endings)
    is_frozen = rng.random() < 0.2 if wish.is_frozen is None else wish.is_frozen
    return World(rng.randrange(10**6), sequences, ending, is_frozen, wish.echo)


KEYS = ("micro_batch_size", "accumulation", "world_size", "drop_last", "seed", "workers")


def draw_log(wish: Wish, world: World, rng: random.Random) -> Log:
    """Draw a log with or without each of the columns, counts and fingerprint keys."""
    keys = {key for key in KEYS if rng.random() < 0.5}
    keys |= {"sampler"} if rng.random() < 0.5 else set()
    if wish.kind == "samples" and world.is_unique and rng.random() < 0.7:
        keys.add("dataset_samples")
    may_place = world.ending is Ending.ROLL or not wish.keeps_epochs
    chance = {"epoch": rng.random() < 0.8, "position": rng.random() < 0.4 and may_place}
    counts = rng.random() < 0.5 if wish.has_counts is None else wish.has_counts
    return Log(
        has_epoch=chance["epoch"] if wish.has_epoch is None else wish.has_epoch,
        first_epoch=rng.choice([0, 0, 0, 1]),
        has_position=chance["position"] if wish.has_position is None else wish.has_position,
        has_source=wish.blend == "shared" or rng.random() < (0.8 if wish.blend != "none" else 0.2),
        has_worker=rng.random() < 0.4,
        workers=max(wish.min_workers, rng.randint(0, 3)),
        has_commits=wish.has_commits,
        has_counts=counts,
        checkpoints=rng.choice(["none", "first", "all"]),
        has_claims=rng.random() < 0.5,
        eval_every=wish.eval_every,
        fingerprint=frozenset(keys),
    )


Edit = Callable[[list[Line]], list[Line]]


@dataclass
class Plan:
    """A job before it runs: its attempts, its control, its log, and what is known about it."""

    steps: int
    legs: list[Leg]
    control: Leg
    log: Log
    truth: Line = field(default_factory=lambda: {"planted": "none", "broken": False, "gate": False})
    edits: list[Edit] = field(default_factory=list)
    """Changes to the lines of the run, in order."""

    def tries(self, leg: int) -> list[Try]:
        """Play the plan so far; the tries of one leg."""
        return simulate(self.legs)[leg]

    def past(self, leg: int) -> list[Try]:
        """Play the plan so far; the tries of the lineage before one leg."""
        return past_of(self.legs[leg], self.legs, simulate(self.legs))

    def whole(self, leg: int) -> list[Try]:
        """Play the plan so far; the tries of one leg, the cut step left out."""
        return [one for one in self.tries(leg) if one.step <= self.legs[leg].last]


def chain(control: Leg, checkpoints: Sequence[int], wish: Wish, rng: random.Random) -> list[Leg]:
    """Draw the attempts of one job, each resumed from the last at the next checkpoint."""
    legs = []
    for number, resumed_at in enumerate([None, *checkpoints]):
        is_newest = number == len(checkpoints)
        if is_newest:
            last = rng.choice(
                [control.last, rng.randint(checkpoints[-1] + wish.min_resumed, control.last)]
            )
        else:
            kept = checkpoints[number]
            last = min(control.last - 1, kept + rng.randint(wish.min_rolled, 6))
        is_cut = last < control.last and rng.random() < 0.6
        marks = {rng.randint(1, control.last), *checkpoints[number : number + 1]}
        leg = Leg(
            control.world,
            control.recipes,
            last,
            parent=None if resumed_at is None else (number - 1, resumed_at),
            is_cut=is_cut,
            has_end=not is_cut and rng.random() < (0.6 if is_newest else 0.15),
            checkpoints=frozenset(marks),
        )
        legs.append(leg)
    return legs


def draw_plan(wish: Wish, rng: random.Random) -> Plan:
    """Draw a job of 6-25 steps that was killed once and resumed as it should be."""
    recipe = draw_recipe(wish, rng)
    budget = (200 if wish.kind == "packed" else 420) // recipe.batch
    least = max(6 + wish.min_rolled, 18 // recipe.batch if wish.crosses else 0)
    steps = max(least, min(rng.randint(6, 25), budget))
    world = draw_world(wish, recipe, steps, rng)
    control = Leg(world, ((1, recipe),), steps, has_end=True)
    checkpoint = rng.randint(wish.min_checkpoint, steps - 1 - max(1, wish.min_rolled))
    legs = chain(control, [checkpoint], wish, rng)
    return Plan(steps, legs, control, draw_log(wish, world, rng))
