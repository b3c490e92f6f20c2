"""Collects the small facts that tell why a stream did not continue, before any cause is named."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from ledger_audit.continuity.causes.documents import holed_documents, reread_documents
from ledger_audit.continuity.causes.stretches import (
    ALIKE,
    ENOUGH,
    begins_at,
    by_position,
    first_rows,
    is_cut,
    is_scattered,
    lanes,
    order_of,
    sequences,
)
from ledger_audit.continuity.classify import Classified
from ledger_audit.continuity.epochs import Recipe, recipe_of
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IS_USED, SEQUENCE, Side
from ledger_audit.model import Expected, Resumed
from ledger_audit.model.causes import Clues, Deal, Steps

_REPLAYED = pl.col("worst") == Resumed.REPLAYED
_SKIPPED = pl.col("worst") == Expected.SKIPPED

LATELY = 20
"""Steps before the checkpoint that tell how ranks shared the stream."""

_SHARED = 0.1
"""Share of a pass that several ranks must have used to be called unsharded."""


def clues_of(facts: Facts, classified: Classified) -> Clues:
    """Collect what causes are named from."""
    windows = facts.known.windows
    at = windows.checkpoint_step
    committed = facts.committed.filter(IS_USED, ~pl.col("beyond"))
    resumed = classified.resumed.filter(IS_USED)
    of_pass = _of_pass(committed)
    near = _near(classified)
    by_rank, records = _by_rank(near, sequences()), _by_rank(near, pl.col("record").n_unique())
    first = first_rows(classified, at)
    tried = facts.committed.filter(~pl.col("beyond"))
    two_steps = max(ENOUGH, 2 * int(first.select(sequences()).item()))
    return Clues(
        before=_by_step(committed),
        ahead=_by_step(classified.expected),
        now=_by_step(resumed),
        of_pass=None if of_pass is None else int(of_pass.unique("key").select(sequences()).item()),
        distinct=int(committed.unique("key").select(sequences()).item()),
        passes=(_epoch(committed.tail(1)), _epoch(resumed.head(1))),
        is_pass_read=of_pass is not None and of_pass.height < committed.height,
        is_pass_over=of_pass is not None and _distinct(of_pass) == facts.size,
        deal=_deal(windows.committed if committed.height else windows.reference),
        deal_now=_deal(windows.resumed),
        by_rank={rank: gone - again for rank, (gone, again) in by_rank.items() if gone != again},
        replayed=int(near.resumed.filter(_REPLAYED).select(sequences()).item()),
        mixed_ranks=sum(gone > 0 and again > 0 for gone, again in by_rank.values()),
        used_by=_used_by(committed),
        shifted_records={rank: gone - again for rank, (gone, again) in records.items()},
        is_led=_is_led(near.expected, _SKIPPED) and _is_led(near.resumed, _REPLAYED),
        by_worker=_by_worker(near),
        lanes=lanes(classified, committed, at),
        order_of=order_of(committed, of_pass, first_rows(classified, at, ENOUGH)),
        skipped_slots=_skipped_slots(classified.expected),
        is_repacked=is_cut(facts.resumed) or is_cut(facts.reference),
        begins_at=begins_at(committed, first),
        is_scattered=is_scattered(classified, committed, at),
        jumps_on=_jumps_on(classified, resumed),
        is_open=bool((resumed["worst"].tail(1) == Resumed.REPLAYED).any()),
        is_packed=_is_packed(resumed),
        by_position=by_position(tried, first_rows(classified, at, two_steps)),
        skips_first=_skips_first(classified.expected),
        shift=_shift(classified),
        skip_runs=_skip_runs(classified.expected),
        holed_documents=holed_documents(classified, committed),
        reread=reread_documents(classified, committed),
        unsharded=_unsharded(committed),
        reached=_reached(committed),
        size=facts.size,
    )


def _by_step(rows: pl.DataFrame) -> Steps:
    counts = rows.group_by("step").agg(sequences()).sort("step")
    return tuple((int(step), int(count)) for step, count in counts.iter_rows())


def _is_packed(rows: pl.DataFrame) -> bool:
    return int(rows.select(sequences()).item()) < rows["record"].n_unique()


def _shift(classified: Classified) -> int | None:
    gone, again = (
        rows.group_by(SEQUENCE).agg((pl.col("worst") == worst).all()).sum()["worst"].item()
        for rows, worst in (
            (classified.expected, Expected.SKIPPED),
            (classified.resumed, Resumed.REPLAYED),
        )
    )
    return None if gone and again else int(gone or 0) - int(again or 0)


def _of_pass(committed: pl.DataFrame) -> pl.DataFrame | None:
    """Give what was used in the pass of the last committed step; null: no epoch is logged."""
    newest = committed.filter(pl.col("step") == pl.col("step").max())["epoch"].max()
    return None if newest is None else committed.filter(pl.col("epoch") == newest)


def _epoch(rows: pl.DataFrame) -> int | None:
    found = rows["epoch"].max()
    return found if isinstance(found, int) else None


def _distinct(rows: pl.DataFrame) -> int:
    return int(rows.select(pl.struct("source", "sample_id").n_unique()).item())


def _deal(side: Side) -> Deal:
    recipe: Recipe = recipe_of(side)
    return Deal(recipe.ranks[-1], max(recipe.sequences), max(recipe.slots))


def _near(classified: Classified) -> Classified:
    """Cut what was resumed to what the reference reaches, and what each rank began with."""
    last = classified.expected["step"].max()
    if last is None:
        return classified
    is_near = (pl.col("step") <= last) | _REPLAYED.cum_min().over("rank")
    return replace(classified, resumed=classified.resumed.filter(is_near))


def _used_by(committed: pl.DataFrame) -> Mapping[int, tuple[int, int]]:
    counts = committed.group_by("rank").agg(sequences(), records=pl.col("record").n_unique())
    return {rank: (n, records) for rank, n, records in counts.sort("rank").iter_rows()}


def _jumps_on(classified: Classified, resumed: pl.DataFrame) -> bool:
    """Tell whether, after what comes again, something of the same pass is skipped."""
    again = resumed.filter(_REPLAYED)
    if again.is_empty() or not (classified.expected["worst"] == Expected.SKIPPED).any():
        return False
    last = again.row(-1, named=True)
    of_its_pass = pl.col("epoch").eq_missing(pl.lit(last["epoch"], pl.Int32))
    after = resumed.filter(pl.col("order") > last["order"], of_its_pass)
    return after.height > 0


def _by_rank(near: Classified, count: pl.Expr) -> Mapping[int, tuple[int, int]]:
    """Give what each rank skipped and replayed."""
    counts = [
        dict(rows.group_by("rank").agg(count).iter_rows())
        for rows in (near.expected.filter(_SKIPPED), near.resumed.filter(_REPLAYED))
    ]
    ranks = sorted({*counts[0], *counts[1]})
    return {rank: (counts[0].get(rank, 0), counts[1].get(rank, 0)) for rank in ranks}


def _is_led(rows: pl.DataFrame, is_wrong: pl.Expr) -> bool:
    by_rank = (
        rows.sort("order").group_by("rank").agg(wrong=is_wrong.sum(), led=is_wrong.cum_min().sum())
    )
    return bool((by_rank["wrong"] == by_rank["led"]).all())


def _by_worker(near: Classified) -> Mapping[tuple[int, int], tuple[int, int]]:
    """Give what each loader worker skipped and replayed, 0 and 0 of those that are right."""
    expected, resumed = near.expected, near.resumed
    if expected["worker"].null_count() or resumed["worker"].null_count():
        return {}
    strange = _REPLAYED | (pl.col("worst") == Resumed.UNEXPECTED)
    rows = [
        side.unique("record").select("rank", "worker", shift=shift, wrong=wrong.cast(pl.Int64))
        for side, shift, wrong in (
            (expected, _SKIPPED.cast(pl.Int64), _SKIPPED),
            (resumed, -_REPLAYED.cast(pl.Int64), strange),
        )
    ]
    found = pl.concat(rows).group_by("rank", "worker").sum().sort("rank", "worker")
    return {(rank, worker): (shift, wrong) for rank, worker, shift, wrong in found.iter_rows()}


def _skipped_slots(expected: pl.DataFrame) -> Mapping[int, frozenset[int]]:
    slots = expected.group_by("step", "slot").agg(_SKIPPED.all().alias("all"))
    found: dict[int, frozenset[int]] = {}
    for step, slot in slots.filter("all").sort("step", "slot").select("step", "slot").iter_rows():
        found[step] = found.get(step, frozenset()) | {slot}
    return found


def _skips_first(expected: pl.DataFrame) -> bool:
    of_rank = expected.sort("order").group_by("rank")
    found = of_rank.agg(some=_SKIPPED.any(), first=_SKIPPED.first())
    return bool(found.filter("some")["first"].all())


def _skip_runs(expected: pl.DataFrame) -> int:
    is_skipped = expected.sort("order")["worst"] == Expected.SKIPPED
    return int((is_skipped & ~is_skipped.shift(1, fill_value=False)).sum())


def _unsharded(committed: pl.DataFrame) -> tuple[int, int]:
    """
    Count what several ranks used before the failure: in the same steps, or in the same pass.

    One rank that repeats its own says nothing of sharding, nor do a few that pad a pass.
    """
    newest = committed.filter(pl.col("step") > (pl.col("step").max() - LATELY))
    if newest["rank"].n_unique() < 2:
        return 0, 0
    owners = newest.group_by("step", "key").agg(pl.col("rank").n_unique())
    shared = owners.filter(pl.col("rank") > 1).height
    if shared >= ALIKE * owners.height:
        return shared, owners.height
    if committed["epoch"].null_count():
        return 0, 0
    attempt = committed.filter(pl.col("attempt") == pl.col("attempt").last())
    owners = attempt.group_by("key").agg(pl.len(), pl.col("rank").n_unique())
    shared, ranks = owners.filter(pl.col("rank") > 1).height, attempt["rank"].n_unique()
    own_repeats = owners.filter(pl.col("len") > pl.col("rank")).height
    passes = attempt["epoch"].n_unique()
    is_much = shared > max(passes * ranks, _SHARED * owners.height) or (
        shared > _SHARED * owners.height and owners.height <= passes * ranks * ENOUGH
    )
    return (shared, owners.height) if is_much and not own_repeats else (0, 0)


def _reached(committed: pl.DataFrame) -> int | None:
    largest = committed["position"].max()
    return largest + 1 if isinstance(largest, int) else None
