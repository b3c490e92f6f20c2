"""Finds where the first resumed records stand in the order in which samples were consumed."""

import polars as pl

from ledger_audit.continuity.classify import Classified
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.model import Expected, Positions, Resumed

NOT_DUE = [Expected.DECLARED, Expected.REPEAT_MISSING]
"""What the resumed stream need not have used."""

PUZZLING = [Resumed.DUPLICATED, Resumed.REPEAT_UNEXPLAINED, Resumed.UNEXPECTED]
"""Of these it cannot be told where in the stream they stand."""

COLUMNS = ["key", "rank", "step", "position"]


def first_place(classified: Classified, facts: Facts, positions: Positions | None) -> int | None:
    """
    Give where the first resumed records stand, counted from what should have come next.

    The order is that of the committed records (void ones too, if nothing used them again), and
    behind them the reference. The first resumed step must be one stretch of it: of every rank's
    own lane, or where the ranks were dealt other lanes, of the whole.

    Args:
        classified: what became of each record.
        facts: of the resume.
        positions: what was found by the places of the stream; null: they are not logged.

    Returns:
        Records. 0: what comes next; negative: so many of those before it are used again;
        positive: so many are skipped. Null: it cannot be told, as where samples come in another
        order, where ranks went to different sides, or where records are missing.
    """
    redone = _is_in(_thrown_away(facts))
    rows = _first_rows(classified, facts, redone)
    if rows is None:
        return None
    again = rows.filter(pl.col("ref").is_null(), pl.col("consumed") | redone)
    if again.filter(pl.col("worst") == Resumed.FRESH, ~redone).height:
        return None  # the stream may repeat it on purpose
    ordered = _ordered(classified, facts, with_committed=again.height > 0)
    mapped = _mapped(rows, again, ordered)
    if mapped is None:
        return None
    unmapped = rows.join(mapped, on="order", how="anti")
    if mapped.is_empty():
        return _by_positions(facts, positions)
    begin = mapped.group_by("rank").agg(pl.col("step").min())["step"]
    if _is_kept(mapped, ordered):
        place = _by_lane(mapped, unmapped, ordered)
        # a rank logs one record after the other: of the step in which it goes on with its own
        # lane, all that comes before is there
        through = max(begin) - 1
    else:
        place = _of_all(mapped, unmapped, ordered, _used_later(classified, ordered))
        through = min(begin)
    return place if place is not None and _is_whole(place, through, facts) else None


def _thrown_away(facts: Facts) -> pl.Series:
    """Give the keys of what only void updates had used: using it is no replay."""
    void = facts.committed.filter(~IS_USED)
    if void.is_empty():
        return void["key"]
    return void.filter(~_is_in(facts.committed.filter(IS_USED)["key"]))["key"]


def _is_in(keys: pl.Series) -> pl.Expr:
    return pl.col("key").is_in(keys.unique().implode())


def _used_later(classified: Classified, ordered: pl.DataFrame) -> pl.Series:
    """Give the places that resumed records after the first step used."""
    later = classified.resumed.filter(pl.col("step") > pl.col("step").min())
    is_used = pl.col("resumed").is_in(later["order"].implode()) | _is_in(later["key"])
    return ordered.filter(is_used)["place"]


def _first_rows(classified: Classified, facts: Facts, redone: pl.Expr) -> pl.DataFrame | None:
    """
    Give the records of the first resumed step that have a place; null: not all are known.

    Args:
        classified: what became of each record.
        facts: of the resume.
        redone: whether only void updates had used the sample.
    """
    windows, resumed = facts.known.windows, classified.resumed
    if resumed.is_empty() or any(side.is_sampled for side in windows.sides):
        return None
    is_first = pl.col("step") == windows.checkpoint_step + 1
    steps, rows = windows.resumed.steps.filter(is_first), resumed.filter(is_first)
    is_known = steps["whole"].any() and not steps["missing"].sum() and not windows.resumed.torn
    is_cut = rows["record"].n_unique() != rows.height
    puzzling = rows.filter(pl.col("worst").is_in(PUZZLING), ~redone)
    if not is_known or is_cut or puzzling.height:
        return None
    if rows.filter(~IS_USED).height:
        # what was tried again stands where it was used
        rows = rows.filter(IS_USED | ~_is_in(resumed.filter(IS_USED)["key"]))
    return rows.filter(pl.col("worst") != Resumed.PADDING)


def _ordered(classified: Classified, facts: Facts, *, with_committed: bool) -> pl.DataFrame:
    """
    Give the order of the stream, as far as it is known.

    Returns:
        COLUMNS, `ref` (the `order` of the reference; null: committed), `resumed` (its partner),
        and, counted from what comes next, `place` in the whole and `lane` among those of its
        rank.
    """
    awaited = IS_USED | pl.col("resumed").is_not_null()
    expected = classified.expected.filter(awaited, ~pl.col("worst").is_in(NOT_DUE))
    parts = [expected.select(*COLUMNS, "resumed", ref="order")]
    before = pl.DataFrame(schema=parts[0].schema)
    if with_committed:
        rows = facts.committed.filter(~pl.col("beyond"))
        once = IS_USED | _is_in(_thrown_away(facts))
        nothing = pl.lit(None, pl.Int64)
        before = rows.filter(once).select(*COLUMNS, resumed=nothing, ref=nothing)
    every = pl.concat([before, *parts]).with_row_index("place")
    is_before = pl.col("ref").is_null()
    return every.with_columns(
        place=pl.col("place").cast(pl.Int64) - before.height,
        lane=pl.int_range(pl.len()).over("rank") - is_before.sum().over("rank").cast(pl.Int64),
    )


