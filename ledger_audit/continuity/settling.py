"""
Finds the steps that a run and its control consumed alike, so that few records of them are opened.

Of each rank and step, the sum of the hashes of its records is compared, or where digests are
trusted what its commit tells. A sum is blind to order: it cannot see slots and rows.
"""

from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.exposure.counting import Asked, Counted, again, count, found
from ledger_audit.continuity.exposure.legs import Leg, legs_of, tells
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.continuity.identity import IDENTITY, SPAN
from ledger_audit.continuity.opening import closed_of
from ledger_audit.continuity.unopened import SUMS, Part, partly_opened
from ledger_audit.continuity.windows import Source

ROWS = 1 << 20
"""Records of both sides below which nothing is settled: they are read sooner than summed up."""

MOST_AGAIN = 1 << 20
"""Records of samples used more than once, beyond which all records are read."""

_SAMPLE = ["source", "epoch", "sample_id"]


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


@dataclass(frozen=True)
class Both:
    """A run and its control, of which all records can pass by."""

    control: Library
    run: Library
    memory: int
    """Bytes that may be used for counting."""
    trusts_digests: bool
    """What commits tell is taken for what was used; no record is read for it."""


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
    asks_more = contract.draws_anew or contract.placement == "kept" or contract.order == "none"
    attempts = [*control.lineage.chain, *run.lineage.chain]
    if asks_more or any(one.world_size is None or one.is_sampled for one in attempts):
        return None
    if both.trusts_digests:
        return _by_digests(both, control, run)
    asked = Asked(both.memory, hashes=True)
    ours = _summed(both.run, asked)
    theirs = None if ours is None else _summed(both.control, asked)
    if ours is None or theirs is None or ours.columns != theirs.columns:
        return None
    steps = _alike(ours.part.sums, theirs.part.sums)
    steps = closed_of(run, ours.part, theirs.part, steps)
    if not _is_worth_it(steps, ours.part.sums):
        return None
    sources = partly_opened((control, theirs.part), (run, ours.part), steps)
    if sources is None:
        return None
    return Settled(*sources, steps, ours.columns, ours.has_positions or theirs.has_positions)


def _by_digests(both: Both, control: Source, run: Source) -> Settled | None:
    ours, theirs = Part(both.run, _told(both.run)), Part(both.control, _told(both.control))
    steps = closed_of(run, ours, theirs, _alike(ours.sums, theirs.sums))
    if not _is_worth_it(steps, ours.sums):
        return None
    sources = partly_opened((control, theirs), (run, ours), steps)
    return None if sources is None else Settled(*sources, steps, columns=None)


def _is_worth_it(steps: pl.Series, ours: pl.DataFrame) -> bool:
    """Tell whether most steps of the run need not be opened."""
    return len(steps) > 0 and len(steps) * 2 >= ours["step"].n_unique()


@dataclass(frozen=True)
class _Summed:
    """All records of one side, summed up."""

    part: Part
    columns: tuple[str, ...]
    has_positions: bool


def _summed(library: Library, asked: Asked) -> _Summed | None:
    """Sum up what each plain try used; null: too many samples are used more than once."""
    bounds = library.bounds()
    if bounds is not None and bounds[0] < 0:
        return None  # negative ids are to be told of, wherever they are
    counted = count(library, asked)
    try:
        repeated = _repeated(library, counted)
    finally:
        counted.seen.close()
    if repeated is None:
        return None
    sums = [
        _sound(library, leg, _tries(leg).join(counts, on=["rank", "step"])).select(list(SUMS))
        for leg, counts in zip(counted.legs, counted.counts, strict=True)
    ]
    used = counted.used
    has = {
        "source": used["source"].null_count() < used.height,
        "epoch": used["epoch"].null_count() < used.height,
        "sample_id": True,
        **dict.fromkeys(SPAN, used["spans"].sum() > 0),
    }
    return _Summed(
        Part(library, pl.concat([pl.DataFrame(schema=SUMS), *sums]), counted.legs, used, repeated),
        tuple(name for name in IDENTITY if has[name]),
        has_positions=used["placed"].sum() > 0,
    )


def _repeated(library: Library, counted: Counted) -> pl.Series | None:
    """Give the ids of the samples that are used more than once in a pass; null: too many."""
    parts = [pl.Series([], dtype=library.id_type)]
    if counted.seen.is_clean(counted.records):
        return parts[0]
    records = 0
    seen = again(library, counted)
    for where in seen.suspects(counted.records, MOST_AGAIN):
        rows = found(library, counted, where).select(_SAMPLE)
        rows = rows.filter(pl.len().over(_SAMPLE) > 1)
        records += rows.height
        if records > MOST_AGAIN:
            return None
        parts.append(rows["sample_id"].unique())
    return pl.concat(parts).unique().sort()


def _sound(library: Library, leg: Leg, tries: pl.DataFrame) -> pl.DataFrame:
    """Leave out tries that are all there and have another digest than their commit tells."""
    if not tells(library, leg):
        return tries
    is_wrong = (pl.col("n") == pl.col("samples")) & (
        pl.col("mixed").reinterpret(signed=True) != pl.col("digest")
    )
    return tries.filter(~is_wrong.fill_null(value=False))


def _told(library: Library) -> pl.DataFrame:
    """Take what each plain try used from what its commit tells."""
    parts = [pl.DataFrame(schema=SUMS)]
    for place in range(len(library.archive.source.lineage.chain)):
        for leg in legs_of(library, place):
            if leg.attempt.digest_columns != library.archive.source.digest_columns:
                continue
            tries = _tries(leg).drop_nulls(["digest", "samples"])
            none = pl.lit(0, pl.Int64)
            told = tries.with_columns(
                n="samples", tokens=none, spans=none, mixed=pl.lit(0, pl.UInt64)
            )
            parts.append(told.select(list(SUMS)))
    return pl.concat(parts)


def _tries(leg: Leg) -> pl.DataFrame:
    """Give the commits of the plain steps of a stretch, with their place in the lineage."""
    but = pl.concat([leg.odd, leg.left_out])
    commits = leg.tries.filter(pl.col("kind") == "commit", ~pl.col("step").is_in(but.implode()))
    place = pl.lit(leg.place, pl.Int64).alias("place")
    return commits.select(place, "rank", "step", "seq", "samples", "digest")


def _alike(ours: pl.DataFrame, theirs: pl.DataFrame) -> pl.Series:
    """Give the steps that both sides consumed alike."""
    both = ours.join(theirs, on=["step", "rank"], how="full", suffix="_theirs", coalesce=True)
    is_alike = (
        (pl.col("n") == pl.col("n_theirs"))
        & (pl.col("mixed") == pl.col("mixed_theirs"))
        & (pl.col("digest") == pl.col("digest_theirs")).fill_null(value=True)
    )
    steps = both.group_by("step").agg(
        is_alike=is_alike.fill_null(value=False).all(), is_once=pl.col("rank").is_unique().all()
    )
    return steps.filter("is_alike", "is_once")["step"].sort()
