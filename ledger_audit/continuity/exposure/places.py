"""Finds places of the global stream that the newest weights passed and never used."""

import polars as pl

from ledger_audit.continuity.checkpoints.places import (
    MOST_HOLES,
    RUNS,
    each_as_range,
    joined,
)
from ledger_audit.continuity.declared import resets_positions, skipped_positions
from ledger_audit.continuity.exposure.counting import Counted
from ledger_audit.continuity.exposure.legs import committed_of, looked_at
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.model.exposure import Generation, Holes


def holes_of(
    library: Library, counted: Counted, generations: tuple[Generation, ...]
) -> Holes | None:
    """
    Find the places before the last used one that nothing used, dropped or declared away.

    Null where a record has no place, or places were started anew; or where no pass asks for them:
    all are over.
    """
    chain = library.archive.source.lineage.chain
    records = counted.records
    if not records or int(counted.used["placed"].sum()) < records or resets_positions(chain, 0):
        return None
    if all(one.is_over for one in generations):
        return None
    used = [pl.DataFrame(schema=RUNS)]
    excused = [pl.DataFrame(schema=RUNS)]
    for leg in counted.legs:
        steps = leg.plain
        for stretch in library.archive.stretches(steps.attempt, steps.first, steps.last):
            places = library.archive.places(steps.attempt, *stretch, steps.but)
            used.append(_runs(places.select("start", "stop")))
        for records_of in looked_at(library, leg):
            used.append(_each(committed_of(leg, records_of)))
            excused.append(_each(records_of.filter(~IS_USED)))
    if "dropped" in library.archive.stages:
        for attempt in chain:
            dropped = library.archive.dropped(attempt.label).to_frame("position")
            excused.append(_each(dropped))
    excused.append(
        pl.DataFrame(
            [(0, start, stop) for start, stop in skipped_positions(chain, 0)],
            schema=RUNS,
            orient="row",
        )
    )
    covered = joined(pl.concat([*used, *excused])).sort("start")
    last = int(joined(pl.concat(used))["stop"].max())  # type: ignore[arg-type]  # some record is placed
    starts = pl.concat([pl.Series([0]), covered["stop"]])
    ends = pl.concat([covered["start"], pl.Series([last])])
    gaps = pl.DataFrame({"start": starts, "stop": ends}).with_columns(
        pl.col("stop").clip(upper_bound=last)
    )
    gaps = gaps.filter(pl.col("start") < pl.col("stop"))
    return Holes(
        count=int((gaps["stop"] - gaps["start"]).sum()),
        last=last - 1,
        ranges=tuple((start, stop - 1) for start, stop in gaps.head(MOST_HOLES).iter_rows()),
    )


def _runs(places: pl.DataFrame) -> pl.DataFrame:
    return places.select(pl.lit(0, pl.Int64).alias("edge"), "start", "stop")


def _each(rows: pl.DataFrame) -> pl.DataFrame:
    return each_as_range(rows.with_columns(edge=pl.lit(0, pl.Int64))).select(list(RUNS))
