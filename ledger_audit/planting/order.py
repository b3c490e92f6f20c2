"""Faults of order and of passes: right places, other samples."""

import polars as pl

from ledger_audit.planting.job import (
    CannotPlant,
    Plant,
    Planted,
    Script,
    dealt,
    lane_order,
    needs,
    script,
)
from ledger_audit.planting.stretch import PLACE, Stretch


def epoch_not_set(stretch: Stretch) -> Planted:
    """The order is that of the pass before, under the right label."""
    job, newest = _inside_a_pass(stretch, later=True)
    before = stretch.passes[stretch.passes.index(newest) - 1]
    offsets = _offsets(job, newest)
    own = stretch.sequences.filter(pl.col("epoch") == before)
    begins = {
        rank: own.filter(pl.col("rank") == rank)["n"].sort()[offsets[rank]]
        for rank in stretch.ranks
        if offsets[rank] < own.filter(pl.col("rank") == rank).height
    }
    needs((len(begins) == len(stretch.ranks), "two passes of one length"))
    needs((not _is_frozen(stretch, before, newest), "passes of different orders"))
    order = lane_order(stretch, begins).join(
        own.select(lane="rank", n="n"), on=["lane", "n"], how="semi", maintain_order="left"
    )
    resumed = job.resumed(order)
    label = pl.lit(newest, pl.Int32).alias("epoch")
    return job.planted(job.resumed(order, records=resumed.records.with_columns(label)))


def shuffle_changed(stretch: Stretch) -> Planted:
    """The samples of the pass come in an order of another seed, at the right place."""
    if stretch.passes:
        job, newest = _inside_a_pass(stretch)
        own = stretch.sequences.filter(pl.col("epoch") == newest)
        offsets = _offsets(job, newest)
    else:
        job, own = script(stretch, at=0.5), stretch.sequences
        offsets = job.used
    drawn = own.sort("rank", pl.col("n").hash(seed=17)).with_columns(
        place=pl.int_range(pl.len()).over("rank")
    )
    begin = pl.col("rank").replace_strict(offsets, return_dtype=pl.Int64)
    order = drawn.filter(pl.col("place") >= begin).select("rank", "n", lane="rank")
    return job.planted(job.resumed(order))


def epoch_exhausted(stretch: Stretch) -> Planted:
    """The checkpoint ends a pass, and the resumed loader is at its end, too."""
    job, _ = _at_the_end_of_a_pass(stretch)
    nothing = job.going_on(job.used).records.clear()
    return job.planted(job.resumed(lane_order(stretch, job.used), records=nothing, has_end=True))


def offset_reapplied_each_epoch(stretch: Stretch) -> Planted:
    """The rest of the pass is right; later passes begin where the checkpoint was in it."""
    first, *later = stretch.passes or (None,)
    needs((len(later) > 1, "three passes in column epoch"))
    assert first is not None
    job = _job_inside(stretch, first)
    offsets = _offsets(job, first)
    begin = pl.col("rank").replace_strict(offsets, return_dtype=pl.Int64)
    nth = pl.int_range(pl.len()).over("rank", "epoch")
    order = (
        stretch.sequences.sort("rank", "n")
        .with_columns(nth=nth)
        .filter(pl.col("step") > job.checkpoint)
        .filter((pl.col("epoch") == first) | (pl.col("nth") >= begin))
        .select("rank", "n", lane="rank")
    )
    resumed = job.resumed(order)
    last = resumed.records.filter(pl.col("part") == 0).sort("step")["epoch"].unique().to_list()
    needs((len(last) > 2, "three passes in column epoch"))
    return job.planted(resumed)


