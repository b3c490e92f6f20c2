"""
Finds the steps that a run and its control consumed alike, so that few records of them are opened.

Of each rank and step, the sum of the hashes of its records is compared, or where digests are
trusted what its commit tells. A sum is blind to order: it cannot see slots and rows.
"""

from contextlib import closing
from dataclasses import dataclass, replace

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.exposure.counting import Asked, Counted, again, count, found
from ledger_audit.continuity.exposure.legs import Leg, legs_of, tells
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.continuity.holding import is_held
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
    summed = _both_summed(both)
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
        asked = Asked(both.memory, hashing="quick", notes=False)
        sides = [pl.concat(count(one, asked).counts) for one in (both.control, both.run)]
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


@dataclass(frozen=True)
class _Summed:
    """All records of one side, summed up."""

    part: Part
    columns: tuple[str, ...]
    has_positions: bool


def _both_summed(both: Both) -> tuple[_Summed, _Summed] | None:
    """
    Sum up what each plain try of the control and of the run used.

    Where both used the same, it is noted of one of them which samples they were.

    Returns:
        Null where too many samples are used more than once, or an id is negative: that is to be
        told of, wherever it is.
    """
    edges = [library.bounds() for library in (both.control, both.run)]
    if any(edge is not None and edge[0] < 0 for edge in edges):
        return None
    asked = Asked(both.memory, hashing="quick" if _tells_alike(both) else "digest")
    ours = count(both.run, asked)
    repeated = _repeated(both.run, ours)
    if repeated is None:
        return None
    theirs = count(both.control, replace(asked, notes=False))
    repeats: pl.Series | None = repeated
    if not _is_same(ours, theirs):
        theirs = count(both.control, asked)
        repeats = _repeated(both.control, theirs)
    if repeats is None:
        return None
    return (
        _summed(asked, both.control, theirs, repeats),
        _summed(asked, both.run, ours, repeated),
    )


def _tells_alike(both: Both) -> bool:
    """
    Tell whether all attempts of both ledgers tell digests, or none does.

    Then equal records are compared with each other, and what commits tell with what commits tell.
    Else nothing but its own records contradicts a digest.
    """
    told = set()
    for library in (both.control, both.run):
        source = library.archive.source
        told |= {one.digest_columns == source.digest_columns for one in source.lineage.chain}
    return len(told) == 1


def _is_same(ours: Counted, theirs: Counted) -> bool:
    """Tell whether two ledgers used the same samples in the same steps, rank by rank."""
    first, second = (
        pl.concat(side.counts).group_by("rank", "step").agg(pl.col("n", "mixed").sum())
        for side in (ours, theirs)
    )
    keys = ["rank", "step"]
    return first.sort(keys).equals(second.sort(keys))


def _summed(asked: Asked, library: Library, counted: Counted, repeated: pl.Series) -> _Summed:
    sums = []
    for leg, counts in zip(counted.legs, counted.counts, strict=True):
        tries = _tries(leg).join(counts, on=["rank", "step"])
        tries = _checked(library, leg, tries) if asked.hashing == "digest" else tries
        sums.append(tries.select(list(SUMS)))
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
    with closing(counted.seen):
        return _again(library, counted)


def _again(library: Library, counted: Counted) -> pl.Series | None:
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


def _checked(library: Library, leg: Leg, tries: pl.DataFrame) -> pl.DataFrame:
    """Leave out tries that have another digest than their commit tells, then what it tells."""
    if not tells(library, leg):
        return tries
    is_there = pl.col("n") == pl.col("samples")
    is_wrong = is_there & (pl.col("mixed").reinterpret(signed=True) != pl.col("digest"))
    return tries.filter(~is_wrong.fill_null(value=False)).with_columns(
        digest=pl.when(~is_there).then("digest")
    )


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
