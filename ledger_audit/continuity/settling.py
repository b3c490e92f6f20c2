"""
Finds the steps that a run and its control consumed alike, so that no record of them is kept.

Of each rank and step, the sum of the hashes of its records is compared, or where digests are
trusted what its commit tells. A sum is blind to order: it cannot see slots and rows.
"""

from dataclasses import dataclass, replace

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.exposure.counting import Asked, Counted, count
from ledger_audit.continuity.exposure.generations import Doubt, generations_of
from ledger_audit.continuity.exposure.labels import mislabelled
from ledger_audit.continuity.exposure.legs import LEFT, Leg, legs_of
from ledger_audit.continuity.exposure.library import Library, Steps
from ledger_audit.continuity.exposure.promised import Promised
from ledger_audit.continuity.exposure.repeats import repeats_of
from ledger_audit.continuity.windows import END, Source
from ledger_audit.model import LaterEpoch
from ledger_audit.model.exposure import Generation

AROUND = 20
"""Steps at each end of the run, and around each resume, whose records are kept all the same."""

ROWS = 1 << 20
"""Records of both sides below which nothing is settled: they are read sooner than summed up."""

_MOST_WORKERS = 1 << 16
"""More than any rank has."""

_SUMS = {
    "place": pl.Int64(),
    "rank": pl.Int32(),
    "step": pl.Int64(),
    "seq": pl.Int64(),
    "n": pl.Int64(),
    "tokens": pl.Int64(),
    "spans": pl.Int64(),
    "mixed": pl.UInt64(),
    "digest": pl.Int64(),
}
"""One plain try of a step that is committed: its place in the lineage, and what it used."""


