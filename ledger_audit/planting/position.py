"""Faults of the place from which a stream goes on."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from ledger_audit.planting.job import (
    CannotPlant,
    Plant,
    Planted,
    Script,
    dealt,
    lane_order,
    needs,
    reaches,
    script,
    several_ranks,
    shifted,
    steps_of_a_pass,
)
from ledger_audit.planting.stretch import Stretch

CHUNKS = (16, 32, 64, 128, 256, 512, 1024)
"""What a reader may take at once."""


def cursor_not_restored(stretch: Stretch) -> Planted:
    """Every rank begins again."""
    job = script(stretch)
    return job.planted(job.going_on(dict.fromkeys(stretch.ranks, 0)))


def stale_cursor(stretch: Stretch) -> Planted:
    """The loader's state is that of a checkpoint three steps older."""
    job = script(stretch, at=0.5)
    older = job.checkpoint - 3
    needs((older >= 1, "more steps"))
    return job.planted(job.going_on(stretch.used(older)), saves=(older, job.checkpoint))


def prefetch_counted(stretch: Stretch) -> Planted:
    """What every loader had read ahead counts as used."""
    job = script(stretch, at=0.2)
    workers, batches = (stretch.fingerprint.get(key) for key in ("workers", "prefetch_factor"))
    is_told = isinstance(workers, int) and isinstance(batches, int) and workers * batches > 0
    needs((is_told, "fingerprint keys workers and prefetch_factor, both above 0"))
    begins = shifted(job.used, int(workers or 0) * int(batches or 0) * stretch.micro_batch)
    needs((reaches(begins, stretch), "more steps than its loaders read ahead"))
    needs(_is_seen(job, begins))
    return job.planted(job.going_on(begins))


def off_by_one_batch(stretch: Stretch) -> Planted:
    """The last committed batch comes once more."""
    job = script(stretch)
    return job.planted(job.going_on(stretch.used(job.checkpoint - 1)))


def steps_for_micro_batches(stretch: Stretch) -> Planted:
    """As many micro-batches are skipped as there were steps."""
    job = script(stretch)
    needs((stretch.slots > 1, "a second accumulation slot"))
    return job.planted(job.going_on(_parts(job, stretch.slots)))


