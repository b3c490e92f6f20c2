"""Collects the small facts that tell why a stream did not continue, before any cause is named."""

from collections.abc import Mapping

import polars as pl

from ledger_audit.continuity.classify import Classified
from ledger_audit.continuity.epochs import Recipe, recipe_of
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IS_USED, Side
from ledger_audit.model import Expected, Resumed
from ledger_audit.model.causes import Clues, Deal, Steps

ALIKE = 0.9
"""Share of the first resumed records that must follow an order to be called its."""

LATELY = 20
"""Steps before the checkpoint that tell how ranks shared the stream."""


def clues_of(facts: Facts, classified: Classified) -> Clues:
    """Collect what causes are named from."""
    windows = facts.known.windows
    committed = facts.committed.filter(IS_USED, ~pl.col("beyond"))
    resumed = classified.resumed.filter(IS_USED)
    of_pass = _of_pass(committed)
    return Clues(
        before=_by_step(committed),
        ahead=_by_step(classified.expected),
        now=_by_step(resumed),
        of_pass=None if of_pass is None else of_pass["record"].n_unique(),
        passes=(_epoch(committed.tail(1)), _epoch(resumed.head(1))),
        is_pass_read=of_pass is not None and of_pass.height < committed.height,
        is_pass_over=of_pass is not None and _distinct(of_pass) == facts.size,
        deal=_deal(windows.committed if committed.height else windows.reference),
        deal_now=_deal(windows.resumed),
        by_worker=_by_worker(classified),
        lanes=_lanes(classified, committed, windows.checkpoint_step),
        order_of=_order_of(committed, of_pass, resumed, windows.checkpoint_step),
        skipped_slots=_skipped_slots(classified.expected),
        is_repacked=_is_cut(facts.resumed) or _is_cut(facts.reference),
        begins_at=_begins_at(committed, resumed, windows.checkpoint_step),
        skip_runs=_skip_runs(classified.expected),
        holed_documents=_holed_documents(classified, committed),
        is_unsharded=_is_unsharded(committed),
        reached=_reached(committed),
    )


def _by_step(rows: pl.DataFrame) -> Steps:
    counts = rows.group_by("step").agg(pl.col("record").n_unique()).sort("step")
    return tuple((int(step), int(count)) for step, count in counts.iter_rows())


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


def _lanes(classified: Classified, committed: pl.DataFrame, checkpoint: int) -> Mapping[int, int]:
    """Name, for each rank, whose records its first step holds, where they are one other rank's."""
    first = classified.resumed.filter(IS_USED, pl.col("step") == checkpoint + 1)
    owners = pl.concat(
        [
            classified.expected.filter(_is_among(first)).select("key", owner="rank"),
            committed.filter(_is_among(first)).select("key", owner="rank"),
        ]
    ).unique("key", keep="first", maintain_order=True)
    held = (
        first.join(owners, on="key", how="left")
        .group_by("rank")
        .agg(
            pl.col("owner").n_unique().alias("n"),
            pl.col("owner").first(),
            pl.col("owner").null_count().alias("unknown"),
        )
    )
    foreign = held.filter(
        pl.col("n") == 1, pl.col("unknown") == 0, pl.col("owner") != pl.col("rank")
    )
    return dict(foreign.sort("rank").select("rank", "owner").iter_rows())


def _by_worker(classified: Classified) -> Mapping[tuple[int, int], int]:
    """Give the shift of each loader worker, 0 of those that are right."""
    expected, resumed = classified.expected, classified.resumed
    if expected["worker"].null_count() or resumed["worker"].null_count():
        return {}
    signs = (
        (expected, pl.when(pl.col("worst") == Expected.SKIPPED).then(1).otherwise(0)),
        (resumed, pl.when(pl.col("worst") == Resumed.REPLAYED).then(-1).otherwise(0)),
    )
    rows = [side.unique("record").select("rank", "worker", shift=sign) for side, sign in signs]
    found = pl.concat(rows).group_by("rank", "worker").agg(pl.col("shift").sum())
    return {(rank, worker): shift for rank, worker, shift in found.sort(pl.all()).iter_rows()}


