"""Tells what streams hold out of training, since when, and whether an attempt changed it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.forbidden.id_matching import LISTED, forbidden_among
from ledger_audit.continuity.forbidden.searching import Search
from ledger_audit.continuity.frames import SAMPLE
from ledger_audit.continuity.lineage import Attempt, Lineage, age
from ledger_audit.continuity.unseen import is_segment_of, of_put_away, of_ranks
from ledger_audit.continuity.windows import Source
from ledger_audit.model.forbidden import Unseen
from ledger_audit.printable import counted


@dataclass(frozen=True)
class Held:
    """A stream that is held out of training."""

    name: str
    rows: pl.DataFrame
    """What any attempt of the ledger has in it: attempt and LISTED."""
    redrawn: tuple[str, ...]
    """Attempts whose samples are neither part of those of the attempt before (of those that hold
    any), nor all of them and more."""


def held_out_of(
    source: Source, search: Search, streams: Sequence[str]
) -> tuple[list[Held], list[Unseen]]:
    """Give the streams that the ledger holds, and why some of their ids may not be known."""
    held = []
    unseen = []
    for name in dict.fromkeys(streams):
        rows = search.stream(name)
        if rows.is_empty():
            text = f"the ledger holds no stream {name}: its ids are not known"
            unseen.append(Unseen("stream-not-held", None, text))
        else:
            held.append(Held(name, rows, _redrawn(rows, source.lineage)))
    if held:
        names = ", ".join(one.name for one in held)
        unseen += _unknown(source, search.put_away, names)
    return held, unseen


def marked(rows: pl.DataFrame, held: Held, lineage: Lineage, overlap: int) -> pl.DataFrame:
    """
    Say of records that are against a stream since when they are.

    Args:
        rows: `place` (of the attempt in the lineage) and LISTED.
        held: the stream.
        lineage: of the ledger.
        overlap: tokens that neighbouring spans share by design.

    Returns:
        The rows, with since (the place of the attempt that used the sample, or of the one that
        held it out, whichever is later) and former (an earlier attempt held it out, and the one
        that used it holds other samples out).
    """
    ages = {one.label: age for age, one in enumerate(_by_age(lineage))}
    of_place = pl.Series([ages[one.label] for one in lineage.chain], dtype=pl.Int32)
    holders = held.rows.select("attempt").unique()["attempt"].to_list()
    numbered = rows.with_row_index("number").with_columns(
        age=of_place.gather(rows["place"]), is_held=pl.lit(value=False)
    )
    numbered = numbered.with_columns(first=pl.lit(None, pl.Int32), before=pl.lit(value=False))
    for label in sorted(holders, key=lambda one: ages[one]):
        lines = held.rows.filter(attempt=label).select(LISTED)
        held_by = forbidden_among(numbered.select("number", *LISTED), lines, overlap)["number"]
        has = pl.col("number").is_in(held_by.implode())
        is_own = pl.col("age") == ages[label]
        numbered = numbered.with_columns(
            first=pl.when(has).then(pl.coalesce("first", pl.lit(ages[label]))).otherwise("first"),
            before=pl.col("before") | (has & (pl.col("age") > ages[label])),
            is_held=pl.col("is_held") | (has & is_own),
        )
    holds_any = pl.col("age").is_in([ages[label] for label in holders])
    later = of_place.search_sorted(numbered["first"].fill_null(0)).clip(0, len(of_place) - 1)
    return numbered.with_columns(
        since=pl.max_horizontal("place", later.cast(pl.Int32)),
        former=pl.col("before") & ~pl.col("is_held") & holds_any,
    ).drop("number", "age", "is_held", "first", "before")


def _by_age(lineage: Lineage) -> list[Attempt]:
    """Give all attempts by their start; those of the lineage always in its order."""
    others = sorted(lineage.outside, key=age)
    every: list[Attempt] = []
    for one in lineage.chain:
        while others and age(others[0]) < age(one):
            every.append(others.pop(0))
        every.append(one)
    return [*every, *others]


def _redrawn(rows: pl.DataFrame, lineage: Lineage) -> tuple[str, ...]:
    """Compare the samples of each attempt with those of the one before it that holds any."""
    found = []
    before: pl.DataFrame | None = None
    for attempt in _by_age(lineage):
        own = rows.filter(attempt=attempt.label).select(SAMPLE).unique()
        if own.is_empty():
            continue
        if before is not None:
            both = own.join(before, on=SAMPLE, how="semi", nulls_equal=True)
            if both.height < min(own.height, before.height):
                found.append(attempt.label)
        before = own
    return tuple(found)


def _unknown(
    source: Source, put_away: Callable[[], Mapping[str, tuple[int, int]]], names: str
) -> list[Unseen]:
    """Say where samples of the streams may have been lost, in any attempt of the ledger."""
    found = []
    gone = put_away()
    for attempt in _by_age(source.lineage):
        reasons = [*of_ranks(attempt), *of_put_away(attempt.label, gone)]
        for part in source.unread:
            if part.attempt == attempt.label and not is_segment_of(part, "events"):
                text = f"{part.file} is {part.reason}"
                reasons.append(Unseen("unread-segment", attempt.label, text))
        lost = sum(records for _, records in attempt.lost)
        if lost > 0:
            text = f"a writer of attempt {attempt.label} lost {counted(lost, 'record')}"
            reasons.append(Unseen("records-missing", attempt.label, text))
        for one in reasons:
            text = f"{one.text}: what else is in stream {names} is not known"
            found.append(Unseen(one.code, one.attempt, text))
    return found
