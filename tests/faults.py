"""
The faults that can be planted into a simulated job, one at a time, each with a clean twin.

`make(fault, seed)` is the job, `make(fault, seed, clean=True)` its twin. What `Job.truth` says
is what really happened, and not what a ledger can prove of it:

- `planted`: what was planted, `none` in a clean twin;
- `broken`: the resumed run leaves the intended stream (True), does not (False), or it cannot
  simply be said (None). An audit may find either `unproven`, but never the contrary within
  the steps that it calls proven;
- `gate`: the same for the run against the control, step by step;
- `at_step`: the first step that differs from the unplanted job, absent if none does;
- `replayed`, `skipped`, `duplicated`, `declared`: sequences, where they are simply known;
- `shift`: sequences, negative if the stream went back;
- `resume`: the attempt that was resumed wrongly, where there are several;
- `newest_checkpoint`: of the dead attempt, where an older one was loaded.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from accidents import (
    any_plant,
    at_one_restart,
    control_differs,
    declared_reshuffle,
    declared_skip,
    did_nothing,
    epoch_label_changed,
    grand_parent,
    log_some_ranks,
    lost_rank,
    lost_rows,
    mixed_attempt,
    newer_position,
    older_checkpoint,
    resume_step_mismatch,
    several_restarts,
    torn_segment,
    void_after,
    void_rewind,
    voids_before,
)
from emission import Log, emit
from jobs import Ending, Job, Leg, Line, Try, past_of, simulate
from plants import (
    Plant,
    batch_size_ramp,
    jump,
    membership,
    one_dropped,
    one_repeated,
    one_swapped_between_steps,
    partial_accumulation,
    prefetch_loss,
    reseed,
    rewind,
    stale_rank,
    swapped_ranks,
    world_size_changed,
)
from worlds import Wish, draw_plan


@dataclass(frozen=True)
class Case:
    """A fault: the world it needs, what clean twin and job share, and what only the job has."""

    wish: Wish
    plant: Plant
    arrange: Plant | None = None


def anywhere(plant: Plant) -> Case:
    """Wish for nothing: any world can have the fault."""
    return Case(Wish(), plant)


def shape(wish: Wish) -> Case:
    """Wish for a shape of ledger; any of the common faults is planted into it."""
    return Case(wish, any_plant)


CASES: Mapping[str, Case] = {
    "rewind": anywhere(rewind),
    "jump": anywhere(jump),
    "prefetch-loss": Case(Wish(min_workers=1), prefetch_loss),
    "reseed": anywhere(reseed),
    "stale-rank": Case(Wish(min_ranks=2), stale_rank),
    "swapped-ranks": Case(Wish(min_ranks=2), swapped_ranks),
    "one-dropped": Case(Wish(min_resumed=2), one_dropped),
    "one-repeated": Case(Wish(min_resumed=2), one_repeated),
    "one-swapped-between-steps": Case(Wish(min_resumed=2), one_swapped_between_steps),
    "partial-accumulation": Case(Wish(min_slots=2), partial_accumulation),
    "world-size-changed-same-global-batch": Case(
        Wish(other_batch="same", keeps_epochs=True), world_size_changed("same")
    ),
    "world-size-changed-other-global-batch": Case(
        Wish(other_batch="other", keeps_epochs=True), world_size_changed("other")
    ),
    "batch-size-ramp": Case(Wish(keeps_epochs=True), batch_size_ramp),
    "several-restarts": Case(Wish(), at_one_restart, several_restarts),
    "older-checkpoint": Case(Wish(min_checkpoint=2), newer_position, older_checkpoint),
    "grand-parent": Case(Wish(), any_plant, grand_parent),
    "void-before-checkpoint": Case(Wish(min_checkpoint=2), void_rewind, voids_before),
    "void-after-checkpoint": Case(Wish(min_rolled=1), void_after),
    "epoch-ends-inside-step": shape(Wish(ending=Ending.ROLL, crosses=True, min_slots=2)),
    "padding": shape(Wish(ending=Ending.PAD, crosses=True, min_ranks=2)),
    "drop-last": shape(Wish(ending=Ending.DROP, crosses=True, min_slots=2)),
    "missing-epoch-column": shape(Wish(has_epoch=False)),
    "string-ids": shape(Wish(ids="strings")),
    "spans": shape(Wish(kind="spans")),
    "packed-sequences": shape(Wish(kind="packed", has_position=True)),
    "positions": shape(Wish(has_position=True)),
    "upsampled-blend": shape(Wish(blend="upsampled")),
    "data-echoing": shape(Wish(echo=2)),
    "other-streams": shape(Wish(eval_every=2)),
    "lost-rank": Case(Wish(min_ranks=2), lost_rank),
    "lost-rows": Case(Wish(has_counts=True), lost_rows),
    "torn-segment": Case(Wish(has_counts=False), torn_segment),
    "declared-skip": Case(Wish(), declared_skip),
    "declared-reshuffle": Case(Wish(ending=Ending.ROLL, has_position=False), declared_reshuffle),
    "logged-ranks": Case(Wish(min_ranks=2), any_plant, log_some_ranks),
    "mixed-attempt": Case(Wish(min_ranks=2), mixed_attempt),
    "resume-step-mismatch": Case(Wish(min_checkpoint=2), resume_step_mismatch),
    "no-commits": shape(Wish(has_commits=False)),
    "membership": Case(Wish(min_ranks=2, keeps_epochs=True), membership),
    "did-nothing": anywhere(did_nothing),
    "epoch-label-changed": Case(Wish(has_epoch=True, min_rolled=1), epoch_label_changed),
    "frozen-epochs": shape(Wish(is_frozen=True, crosses=True)),
    "control-differs": anywhere(control_differs),
    "negative-ids": shape(Wish(ids="negative")),
    "one-id-in-two-sources": shape(Wish(blend="shared")),
}

FAULTS: tuple[str, ...] = tuple(CASES)


def rows_by_step(tries: list[Try], last: int) -> dict[int, Counter[object]]:
    """Count what stands where in each whole step."""
    steps: dict[int, Counter[object]] = {}
    for one in tries:
        if one.step <= last:
            places = [(one.fate, row.slot, row.rank, row.row, row.item.key) for row in one.rows]
            steps.setdefault(one.step, Counter()).update(places)
    return steps


def first_change(legs: list[Leg], intact: list[Leg]) -> int | None:
    """Find the first step that differs in the first leg that differs at all."""
    pairs = zip(legs, simulate(legs), intact, simulate(intact), strict=True)
    for leg, tries, before, tries_before in pairs:
        now, then = rows_by_step(tries, leg.last), rows_by_step(tries_before, before.last)
        changed = [step for step in {*now, *then} if now.get(step) != then.get(step)]
        if changed:
            return min(changed)
    return None


def lines_of(legs: list[Leg], log: Log, seed: str) -> list[Line]:
    """Play all legs and write their ledger."""
    lines: list[Line] = []
    tries = simulate(legs)
    for number, leg in enumerate(legs):
        n_before = sum(len(one.rows) for one in past_of(leg, legs, tries))
        rng = random.Random(f"{seed}/{number}")
        lines += emit(number, leg, tries[number], n_before, log, rng)
    return lines


def make(fault: str, seed: int, *, clean: bool = False) -> Job:
    """
    Make the job of this seed with the fault planted, or its clean twin.

    Both have the same world, recipe, log and history; the same arguments give the same job.
    """
    case = CASES[fault]
    rng = random.Random(f"{fault}/{seed}")
    plan = draw_plan(case.wish, rng)
    if case.arrange is not None:
        case.arrange(plan, rng)
    intact = list(plan.legs)
    if not clean:
        case.plant(plan, random.Random(f"{fault}/{seed}/planted"))
        step = first_change(plan.legs, intact)
        if step is not None:
            plan.truth["at_step"] = step
    run = lines_of(plan.legs, plan.log, f"{fault}/{seed}/run")
    for edit in plan.edits:
        run = edit(run)
    control = lines_of([plan.control], plan.log, f"{fault}/{seed}/control")
    return Job(seed, fault, clean, tuple(run), tuple(control), plan.truth)
