"""Faults of what lies behind the places: buffers, packing, other data, forbidden samples."""

from dataclasses import replace

import polars as pl

from ledger_audit.continuity.contract import DIFF
from ledger_audit.planting.job import CannotPlant, Plant, Planted, Script, needs, script
from ledger_audit.planting.stretch import Stretch

DATA_KEYS = ("dataset", "index_files", "index_hash")
LENGTH_KEYS = ("sequence_length", "seq_length")
EVAL = "eval"
"""The stream that a sample leaks from."""


def _spans(stretch: Stretch) -> tuple[bool, str]:
    """Ask for the tokens that each record holds."""
    is_there = stretch.has("token_start") and stretch.has("token_end")
    return is_there, "columns token_start and token_end"


def shuffle_buffer_lost(stretch: Stretch) -> Planted:
    """A few scattered sequences of each rank, which its buffer held, never come."""
    job = script(stretch, at=0.3)
    buffer = stretch.fingerprint.get("shuffle_buffer")
    ranks = stretch.ranks
    if isinstance(buffer, int):
        needs((buffer >= 3, "a shuffle buffer of three samples"))
        ranks = ranks[: max(1, buffer // 3)]
    since = pl.col("n") - pl.col("n").min().over("rank")
    seen = min(stretch.used(job.died)[rank] - job.used[rank] for rank in ranks)
    needs((seen > 7, "more steps between the checkpoint and the failure"))
    lost = since.is_in([1, 3, 6]) & pl.col("rank").is_in(ranks)
    later = stretch.sequences.filter(pl.col("step") > job.checkpoint).sort("rank", "n")
    order = later.filter(~lost).select("rank", "n", lane="rank")
    return job.planted(job.resumed(order))


def packing_changed(stretch: Stretch) -> Planted:
    """Sequences are half as long, and the count of long ones is taken for one of short ones."""
    needs(_spans(stretch))
    job = script(stretch, changed=dict.fromkeys(LENGTH_KEYS, "half as long"))
    begins = pl.col("rank").replace_strict(job.used, return_dtype=pl.Int64)
    middle = (pl.col("token_start") + pl.col("token_end")) // 2
    halves = [
        stretch.records.with_columns(token_end=middle, n=2 * pl.col("n")),
        stretch.records.with_columns(token_start=middle, n=2 * pl.col("n") + 1),
    ]
    short = pl.concat(halves).filter(pl.col("token_end") > pl.col("token_start"))
    order = short.filter(pl.col("part") == 0, pl.col("n") >= begins).sort("rank", "n")
    again = replace(stretch, records=short)
    cut = Script(again, job.checkpoint, job.died, job.fingerprint)
    places = stretch.sequences.filter(pl.col("step") > job.checkpoint)
    resumed = cut.resumed(order.select("rank", "n", lane="rank"), places=places)
    return job.planted(resumed)


def packing_remainder_lost(stretch: Stretch) -> Planted:
    """The rest of the documents that the checkpoint cut is dropped."""
    needs(_spans(stretch))
    names = ["source", "epoch", "sample_id"]
    for checkpoint in range(max(2, stretch.steps // 3), stretch.steps - 1):
        job = Script(stretch, checkpoint, stretch.steps - 1)
        is_before = pl.col("step") <= checkpoint
        before, later = stretch.records.filter(is_before), stretch.records.filter(~is_before)
        lost = later.filter(pl.col("step") <= job.died).join(
            before.select(*names, end="token_end"), on=names, nulls_equal=True
        )
        # a packer holds what is left of a document after a sequence: less than one more
        is_rest = (pl.col("token_start") == pl.col("end")) & (pl.len().over(names) == 1)
        lost = lost.filter(is_rest, pl.col("step") == checkpoint + 1).select(names).unique()
        if lost.height:
            left = later.join(lost, on=names, how="anti", nulls_equal=True, maintain_order="left")
            return job.planted(replace(job.going_on(job.used), records=left))
    raise CannotPlant("a document that goes on after a step")


def dataset_changed(stretch: Stretch) -> Planted:
    """The places go on, and other samples lie there."""
    key = next((one for one in DATA_KEYS if stretch.fingerprint.get(one) is not None), None)
    needs((key is not None, f"a fingerprint key of {', '.join(DATA_KEYS)}"))
    job = script(stretch, changed={str(key): "another data set"})
    ids = stretch.records["sample_id"]
    if ids.dtype.is_integer():
        other = pl.col("sample_id") + int(ids.max()) - int(ids.min()) + 1  # type: ignore[arg-type]
    else:
        other = (pl.lit("another/") + pl.col("sample_id")).alias("sample_id")
    resumed = job.going_on(job.used)
    return job.planted(replace(resumed, records=resumed.records.with_columns(other)))


def split_leak(stretch: Stretch) -> Planted:
    """A sample that is evaluated on is used in training after the resume."""
    job = script(stretch)
    is_before = pl.col("step") <= job.checkpoint
    before, later = stretch.records.filter(is_before), stretch.records.filter(~is_before)
    first = later.join(before, on="sample_id", how="anti", maintain_order="left").head(1)
    needs((first.height > 0, "a sample that is first used after the checkpoint"))
    held = first.with_columns(step=pl.lit(1, pl.Int64), stream=pl.lit(EVAL))
    records = pl.concat([job.first().records, held], how="diagonal")
    planted = job.planted(job.going_on(job.used), records=records)
    return replace(planted, contract=replace(DIFF, held_out=(EVAL,)))


def ids_not_unique(stretch: Stretch) -> Planted:
    """Two samples of one pass share an id; the resume begins again, too."""
    needs(_spans(stretch))
    job = script(stretch)
    names = ["source", "epoch"]
    heads = stretch.records.filter(pl.col("step") <= job.checkpoint, pl.col("token_start") == 0)
    pairs = heads.join(heads, on=names, nulls_equal=True, suffix="_other").filter(
        pl.col("token_end") < pl.col("token_end_other"),
        pl.col("sample_id") != pl.col("sample_id_other"),
    )
    needs((pairs.height > 0, "two samples of different lengths"))
    one, other = pairs.select("sample_id", "sample_id_other").row(0)
    shared = pl.col("sample_id").replace({other: one})
    alike = replace(stretch, records=stretch.records.with_columns(shared))
    job = Script(alike, job.checkpoint, job.died)
    return job.planted(job.going_on(dict.fromkeys(stretch.ranks, 0)))


FAULTS: dict[str, Plant] = {
    "shuffle-buffer-lost": shuffle_buffer_lost,
    "packing-changed": packing_changed,
    "packing-remainder-lost": packing_remainder_lost,
    "dataset-changed": dataset_changed,
    "split-leak": split_leak,
    "ids-not-unique": ids_not_unique,
}
