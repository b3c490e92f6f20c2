"""What can happen to attempts and to their ledgers, planted into a job that has not run yet."""

from __future__ import annotations

import random
from dataclasses import replace

from jobs import Fate, Item, Leg, Line, Note, Void, used
from plants import Plant, change, judge, jump, jump_by, one_dropped, rewind, rewind_by
from worlds import Plan, Wish, chain

COMMON_FAULTS = (rewind, jump, one_dropped)


def any_plant(plan: Plan, rng: random.Random) -> None:
    """Plant a rewind, a jump, a dropped sample, or nothing at all."""
    choices: tuple[Plant | None, ...] = (*COMMON_FAULTS, None)
    plant = rng.choice(choices)
    if plant is not None:
        plant(plan, rng)


# Attempts and checkpoints


def several_restarts(plan: Plan, rng: random.Random) -> None:
    """Restart two or three times in a row instead of once."""
    checkpoints = sorted(rng.sample(range(1, plan.steps), rng.randint(2, 3)))
    plan.legs = chain(plan.control, checkpoints, Wish(), rng)


def at_one_restart(plan: Plan, rng: random.Random) -> None:
    """Go wrong at one resume; later ones go on from wherever that one came to."""
    leg = rng.randrange(1, len(plan.legs))
    rng.choice(COMMON_FAULTS)(plan, rng, leg)
    is_newest = leg == len(plan.legs) - 1
    keys = plan.truth if is_newest else ("planted", "broken", "gate")
    plan.truth = {key: plan.truth[key] for key in keys} | {"resume": leg}
    if not is_newest and plan.truth["planted"] == "one-dropped":
        judge(plan, "one-dropped", None)  # the drop may have been rolled back with the attempt


def older_checkpoint(plan: Plan, rng: random.Random) -> None:
    """Fall back to a checkpoint older than the newest one."""
    newer = plan.legs[-1].first - 1
    older = rng.randint(1, newer - 1)
    change(plan, 0, checkpoints=plan.legs[0].checkpoints | {older, newer})
    change(plan, -1, parent=(0, older))
    plan.truth["newest_checkpoint"] = newer


def newer_position(plan: Plan, _: random.Random) -> None:
    """Load the weights of the older checkpoint and the data position of the newer one."""
    older, newer = plan.legs[-1].first - 1, plan.truth["newest_checkpoint"]
    between = [one for one in plan.tries(0) if older < one.step <= newer]
    jump_by(plan, len(used(between)))


def grand_parent(plan: Plan, rng: random.Random) -> None:
    """Resume from attempt 0 again with attempt 2; attempt 1 is abandoned."""
    dead, abandoned = plan.legs
    last = min(abandoned.last, plan.steps - 1, abandoned.first + rng.randint(0, 4))
    abandoned = replace(abandoned, last=last, has_end=False, is_cut=rng.random() < 0.5)
    step = rng.choice([abandoned.first - 1, rng.randint(1, min(dead.last, plan.steps - 2))])
    last = rng.choice([plan.steps, rng.randint(step + 1, plan.steps)])
    has_end = last == plan.steps and rng.random() < 0.5
    third = replace(abandoned, parent=(0, step), last=last, is_cut=False, has_end=has_end)
    plan.legs = [replace(dead, checkpoints=dead.checkpoints | {step}), abandoned, third]


def voids_before(plan: Plan, rng: random.Random) -> None:
    """Throw away one or two updates before the checkpoint; the stream goes on."""
    checkpoint = plan.legs[-1].first - 1
    steps = rng.sample(range(1, checkpoint), min(checkpoint - 1, rng.randint(1, 2)))
    void = rng.choice([Void.ADVANCE, Void.NEXT])
    change(plan, 0, voids=dict.fromkeys(steps, void))
    if rng.random() < 0.5:
        plan.control = replace(plan.control, voids=dict.fromkeys(steps, void))
    elif void is Void.NEXT:
        plan.truth["gate"] = None  # the control is a batch behind