def _mapped(rows: pl.DataFrame, again: pl.DataFrame, ordered: pl.DataFrame) -> pl.DataFrame | None:
    """
    Find the places of records: order, rank, at (the rank there), step (there), place, lane.

    Null: one of them has none that is known, or several; or two of them share one.
    """
    there = ordered.select("ref", "key", "step", "position", "place", "lane", at="rank")
    matched = rows.filter(pl.col("ref").is_not_null()).select("order", "rank", "ref")
    repeated = again.select("order", "rank", "key")
    found = matched.join(there, on="ref")
    held = repeated.join(there.filter(pl.col("ref").is_null()), on="key")
    if found.height != matched.height or held.height != repeated.height:
        return None
    columns = ["order", "rank", "at", "step", "position", "place", "lane"]
    every = pl.concat([found.select(columns), held.select(columns)])
    is_one = every["order"].n_unique() == every["place"].n_unique() == every.height
    return every if is_one else None


def _is_kept(mapped: pl.DataFrame, ordered: pl.DataFrame) -> bool:
    """Tell whether every rank goes on with its own lane."""
    same = set(mapped["rank"]) == set(ordered["rank"])
    return same and bool((mapped["rank"] == mapped["at"]).all())


def _by_lane(mapped: pl.DataFrame, unmapped: pl.DataFrame, ordered: pl.DataFrame) -> int | None:
    """Add up how far each rank stands from where its own lane goes on."""
    lanes = mapped.group_by("rank").agg(
        first=pl.col("lane").min(), last=pl.col("lane").max(), n=pl.col("lane").n_unique()
    )
    lanes = ordered.join(lanes, on="rank").with_columns(
        is_passed=pl.col("lane").is_between(0, pl.col("first") - 1),
        goes_on=pl.col("rank").is_in(unmapped["rank"].unique().implode()),
    )
    is_stretch = (pl.col("last") - pl.col("first") + 1 == pl.col("n")) & (
        ~pl.col("goes_on") | (pl.col("last") == pl.col("lane").max().over("rank"))
    )
    is_one_way = (pl.col("first") >= 0).all() | (pl.col("first") <= 0).all()
    is_skipped = pl.col("resumed").is_null() | ~pl.col("is_passed")
    if not lanes.select(is_stretch.all() & is_one_way & is_skipped.all()).item():
        return None
    return int(lanes.group_by("rank").agg(pl.col("first").first())["first"].sum())


def _of_all(
    mapped: pl.DataFrame, unmapped: pl.DataFrame, ordered: pl.DataFrame, later: pl.Series
) -> int | None:
    """
    Find where all ranks together stand, however the stream is dealt to them.

    By its positions, or by steps: within one of them any order is right. What of the steps was
    not used at first comes before them or behind, and only then is it used later.
    """
    is_before = pl.col("place") < 0
    if ordered["position"].null_count() == 0:
        ordered = ordered.sort("position", "place").with_columns(step=pl.int_range(pl.len()))
        mapped = mapped.drop("step").join(ordered.select("place", "step"), on="place")
    begin, end = mapped["step"].min(), mapped["step"].max()
    left = ordered.filter(
        pl.col("step").is_between(begin, end), ~pl.col("place").is_in(mapped["place"].implode())
    )
    is_later, is_begin = pl.col("place").is_in(later.implode()), pl.col("step") == begin
    before, behind = left.filter(is_begin, ~is_later), left.filter(~is_begin | is_later)
    is_stretch = behind.filter(pl.col("step") < end, ~is_begin).is_empty()
    is_stretch &= behind.filter(~is_later).is_empty()
    if begin == end:
        # what is left of one step may also be the share of ranks that are no more
        vanished = set(ordered["rank"]) - set(mapped["rank"]) - set(unmapped["rank"])
        is_lost = behind.height > 0 or set(before["rank"]) <= vanished
        is_stretch &= before.is_empty() or not is_lost
    else:
        is_stretch &= behind.filter(is_begin).is_empty()
    is_over = behind.is_empty() and end == ordered["step"].max()
    passed = ordered.filter(pl.col("step") < begin)
    if not is_stretch or not (unmapped.is_empty() or is_over):
        return None
    if passed.filter(~is_before, is_later).height:
        return None
    return passed.height + before.height - ordered.filter(is_before).height


def _by_positions(facts: Facts, positions: Positions | None) -> int | None:
    """Take the places of the stream, where neither a reference nor a repeat tells."""
    if positions is None or positions.shift is None or positions.lost:
        return None
    is_plain = facts.known.windows.dropped.is_empty()
    return positions.shift if positions.shift == 0 or (positions.shift > 0 and is_plain) else None


def _is_whole(place: int, through: int, facts: Facts) -> bool:
    """
    Tell whether nothing is missing between what comes next and where they stand.

    Args:
        place: where they stand.
        through: the last step of the reference that must be whole.
        facts: of the resume.
    """
    windows, reference = facts.known.windows, facts.known.windows.reference
    if place < 0:
        return not windows.committed.is_incomplete
    missing = reference.steps.filter(pl.col("step") <= through)["missing"].sum()
    if reference.torn or missing:
        return False
    after = windows.checkpoint_step if facts.whole_through is None else facts.whole_through
    return place == 0 or through <= after