def _order_of(
    committed: pl.DataFrame, of_pass: pl.DataFrame | None, resumed: pl.DataFrame, checkpoint: int
) -> int | None:
    """Find the earlier pass that holds, as far into it, what the first resumed step holds."""
    first = resumed.filter(pl.col("step") == checkpoint + 1)
    if of_pass is None or first.is_empty():
        return None
    newest, begin = _epoch(first), of_pass.height
    if newest != _epoch(of_pass):
        begin = 0
    wanted = set(first["sample_id"])
    for epoch in sorted(committed["epoch"].unique().drop_nulls().to_list()):
        if epoch == newest:
            continue
        order = committed.filter(pl.col("epoch") == epoch)["sample_id"]
        there = set(order.slice(begin, first.height))
        if len(wanted & there) >= ALIKE * len(wanted):
            return int(epoch)
    return None


def _skipped_slots(expected: pl.DataFrame) -> Mapping[int, frozenset[int]]:
    is_skipped = pl.col("worst") == Expected.SKIPPED
    slots = expected.group_by("step", "slot").agg(is_skipped.all().alias("all"))
    found: dict[int, frozenset[int]] = {}
    for step, slot in slots.filter("all").sort("step", "slot").select("step", "slot").iter_rows():
        found[step] = found.get(step, frozenset()) | {slot}
    return found


def _is_among(rows: pl.DataFrame) -> pl.Expr:
    return pl.col("key").is_in(rows["key"].unique().implode())


def _is_cut(rows: pl.DataFrame) -> bool:
    return bool((rows["record"] != rows["order"]).any())


def _begins_at(committed: pl.DataFrame, resumed: pl.DataFrame, checkpoint: int) -> int | None:
    first = resumed.filter(pl.col("step") == checkpoint + 1)
    if first.is_empty() or _is_cut(first) or _is_cut(committed):
        return None
    order = committed.with_row_index("place").filter(_is_among(first)).unique("key", keep="last")
    places = first.join(order.select("key", "place"), on="key")["place"].sort()
    if len(places) != first.height or places.n_unique() != len(places):
        return None
    begin, end = int(places[0]), int(places[-1])
    return begin if end - begin + 1 == len(places) else None


def _skip_runs(expected: pl.DataFrame) -> int:
    is_skipped = expected.sort("order")["worst"] == Expected.SKIPPED
    return int((is_skipped & ~is_skipped.shift(1, fill_value=False)).sum())


def _holed_documents(classified: Classified, committed: pl.DataFrame) -> int:
    """Count documents of which one span is skipped and another one of the same pass is used."""
    names = ["source", "epoch", "sample_id"]
    expected = classified.expected
    skipped = expected.filter(pl.col("worst") == Expected.SKIPPED, pl.col("token_end") > 0)
    used = pl.concat(
        [
            classified.resumed.select(*names, other="token_start"),
            committed.select(*names, other="token_start"),
            expected.filter(pl.col("worst") == Expected.MATCHED).select(
                *names, other="token_start"
            ),
        ]
    )
    both = (
        skipped.join(used, on=names, how="left", nulls_equal=True)
        .group_by("order")
        .agg(
            pl.col(*names, "token_end").first(),
            begun=(pl.col("other") < pl.col("token_start").first()).any(),
            goes_on=(pl.col("other") >= pl.col("token_end").first()).any(),
        )
    )
    # a remainder is the end of a document whose beginning was used; what is skipped in the middle
    # of a long one, or whole, is another matter
    is_rest = pl.col("begun").fill_null(value=False) & ~pl.col("goes_on").fill_null(value=False)
    if both.filter(~is_rest).height:
        return 0
    return both.select(names).unique().height


def _is_unsharded(committed: pl.DataFrame) -> bool:
    """Tell whether most samples of a step are used by several ranks."""
    newest = committed.filter(pl.col("step") > (pl.col("step").max() - LATELY))
    if newest["rank"].n_unique() < 2:
        return False
    owners = newest.group_by("step", "key").agg(pl.col("rank").n_unique())
    shared = owners.filter(pl.col("rank") > 1).height
    return shared >= ALIKE * owners.height


def _reached(committed: pl.DataFrame) -> int | None:
    largest = committed["position"].max()
    return largest + 1 if isinstance(largest, int) else None
