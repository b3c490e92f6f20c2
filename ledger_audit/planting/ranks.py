"""Faults in how ranks and their loader workers go on with their shares."""

from dataclasses import replace

import polars as pl

from ledger_audit.continuity.contract import DIFF
from ledger_audit.planting.job import (
    Plant,
    Planted,
    dealt,
    lane_order,
    needs,
    script,
    several_ranks,
    shifted,
)
from ledger_audit.planting.stretch import Stretch


def rank_cursor_stale(stretch: Stretch) -> Planted:
    """The first rank goes back by two micro-batches."""
    needs(several_ranks(stretch))
    job = script(stretch)
    back = dict.fromkeys(stretch.ranks, 0) | {stretch.ranks[0]: -2 * stretch.micro_batch}
    return job.planted(job.going_on(shifted(job.used, back)))


def rank_cursor_shared(stretch: Stretch) -> Planted:
    """All ranks go on with the first one's lane."""
    needs(several_ranks(stretch))
    job = script(stretch)
    first = stretch.ranks[0]
    lanes = dict.fromkeys(stretch.ranks, first)
    return job.planted(job.going_on(dict.fromkeys(stretch.ranks, job.used[first]), lanes))


def ranks_swapped(stretch: Stretch) -> Planted:
    """Two ranks change places, where places are promised."""
    needs(several_ranks(stretch))
    job = script(stretch)
    one, other = stretch.ranks[:2]
    lanes = {rank: rank for rank in stretch.ranks} | {one: other, other: one}
    begins = {rank: job.used[lane] for rank, lane in lanes.items()}
    planted = job.planted(job.going_on(begins, lanes))
    return replace(planted, contract=replace(DIFF, placement="kept"))


def resharded_wrongly(stretch: Stretch) -> Planted:
    """The last rank is gone, and nobody reads its share."""
    needs(several_ranks(stretch))
    job = script(stretch)
    left = {rank: job.used[rank] for rank in stretch.ranks[:-1]}
    places = stretch.sequences.filter(
        pl.col("step") > job.checkpoint, pl.col("rank").is_in([*left])
    )
    resumed = job.resumed(lane_order(stretch, left), places)
    known = {"world_size": resumed.world_size - 1} if "world_size" in stretch.fingerprint else {}
    return job.planted(
        replace(
            resumed,
            world_size=resumed.world_size - 1,
            fingerprint={**resumed.fingerprint, **known},
        )
    )


def worker_state_lost(stretch: Stretch) -> Planted:
    """One loader worker of each rank begins its share again."""
    needs((stretch.has("worker"), "column worker"))
    by_rank = stretch.sequences.group_by("rank").agg(
        worker=pl.col("worker").max(), n=pl.col("worker").n_unique()
    )
    needs((bool((by_rank["n"] > 1).all()), "a second loader worker"))
    job = script(stretch)
    share = stretch.sequences.sort("rank", "n").with_columns(
        nth=pl.int_range(pl.len()).over("rank", "worker"),
        is_lost=pl.col("worker") == pl.col("worker").max().over("rank"),
    )
    used = share.filter(pl.col("step") <= job.checkpoint)
    begun = used.group_by("rank", "worker").agg(begun=pl.len())
    wanted = share.filter(pl.col("step") > job.checkpoint).join(begun, on=["rank", "worker"])
    back = pl.when("is_lost").then(pl.col("nth") - pl.col("begun")).otherwise(pl.col("nth"))
    order = (
        wanted.select("rank", "worker", "n", nth=back)
        .join(
            share.select("rank", "worker", "nth", held="n"),
            on=["rank", "worker", "nth"],
            maintain_order="left",
        )
        .select("rank", lane="rank", n="held")
    )
    return job.planted(job.resumed(order))


def workers_changed(stretch: Stretch) -> Planted:
    """More workers deal the micro-batches in another order; none is lost."""
    workers = stretch.fingerprint.get("workers")
    needs((isinstance(workers, int), "fingerprint key workers"))
    job = script(stretch, changed={"workers": int(workers or 0) + 1})
    needs((job.died - job.checkpoint > 1, "more steps between the checkpoint and the failure"))
    window = 2 * stretch.slots * stretch.micro_batch
    since = pl.col("n") - pl.col("n").min().over("rank")
    block, within = since // window, since % window // stretch.micro_batch
    order = stretch.sequences.filter(pl.col("step") > job.checkpoint).sort("rank", "n")
    order = order.sort("rank", block, -within, "n").select("rank", "n", lane="rank")
    return job.planted(job.resumed(order))


def unsharded_ranks(stretch: Stretch) -> Planted:
    """All ranks always read the first one's share; the resume begins again, too."""
    needs(several_ranks(stretch))
    first = stretch.ranks[0]
    order = lane_order(
        stretch, dict.fromkeys(stretch.ranks, 0), dict.fromkeys(stretch.ranks, first)
    )
    alike = replace(stretch, records=dealt(stretch.records, stretch.sequences, order))
    job = script(alike)
    return job.planted(job.going_on(dict.fromkeys(stretch.ranks, 0)))


FAULTS: dict[str, Plant] = {
    "rank-cursor-stale": rank_cursor_stale,
    "rank-cursor-shared": rank_cursor_shared,
    "ranks-swapped": ranks_swapped,
    "resharded-wrongly": resharded_wrongly,
    "worker-state-lost": worker_state_lost,
    "workers-changed": workers_changed,
    "unsharded-ranks": unsharded_ranks,
}