def void_rewind(plan: Plan, _: random.Random) -> None:
    """Compute the position from the successful steps: it goes back a batch for each void."""
    back = sum(len(one.items) for one in plan.past(-1) if one.fate is Fate.VOID)
    rewind_by(plan, back, -1)
    plan.truth = {"shift": -back, "broken": plan.truth["broken"]}
    judge(plan, "void-before-checkpoint", plan.truth["broken"])


def void_after(plan: Plan, rng: random.Random) -> None:
    """Throw away an update after the checkpoint, in the dead or in the resumed attempt."""
    leg = rng.randrange(2)
    void = rng.choice(list(Void))
    change(plan, leg, voids={rng.randint(plan.legs[-1].first, plan.legs[leg].last): void})
    gate = None if void is Void.NEXT and leg == 1 else False  # then the control is a batch behind
    judge(plan, "void-after-checkpoint", False, gate=gate)


def did_nothing(plan: Plan, rng: random.Random) -> None:
    """End the resumed attempt at once, or kill it before its first commit."""
    dead, resumed = plan.legs
    has_end = rng.random() < 0.5
    is_cut = not has_end and rng.random() < 0.7
    change(plan, -1, last=resumed.first - 1, has_end=has_end, is_cut=is_cut)
    has_reference = dead.last >= resumed.first
    broken = True if has_end and has_reference else None
    judge(plan, "did-nothing", broken, gate=True if has_end else None)


def resume_step_mismatch(plan: Plan, rng: random.Random) -> None:
    """Name C in the start event, but load an older checkpoint and log its steps."""
    says = plan.legs[-1].first - 1
    change(plan, -1, parent=(0, rng.randint(1, says - 1)), says=(0, says))
    judge(plan, "resume-step-mismatch", None)


def control_differs(plan: Plan, rng: random.Random) -> None:
    """Make the control another run from its first step."""
    world = plan.control.world
    plan.control = replace(plan.control, world=replace(world, seed=world.seed + rng.randint(1, 9)))
    judge(plan, "control-differs", False, gate=True)


# What is declared


def step_of(plan: Plan, item: Item) -> int:
    """Find the resumed step that would use the item."""
    return next(one.step for one in plan.tries(-1) if item in one.items)


def declared_skip(plan: Plan, rng: random.Random) -> None:
    """Skip a range on purpose, a step at most, and say so."""
    items = used(plan.whole(-1))
    start = rng.randrange(len(items))
    stop = min(len(items), start + rng.randint(1, plan.legs[-1].recipe.batch))
    gone = items[start:stop]
    skip: Line = {"ids": [item.spans[0].sample for item in gone]}
    if plan.log.has_position:
        skip = {"positions": [[gone[0].position, gone[-1].position + 1]]}
    data = {"skip": skip, "reason": "loss spike"}
    note = Note(step_of(plan, gone[0]), "declare", data, rng.choice([None, (0,)]))
    change(plan, -1, bend=lambda items: items[:start] + items[stop:], loss=len(gone))
    change(plan, -1, notes=(note,))
    judge(plan, "declared-skip", False, gate=None, declared=len(gone))


def declared_reshuffle(plan: Plan, rng: random.Random) -> None:
    """Use the rest of the epoch in another order from some step on, and say so."""
    whole = plan.whole(-1)
    at = rng.choice([0, rng.randrange(len(whole))])
    start, epoch = len(used(whole[:at])), whole[at].items[0].epoch
    order = rng.random()

    def reshuffle(items: list[Item]) -> list[Item]:
        rest = [item for item in items[start:] if item.epoch == epoch]
        random.Random(order).shuffle(rest)
        return [*items[:start], *rest, *items[start + len(rest) :]]

    data = {"reshuffle": True, "reason": "new curriculum"}
    note = Note(whole[at].step, "declare", data, rng.choice([None, (0,)]))
    n_epoch = len(plan.legs[-1].world.order(epoch))
    change(plan, -1, bend=reshuffle, loss=n_epoch, notes=(note,))
    judge(plan, "declared-reshuffle", False, gate=None)


