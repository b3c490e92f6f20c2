"""
Names what happened to every record of the resumed window and of the reference.

Each outcome is one branch, in the order of the table in docs/verdict.md; the first that fits wins.
"""

from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity import declared
from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IN_MEMORY, IS_USED, SEQUENCE
from ledger_audit.continuity.frontier import moved_past
from ledger_audit.continuity.repeats import within_declared
from ledger_audit.model import Expected, Order, Resumed

WORST_RESUMED = (
    Resumed.REPLAYED,
    Resumed.DUPLICATED,
    Resumed.REPEAT_UNEXPLAINED,
    Resumed.UNEXPECTED,
    Resumed.VOID,
    Resumed.MOVED,
    Resumed.PADDING,
    Resumed.IN_PLACE,
    Resumed.FRESH,
)
WORST_EXPECTED = (
    Expected.SKIPPED,
    Expected.UNDECIDED,
    Expected.DECLARED,
    Expected.REPEAT_MISSING,
    Expected.PENDING,
    Expected.MATCHED,
)
"""What a record is whose pieces have several outcomes."""


@dataclass(frozen=True)
class Classified:
    """The two windows with an outcome for every record."""

    resumed: pl.DataFrame
    """RECORDS with `outcome`, `worst` (of all pieces of the record), `misplaced`."""
    expected: pl.DataFrame
    """RECORDS of the reference with `outcome`, `worst`, `beyond_end`."""


def classify(facts: Facts, contract: Contract, *, knows_passes: bool = True) -> Classified:
    """
    Give every record of both windows its outcome; what was looked up beyond them gets none.

    Where the contract lets samples be drawn anew, nothing was promised of any of them: what has
    no match is fresh, and what is not seen again is pending.

    Args:
        facts: what is known of the records.
        contract: what the stream promises.
        knows_passes: all records of the passes were looked at; else only whole steps of repeats
            are known for some, where the reference says what was to come instead.
    """
    resumed = _resumed(facts, contract, knows_passes=knows_passes)
    expected = _expected(facts, contract.order or "relative", is_drawn=contract.draws_anew)
    return Classified(
        _with_worst(resumed, [str(one) for one in WORST_RESUMED]),
        _with_worst(expected, [str(one) for one in WORST_EXPECTED]),
    )


def _with_worst(rows: pl.DataFrame, severity: list[str]) -> pl.DataFrame:
    if rows["record"].n_unique() == rows.height:  # no record was cut into pieces
        return rows.with_columns(worst=pl.col("outcome"))
    rank_of = {name: index for index, name in enumerate(severity)}
    return (
        rows.lazy()
        .with_columns(severity=pl.col("outcome").replace_strict(rank_of, return_dtype=pl.Int8))
        .with_columns(severity=pl.col("severity").min().over("record"))
        .with_columns(
            worst=pl.col("severity").replace_strict(
                dict(enumerate(severity)), return_dtype=pl.String
            )
        )
        .drop("severity")
        .collect(engine=IN_MEMORY)
    )


def _resumed(facts: Facts, contract: Contract, *, knows_passes: bool) -> pl.DataFrame:
    rows = facts.resumed.filter(~pl.col("beyond"))
    matched = pl.col("ref").is_not_null()
    repeat = pl.col("consumed") | pl.col("used_before") | pl.col("in_reference")
    proven = pl.col("covered") | (pl.col("pass_known") & ~_may_be_designed(facts))
    if not knows_passes:
        # any step may be the last of its pass: of what is padded, some is new
        proven = pl.col("covered") & (repeat | ~IS_USED).all().over("step")
    branches = [
        (~IS_USED, Resumed.VOID),
        (matched & (pl.col("ref_step") == pl.col("step")), Resumed.IN_PLACE),
        (matched, Resumed.MOVED),
        (pl.lit(contract.draws_anew), Resumed.FRESH),
        (pl.col("tail") & _is_padded(facts), Resumed.PADDING),
        (repeat & within_declared(facts, contract.repeats), Resumed.FRESH),
        (repeat & _may_be_padding(facts), Resumed.REPEAT_UNEXPLAINED),
        (repeat & ~proven, Resumed.REPEAT_UNEXPLAINED),
        (pl.col("consumed"), Resumed.REPLAYED),
        (repeat, Resumed.DUPLICATED),
        (_is_unexpected(facts, contract.order or "relative"), Resumed.UNEXPECTED),
    ]
    return rows.with_columns(
        outcome=_first_of(branches, Resumed.FRESH),
        misplaced=IS_USED
        & (pl.col("ref_step") == pl.col("step"))
        & ((pl.col("ref_rank") != pl.col("rank")) | (pl.col("ref_slot") != pl.col("slot"))),
    )


