"""
Measures samples that are drawn anew against chance, where the contract lets them be.

Draws with replacement and a fresh shuffle at each restart repeat some samples and miss others:
so many as chance gives are no replay. The same draws again are the fault to look for.
"""

from math import lgamma, log, sqrt

import polars as pl

from ledger_audit.continuity import epochs
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IS_USED, ORDER, SAMPLE
from ledger_audit.model import Draws

MOST_DEVIATIONS = 5.0
"""Standard deviations beyond which repeats are no chance: it goes beyond once in 3 million."""
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
    most_within = None
    if size is not None and k <= size:
        chance = k / size
        expected, deviation = n * chance, sqrt(n * chance * (1 - chance))
        both = pl.concat([used, resumed.select(SAMPLE)]).unique()
        missed = max(0, size - both.height)
        expected_missed = (size - k) * (1 - 1 / size) ** n
        due = n - size * (1 - (1 - 1 / size) ** n)
        most_within = due + MOST_DEVIATIONS * sqrt(due + 1)
    label, surprise = _reproduced(committed, resumed, k)
    is_sure = surprise >= NO_CHANCE
    return Draws(
        records=n,
        repeats=repeats,
        expected_repeats=expected,
        deviation=deviation,
        missed=missed,
        expected_missed=expected_missed,
        reproduces=label if is_sure else None,
        may_reproduce=None if is_sure else label,
        repeats_within=n - resumed.select(SAMPLE).unique().height,
        most_within=most_within,
    )


def _reproduced(
    committed: pl.DataFrame, resumed: pl.DataFrame, distinct: int
) -> tuple[str | None, float]:
    """
    Name the attempt whose first draws the first resumed draws are, and how little chance that is.

    Returns:
        The attempt (null: none), and minus the logarithm of the chance.
    """
    again, in_order = _by_step(resumed), _in_order(resumed)
    best: tuple[str | None, float] = (None, 0.0)
    for label in committed.sort("step")["attempt"].unique(maintain_order=True):
        own = committed.filter(attempt=label)
        first, ordered = _by_step(own), _in_order(own)
        steps = min(first.height, again.height)
        drawn = again["n"].head(steps).to_list()
        n = min(ordered.len(), in_order.len())
        surprises = []
        if steps and first["drawn"].head(steps).equals(again["drawn"].head(steps)):
            surprises.append(sum(_choices(distinct, size) for size in drawn))
        if n and ordered.head(n).equals(in_order.head(n)):
            surprises.append(n * max(0.0, log(distinct) - 1))
        if surprises and max(surprises) > best[1]:
            best = (str(label), max(surprises))
    return best


def _choices(distinct: int, size: int) -> float:
    """Give the logarithm of how many sets of a size can be drawn; a step of all is no choice."""
    if not 0 < size < distinct:
        return 0.0
    return lgamma(distinct + 1) - lgamma(size + 1) - lgamma(distinct - size + 1)


def _in_order(rows: pl.DataFrame) -> pl.Series:
    return rows.sort(*ORDER).select(drawn=pl.struct(SAMPLE))["drawn"]


def _by_step(rows: pl.DataFrame) -> pl.DataFrame:
    """Give what each step drew, sorted: a step's ranks may have changed places."""
    drawn = rows.select("step", drawn=pl.struct(SAMPLE))
    steps = drawn.group_by("step").agg(pl.col("drawn").sort(), pl.len().alias("n"))
    return steps.sort("step")
