"""Chooses which of the steps that a run and its control consumed alike are opened all the same."""

from collections.abc import Iterator

import polars as pl

from ledger_audit.continuity.unopened import Part
from ledger_audit.continuity.windows import Source

AROUND = 20
"""Steps at each end of the run, and around each resume, whose records are opened all the same."""

ENDING = 3
"""Steps at the end of a pass that are opened."""

_MOST_WORKERS = 1 << 16
"""More than any rank has."""


def closed_of(run: Source, ours: Part, theirs: Part, alike: pl.Series) -> pl.Series:
    """
    Give the steps that both consumed alike and that need not be opened.

    Opened are those near an end, a resume or a change of members; the ends of passes; the first
    and the last step of each rank in each attempt; and the largest. So whatever is measured as a
    first, a last or a most is measured as if all were open.

    Args:
        run: the run.
        ours: its sums.
        theirs: those of the control.
        alike: the steps that both consumed alike, sorted.
    """
    chain = run.lineage.chain
    workers = [one.fingerprint.get("workers") for one in chain]
    width = max([AROUND, *(one for one in workers if type(one) is int and one < _MOST_WORKERS)])
    every = ours.sums["step"].unique()
    edges = [0, *every.top_k(1).to_list()]
    edges += [edge for part in (ours, theirs) for edge in _edges(part)]
    near = {step for edge in edges for step in range(edge - width, edge + width + 1)}
    differing = every.filter(~every.is_in(alike.implode()))
    marks = [*_ends(ours), *_ends(theirs), *_extremes(ours.sums, alike)]
    opened = pl.concat([pl.Series(sorted(near), dtype=pl.Int64), differing, *marks]).unique()
    return alike.filter(~alike.is_in(opened.implode()))


def _edges(part: Part) -> Iterator[int]:
    """Give the steps at which an attempt begins, or its members change."""
    for attempt in part.library.archive.source.lineage.chain:
        if attempt.resumed_at is not None:
            yield attempt.resumed_at
        yield from (since for since, _ in attempt.memberships)
    yield from part.sums.group_by("place").agg(pl.col("step").min())["step"].to_list()


def _ends(part: Part) -> Iterator[pl.Series]:
    """Give the last steps of each pass, by attempts."""
    if part.used is not None:
        for before in range(ENDING):
            yield part.used["last_step"] - before


def _extremes(sums: pl.DataFrame, alike: pl.Series) -> Iterator[pl.Series]:
    """Give the first and last step of each rank, and the largest step of a rank and of all."""
    own = sums.filter(pl.col("step").is_in(alike.implode()))
    step = pl.col("step")
    yield own.group_by("place", "rank").agg(step.min())["step"]
    yield own.group_by("place", "rank").agg(step.max())["step"]
    yield own.group_by("place").agg(step.filter(pl.col("n") == pl.col("n").max()).min())["step"]
    totals = own.group_by("place", "step").agg(pl.col("n").sum())
    yield totals.group_by("place").agg(step.filter(pl.col("n") == pl.col("n").max()).min())["step"]
