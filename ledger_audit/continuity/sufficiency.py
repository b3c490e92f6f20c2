"""Tells whether the records that were opened give the same report as all records would."""

import polars as pl

from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IS_USED, SEQUENCE, Side
from ledger_audit.continuity.order import is_order_open
from ledger_audit.continuity.resume import Audited
from ledger_audit.continuity.settling import Settled
from ledger_audit.model import Expected


def is_enough(audited: Audited, settled: Settled) -> bool:
    """
    Tell whether what was not opened could change nothing but what a sum cannot see.

    Whatever is in doubt is no: then all records are read.
    """
    facts = audited.facts
    if not is_order_open(audited.classified.resumed, facts.known.windows):
        return False
    if settled.columns is None:
        return not has_lone(audited)
    known = facts.known
    if known.columns != settled.columns or known.left_out or known.has_wrong_labels:
        return False  # the identity was chosen by what is open alone
    if facts.repeats_by_design or _is_cut(facts) or not _ends_are_open(facts):
        return False
    if has_lone(audited) and not _explains_lone(facts, settled):
        return False
    return _waits_for_nothing(audited)


def has_lone(audited: Audited) -> bool:
    """Tell whether a record of either side has no partner, though the stream got that far."""
    rows, expected = audited.classified.resumed, audited.classified.expected
    has_place = [str(Expected.MATCHED), str(Expected.PENDING)]
    lone = expected.filter(~pl.col("worst").is_in(has_place))
    return rows.filter(IS_USED, pl.col("ref").is_null()).height > 0 or lone.height > 0


def _is_cut(facts: Facts) -> bool:
    """Spans were compared in pieces, which others may have been cut into, too."""
    frames = (facts.committed, facts.reference, facts.resumed)
    return any((rows["record"].n_unique() < rows.height) for rows in frames)


def _explains_lone(facts: Facts, settled: Settled) -> bool:
    """Tell whether a record without a partner can be judged by what is open."""
    windows = facts.known.windows
    if settled.has_positions:
        return False  # how far the stream got is told by places
    if any(one.declares for one in windows.resumed.attempts):
        return False  # what was declared may name what is not open
    if any(_is_packed(side) for side in windows.sides):
        return False  # amounts are of sequences, and records were counted
    through = -1 if facts.whole_through is None else facts.whole_through
    return windows.reference.known.filter(pl.col("step") > through).is_empty()


def _is_packed(side: Side) -> bool:
    sequences = side.records.select(pl.struct(SEQUENCE).n_unique()).item()
    return bool(sequences < side.records.height)


def _ends_are_open(facts: Facts) -> bool:
    """
    Tell whether each pass ends in steps that are open, as far back as they only repeat.

    Where nothing repeats, its end is its last step, which is always open.
    """
    windows = facts.known.windows
    ends = [
        rows.filter(IS_USED, ~pl.col("beyond")).group_by("generation").agg(pl.col("step").max())
        for rows in (facts.reference, facts.resumed)
    ]
    # what is not open is of both sides: none of it comes after the end of either
    common = pl.concat(ends).group_by("generation").agg(common=pl.col("step").min())
    sides = ((windows.reference, facts.reference), (windows.resumed, facts.resumed))
    return all(_end_is_open(side, rows, common) for side, rows in sides)


def _end_is_open(side: Side, rows: pl.DataFrame, common: pl.DataFrame) -> bool:
    used = rows.filter(IS_USED, ~pl.col("beyond"))
    repeats = pl.col("consumed") | pl.col("used_before")
    if side.passes.is_empty() or not used.select(repeats.any()).item():
        return True
    is_open = ~pl.col("step").is_in(side.known["step"].implode())
    ends = (
        used.join(side.passes, on=["source", "epoch"], how="semi", nulls_equal=True)
        .group_by("generation")
        .agg(fresh=pl.col("step").filter(is_open & ~repeats).max())
        .join(common, on="generation")
    )
    if ends["fresh"].null_count():
        return False
    is_between = pl.col("step") > pl.col("fresh"), pl.col("step") <= pl.col("common")
    hidden = ends.join_where(side.known.select("step"), *is_between)
    return hidden.is_empty()


def _waits_for_nothing(audited: Audited) -> bool:
    """Tell whether what the reference holds after the window, and is not open, is pending."""
    facts = audited.facts
    windows = facts.known.windows
    reached = windows.resumed.known["step"]
    ahead = windows.reference.known.filter(~pl.col("step").is_in(reached.implode()))
    if ahead.is_empty():
        return True
    attempts = windows.resumed.attempts
    if facts.missing or any(one.declares or one.missing for one in attempts):
        return False
    last, first = windows.resumed.steps["step"].max(), ahead["step"].min()
    if not isinstance(last, int) or not isinstance(first, int) or first <= last:
        return False
    is_ahead = audited.classified.resumed["ref_step"].max()
    if audited.classified.expected["beyond_end"].any():
        return False
    if isinstance(is_ahead, int) and is_ahead > last:
        return False
    over = facts.ends.filter("over").select("source", "epoch")
    later = windows.reference.passes.filter(pl.col("first") > last)
    return later.join(over, on=["source", "epoch"], how="semi", nulls_equal=True).is_empty()
