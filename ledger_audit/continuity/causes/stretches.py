"""Finds where in the known order the first resumed records stand, and whose order it is."""

from collections.abc import Mapping

import polars as pl

from ledger_audit.continuity.classify import Classified
from ledger_audit.continuity.frames import IS_USED, SEQUENCE

ENOUGH = 8
"""Sequences that show an order; fewer follow one by chance."""

ALIKE = 0.9
"""Share of the first resumed records that must follow an order to be called its."""

ALIKE_LANES = 0.8
"""Share of a rank's first records that must be one other rank's; some may pad a pass."""

_LANE_STEPS = 3
"""Resumed steps by which a rank is called another one's successor."""


def sequences() -> pl.Expr:
    """Count the sequences of some records."""
    return pl.struct(SEQUENCE).n_unique()


def is_among(rows: pl.DataFrame) -> pl.Expr:
    """Tell whether a record is, by its identity, among others."""
    return pl.col("key").is_in(rows["key"].unique().implode())


def is_cut(rows: pl.DataFrame) -> bool:
    """Tell whether records were cut into intervals, because the packing changed."""
    return bool((rows["record"] != rows["order"]).any())


def first_rows(classified: Classified, checkpoint: int, enough: int = 1) -> pl.DataFrame:
    """
    Give the used records of the first resumed step, and of more until there are enough sequences.

    A stream that is not used in every step, as that of an evaluation, begins where it is due.
    """
    used = classified.resumed.filter(IS_USED, ~pl.col("beyond"))
    due = pl.concat([used["step"], classified.expected["step"]]).min()
    first = max(checkpoint + 1, due) if isinstance(due, int) else checkpoint + 1
    if used.filter(pl.col("step") == first).is_empty():
        return used.clear()
    counts = used.group_by("step").agg(n=sequences()).sort("step")
    last = counts.filter(pl.col("n").cum_sum() >= enough)["step"].min()
    return used if last is None else used.filter(pl.col("step") <= max(first, int(last)))  # type: ignore[arg-type]


def begins_at(committed: pl.DataFrame, first: pl.DataFrame) -> int | None:
    """Give how many distinct sequences came before a stretch that is used once more."""
    if first.is_empty() or is_cut(first) or is_cut(committed):
        return None
    order = committed.unique("key", keep="last", maintain_order=True).with_columns(
        place=pl.struct(SEQUENCE).rle_id()
    )
    wanted = first.unique("key")
    places = wanted.join(order.select("key", "place"), on="key")
    held = places["place"].unique().sort()
    if places.height != wanted.height:
        return None
    begin, end = int(held[0]), int(held[-1])
    return begin if end - begin + 1 == len(held) else None


def by_position(tried: pl.DataFrame, first: pl.DataFrame) -> int | None:
    """Give how many places lie between the last that was tried and those that come first."""
    reached, places = tried["position"].max(), first["position"].unique()
    if first.is_empty() or places.null_count() or not isinstance(reached, int):
        return None
    used = tried["position"].unique()
    if len(used) != reached - int(used.min()) + 1:  # type: ignore[arg-type]
        return None  # places hold nothing: they are no count
    begin, end = int(places.min()), int(places.max())  # type: ignore[arg-type]
    return begin - reached - 1 if end - begin + 1 == len(places) else None


def is_scattered(classified: Classified, committed: pl.DataFrame, checkpoint: int) -> bool:
    """
    Tell whether ranks jump to and fro in the order of what they had used and should use.

    One record a step is always a stretch, so the order of several steps decides.
    """
    rows = first_rows(classified, checkpoint, ENOUGH)
    if rows.is_empty() or is_cut(rows) or is_cut(committed):
        return False
    order = pl.concat(
        [
            committed.unique("key", keep="last", maintain_order=True).select("key", "rank"),
            classified.expected.select("key", "rank"),
        ]
    ).unique("key", keep="last", maintain_order=True)
    places = order.with_columns(place=pl.int_range(pl.len()).over("rank"))
    own = rows.join(places, on=["key", "rank"], how="left", maintain_order="left")
    steps = own.with_columns(pl.col("place").diff().over("rank").alias("gap")).group_by("rank")
    counts = steps.agg(jumps=(pl.col("gap") != 1).sum(), known=pl.col("gap").count())
    return bool((counts["jumps"] > (counts["known"] / 2).clip(lower_bound=1)).any())


def order_of(
    committed: pl.DataFrame, of_pass: pl.DataFrame | None, first: pl.DataFrame
) -> int | None:
    """Find the earlier pass that holds, as far into it, what the resume begins with."""
    if of_pass is None or first.is_empty():
        return None
    newest = first["epoch"][0]
    if newest is None:  # passes are not labelled any more
        return None
    is_begun = newest == of_pass["epoch"].max()
    own = first.filter(pl.col("epoch") == newest).with_columns(_what())
    begun = of_pass if is_begun else of_pass.clear()
    for epoch in sorted(committed["epoch"].unique().drop_nulls().to_list()):
        order = committed.filter(pl.col("epoch") == epoch).with_columns(_what())
        if epoch != newest and any(
            own["what"].is_in(there.implode()).mean() >= ALIKE  # type: ignore[operator]
            for there in (_after(begun, order, own), _after_by_rank(begun, order, own))
        ):
            return int(epoch)
    return None


def _what() -> pl.Expr:
    """Name a record whatever its pass is."""
    return pl.struct("source", "sample_id", "token_start", "token_end").hash().alias("what")


def _after(begun: pl.DataFrame, order: pl.DataFrame, own: pl.DataFrame) -> pl.Series:
    """Give as many records of a pass as are asked for, from as far into it as was begun."""
    return order["what"].slice(begun.height, own.height)


def _after_by_rank(begun: pl.DataFrame, order: pl.DataFrame, own: pl.DataFrame) -> pl.Series:
    """Give the same where each rank has a lane of its own."""
    return pl.concat(
        [
            _after(*(rows.filter(pl.col("rank") == rank) for rows in (begun, order, own)))
            for rank in own["rank"].unique()
        ]
    )


def lanes(classified: Classified, committed: pl.DataFrame, checkpoint: int) -> Mapping[int, int]:
    """Name, for each rank, whose records it begins with, where they are one other rank's."""
    first = classified.resumed.filter(IS_USED, pl.col("step") <= checkpoint + _LANE_STEPS)
    owners = pl.concat(
        [
            classified.expected.filter(is_among(first)).select("key", owner="rank"),
            committed.filter(is_among(first)).select("key", owner="rank"),
        ]
    ).unique("key", keep="first", maintain_order=True)
    known = first.join(owners, on="key", how="left").filter(
        pl.col("owner").is_not_null() | (pl.col("step") == checkpoint + 1)
    )
    counts = known.group_by("rank", "owner").len().sort("len", "owner", descending=True)
    held = counts.group_by("rank", maintain_order=True).agg(
        pl.col("owner").first(), most=pl.col("len").first(), all=pl.col("len").sum()
    )
    foreign = held.filter(
        pl.col("owner") != pl.col("rank"),
        pl.col("most") >= ALIKE_LANES * pl.col("all"),
        pl.col("most") > 1,  # one record is anybody's
    )
    return dict(foreign.sort("rank").select("rank", "owner").iter_rows())
