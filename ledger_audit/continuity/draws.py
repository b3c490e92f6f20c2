"""
Measures samples that are drawn anew against chance, where the contract lets them be.

Draws with replacement and a fresh shuffle at each restart repeat some samples and miss others:
so many as chance gives are no replay. The same draws again are the fault to look for.
"""

from math import log, sqrt

import polars as pl

from ledger_audit.continuity import epochs
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IS_USED, ORDER
from ledger_audit.model import Draws

SAMPLE = ("source", "sample_id")
NO_CHANCE = 20.0
"""Draws are the same on purpose if chance gives that less often than e^-20, once in 10^8."""


def measure(facts: Facts) -> Draws:
    """
    Count the resumed records whose sample the run had used, and what chance would give.

    With K of N samples used before, each of n draws repeats one with the chance K/N; epochs are
    no promise here and are not looked at.
    """
    committed = facts.committed.filter(IS_USED)
    resumed = facts.resumed.filter(IS_USED, ~pl.col("beyond"))
    size = epochs.logged_size(facts.known)
    used = committed.select(SAMPLE).unique()
    repeats = resumed.join(used, on=SAMPLE, how="semi", nulls_equal=True).height
    n, k = resumed.height, used.height
    expected = deviation = missed = expected_missed = None
    if size is not None and k <= size:
        chance = k / size
        expected, deviation = n * chance, sqrt(n * chance * (1 - chance))
        both = pl.concat([used, resumed.select(SAMPLE)]).unique()
        missed = max(0, size - both.height)
        expected_missed = (size - k) * (1 - 1 / size) ** n
    return Draws(
        records=n,
        repeats=repeats,
        expected_repeats=expected,
        deviation=deviation,
        missed=missed,
        expected_missed=expected_missed,
        reproduces=_reproduced(committed, resumed, k),
    )


def _reproduced(committed: pl.DataFrame, resumed: pl.DataFrame, distinct: int) -> str | None:
    """Name the attempt whose first steps drew just what the first resumed steps drew."""
    again = _by_step(resumed)
    for label in committed.sort("step")["attempt"].unique(maintain_order=True):
        first = _by_step(committed.filter(attempt=label))
        steps = min(first.height, again.height)
        records = int(again.head(steps)["n"].sum())
        is_same = first.head(steps)["drawn"].equals(again.head(steps)["drawn"])
        if steps and distinct > 1 and records * log(distinct) >= NO_CHANCE and is_same:
            return str(label)
    return None


def _by_step(rows: pl.DataFrame) -> pl.DataFrame:
    """Give what each step drew, sorted: a step's ranks may have changed places."""
    drawn = rows.sort(*ORDER).select("step", drawn=pl.struct(SAMPLE))
    steps = drawn.group_by("step").agg(pl.col("drawn").sort(), pl.len().alias("n"))
    return steps.sort("step")
