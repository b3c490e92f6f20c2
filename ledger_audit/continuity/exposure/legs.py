"""
Finds which steps of which attempts the newest weights hold, and which of them look odd.

Of a step that is not odd, every rank has one try that says how many records it held: all records
that are there belong to it. Of an odd one, the fate of each record is looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.exposure.library import Library, Steps
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.tries import steps_from, with_fates
from ledger_audit.continuity.unseen import SEEN, compared, seen_steps

LEFT = {
    "rank": pl.Int32(),
    "step": pl.Int64(),
    "try_seq": pl.Int64(),
    "n": pl.Int64(),
    "n_used": pl.Int64(),
}
"""The records of each try, and those of them that were not voided."""

COUNTS = {"rank": pl.Int32(), "step": pl.Int64(), "try_seq": pl.Int64(), "n": pl.Int64()}

ROWS_AT_ONCE = 1 << 20
"""Records that are looked at one by one at once."""

MOST_TRIES = 1 << 22
"""Ends of tries that are in memory at once."""


@dataclass(frozen=True)
class Leg:
    """A stretch of steps of one attempt that the newest weights may hold."""

    attempt: Attempt
    place: int
    """Of the attempt in the lineage, from 0."""
    first: int
    last: int
    tries: pl.DataFrame
    """The commits and voids of these steps."""
    odd: pl.Series
    """Steps of which each record is looked at."""
    left_out: pl.Series
    """Steps that were not committed."""

    @property
    def plain(self) -> Steps:
        """The steps whose records are all used by committed updates."""
        but = pl.concat([self.odd, self.left_out]).unique().sort()
        return Steps(self.attempt.label, self.first, self.last, but)

    def with_odd(self, steps: pl.Series) -> "Leg":
        """Give the same stretch, of which more steps are looked at."""
        odd = pl.concat([self.odd, steps]).unique().sort()
        return Leg(self.attempt, self.place, self.first, self.last, self.tries, odd, self.left_out)


def legs_of(library: Library, place: int) -> Iterator[Leg]:
    """Give the stretches of the attempt at a place of the lineage, in their order."""
    source = library.archive.source
    chain = source.lineage.chain
    attempt = chain[place]
    first = 0 if attempt.resumed_at is None else attempt.resumed_at + 1
    until = source.lineage.until(place, len(chain) - 1)
    last = attempt.last_step if until is None else until
    tried = source.tries(attempt.label, first, None)["step"].max() if last is None else None
    last = tried if last is None and isinstance(tried, int) else last
    if last is None or last < first:
        return
    begin = first if attempt.first_step is None else max(first, min(attempt.first_step, last))
    width = max(1, MOST_TRIES // max(1, len(attempt.everyone)))
    for start in range(begin, last + 1, width):
        at, end = start if start > begin else first, min(start + width - 1, last)
        # windows ask to the end: what is asked for likewise is read once
        tries = source.tries(attempt.label, at, None if until is None and end == last else end)
        yield _leg(library, place, at, end, tries)


def _leg(library: Library, place: int, first: int, last: int, tries: pl.DataFrame) -> Leg:
    source = library.archive.source
    attempt = source.lineage.chain[place]
    tries = tries.filter(pl.col("step") <= last).unique(maintain_order=True)
    steps = steps_from(attempt, pl.DataFrame(schema=LEFT), tries, has_commits=source.has_commits)
    ends = tries.group_by("rank", "step").agg(
        is_odd=(pl.len() > 1) | (pl.col("kind") == "void").any(),
        is_said=pl.col("samples").is_not_null().all(),
    )
    odd = ends.filter("is_odd")["step"].unique()
    if tries.is_empty() or not ends["is_said"].all():
        usage = _usage(library, attempt, first, last)
        odd = pl.concat([odd, _unsaid(usage, tries)]).unique()
        if not source.has_commits:  # no event tells of the steps: the records do
            heard = usage.select("rank", "step", try_seq=pl.lit(None, pl.Int64), n="n", n_used="n")
            steps = steps_from(attempt, heard, tries, has_commits=False)
    every = pl.int_range(first, last + 1, eager=True)
    is_left_out = ~every.is_in(steps.filter("committed")["step"].implode())
    if attempt.loaded_at is not None:  # whatever a checkpoint holds was committed
        is_left_out &= every > attempt.loaded_at
    return Leg(attempt, place, first, last, tries, odd.sort(), every.filter(is_left_out))


def _usage(library: Library, attempt: Attempt, first: int, last: int) -> pl.DataFrame:
    """Sum up each rank and step: n, is_odd, seq_high."""
    parts = [
        library.archive.usage(attempt.label, start, end, None)
        .group_by("rank", "step")
        .agg(pl.col("n").sum(), pl.col("is_odd").any(), pl.col("seq_high").max())
        for start, end in library.archive.stretches(attempt.label, first, last)
    ]
    return pl.concat(parts)


def _unsaid(usage: pl.DataFrame, tries: pl.DataFrame) -> pl.Series:
    """Give the steps that hold lines twice, or a record after the last end of its try."""
    ends = tries.group_by("rank", "step").agg(pl.col("seq").max().alias("end"))
    joined = usage.join(ends, on=["rank", "step"], how="left")
    after = (pl.col("seq_high") > pl.col("end")).fill_null(value=False)
    return joined.filter(pl.col("is_odd") | after)["step"].unique()


def looked_at(library: Library, leg: Leg) -> Iterator[pl.DataFrame]:
    """Give the records of the odd steps of a stretch, with their fates: RECORDS."""
    label = leg.attempt.label
    if leg.odd.is_empty():
        return
    rows = max(1, library.archive.size(label))
    reached = leg.attempt.last_step
    each = max(1, rows // max(1, (leg.last if reached is None else reached) - leg.first + 1))
    at_once = max(1, ROWS_AT_ONCE // each)
    for start in range(0, len(leg.odd), at_once):
        steps = leg.odd[start : start + at_once]
        tries = leg.tries.filter(pl.col("step").is_in(steps.implode()))
        yield with_fates(library.archive.records(label, steps), tries)


def committed_of(leg: Leg, records: pl.DataFrame) -> pl.DataFrame:
    """Keep the records that committed updates used."""
    return records.filter(IS_USED, ~pl.col("step").is_in(leg.left_out.implode()))


def tells(library: Library, leg: Leg) -> bool:
    """Tell whether commits of a stretch say what the sum of the hashes of their records is."""
    source = library.archive.source
    is_ours = leg.attempt.digest_columns == source.digest_columns
    return source.hashed is not None and is_ours and leg.tries["digest"].count() > 0


def wrong_digests(leg: Leg, counts: pl.DataFrame) -> list[str]:
    """Name the plain tries that are all there and do not have the digest of their commit."""
    plain = pl.col("kind") == "commit", ~pl.col("step").is_in(leg.odd.implode())
    told = leg.tries.filter(*plain).drop_nulls(["samples", "digest"])
    found = told.join(counts, on=["rank", "step"]).filter(
        pl.col("n") == pl.col("samples"),
        pl.col("mixed").reinterpret(signed=True) != pl.col("digest"),
    )
    return [
        f"rank {rank}, step {step} of attempt {leg.attempt.label}"
        for rank, step in found.sort("step", "rank").select("rank", "step").iter_rows()
    ]


def surplus(leg: Leg, counts: pl.DataFrame) -> pl.Series:
    """Give the plain steps in which a rank left more records than its commit says."""
    said = leg.tries.filter(pl.col("kind") == "commit").drop_nulls("samples")
    more = counts.join(said.select("rank", "step", "samples"), on=["rank", "step"])
    found = more.filter(pl.col("n") > pl.col("samples"))["step"].unique()
    return found.filter(~found.is_in(leg.odd.implode()))


def seen_of(
    library: Library, leg: Leg, counts: pl.DataFrame, odd: list[pl.DataFrame]
) -> pl.DataFrame:
    """
    Say of each step what is there of it: SEEN.

    Args:
        library: the ledger.
        leg: the stretch.
        counts: rank, step, n of its plain steps.
        odd: rank, step, try_seq, n of its odd steps, as `tried` gives them.
    """
    ends = leg.tries.select("rank", "step", try_seq="seq").unique(["rank", "step"])
    plain = counts.filter(~pl.col("step").is_in(leg.odd.implode()))
    plain = plain.join(ends, on=["rank", "step"], how="left").select(list(COUNTS))
    every = pl.concat([plain, *(part.select(list(COUNTS)) for part in odd)])
    told = compared(leg.tries, every)
    if every.is_empty() and leg.tries.is_empty():
        return pl.DataFrame(schema=SEEN)
    return seen_steps(
        leg.attempt, leg.tries, every, told, has_commits=library.archive.source.has_commits
    )


def tried(records: pl.DataFrame) -> pl.DataFrame:
    """Count the records of each rank and step before each end of a try: rank, step, try_seq, n."""
    by_try = records.group_by("rank", "step", "try_seq").agg(pl.len().cast(pl.Int64).alias("n"))
    ordered = by_try.sort("rank", "step", "try_seq", nulls_last=True)
    return ordered.with_columns(n=pl.col("n").cum_sum().over("rank", "step"))
