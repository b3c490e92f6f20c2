"""
Finds how far the resumed stream has moved along each lane of the reference.

Every resumed step gives a lane a place; the largest place is the lane's frontier. So one early
sample moves nothing, and a lane that only replays lags.
"""

import polars as pl

from ledger_audit.continuity.facts import Facts, sequences
from ledger_audit.continuity.frames import IS_USED, SEQUENCE

END = 1 << 62
"""The place after everything that the reference holds."""

_PLACE = ("step", "rank", "place")


def moved_past(facts: Facts, *, by_place: bool) -> pl.DataFrame:
    """
    Say of each reference record whether the resumed stream has moved past it.

    Args:
        facts: the facts of the resume.
        by_place: use frontiers; else only generations that are over and positions.

    Returns:
        order, past, beyond_end (the lane's frontier is the reference's end: a skip may go on).
    """
    over = facts.ends.select("generation", "over")
    reference = facts.reference.join(over, on="generation", how="left", maintain_order="left")
    whole = facts.known.windows.resumed.steps.filter("whole")["step"]
    last_whole = whole.max() if whole.len() else -1
    if facts.positions_give_places:
        places, place = _positions(facts), pl.col("position")
        placed = reference.join(places, how="cross") if places.height else _unplaced(reference)
    elif by_place:
        places, place = _lanes(facts), pl.col("step")
        placed = reference.join(places, on="rank", how="left", maintain_order="left")
    else:
        placed, place = _unplaced(reference), pl.col("step")
    past = (place < pl.col("frontier")) | (
        (place == pl.col("frontier")) & (pl.col("reached_at") < last_whole)
    )
    return placed.select(
        "order",
        past=past.fill_null(value=False) | pl.col("over").fill_null(value=False),
        beyond_end=(pl.col("frontier") == END).fill_null(value=False),
    )


def _unplaced(reference: pl.DataFrame) -> pl.DataFrame:
    null = pl.lit(None, pl.Int64)
    return reference.with_columns(frontier=null, reached_at=null)


def _furthest(places: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Reduce places to frontiers: by, frontier, reached_at (the first step that gave it)."""
    top = pl.col("place").max()
    return places.group_by(*by).agg(
        top.alias("frontier"),
        pl.col("step").filter(pl.col("place") == top).min().alias("reached_at"),
    )


def _positions(facts: Facts) -> pl.DataFrame:
    """Give the one frontier of a window with positions: of each step, the smallest new one."""
    consumed = facts.committed.filter(IS_USED)["position"].unique()
    new = facts.resumed.filter(~pl.col("position").is_in(consumed.implode()), ~pl.col("beyond"))
    steps = new.group_by("step").agg(pl.col("position").min().alias("place"))
    return _furthest(steps.with_columns(all=pl.lit(0)), "all").drop("all")


def _lanes(facts: Facts) -> pl.DataFrame:
    """
    Give the frontier of each lane: rank, frontier, reached_at.

    Where a step holds less than a step of the reference did, one reference step is drawn from by
    several steps, lane after lane: there the frontier counts as reached when the last of them
    drew from it. (With the first, a legal elastic restart cut in the middle would skip.)
    """
    resumed = facts.resumed.filter(~pl.col("beyond"))
    lanes = facts.reference.select("rank").unique()
    as_one = _world_changed(facts)
    matched = _matched(resumed, lanes, as_one=as_one)
    ended = _ended(facts, lanes, matched, as_one=as_one)
    places = pl.concat([matched, ended])
    frontiers = _furthest(places, "rank")
    if not _batch_shrank(facts):
        return frontiers
    drawn = (
        resumed.filter(pl.col("ref").is_not_null())
        .group_by(pl.col("ref_step").alias("frontier"))
        .agg(pl.col("step").max().alias("drawn_at"))
    )
    return frontiers.join(drawn, on="frontier", how="left").select(
        "rank", "frontier", pl.max_horizontal("reached_at", "drawn_at").alias("reached_at")
    )


def _matched(resumed: pl.DataFrame, lanes: pl.DataFrame, *, as_one: bool) -> pl.DataFrame:
    """
    Give the place that each step gives a lane by its matched records: step, rank, place.

    Where the world size changed, the lanes are dealt anew and move as one: a lane that no rank
    goes on with is left behind by the others.
    """
    matched = resumed.filter(pl.col("ref").is_not_null())
    place = pl.col("ref_step").min().alias("place")
    if as_one:
        return matched.group_by("step").agg(place).join(lanes, how="cross").select(_PLACE)
    return matched.group_by("step", pl.col("ref_rank").alias("rank")).agg(place).select(_PLACE)


def _ended(
    facts: Facts, lanes: pl.DataFrame, matched: pl.DataFrame, *, as_one: bool
) -> pl.DataFrame:
    """Give the lanes that a step has left behind for good: step, rank, place (the end)."""
    resumed = facts.resumed.filter(~pl.col("beyond"))
    used = resumed.filter(IS_USED)
    is_off = pl.col("ref").is_null() & ~pl.col("consumed")
    if as_one:
        ended = used.group_by("step").agg(is_off.all().alias("off")).filter("off")
        # what the crash cut off the reference's last step may be what stands there instead
        known = int(facts.known.windows.reference.known["n"].sum())
        held = int(sequences(facts.reference)["n"].sum()) + known + _cut_off(facts)
        ended = ended.join(facts.coverage.filter(pl.col("used") > held), on="step", how="semi")
        ended = ended.join(lanes, how="cross")
    else:
        ended = used.group_by("step", "rank").agg(is_off.all().alias("off")).filter("off")
        ended = ended.join(matched, on=["step", "rank"], how="anti")
    return ended.select("step", "rank", place=pl.lit(END, pl.Int64)).select(_PLACE)


def _cut_off(facts: Facts) -> int:
    """Count what ranks may have used in reference steps that are not whole, and did not log."""
    side = facts.known.windows.reference
    through = facts.whole_through
    after = facts.known.windows.checkpoint_step if through is None else through
    counts = (
        facts.reference.filter(pl.col("step") > after, ~pl.col("beyond"))
        .group_by("attempt", "step", "rank")
        .agg(pl.struct(SEQUENCE).n_unique().alias("n"))
        .group_by("attempt", "step")
        .agg(pl.col("n").sum().alias("there"), pl.col("n").max().alias("fullest"))
    )
    attempts = {one.label: one for one in side.attempts}
    return sum(
        max(0, fullest * len(attempts[label].participants(step)) - there)
        for label, step, there, fullest in counts.select(
            "attempt", "step", "there", "fullest"
        ).iter_rows()
    )


def _batch_shrank(facts: Facts) -> bool:
    def largest(rows: pl.DataFrame) -> int:
        sizes = (
            rows.filter(IS_USED, ~pl.col("beyond"))
            .group_by("step")
            .agg(pl.struct(SEQUENCE).n_unique().alias("n"))
        )
        most = sizes["n"].max()
        return most if isinstance(most, int) else 0

    return largest(facts.resumed) < largest(facts.reference)


def _world_changed(facts: Facts) -> bool:
    windows = facts.known.windows
    worlds = {
        frozenset(ranks)
        for side in (windows.reference, windows.resumed)
        for attempt in side.attempts
        for _, _, ranks in attempt.spans
    }
    return len(worlds) > 1