# What the ledger lost or got wrong


def draw_victim(plan: Plan, rng: random.Random) -> tuple[int, int]:
    """Draw an attempt and a rank of it."""
    return rng.randrange(2), rng.choice(plan.control.recipe.ranks)


def records(legs: list[Leg], victim: tuple[int, int], lines: list[Line]) -> list[int]:
    """Find the records of the victim's whole steps among the lines."""
    return [
        at
        for at, line in enumerate(lines)
        if line["kind"] == "sample"
        and (line["attempt"], line["rank"]) == victim
        and line["step"] <= legs[victim[0]].last
    ]


def lost_rank(plan: Plan, rng: random.Random) -> None:
    """Lose the ledger of one rank of one attempt."""
    victim = draw_victim(plan, rng)
    plan.edits.append(
        lambda lines: [line for line in lines if (line["attempt"], line["rank"]) != victim]
    )
    judge(plan, "lost-rank", False)


def lost_rows(plan: Plan, rng: random.Random) -> None:
    """Lose some records, though their commit counts them."""
    victim, wanted, scatter = draw_victim(plan, rng), rng.randint(1, 4), rng.random()

    def edit(lines: list[Line]) -> list[Line]:
        places = records(plan.legs, victim, lines)
        gone = set(random.Random(scatter).sample(places, min(wanted, len(places))))
        return [line for at, line in enumerate(lines) if at not in gone]

    plan.edits.append(edit)
    judge(plan, "lost-rows", False)


def torn_segment(plan: Plan, rng: random.Random) -> None:
    """Lose the newest records of one rank, and nothing counts them."""
    victim, wanted = draw_victim(plan, rng), rng.randint(1, 6)

    def edit(lines: list[Line]) -> list[Line]:
        gone = set(records(plan.legs, victim, lines)[-wanted:])
        return [line for at, line in enumerate(lines) if at not in gone]

    plan.edits.append(edit)
    judge(plan, "torn-segment", None)


def mixed_attempt(plan: Plan, rng: random.Random) -> None:
    """Let the start events of the resumed attempt disagree on the checkpoint's step."""
    victim, shift = (1, rng.choice(plan.control.recipe.ranks)), rng.choice([-1, 1])

    def edit(lines: list[Line]) -> list[Line]:
        for line in lines:
            if line["kind"] == "start" and (line["attempt"], line["rank"]) == victim:
                line["data"]["resumed_from"]["step"] += shift
        return lines

    plan.edits.append(edit)
    judge(plan, "mixed-attempt", None)


def epoch_label_changed(plan: Plan, rng: random.Random) -> None:
    """Let the resumed attempt name its epochs otherwise; the stream goes on."""
    resumed = used(plan.whole(-1))
    label = resumed[0].epoch + plan.log.first_epoch
    shift = rng.choice([1, -label] if label else [1, 2])

    def edit(lines: list[Line]) -> list[Line]:
        for line in lines:
            if line["attempt"] == 1 and "epoch" in line:
                line["epoch"] += shift
        return lines

    plan.edits.append(edit)
    # a wrong label that some record before or after the failure really has cannot be told
    known = {(item.epoch, item.spans) for item in [*used(plan.past(-1)), *resumed]}
    is_unclear = any((item.epoch + shift, item.spans) in known for item in resumed)
    judge(plan, "epoch-label-changed", None if is_unclear else False, gate=None)


def log_some_ranks(plan: Plan, rng: random.Random) -> None:
    """Log only some of the ranks, and say which."""
    ranks = plan.control.recipe.ranks
    logged = sorted(rng.sample(ranks, rng.randint(1, len(ranks) - 1)))
    plan.log = replace(plan.log, ranks=tuple(logged))
