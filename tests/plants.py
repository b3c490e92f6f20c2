"""
Faults of the stream and of the ranks, planted into a job that has not run yet.

`Plant` functions change a plan's legs and write down in its truth what they did.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from jobs import Fate, Item, Note, Row, Try, used
from worlds import Plan, other_recipes

Plant = Callable[[Plan, random.Random], None]


def judge(plan: Plan, planted: str, broken: bool | None, **more: bool | int | None) -> None:
    """Write down what was planted; the gate sees it as the audit does unless `gate` is given."""
    plan.truth |= {"planted": planted, "broken": broken, "gate": broken} | more


def change(plan: Plan, leg: int, **changes: object) -> None:
    """Replace fields of one leg."""
    plan.legs[leg] = replace(plan.legs[leg], **changes)  # type: ignore[arg-type]


def is_countable(plan: Plan, leg: int) -> bool:
    """Tell whether counting records is enough: no repeats by design, a row is a record."""
    items = [*used(plan.past(leg)), *used(plan.tries(leg))]
    one_by_one = all(len(item.spans) == 1 and not item.padding for item in items)
    return plan.legs[leg].world.is_unique and one_by_one


def recurs(plan: Plan, leg: int, item: Item) -> bool:
    """Tell whether the sequence is used elsewhere in its epoch, by design."""
    items = used([*plan.past(leg), *plan.tries(leg)])
    return Counter(one.key for one in items)[item.key] > 1


def rewind_by(plan: Plan, back: int, leg: int) -> None:
    """Let the last `back` items of the committed stream come once more."""
    committed, first = used(plan.past(leg)), plan.tries(leg)[0]
    again = committed[-back:]
    is_new_epoch = committed[-1].epoch != first.items[0].epoch
    may_be_padding = is_new_epoch and back < first.recipe.batch
    change(plan, leg, bend=lambda items: again + items)
    is_clear = not may_be_padding and not all(item.padding for item in again)
    judge(plan, "rewind", True if is_clear else None)
    if is_countable(plan, leg):
        last = committed[-1].position
        plan.truth["replayed"] = sum(item.position <= last for item in used(plan.whole(leg)))


def rewind(plan: Plan, rng: random.Random, leg: int = -1) -> None:
    """Go back: by a step, by some samples, to the start of the epoch or of the run."""
    past = plan.past(leg)
    committed = used(past)
    in_epoch = sum(item.epoch == committed[-1].epoch for item in committed)
    ways = [len(past[-1].items), in_epoch, len(committed), rng.randint(1, len(committed))]
    rewind_by(plan, rng.choice(ways), leg)


def jump_by(plan: Plan, ahead: int, leg: int = -1, planted: str = "jump") -> None:
    """Let the next `ahead` items never come."""
    passed_over = used(plan.tries(leg))[:ahead]
    is_harmless = all(item.padding for item in passed_over)
    was_countable = len(passed_over) == ahead and is_countable(plan, leg)
    change(plan, leg, bend=lambda items: items[ahead:], loss=ahead)
    judge(plan, planted, None if is_harmless else True)
    if was_countable and is_countable(plan, leg):
        plan.truth["skipped"] = ahead


def jump(plan: Plan, rng: random.Random, leg: int = -1) -> None:
    """Jump ahead: by steps, by one slot, or by some samples."""
    recipe = plan.legs[leg].recipe
    ways = [recipe.batch * rng.randint(1, 3), recipe.slot_size, rng.randint(1, recipe.batch)]
    jump_by(plan, rng.choice(ways), leg)


def prefetch_loss(plan: Plan, rng: random.Random) -> None:
    """Count the micro-batches as used that every rank still had queued at the checkpoint."""
    queued = max(1, plan.log.workers) * rng.randint(1, 2)
    ahead = queued * plan.legs[-1].recipe.slot_size
    jump_by(plan, ahead, planted="prefetch-loss")
    change(plan, -2, lead=ahead)


def reseed(plan: Plan, rng: random.Random) -> None:
    """Go on at the right offset of another permutation."""
    world = plan.legs[-1].world
    change(plan, -1, world=replace(world, seed=world.seed + rng.randint(1, 9)))
    judge(plan, "reseed", True)


def pick(plan: Plan, rng: random.Random, leg: int) -> int:
    """Pick the place of a resumed item, likely one that the rolled-back window holds too."""
    whole, parent = plan.whole(leg), plan.legs[leg].parent
    reach = 0 if parent is None else plan.legs[parent[0]].last
    choices = [whole, whole[:-1], [one for one in whole[:-1] if one.step <= reach]]
    fitting = [used(tries) for tries in choices if tries]
    return rng.randrange(len(fitting[-1] if rng.random() < 0.7 else fitting[len(fitting) // 2]))


def one_dropped(plan: Plan, rng: random.Random, leg: int = -1) -> None:
    """Lose one sample; all later ones move up."""
    index = pick(plan, rng, leg)
    whole = plan.whole(leg)
    is_last_step = index >= len(used(whole[:-1]))  # the stream may still come to it
    is_unclear = is_last_step or recurs(plan, leg, used(whole)[index])
    change(plan, leg, bend=lambda items: items[:index] + items[index + 1 :], loss=1)
    judge(plan, "one-dropped", None if is_unclear else True)
    if not is_unclear:
        plan.truth["skipped"] = 1


def one_repeated(plan: Plan, rng: random.Random) -> None:
    """Let one sample come twice, at once or a few places later."""
    index = pick(plan, rng, -1)
    items = used(plan.whole(-1))
    item, later = items[index], rng.randint(1, 1 + plan.legs[-1].recipe.batch)
    target = min(len(items) - 1, index + later)
    is_by_design = recurs(plan, -1, item)
    change(plan, -1, bend=lambda items: [*items[:target], item, *items[target:]])
    homes = [one for one in plan.whole(-1) if item in one.items]
    after = [one for one in plan.tries(-1) if one.step > homes[-1].step]
    goes_on = any(other.epoch == item.epoch for other in used(after))
    may_be_padding = bool(after) and not goes_on
    is_whole = sum(one.items.count(item) for one in homes) == 2
    is_clear = is_whole and not is_by_design and not may_be_padding
    judge(plan, "one-repeated", True if is_clear else None)
    if is_clear:
        plan.truth["duplicated"] = 1


def one_swapped_between_steps(plan: Plan, rng: random.Random) -> None:
    """Let two samples of different steps trade places."""
    whole = plan.whole(-1)
    places = [
        (at, rng.randrange(len(whole[at].rows))) for at in sorted(rng.sample(range(len(whole)), 2))
    ]
    one, other = (whole[at].rows[row].item for at, row in places)
    trade = dict(zip(places, (other, one), strict=True))

    def swap(tries: list[Try]) -> list[Try]:
        return [
            replace(
                a_try,
                rows=tuple(
                    replace(row, item=trade.get((at, index), row.item))
                    for index, row in enumerate(a_try.rows)
                ),
            )
            for at, a_try in enumerate(tries)
        ]

    is_unclear = recurs(plan, -1, one) or recurs(plan, -1, other)
    change(plan, -1, twist=swap)
    judge(plan, "one-swapped-between-steps", None if is_unclear else True)


def partial_accumulation(plan: Plan, rng: random.Random) -> None:
    """Count the first slots of step C+1 as used, though their gradient died with the attempt."""
    recipe, first = plan.legs[-1].recipe, plan.whole(-1)[0]
    lost = rng.randint(1, recipe.slots - 1)
    n_lost = lost * recipe.slot_size
    if rng.random() < 0.6 or len(first.items) < recipe.batch:
        jump_by(plan, n_lost, planted="partial-accumulation")
        return

    def shorten(tries: list[Try]) -> list[Try]:
        rows = [replace(row, slot=row.slot - lost) for row in tries[0].rows if row.slot >= lost]
        return [replace(tries[0], rows=tuple(rows)), *tries[1:]]

    was_countable = is_countable(plan, -1)
    change(plan, -1, twist=shorten)
    is_harmless = all(item.padding for item in first.items[:n_lost])
    judge(plan, "partial-accumulation", None if is_harmless else True)
    if was_countable:
        plan.truth["skipped"] = n_lost


def lane(tries: list[Try], rank: int) -> list[Item]:
    """List what one rank used, in its own order."""
    kept = [one for one in tries if one.fate is not Fate.RETURNED]
    return [row.item for one in kept for row in one.rows if row.rank == rank]


def stale_rank(plan: Plan, rng: random.Random) -> None:
    """Let one rank go back by some of its lane; the others are right."""
    recipe = plan.legs[-1].recipe
    rank = rng.choice(recipe.ranks)
    past = lane(plan.past(-1), rank)
    back = rng.randint(1, min(len(past), 3 * recipe.rows))
    stale = past[-back:]
    was_countable = is_countable(plan, -1)

    def shift(tries: list[Try]) -> list[Try]:
        supply = iter([*stale, *lane(tries, rank)])

        def refill(row: Row) -> Row:
            return replace(row, item=next(supply)) if row.rank == rank else row

        return [replace(one, rows=tuple(map(refill, one.rows))) for one in tries]

    change(plan, -1, twist=shift)
    n_rows = len(lane(plan.whole(-1), rank))
    is_harmless = n_rows == 0 or all(item.padding for item in stale)
    judge(plan, "stale-rank", None if is_harmless else True)
    if was_countable:
        plan.truth["replayed"] = min(back, n_rows)


def swapped_ranks(plan: Plan, rng: random.Random) -> None:
    """Let two ranks trade lanes; every sample keeps its step."""
    one, other = rng.sample(plan.legs[-1].recipe.ranks, 2)
    trade = {one: other, other: one}

    def swap(tries: list[Try]) -> list[Try]:
        return [
            replace(
                a_try,
                rows=tuple(replace(row, rank=trade.get(row.rank, row.rank)) for row in a_try.rows),
            )
            for a_try in tries
        ]

    change(plan, -1, twist=swap)
    judge(plan, "swapped-ranks", False)


def world_size_changed(batch: str) -> Plant:
    """Make a plant that resumes on another number of ranks; `batch` is same or other."""

    def plant(plan: Plan, rng: random.Random) -> None:
        other = rng.choice(other_recipes(plan.control.recipe, batch))
        change(plan, -1, recipes=((1, other),))
        slug = f"world-size-changed-{batch}-global-batch"
        judge(plan, slug, False, gate=False if batch == "same" else None)

    return plant


def batch_size_ramp(plan: Plan, rng: random.Random) -> None:
    """Let accumulation grow by a slot at a step or two, in the run and in its control alike."""
    recipe, recipes = plan.control.recipe, list(plan.control.recipes)
    for step in sorted(rng.sample(range(2, plan.steps + 1), rng.randint(1, 2))):
        recipe = replace(recipe, slots=recipe.slots + 1)
        recipes.append((step, recipe))
    plan.control = replace(plan.control, recipes=tuple(recipes))
    for leg in range(len(plan.legs)):
        change(plan, leg, recipes=tuple(recipes))
    judge(plan, "batch-size-ramp", False)


def membership(plan: Plan, rng: random.Random) -> None:
    """Let a rank leave inside an attempt; the stream is dealt anew to those that stay."""
    leg = rng.choice([at for at, one in enumerate(plan.legs) if one.last > one.first])
    chosen = plan.legs[leg]
    step = rng.randint(chosen.first + 1, chosen.last)
    leaver = rng.choice(chosen.recipe.ranks)
    stay = tuple(rank for rank in chosen.recipe.ranks if rank != leaver)
    note = Note(step, "membership", {"ranks": list(stay)}, stay)
    recipes = (*chosen.recipes, (step, replace(chosen.recipe, ranks=stay)))
    change(plan, leg, recipes=recipes, notes=(note,))
    judge(plan, "membership", False, gate=None)