def frozen_epochs(stretch: Stretch) -> Planted:
    """Every pass has the order of the first; the last step is used twice, too."""
    passes = stretch.passes
    needs((len(passes) > 2, "three passes in column epoch"))
    first = stretch.sequences.filter(pl.col("epoch") == passes[0]).sort("rank", "n")
    nth = pl.int_range(pl.len())
    heads = first.select("rank", "n", nth=nth.over("rank"))
    places = stretch.sequences.sort("rank", "n").with_columns(nth=nth.over("rank", "epoch"))
    order = places.join(heads, on=["rank", "nth"], how="left", suffix="_held").drop_nulls("n_held")
    mixed = stretch.sequences.group_by("step").agg(pl.col("epoch").n_unique())["epoch"].max()
    needs((order.height == places.height, "passes of one length"))
    needs((mixed == 1, "passes that end with a step"))
    held = order.select("rank", lane="rank", n="n_held")
    records = dealt(stretch.records, stretch.sequences, held)
    labels = stretch.sequences.select(*PLACE, "epoch")
    records = records.drop("epoch").join(labels, on=PLACE, how="left", maintain_order="left")
    alike = Stretch(stretch.attempt, records.select(stretch.records.columns), stretch.has_commits)
    job = _job_inside(alike, passes[0])
    own = lane_order(alike, job.used).sort("rank", "n")
    last = pl.col("n").is_in(
        alike.sequences.filter(pl.col("step") == alike.steps)["n"].unique().implode()
    )
    again = own.with_columns(
        pl.when(last).then(pl.col("n") - alike.micro_batch * alike.slots).otherwise("n")
    )
    return job.planted(job.resumed(again))


def _is_frozen(stretch: Stretch, one: int, other: int) -> bool:
    """Tell whether two passes have one order."""
    orders = [
        stretch.sequences.filter(pl.col("epoch") == label).sort("rank", "n")["sample_id"]
        for label in (one, other)
    ]
    length = min(len(order) for order in orders)
    return orders[0].head(length).equals(orders[1].head(length))


def _inside_a_pass(stretch: Stretch, *, later: bool = False) -> tuple[Script, int]:
    """Save inside the longest pass, or the longest but for the first."""
    passes = stretch.passes
    needs((bool(passes), "column epoch"))
    needs((len(passes) > later, "two passes in column epoch"))
    counts = stretch.sequences.group_by("epoch").len().sort("len", "epoch")["epoch"].to_list()
    fitting = [one for one in counts if not later or one != passes[0]]
    return _job_inside(stretch, fitting[-1]), fitting[-1]


def _job_inside(stretch: Stretch, label: int) -> Script:
    """Save in the middle of a pass, and die before its end."""
    whole = stretch.sequences.group_by("step").agg(is_own=(pl.col("epoch") == label).all())
    steps = whole.filter("is_own")["step"].sort().to_list()
    needs((len(steps) > 2, "a pass of more steps"))
    checkpoint = steps[(len(steps) - 1) // 2]
    return Script(stretch, checkpoint, max(checkpoint + 1, min(steps[-1], stretch.steps - 1)))


def _at_the_end_of_a_pass(stretch: Stretch) -> tuple[Script, int]:
    """Save after the last step of a whole pass."""
    size = stretch.fingerprint.get("dataset_samples")
    needs(
        (bool(stretch.passes), "column epoch"),
        (isinstance(size, int), "fingerprint key dataset_samples"),
    )
    for label in stretch.passes[:-1]:
        own = stretch.records.filter(pl.col("epoch") == label)
        last = own["step"].max()
        after = stretch.records.filter(pl.col("step") <= last, pl.col("epoch") > label)
        is_over = own["sample_id"].n_unique() == size
        if is_over and after.is_empty() and isinstance(last, int) and last < stretch.steps - 1:
            return Script(stretch, last, stretch.steps - 1), label
    raise CannotPlant("a whole pass that ends with a step and not with the copy")


def _offsets(job: Script, label: int) -> dict[int, int]:
    """Count the sequences of a pass that each rank had used at the checkpoint."""
    own = job.stretch.sequences.filter(pl.col("epoch") == label, pl.col("step") <= job.checkpoint)
    return dict.fromkeys(job.stretch.ranks, 0) | dict(own.group_by("rank").len().iter_rows())


FAULTS: dict[str, Plant] = {
    "epoch-not-set": epoch_not_set,
    "shuffle-changed": shuffle_changed,
    "epoch-exhausted": epoch_exhausted,
    "offset-reapplied-each-epoch": offset_reapplied_each_epoch,
    "frozen-epochs": frozen_epochs,
}
