"""
Finds the steps that a run and its control consumed alike, so that few records of them are opened.

Of each rank and step, the sum of the hashes of its records is compared, or where digests are
trusted what its commit tells. A sum is blind to order: it cannot see slots and rows.
"""

from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.exposure.legs import legs_of
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.continuity.holding import is_held
from ledger_audit.continuity.opening import closed_of
from ledger_audit.continuity.summing import Both, both_summed, commits_of, counts_of
from ledger_audit.continuity.unopened import SUMS, Part, partly_opened
from ledger_audit.continuity.windows import Source

ROWS = 1 << 20
"""Records of both sides below which nothing is settled: they are read sooner than summed up."""


@dataclass(frozen=True)
class Settled:
    """What is known of a run and its control of which not all records are opened."""

    control: Source
    run: Source
    """
    Both give the records of the other steps, and of these steps the records of samples that are
    used anywhere else.
    """
    steps: pl.Series
    """The steps that both consumed alike."""
    columns: tuple[str, ...] | None
    """The columns that all records tell apart; null: digests alone told what is alike."""
    has_positions: bool = False
    """Records tell their places, which were not looked at."""


def may_settle(control: Source, run: Source, contract: Contract) -> bool:
    """Tell whether steps can say what two ledgers consumed alike; arguments as of `settle`."""
    asks_more = contract.draws_anew or contract.placement == "kept" or contract.order == "none"
    attempts = [*control.lineage.chain, *run.lineage.chain]
    return not asks_more and all(
        one.world_size is not None and not one.is_sampled for one in attempts
    )


def settle(both: Both, control: Source, run: Source, contract: Contract) -> Settled | None:
    """
    Compare a run with its control, step by step.

    Args:
        both: the two, as they were opened.
        control: the control, as the contract asks for it.
        run: the run, likewise.
        contract: what the stream promises.

    Returns:
        Null where all records must be looked at: the contract asks for more than steps, samples
        are used more than once by design, or most steps differ.
    """
    if not may_settle(control, run, contract):
        return None
    if both.trusts_digests:
        return _by_digests(both, control, run)
    summed = both_summed(both)
    if summed is None or summed[0].columns != summed[1].columns:
        return None
    theirs, ours = summed
    steps = _alike(ours.part.sums, theirs.part.sums)
    steps = closed_of(run, ours.part, theirs.part, steps)
    if not _is_worth_it(run, steps, ours.part.sums):
        return None
    sources = partly_opened((control, theirs.part), (run, ours.part), steps)
    if sources is None:
        return None
    return Settled(*sources, steps, ours.columns, ours.has_positions or theirs.has_positions)


def first_unlike(both: Both) -> int | None:
    """Give the first step that two ledgers did not consume alike, by whatever ranks; null: none."""
    if both.trusts_digests:
        sides = [_told(one).with_columns(mixed="digest") for one in (both.control, both.run)]
    else:
        sides = [*counts_of(both)]
    theirs, ours = (
        side.group_by("step").agg(pl.col("n").sum(), pl.col("mixed").cast(pl.Int128).sum())
        for side in sides
    )
    last = pl.min_horizontal(ours["step"].max(), theirs["step"].max())
    steps = ours.join(theirs, on="step", how="full", suffix="_theirs", coalesce=True)
    wraps = 1 << 64  # digests are sums modulo this
    is_alike = (pl.col("n") == pl.col("n_theirs")) & (
        (pl.col("mixed") - pl.col("mixed_theirs")) % wraps == 0
    )
    unlike = steps.filter(pl.col("step") <= last, ~is_alike.fill_null(value=False))
    first = unlike["step"].min()
    return first if isinstance(first, int) else None


def _by_digests(both: Both, control: Source, run: Source) -> Settled | None:
    ours, theirs = Part(both.run, _told(both.run)), Part(both.control, _told(both.control))
    steps = closed_of(run, ours, theirs, _alike(ours.sums, theirs.sums))
    if not _is_worth_it(run, steps, ours.sums):
        return None
    sources = partly_opened((control, theirs), (run, ours), steps)
    return None if sources is None else Settled(*sources, steps, columns=None)


def _is_worth_it(run: Source, steps: pl.Series, ours: pl.DataFrame) -> bool:
    """Tell whether most steps of the run need not be opened, and memory holds the others."""
    opened = int(ours.filter(~pl.col("step").is_in(steps.implode()))["n"].sum())
    is_most = len(steps) > 0 and len(steps) * 2 >= ours["step"].n_unique()
    return is_most and is_held(2 * opened, run.most)


def _told(library: Library) -> pl.DataFrame:
    """Take what each plain try used from what its commit tells."""
    parts = [pl.DataFrame(schema=SUMS)]
    for place in range(len(library.archive.source.lineage.chain)):
        for leg in legs_of(library, place):
            if leg.attempt.digest_columns != library.archive.source.digest_columns:
                continue
            tries = commits_of(leg).drop_nulls(["digest", "samples"])
            none = pl.lit(0, pl.Int64)
            told = tries.with_columns(
                n="samples", tokens=none, spans=none, mixed=pl.lit(0, pl.UInt64)
            )
            parts.append(told.select(list(SUMS)))
    return pl.concat(parts)


def _alike(ours: pl.DataFrame, theirs: pl.DataFrame) -> pl.Series:
    """
    Give the steps that both sides consumed alike.

    A digest that one side alone tells is compared with nothing: that side is to be looked at.
    """
    both = ours.join(theirs, on=["step", "rank"], how="full", suffix="_theirs", coalesce=True)
    is_alike = (
        (pl.col("n") == pl.col("n_theirs"))
        & (pl.col("mixed") == pl.col("mixed_theirs"))
        & pl.col("digest").eq_missing(pl.col("digest_theirs"))
    )
    steps = both.group_by("step").agg(
        is_alike=is_alike.fill_null(value=False).all(), is_once=pl.col("rank").is_unique().all()
    )
    return steps.filter("is_alike", "is_once")["step"].sort()
