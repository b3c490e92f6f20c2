"""Audits the places that sequences have in the global stream: a second line of evidence."""

import polars as pl

from ledger_audit.continuity import declared
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IN_MEMORY, IS_USED, SEQUENCE
from ledger_audit.continuity.windows import END
from ledger_audit.model import Positions


def audit_positions(facts: Facts) -> Positions | None:
    """
    Compare the positions of the resumed window with the committed ones.

    Null where a record of either has no position. Repeats count sequences; a sequence whose try
    was voided repeats nothing and leaves no hole.
    """
    resumed = facts.resumed.filter(~pl.col("beyond"))
    if not facts.has_positions or resumed.is_empty():
        return None
    windows = facts.known.windows
    committed = facts.committed.filter(IS_USED)
    used = resumed.filter(IS_USED)
    largest = committed["position"].max()
    expected = _after(largest, windows.dropped) if isinstance(largest, int) else None
    in_first = used.filter(pl.col("step") == pl.col("step").min())["position"].min()
    first = in_first if isinstance(in_first, int) else None
    is_sampled = windows.resumed.is_sampled or windows.committed.is_sampled
    shift = None if first is None or expected is None or is_sampled else first - expected
    return Positions(
        expected=expected,
        first=first,
        shift=shift,
        repeated=_repeated(used, committed),
        holes=None if is_sampled or expected is None else _holes(facts, resumed, expected),
        drift=_drift(facts, used),
        lost=facts.missing + _lost_before(facts),
    )


def _lost_before(facts: Facts) -> int:
    """
    Count the committed records that are known to be missing; END: nobody knows how many.

    Where nothing says how many ranks there are, holes before the resume already tell of one that
    left no ledger.
    """
    windows = facts.known.windows
    if windows.committed.torn:
        return END
    attempts = (*windows.committed.attempts, *windows.resumed.attempts)
    if all(one.world_size is not None for one in attempts):
        return windows.committed.missing
    # a try that was voided used its places, too
    places = facts.committed.filter(~pl.col("beyond"))["position"].unique()
    largest, smallest = places.max(), places.min()
    if isinstance(largest, int) and isinstance(smallest, int):
        return END if places.len() <= largest - smallest else windows.committed.missing
    return windows.committed.missing


def _after(place: int, dropped: pl.Series) -> int:
    """Give the next place that was not dropped."""
    ahead = dropped.filter(dropped > place)
    run = ahead == pl.int_range(place + 1, place + 1 + ahead.len(), eager=True)
    return place + 1 + int(run.cast(pl.Int64).cum_min().sum())


def positions_prove_through(facts: Facts) -> int | None:
    """Give the last whole resumed step by whose end, as by all before, no place was left out."""
    windows = facts.known.windows
    if not facts.has_positions or any(side.is_sampled for side in windows.sides):
        return None
    if windows.committed.is_incomplete or windows.resumed.is_incomplete:
        return None
    largest = facts.committed.filter(IS_USED)["position"].max()
    if not isinstance(largest, int):
        return None
    passed = windows.dropped.alias("position").to_frame().lazy()
    # void tries before the checkpoint may have used places beyond the last committed one
    used = pl.concat(
        [
            facts.committed.lazy().select(pl.lit(0, pl.Int64).alias("step"), "position"),
            facts.resumed.lazy().filter(~pl.col("beyond")).select("step", "position"),
            passed.select(pl.lit(0, pl.Int64).alias("step"), "position"),
        ]
    ).filter(pl.col("position") > largest)
    firsts = used.group_by("position").agg(pl.col("step").min())
    steps = firsts.group_by("step").agg(pl.len().alias("places"), pl.col("position").max())
    is_gapless = pl.col("places").cum_sum() == pl.col("position").cum_max() - largest
    steps = steps.sort("step").filter(is_gapless.cum_min())
    whole = windows.resumed.steps.lazy().filter("whole")
    proven = (
        steps.join(whole, on="step", how="semi")
        .select(pl.col("step").max())
        .collect(engine=IN_MEMORY)
        .item()
    )
    return proven if isinstance(proven, int) else None


def _repeated(used: pl.DataFrame, committed: pl.DataFrame) -> int:
    """Count sequences at a position that a committed or an earlier resumed sequence had."""
    sequences = used.lazy().select(*SEQUENCE, "position").unique().collect(engine=IN_MEMORY)
    consumed = sequences["position"].is_in(committed["position"].unique().implode())
    fresh = sequences.filter(~consumed)
    return int(consumed.sum()) + fresh.height - fresh["position"].n_unique()


def _holes(facts: Facts, resumed: pl.DataFrame, expected: int) -> int:
    """
    Count positions between the committed ones and the frontier that nothing used.

    The frontier is the largest of the smallest new positions of all resumed steps, so that
    what the last step holds out of turn opens no hole. A declared skip is none.
    """
    consumed = facts.committed["position"].unique()
    new = resumed.filter(~pl.col("position").is_in(consumed.implode()))
    reached = new.group_by("step").agg(pl.col("position").min())["position"].max()
    if not isinstance(reached, int) or reached <= expected:
        return 0
    seen = pl.concat([consumed, resumed["position"]]).unique()
    behind = seen.filter((seen >= expected) & (seen < reached))
    windows = facts.known.windows
    dropped = windows.dropped
    behind = pl.concat([behind, dropped.filter((dropped >= expected) & (dropped < reached))])
    behind = behind.unique()
    holes = reached - expected - behind.len()
    ranges = declared.skipped_positions(windows.resumed.attempts, windows.checkpoint_step)
    return holes - _unused(ranges, behind, first=expected, stop=reached)


def _unused(ranges: list[tuple[int, int]], used: pl.Series, *, first: int, stop: int) -> int:
    """Count positions in half-open ranges, cut to [first, stop), that are not among `used`."""
    count, done = 0, first
    for start, end in sorted(ranges):
        begin, until = max(start, done), min(end, stop)
        if begin < until:
            count += until - begin - used.filter((used >= begin) & (used < until)).len()
            done = until
    return count


def _drift(facts: Facts, used: pl.DataFrame) -> int:
    """Count resumed positions whose samples, epochs aside, are not those held there before."""
    windows = facts.known.windows
    sample = [name for name in facts.known.columns if name != "epoch"]
    columns = ["position", *sample]
    committed, reference = facts.committed.lazy(), facts.reference.lazy()
    held = [committed.filter(IS_USED).select(columns), reference.select(columns)]
    before = pl.concat(held).drop_nulls("position").unique().collect(engine=IN_MEMORY)
    shared = used.filter(pl.col("position").is_in(before["position"].unique().implode()))
    if windows.reference.missing or windows.committed.missing:
        # a piece of the old sequence may be what is missing: only a wholly new one is drift
        same = shared.join(before, on=columns, how="semi", nulls_equal=True)
        return shared.join(same, on="position", how="anti")["position"].n_unique()
    other = shared.join(before, on=columns, how="anti", nulls_equal=True)
    return other["position"].n_unique()