def rank_count_for_global(stretch: Stretch) -> Planted:
    """One rank's count is taken for that of all."""
    needs(several_ranks(stretch))
    ranks = len(stretch.ranks)
    steps = steps_of_a_pass(stretch)
    for checkpoint in range(max(3, steps // 3), steps - 1):
        job = Script(stretch, checkpoint, stretch.steps - 1)
        if all(count % ranks == 0 for count in job.used.values()):
            return job.planted(job.going_on(_parts(job, ranks)))
    raise CannotPlant("a step at which the ranks' counts can be divided by their number")


def batch_size_rescaled(stretch: Stretch) -> Planted:
    """The step is multiplied by a batch that is twice as large as before."""
    job = script(stretch, at=0.25)
    begins = shifted(job.used, job.used)
    needs((reaches(begins, stretch, 2), "more steps"), _is_seen(job, begins))
    pair = pl.col("step") - job.checkpoint - 1
    places = stretch.sequences.filter(pl.col("step") > job.checkpoint).with_columns(
        step=job.checkpoint + 1 + pair // 2, slot=pl.col("slot") + stretch.slots * (pair % 2)
    )
    whole = (stretch.steps - job.checkpoint) // 2
    places = places.filter(pl.col("step") <= job.checkpoint + whole)
    changed = {"accumulation": 2 * stretch.slots, "gradient_accumulation_steps": 2 * stretch.slots}
    known = {key: value for key, value in changed.items() if key in stretch.fingerprint}
    resumed = job.resumed(lane_order(stretch, begins), places)
    return job.planted(replace(resumed, fingerprint={**resumed.fingerprint, **known}))


def offset_applied_twice(stretch: Stretch) -> Planted:
    """Two parts of the program skip what was used."""
    job = script(stretch, at=0.3)
    begins = shifted(job.used, job.used)
    needs((reaches(begins, stretch), "more steps"), _is_seen(job, begins))
    return job.planted(job.going_on(begins))


def relative_cursor(stretch: Stretch) -> Planted:
    """The second save counts since the first resume."""
    first, second = script(stretch, at=0.25, died=0.5), script(stretch, at=0.65)
    needs((second.checkpoint > first.died, "more steps"))
    middle = first.going_on(first.used)
    middle = replace(
        middle,
        records=middle.records.filter(pl.col("step") <= second.died),
        saves=(second.checkpoint,),
    )
    begins = shifted(second.used, {rank: -count for rank, count in first.used.items()})
    return Planted((first.first(), middle, second.going_on(begins)))


def partial_accumulation_lost(stretch: Stretch) -> Planted:
    """The first slot of the next step counts as used."""
    job = script(stretch)
    needs((stretch.slots > 1, "a second accumulation slot"))
    following = pl.col("step") == job.checkpoint + 1
    first = stretch.sequences.filter(following, pl.col("slot") == 0).group_by("rank").len()
    lost = dict.fromkeys(stretch.ranks, 0) | dict(first.iter_rows())
    return job.planted(job.going_on(shifted(job.used, lost)))


def void_steps_rewound(stretch: Stretch) -> Planted:
    """Two updates were thrown away, and the count leaves them out."""
    job = script(stretch, at=0.5)
    void = frozenset({job.checkpoint - 1, job.checkpoint - 2})
    needs((min(void) > 1, "more steps"), (stretch.has_commits, "event commit"))
    back = stretch.used(job.checkpoint - 2)
    return job.planted(job.going_on(back), void=void)


def label_behind_weights(stretch: Stretch) -> Planted:
    """The checkpoint is written after the update that follows its label."""
    job = script(stretch)
    needs((stretch.has_commits, "event commit"))
    return job.planted(job.going_on(job.used), late=1)


def count_is_not_position(stretch: Stretch) -> Planted:
    """Every seventh place of the stream held nothing, and the count of the others is a place."""
    needs((stretch.has("position"), "column position"))
    is_hole = pl.col("position") % 7 == 3
    holed = _renumbered(stretch, ~is_hole)
    for checkpoint in range(max(3, holed.steps // 2), holed.steps - 1):
        job = Script(holed, checkpoint, holed.steps - 1)
        consumed = sum(job.used.values())
        if consumed % 7 == 3 or consumed < 8:
            continue
        places = holed.sequences.filter(pl.col("position") >= consumed)
        begins = dict(places.group_by("rank").agg(pl.col("n").min()).iter_rows())
        if len(begins) == len(holed.ranks):
            return job.planted(job.going_on(begins))
    raise CannotPlant("more steps")


def read_chunk_skipped(stretch: Stretch) -> Planted:
    """The rest of a chunk that was read at once is skipped."""
    ranks, rows = len(stretch.ranks), stretch.micro_batch
    for checkpoint in range(3, stretch.steps - 2):
        job = Script(stretch, checkpoint, stretch.steps - 1)
        consumed = sum(job.used.values())
        batch = sum(stretch.used(1).values())
        for chunk in CHUNKS:
            shift = -consumed % chunk
            per_rank, left = divmod(shift, ranks)
            begins = shifted(job.used, per_rank)
            is_whole = not left and (ranks == 1 or per_rank % rows == 0)
            is_other = shift not in (0, 1, ranks * rows, consumed) and shift % batch != 0
            is_other = is_other and (stretch.slots == 1 or shift % (ranks * rows) != 0)
            is_seen = checkpoint + shift / batch + 1 < job.died
            if is_whole and is_other and is_seen and reaches(begins, stretch):
                return job.planted(job.going_on(begins))
    raise CannotPlant("a step after which a chunk of 16 to 1024 samples ends inside a batch")


def declared_skip_reapplied(stretch: Stretch) -> Planted:
    """A step's samples were left out on purpose, and the resume leaves out as many again."""
    job = script(stretch, at=0.5, died=0.85)
    needs((job.checkpoint > 3, "more steps"))
    skipped = stretch.records.filter(pl.col("step") == 2)
    is_packed = stretch.records.height > stretch.sequences.height
    needs((not is_packed, "whole samples"))
    whole = _without(stretch, pl.col("step") == 2)
    early = Script(whole, job.checkpoint - 1, job.died - 1)
    begins = whole.used(early.checkpoint + 1)
    ids = tuple(skipped["sample_id"].to_list())
    return early.planted(early.going_on(begins), skips=((2, ids),))


def _is_seen(job: Script, begins: Mapping[int, int]) -> tuple[bool, str]:
    """Ask for lost work that reaches the place at which the stream goes on."""
    lost = job.stretch.used(job.died)
    is_seen = all(begin < lost[rank] for rank, begin in begins.items())
    return is_seen, "more steps between the checkpoint and the failure"


def _parts(job: Script, parts: int) -> dict[int, int]:
    """Give one of so many parts of what each rank had used."""
    return {rank: count // parts for rank, count in job.used.items()}


def _without(stretch: Stretch, gone: pl.Expr) -> Stretch:
    """Leave out whole steps; the later ones move up."""
    rows = stretch.records.filter(~gone).with_columns(
        step=pl.col("step").rank("dense").cast(pl.Int64)
    )
    number = pl.struct("step", "slot", "row").rle_id().over("rank").cast(pl.Int64)
    return replace(stretch, records=rows.with_columns(n=number))


def _renumbered(stretch: Stretch, kept: pl.Expr) -> Stretch:
    """Leave out sequences; those that follow take their places, lane by lane."""
    order = stretch.sequences.filter(kept).sort("rank", "n").select("rank", "n", lane="rank")
    return replace(stretch, records=dealt(stretch.records, stretch.sequences, order))


FAULTS: dict[str, Plant] = {
    "cursor-not-restored": cursor_not_restored,
    "stale-cursor": stale_cursor,
    "prefetch-counted": prefetch_counted,
    "off-by-one-batch": off_by_one_batch,
    "steps-for-micro-batches": steps_for_micro_batches,
    "rank-count-for-global": rank_count_for_global,
    "batch-size-rescaled": batch_size_rescaled,
    "offset-applied-twice": offset_applied_twice,
    "relative-cursor": relative_cursor,
    "partial-accumulation-lost": partial_accumulation_lost,
    "void-steps-rewound": void_steps_rewound,
    "label-behind-weights": label_behind_weights,
    "count-is-not-position": count_is_not_position,
    "read-chunk-skipped": read_chunk_skipped,
    "declared-skip-reapplied": declared_skip_reapplied,
}