@dataclass(frozen=True)
class Settled:
    """What is known of a run and its control without their records."""

    control: Source
    run: Source
    """Both give the records of the other steps alone."""
    steps: pl.Series
    """The steps that both consumed alike."""
    passes: tuple[tuple[int, LaterEpoch], ...]
    """The passes of the run that are over, each with its last step; digests tell of none."""

    def over_after(self, step: int) -> tuple[LaterEpoch, ...]:
        """Give the passes that were not over at a step."""
        return tuple(one for last, one in self.passes if last > step)


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
        Null where the records must be looked at: the contract asks for more than steps, a pass
        has repeats or lacks samples, or most steps differ.
    """
    asks_more = contract.draws_anew or contract.placement == "kept" or contract.order == "none"
    attempts = [*control.lineage.chain, *run.lineage.chain]
    if asks_more or any(one.world_size is None or one.is_sampled for one in attempts):
        return None
    passes: tuple[tuple[int, LaterEpoch], ...] | None = ()
    if both.trusts_digests:
        ours, theirs = _told(both.run), _told(both.control)
    else:
        asked = Asked(both.memory, hashes=True)
        ours, passes = _summed(both.run, asked, contract)
        if passes is None:
            return None
        theirs, others = _summed(both.control, asked, contract)
        passes = None if others is None else passes
    steps = _alike(ours, theirs)
    steps = steps.filter(~steps.is_in(_kept(run, ours, steps).implode()))
    if passes is None or len(steps) * 2 < ours["step"].n_unique():
        return None
    return Settled(
        control=_without(control, both.control, theirs, steps),
        run=_without(run, both.run, ours, steps),
        steps=steps,
        passes=passes,
    )


def _summed(
    library: Library, asked: Asked, contract: Contract
) -> tuple[pl.DataFrame, tuple[tuple[int, LaterEpoch], ...] | None]:
    """Sum up what each plain try used, and judge the passes; null: one is amiss."""
    counted = count(library, asked)
    try:
        sums = [
            _tries(leg).join(counts, on=["rank", "step"]).select(list(_SUMS))
            for leg, counts in zip(counted.legs, counted.counts, strict=True)
        ]
        found = _passes(library, counted, contract, asked.memory)
        return pl.concat([pl.DataFrame(schema=_SUMS), *sums]), found
    finally:
        counted.seen.close()


def _told(library: Library) -> pl.DataFrame:
    """Take what each plain try used from what its commit tells."""
    found = [pl.DataFrame(schema=_SUMS)]
    for place in range(len(library.archive.source.lineage.chain)):
        for leg in legs_of(library, place):
            if leg.attempt.digest_columns != library.archive.source.digest_columns:
                continue
            tries = _tries(leg).drop_nulls(["digest", "samples"])
            none = pl.lit(0, pl.Int64)
            told = tries.with_columns(
                n="samples", tokens=none, spans=none, mixed=pl.lit(0, pl.UInt64)
            )
            found.append(told.select(list(_SUMS)))
    return pl.concat(found)


def _tries(leg: Leg) -> pl.DataFrame:
    """Give the commits of the plain steps of a stretch, with their place in the lineage."""
    but = pl.concat([leg.odd, leg.left_out])
    commits = leg.tries.filter(pl.col("kind") == "commit", ~pl.col("step").is_in(but.implode()))
    place = pl.lit(leg.place, pl.Int64).alias("place")
    return commits.select(place, "rank", "step", "seq", "samples", "digest")


def _passes(
    library: Library, counted: Counted, contract: Contract, memory: int
) -> tuple[tuple[int, LaterEpoch], ...] | None:
    """Judge the passes that are over; null: one is amiss, or cannot be judged."""
    overlap = contract.token_overlap or 0
    again = repeats_of(library, counted, contract.repeats, overlap, memory)
    if counted.mismatched:
        return None
    doubt = Doubt(mislabelled(library, counted), is_complete=True)
    if doubt.places or not again.extra.is_empty():  # what of it is padding, only all records tell
        return None
    found = generations_of(library, counted, again, Promised({}, None), contract, doubt)
    is_unknown = any(one.is_over and one.size is None for one in found)
    if is_unknown or any(one.skipped or one.doubted for one in found):
        return None  # passes are to be compared with each other
    return tuple(
        (one.last_step, _told_as_epoch(one))
        for one in found
        if one.is_over and one.epoch is not None
    )


def _told_as_epoch(one: Generation) -> LaterEpoch:
    return LaterEpoch(
        epoch=one.epoch,
        source=one.source,
        missing=one.missing,
        repeated=0,
        same_order_as=None,
        is_broken=False,
    )


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


def _kept(run: Source, ours: pl.DataFrame, alike: pl.Series) -> pl.Series:
    """Give the steps near an end, a resume, or a step that differs: they are looked at."""
    chain = run.lineage.chain
    workers = [one.fingerprint.get("workers") for one in chain]
    width = max([AROUND, *(one for one in workers if type(one) is int and one < _MOST_WORKERS)])
    every = ours["step"].unique()
    edges = [0, *(one.resumed_at or 0 for one in chain[1:]), *every.top_k(1).to_list()]
    near = [step for edge in edges for step in range(edge - width, edge + width + 1)]
    differing = every.filter(~every.is_in(alike.implode()))
    around = [differing + by for by in (-1, 0, 1)]
    return pl.concat([pl.Series(near, dtype=pl.Int64), *around]).unique()


def _without(source: Source, library: Library, sums: pl.DataFrame, steps: pl.Series) -> Source:
    """Give a source that knows of some steps how much they used, and not what."""
    chain = source.lineage.chain
    own = sums.filter(pl.col("step").is_in(steps.implode()))
    parts = {chain[place].label: part for place, part in _by_place(own)}
    left = {
        label: part.select(
            "rank", "step", "n", "tokens", "spans", try_seq="seq", n_used="n"
        ).select(*LEFT, tokens=pl.when(pl.col("spans") == pl.col("n")).then("tokens"))
        for label, part in parts.items()
    }
    none = pl.DataFrame(schema={**LEFT, "tokens": pl.Int64()})
    others: dict[str, pl.DataFrame] = {}

    def records(label: str, first: int, last: int | None) -> pl.DataFrame:
        if label not in parts:
            return source.records(label, first, last)
        if label not in others:
            others[label] = _others(library, label, parts[label]["step"].unique())
        return others[label].filter(_within(first, last))

    def known(label: str, first: int, last: int | None) -> pl.DataFrame:
        return left.get(label, none).filter(_within(first, last))

    return replace(source, records=records, known=known)


def _by_place(rows: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
    parts = rows.partition_by("place", as_dict=True, maintain_order=True)
    return [(int(of[0]), part) for of, part in parts.items()]


def _within(first: int, last: int | None) -> pl.Expr:
    step = pl.col("step")
    return step >= first if last is None else step.is_between(first, last)


def _others(library: Library, label: str, but: pl.Series) -> pl.DataFrame:
    """Give the records of an attempt but for some steps; places are not looked at."""
    rows = library.find(Steps(label, 0, END, but.sort()), pl.lit(value=True))
    return rows.with_columns(position=pl.lit(None, pl.Int64))
