"""
Sums up what a run and its control used, rank by rank and step by step.

It is counted here, or others have counted it, each of its own samples.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import polars as pl

from ledger_audit.continuity.exposure.amounts import Amounts, added_up
from ledger_audit.continuity.exposure.counting import Asked, Counted, again, count, found
from ledger_audit.continuity.exposure.legs import Leg, tells
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.continuity.identity import IDENTITY, SPAN
from ledger_audit.continuity.unopened import SUMS, Part

MOST_AGAIN = 1 << 20
"""Records of samples used more than once, beyond which all records are read."""

_SAMPLE = ["source", "epoch", "sample_id"]


@dataclass(frozen=True)
class Repeated:
    """The samples of which one pass used several records."""

    ids: pl.Series
    """Each once."""
    records: int
    """Of these samples, in such passes."""


@dataclass(frozen=True)
class Tally:
    """What others have counted of a ledger, each of its own samples."""

    amounts: tuple[Amounts, ...]
    repeated: Repeated | None
    """Null: more than MOST_AGAIN records; then there may be no amounts."""


@dataclass(frozen=True)
class Both:
    """A run and its control, of which all records can pass by."""

    control: Library
    run: Library
    memory: int
    """Bytes that may be used for counting."""
    trusts_digests: bool
    """What commits tell is taken for what was used; no record is read for it."""
    tallies: tuple[Tally, Tally] | None = None
    """What is counted already, of the control and of the run; null: nothing is."""


@dataclass(frozen=True)
class Used:
    """What a ledger used."""

    counted: Counted
    repeated: Repeated


@dataclass(frozen=True)
class Summed:
    """All records of one side, summed up."""

    part: Part
    columns: tuple[str, ...]
    has_positions: bool


def both_summed(both: Both) -> tuple[Summed, Summed] | None:
    """
    Sum up what each plain try of the control and of the run used.

    Returns:
        Null where too many samples are used more than once, or an id is negative: that is to be
        told of, wherever it is.
    """
    if has_negative(both):
        return None
    asked = Asked(both.memory, hashing="quick" if _tells_alike(both) else "digest")
    used = _tallied(both, asked) if both.tallies is not None else both_used(both, asked)
    if used is None:
        return None
    theirs, ours = used
    return _summed(asked, both.control, theirs), _summed(asked, both.run, ours)


def counts_of(both: Both) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Count what each rank of the control and of the run used in each step, and nothing else."""
    asked = Asked(both.memory, hashing="quick", notes=False)
    if both.tallies is not None and all(one.repeated is not None for one in both.tallies):
        control, run = both.tallies
        theirs = added_up(both.control, control.amounts, asked)
        ours = added_up(both.run, run.amounts, asked)
    else:
        theirs, ours = count(both.control, asked), count(both.run, asked)
    return pl.concat(theirs.counts), pl.concat(ours.counts)


def has_negative(both: Both) -> bool:
    """Tell whether an id may be negative."""
    edges = [library.bounds() for library in (both.control, both.run)]
    return any(edge is not None and edge[0] < 0 for edge in edges)


def both_used(
    both: Both, asked: Asked, legs: tuple[Sequence[Leg], Sequence[Leg]] | None = None
) -> tuple[Used, Used] | None:
    """
    Count what the control and the run used.

    Where both used the same, it is noted of one of them which samples they were.

    Args:
        both: the two.
        asked: how to count.
        legs: the stretches of both with their odd steps; null: these are found out on the way.

    Returns:
        Null where too many samples are used more than once.
    """
    of_control, of_run = (None, None) if legs is None else legs
    ours = count(both.run, asked, of_run)
    repeated = _repeated(both.run, ours)
    if repeated is None:
        return None
    theirs = count(both.control, replace(asked, notes=False), of_control)
    repeats: Repeated | None = repeated
    if not _is_same(ours, theirs):
        theirs = count(both.control, asked, of_control)
        repeats = _repeated(both.control, theirs)
    return None if repeats is None else (Used(theirs, repeats), Used(ours, repeated))


def _tallied(both: Both, asked: Asked) -> tuple[Used, Used] | None:
    """Put together what is counted already."""
    assert both.tallies is not None
    control, run = both.tallies
    if control.repeated is None or run.repeated is None:
        return None
    return (
        Used(added_up(both.control, control.amounts, asked), control.repeated),
        Used(added_up(both.run, run.amounts, asked), run.repeated),
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


def _summed(asked: Asked, library: Library, own: Used) -> Summed:
    sums, counted = [], own.counted
    for leg, counts in zip(counted.legs, counted.counts, strict=True):
        tries = commits_of(leg).join(counts, on=["rank", "step"])
        tries = _checked(library, leg, tries) if asked.hashing == "digest" else tries
        sums.append(tries.select(list(SUMS)))
    used = counted.used
    has = {
        "source": used["source"].null_count() < used.height,
        "epoch": used["epoch"].null_count() < used.height,
        "sample_id": True,
        **dict.fromkeys(SPAN, used["spans"].sum() > 0),
    }
    every = pl.concat([pl.DataFrame(schema=SUMS), *sums])
    return Summed(
        Part(library, every, counted.legs, used, own.repeated.ids),
        tuple(name for name in IDENTITY if has[name]),
        has_positions=used["placed"].sum() > 0,
    )


def _repeated(library: Library, counted: Counted) -> Repeated | None:
    """Give the samples that are used more than once in a pass; null: too many."""
    with closing(counted.seen):
        return _again(library, counted)


def _again(library: Library, counted: Counted) -> Repeated | None:
    parts = [pl.Series([], dtype=library.id_type)]
    if counted.seen.is_clean(counted.records):
        return Repeated(parts[0], 0)
    records = 0
    seen = again(library, counted)
    for where in seen.suspects(counted.records, MOST_AGAIN):
        rows = found(library, counted, where).select(_SAMPLE)
        rows = rows.filter(pl.len().over(_SAMPLE) > 1)
        records += rows.height
        if records > MOST_AGAIN:
            return None
        parts.append(rows["sample_id"].unique())
    return Repeated(pl.concat(parts).unique().sort(), records)


def _checked(library: Library, leg: Leg, tries: pl.DataFrame) -> pl.DataFrame:
    """Leave out tries that have another digest than their commit tells, then what it tells."""
    if not tells(library, leg):
        return tries
    is_there = pl.col("n") == pl.col("samples")
    is_wrong = is_there & (pl.col("mixed").reinterpret(signed=True) != pl.col("digest"))
    return tries.filter(~is_wrong.fill_null(value=False)).with_columns(
        digest=pl.when(~is_there).then("digest")
    )


def commits_of(leg: Leg) -> pl.DataFrame:
    """Give the commits of the plain steps of a stretch, with their place in the lineage."""
    but = pl.concat([leg.odd, leg.left_out])
    commits = leg.tries.filter(pl.col("kind") == "commit", ~pl.col("step").is_in(but.implode()))
    place = pl.lit(leg.place, pl.Int64).alias("place")
    return commits.select(place, "rank", "step", "seq", "samples", "digest")