def _first_of(branches: list[tuple[pl.Expr, Resumed]], otherwise: Resumed) -> pl.Expr:
    outcome = pl.lit(str(otherwise))
    for condition, name in reversed(branches):
        outcome = pl.when(condition).then(pl.lit(str(name))).otherwise(outcome)
    return outcome


def _is_padded(facts: Facts) -> pl.Expr:
    """
    The repeats at the end of the record's generation are as many as a sampler adds.

    After a restart that deals the stream otherwise, what is padded may be the rest of the epoch.
    """
    if facts.size is None:
        return pl.lit(value=False)
    padded = pl.col("tail_repeats").is_in(sorted(facts.recipe.paddings(facts.size)))
    if facts.is_redealt:
        left = facts.size - pl.col("before")
        for unit in facts.recipe.units:
            padded |= pl.col("tail_repeats") == (-left % unit)
    return padded


def _may_be_designed(facts: Facts) -> pl.Expr:
    """
    The stream may repeat by design: it did before, or the rank that would show it is missing.

    What ranks share within a step is seen only where all of them left a ledger.
    """
    if facts.repeats_by_design:
        return pl.lit(value=True)
    windows = facts.known.windows
    is_hidden = windows.committed.is_incomplete or windows.reference.is_incomplete
    return pl.col("used_beside") & ~pl.col("consumed") & pl.lit(is_hidden)


def _may_be_padding(facts: Facts) -> pl.Expr:
    """
    Repeats in the last step of a generation that nothing tells from padding.

    Where N is not logged, and the reference does not cover the step, the generation need not even
    be known to be over. Where it is logged, what is missing or not logged may make up both the
    padding's number and the end of the generation.
    """
    most = facts.recipe.largest_padding(facts.size, of_rest=facts.is_redealt)
    is_few = pl.col("tail_repeats") <= most
    # a reference that deals the stream otherwise pads otherwise: it cannot vouch for the end
    vouched = pl.col("covered") & pl.lit(not facts.is_redealt)
    may_be = pl.col("at_last") & ~vouched & is_few
    if facts.size is None:
        return pl.col("tail") | may_be
    windows = facts.known.windows
    sides = (windows.committed, windows.resumed)
    if not any(side.is_incomplete or side.is_sampled for side in sides):
        return pl.lit(value=False)
    unseen = max(side.unlogged_share for side in sides)
    lost = sum(side.missing for side in sides)
    may_be_over = pl.col("distinct") * (1 + unseen) + lost >= facts.size
    is_torn = any(side.torn for side in sides)
    return may_be & (may_be_over | pl.lit(is_torn))


def _is_unexpected(facts: Facts, order: Order) -> pl.Expr:
    windows = facts.known.windows
    if order == "none" or windows.reference.is_sampled or windows.resumed.is_sampled:
        return pl.lit(value=False)
    last = facts.reference["position"].max()
    beyond_end = (
        (pl.col("position") > last).fill_null(value=False)
        if isinstance(last, int)
        else pl.lit(value=False)
    )
    excused = declared.reordered(windows.resumed.attempts, windows)
    return pl.col("covered") & ~pl.col("short_before") & ~beyond_end & ~excused


