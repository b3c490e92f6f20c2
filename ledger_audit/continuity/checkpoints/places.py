"""Finds the places of the global stream that a checkpoint's lineage passed and never used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.checkpoints.branch import Leg
from ledger_audit.continuity.checkpoints.walk import Walk
from ledger_audit.continuity.claims.tally import Places
from ledger_audit.continuity.declared import resets_positions, skipped_positions
from ledger_audit.continuity.frames import IS_USED

MOST_HOLES = 8
"""Places that are named; all are counted."""

RUNS = {"edge": pl.Int64(), "start": pl.Int64(), "stop": pl.Int64()}


@dataclass(frozen=True)
class Passed:
    """The places that one attempt used, and those that it left out for a reason."""

    used: pl.DataFrame
    """RUNS: half-open ranges of places that the updates from edge to edge used."""
    excused: pl.DataFrame
    """RUNS of what void tries used, and of what was dropped (edge null: any)."""


def passed_by(archive: Archive, walk: Walk) -> Passed:
    """Find the places of one attempt, in one stream over its positions."""
    label, steps, seen = walk.attempt.label, walk.steps, walk.looked_at
    edges = steps.select("step", "edge")
    committed = steps.filter("committed").select("step", "edge")
    used, excused = [pl.DataFrame(schema=RUNS)], [pl.DataFrame(schema=RUNS)]
    if walk.committed["placed"].sum() and steps.height:
        odd = seen["step"].unique()
        for stretch in archive.stretches(label, int(steps["step"][0]), int(steps["step"][-1])):
            places = archive.places(label, *stretch, odd).join(committed, on="step")
            used.append(joined(places.select(list(RUNS))))
        used.append(each_as_range(seen.filter(IS_USED).join(committed, on="step")))
        excused.append(each_as_range(seen.filter(~IS_USED).join(edges, on="step")))
    if "dropped" in archive.stages:
        dropped = archive.dropped(label).to_frame("position")
        excused.append(each_as_range(dropped.with_columns(edge=pl.lit(None, pl.Int64))))
    return Passed(joined(pl.concat(used)), pl.concat(excused))


def each_as_range(rows: pl.DataFrame) -> pl.DataFrame:
    """Give the positions of some records, each as a range."""
    places = rows.select("edge", "position").drop_nulls("position").unique()
    return places.select("edge", start="position", stop=pl.col("position") + 1)


def joined(runs: pl.DataFrame) -> pl.DataFrame:
    """Put the ranges of each edge together where they touch or overlap."""
    ordered = runs.sort("edge", "start", "stop")
    reach = pl.col("stop").cum_max().over("edge").shift(1)
    is_new = (pl.col("start") > reach) | pl.col("edge").ne_missing(pl.col("edge").shift(1))
    parts = ordered.with_columns(part=is_new.fill_null(value=True).cum_sum())
    return (
        parts.group_by("part", maintain_order=True)
        .agg(pl.col("edge").first(), pl.col("start").first(), pl.col("stop").max())
        .select(list(RUNS))
    )


def places_of(
    passed: Mapping[str, Passed], walks: Sequence[tuple[Leg, Walk]], *, is_cut: bool
) -> Places | None:
    """
    Find the next place of a checkpoint's lineage and the holes before it.

    Null where not every committed record has a position, or positions were started anew.

    Args:
        passed: places, by attempt.
        walks: the legs of the lineage that have steps.
        is_cut: the ledger does not begin with the run: what lies before its first place is no hole.
    """
    attempts = [leg.attempt for leg, _ in walks]
    is_placed = all(_is_placed(leg, walk) for leg, walk in walks)
    if not walks or not is_placed or resets_positions(attempts, 0):
        return None
    used, excused = [], []
    for leg, _ in walks:
        own = passed[leg.attempt.label]
        used.append(own.used.filter(pl.col("edge") <= leg.last))
        excused.append(own.excused.filter(pl.col("edge").is_null() | (pl.col("edge") <= leg.last)))
    runs, left_out = pl.concat(used), pl.concat(excused)
    voided, dropped = (
        left_out.filter(pl.col("edge").is_null() == is_so) for is_so in (False, True)
    )
    following = pl.concat([runs["stop"], voided["stop"]]).max()
    if not isinstance(following, int) or runs.is_empty():
        return None
    on_purpose = dropped.select("start", "stop")
    if declared := skipped_positions(attempts, 0):
        skipped = pl.DataFrame(declared, schema=on_purpose.schema, orient="row")
        on_purpose = pl.concat([on_purpose, skipped])
    known = pl.concat([pl.concat([runs, voided]).select("start", "stop"), on_purpose])
    if is_cut:
        first = pl.concat([runs, voided]).select(start=0, stop=pl.col("start").min())
        known = pl.concat([known, first.cast(pl.Int64)])
    holes, count = _holes(known, following)
    committed = joined(runs.with_columns(edge=pl.lit(0, pl.Int64))).select("start", "stop")
    after = _through(on_purpose, following)
    return Places(following, holes, count, after if after > following else None, committed)


def _through(runs: pl.DataFrame, place: int) -> int:
    """Give the first place from `place` on that is in none of these ranges."""
    for start, stop in runs.filter(pl.col("stop") > place).sort("start", "stop").iter_rows():
        if start > place:
            break
        place = max(place, stop)
    return place


def _is_placed(leg: Leg, walk: Walk) -> bool:
    rows = walk.committed.filter(pl.col("edge") <= leg.last)
    lacking = walk.lacking.filter(pl.col("step") <= leg.last)
    return bool(
        rows.height and rows["placed"].sum() == rows["records"].sum() and not lacking.height
    )


def _holes(known: pl.DataFrame, following: int) -> tuple[tuple[int, ...], int]:
    """Find what lies between the ranges, from 0 to the next place: the first few, and how many."""
    edges = pl.DataFrame([(0, 0), (following, following)], schema=known.schema, orient="row")
    ordered = pl.concat([known, edges]).filter(pl.col("start") <= following).sort("start", "stop")
    gaps = ordered.select(
        start=pl.col("stop").cum_max().shift(1), stop=pl.min_horizontal("start", pl.lit(following))
    ).filter(pl.col("stop") > pl.max_horizontal("start", pl.lit(0)))
    gaps = gaps.with_columns(start=pl.max_horizontal("start", pl.lit(0)))
    named: list[int] = []
    for start, stop in gaps.iter_rows():
        named += range(start, min(stop, start + MOST_HOLES - len(named)))
        if len(named) == MOST_HOLES:
            break
    return tuple(named), int((gaps["stop"] - gaps["start"]).sum())