def _expected(facts: Facts, order: Order, *, is_drawn: bool) -> pl.DataFrame:
    windows = facts.known.windows
    rows = facts.reference.filter(~pl.col("beyond")).join(
        moved_past(facts, by_place=order != "none"), on="order", how="left", maintain_order="left"
    )
    may_be_spare = pl.col("at_end") & pl.lit(windows.committed.is_incomplete)
    used_again = pl.col("key").is_in(facts.resumed.filter(IS_USED)["key"].unique().implode())
    matched = pl.col("resumed").is_not_null() | (~IS_USED & used_again)
    rows = rows.with_columns(
        matched=matched,
        declared=declared.named(windows.resumed.attempts, windows),
        spare=_is_spare_repeat(facts),
    )
    left = ~pl.col("matched") & ~pl.col("declared") & ~pl.lit(is_drawn)
    allowed = facts.reference_recipe.largest_padding(facts.size)
    is_spare = left & pl.col("spare")
    if rows.select(is_spare.any()).item():
        is_spare &= _nth_sequence(rows.with_columns(chosen=is_spare)) <= allowed
    rows = rows.with_columns(spare=is_spare)
    left &= ~pl.col("spare")
    lost = pl.col("rank").is_in(sorted(_silent_ranks(facts)))
    rows = rows.with_columns(skip=left & pl.col("past"), silent=left & ~pl.col("past") & lost)
    # a padding repeat that is not needed looks like a skip if its first use is what is missing
    rows = rows.with_columns(undecided=_may_be_held(facts) | (pl.col("skip") & may_be_spare))
    outcome = (
        pl.when("matched")
        .then(pl.lit(str(Expected.MATCHED)))
        .when("declared")
        .then(pl.lit(str(Expected.DECLARED)))
        .when("spare")
        .then(pl.lit(str(Expected.REPEAT_MISSING)))
        .when("undecided")
        .then(pl.lit(str(Expected.UNDECIDED)))
        .when("skip")
        .then(pl.lit(str(Expected.SKIPPED)))
        .otherwise(pl.lit(str(Expected.PENDING)))
    )
    return rows.with_columns(outcome=outcome)


def _nth_sequence(rows: pl.DataFrame) -> pl.Series:
    """Number the sequences of a generation that hold a chosen record, from 1, in their order."""
    # in two steps: Polars before 1.35 has no window within a window
    is_first = pl.int_range(pl.len()).over(*SEQUENCE, "chosen") == 0
    marked = rows.select("generation", first=pl.col("chosen") & is_first)
    return marked.select(pl.col("first").cum_sum().over("generation")).to_series()


def _is_spare_repeat(facts: Facts) -> pl.Expr:
    """
    The record is a repeat that padding explains, and another world may pad less.

    Its sample was consumed in this epoch, and it stands in the epoch's last step in a reference
    that has gone past it.
    """
    if "epoch" not in facts.known.columns:
        return pl.lit(value=False)
    used = pl.concat([facts.committed.filter(IS_USED)["key"], facts.resumed.filter(IS_USED)["key"]])
    return pl.col("at_end") & pl.col("key").is_in(used.unique().implode())


def _silent_ranks(facts: Facts) -> frozenset[int]:
    """Ranks of the resumed attempts that left nothing at all."""
    attempts = facts.known.windows.resumed.attempts
    return frozenset().union(*(attempt.missing for attempt in attempts))


def _may_be_held(facts: Facts) -> pl.Expr:
    """
    As many candidates as there are records missing cannot be decided.

    Those that would be skipped come first, so that what is missing never makes a skip.
    """
    sides = (facts.known.windows.reference, facts.known.windows.resumed)
    if any(side.is_sampled for side in sides):
        return pl.col("skip")
    skips = pl.col("skip").sum()
    as_skip = pl.col("skip") & (pl.col("skip").cum_sum() <= facts.missing)
    as_silent = pl.col("silent") & (pl.col("silent").cum_sum() + skips <= facts.missing)
    return as_skip | as_silent
