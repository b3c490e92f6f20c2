"""
Gives two sources of which few records of the steps that both consumed alike are opened.

Of these steps, the records of samples that are used anywhere else are opened on both sides. Of
each other sample, both have one record, in the same step: it is counted, and has its partner.
"""

from dataclasses import dataclass, replace

import polars as pl

from ledger_audit.continuity.exposure.legs import LEFT, Leg
from ledger_audit.continuity.exposure.library import PASS, Library, Steps
from ledger_audit.continuity.frames import IS_USED, PASSES
from ledger_audit.continuity.tries import with_fates
from ledger_audit.continuity.windows import END, Source

SUMS = {
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

MOST_IDS = 1 << 20
"""Samples whose records are opened wherever they are, beyond which all records are read."""

MOST_STRETCHES = 16
"""Stretches of steps beyond which an attempt is sooner read from end to end."""

_KNOWN = {**LEFT, "tokens": pl.Int64()}


@dataclass(frozen=True)
class Part:
    """One side, summed up."""

    library: Library
    sums: pl.DataFrame
    """SUMS."""
    legs: tuple[Leg, ...] = ()
    """Null: records were not looked at."""
    used: pl.DataFrame | None = None
    """What each attempt gave to each pass; null: records were not looked at."""
    repeated: pl.Series | None = None
    """The ids of the samples that are used more than once in a pass; null likewise."""


@dataclass(frozen=True)
class _Opened:
    """One side, of which the steps that are not alike are opened."""

    source: Source
    part: Part
    closed: dict[int, pl.Series]
    """Place in the lineage → its steps that are not opened."""
    rows: dict[int, pl.DataFrame]
    """Place in the lineage → SAMPLES of the other steps that the newest weights may hold."""

    def until(self, place: int) -> int:
        """Give the last step that an attempt may have given to the newest weights."""
        chain = self.source.lineage.chain
        last = self.source.lineage.until(place, len(chain) - 1)
        return END if last is None else last

    def label(self, place: int) -> str:
        """Give the label of an attempt."""
        return self.source.lineage.chain[place].label


def partly_opened(
    control: tuple[Source, Part], run: tuple[Source, Part], steps: pl.Series
) -> tuple[Source, Source] | None:
    """
    Give two sources without most records of the steps that they consumed alike.

    Args:
        control: it, and its sums.
        run: the same.
        steps: those that both consumed alike and that need not be opened.

    Returns:
        Null where so many samples are used elsewhere, too, that all records are to be read, or
        where the sums do not add up.
    """
    sides = [_opened(*side, steps) for side in (control, run)]
    ids = None
    if run[1].used is not None:
        ids = pl.concat([_to_look_for(side) for side in sides]).unique().sort()
        if len(ids) > MOST_IDS:
            return None
    known = []
    for at, side in enumerate(sides):
        found = {} if ids is None or ids.is_empty() else _found(side, ids)
        known.append(_known(side, found))
        rows = {place: _joined([own, *found.get(place, ())]) for place, own in side.rows.items()}
        sides[at] = replace(side, rows=rows)
    passes = None
    if ids is not None:
        passes = _passes(sides, known)
        if passes is None:
            return None
    theirs, ours = (
        _source(side, own, None if passes is None else of)
        for side, own, of in zip(sides, known, passes or (None, None), strict=True)
    )
    return theirs, ours


def _opened(source: Source, part: Part, steps: pl.Series) -> _Opened:
    own = part.sums.filter(pl.col("step").is_in(steps.implode()))
    closed = {
        place: own.filter(pl.col("place") == place)["step"].unique().sort()
        for place in range(len(source.lineage.chain))
    }
    side = _Opened(source, part, closed, {})
    everything = pl.lit(value=True)
    rows = {
        place: pl.concat(
            [part.library.find(steps, everything) for steps in _open_stretches(side, place)]
        )
        for place in closed
    }
    return replace(side, rows=rows)


def _open_stretches(side: _Opened, place: int) -> list[Steps]:
    """Give the steps of an attempt that are opened: few stretches, so that little else is read."""
    label, until, but = side.label(place), side.until(place), side.closed[place]
    edges = pl.concat([pl.Series([-1]), but, pl.Series([until + 1])])
    is_after = (edges.diff() > 1).fill_null(value=False)
    starts, ends = edges.filter(is_after.shift(-1, fill_value=False)), edges.filter(is_after)
    gaps = [(one + 1, other - 1) for one, other in zip(starts, ends, strict=True)]
    if not 0 < len(gaps) <= MOST_STRETCHES:
        return [Steps(label, 0, until, but)]
    return [Steps(label, first, last, but.clear()) for first, last in gaps]


def _is_counted(side: _Opened, place: int) -> pl.DataFrame:
    """Give the opened records of an attempt with `is_counted`: a committed update used them."""
    rows = side.rows[place]
    parts = []
    is_of_leg = pl.lit(value=False)
    for leg in side.part.legs:
        if leg.place != place:
            continue
        is_own = pl.col("step").is_between(leg.first, leg.last)
        is_of_leg |= is_own
        is_odd = pl.col("step").is_in(leg.odd.implode())
        is_left = pl.col("step").is_in(leg.left_out.implode())
        parts.append(rows.filter(is_own, ~is_odd).select(*_WHAT, is_counted=~is_left))
        odd = with_fates(rows.filter(is_own, is_odd), leg.tries)
        parts.append(odd.select(*_WHAT, is_counted=~is_left & IS_USED))
    rest = rows.filter(~is_of_leg).select(*_WHAT, is_counted=pl.lit(value=False))
    return pl.concat([*parts, rest])


_WHAT = [*PASS, "sample_id"]


def _to_look_for(side: _Opened) -> pl.Series:
    """Give the ids of samples that are used twice, or were used by what was not committed."""
    assert side.part.repeated is not None
    others = [
        _is_counted(side, place).filter(~pl.col("is_counted"))["sample_id"] for place in side.rows
    ]
    return pl.concat([side.part.repeated, *others]).unique()


def _found(side: _Opened, ids: pl.Series) -> dict[int, list[pl.DataFrame]]:
    """Give the records of samples in the steps that are not opened, by the place of attempts."""
    is_asked = pl.col("sample_id").is_in(ids.implode())
    found = {}
    for place, closed in side.closed.items():
        if len(closed):
            first, last = int(closed[0]), int(closed[-1])
            where = is_asked & pl.col("step").is_in(closed.implode())
            nothing_left_out = closed.clear()
            steps = Steps(side.label(place), first, last, nothing_left_out)
            found[place] = [side.part.library.find(steps, where)]
    return found


def _known(side: _Opened, found: dict[int, list[pl.DataFrame]]) -> dict[int, pl.DataFrame]:
    """Say of each try how many of its records are not opened: _KNOWN, by the place of attempts."""
    known = {}
    for place, closed in side.closed.items():
        own = side.part.sums.filter(
            pl.col("place") == place, pl.col("step").is_in(closed.implode())
        ).select("rank", "step", "n", "tokens", "spans", try_seq="seq")
        for rows in found.get(place, ()):
            span = pl.col("token_end") - pl.col("token_start")
            less = rows.group_by("rank", "step").agg(
                less=pl.len().cast(pl.Int64),
                tokens_less=span.sum(),
                spans_less=span.count().cast(pl.Int64),
            )
            own = own.join(less, on=["rank", "step"], how="left").with_columns(
                n=pl.col("n") - pl.col("less").fill_null(0),
                tokens=pl.col("tokens") - pl.col("tokens_less").fill_null(0),
                spans=pl.col("spans") - pl.col("spans_less").fill_null(0),
            )
        known[place] = (
            own.filter(pl.col("n") > 0)
            .with_columns(n_used="n")
            .select(*LEFT, tokens=pl.when(pl.col("spans") == pl.col("n")).then("tokens"))
        )
    return known


def _passes(
    sides: list[_Opened], known: list[dict[int, pl.DataFrame]]
) -> tuple[pl.DataFrame, pl.DataFrame] | None:
    """
    Say which passes the records that are not opened are of: PASSES, of the control and the run.

    Null where that does not add up. The control has the same records as the run, step by step.
    """
    counted = [
        [_left_of_passes(side, place, own) for place in side.rows]
        for side, own in zip(sides, known, strict=True)
    ]
    if any(one is None for own in counted for one in own):
        return None
    theirs, ours = (pl.concat([one for one in own if one is not None]) for own in counted)
    totals = [
        one.group_by(PASS).agg(pl.col("n").sum()).sort(PASS, nulls_last=True)
        for one in (theirs, ours)
    ]
    if not totals[0].equals(totals[1]):
        return None
    newest = sides[0].source.lineage.chain[-1].label
    return ours.with_columns(attempt=pl.lit(newest)), ours


def _left_of_passes(
    side: _Opened, place: int, known: dict[int, pl.DataFrame]
) -> pl.DataFrame | None:
    """Give PASSES of one attempt; null where they are not as many records as the tries left."""
    assert side.part.used is not None
    label, closed = side.label(place), side.closed[place]
    opened = _is_counted(side, place).filter("is_counted").group_by(PASS).len("opened")
    used = side.part.used.filter(pl.col("place") == place)
    left = used.join(opened, on=PASS, how="full", nulls_equal=True, coalesce=True).select(
        *PASS, n=pl.col("records").fill_null(0) - pl.col("opened").cast(pl.Int64).fill_null(0)
    )
    if (left["n"] < 0).any() or left["n"].sum() != known[place]["n"].sum():
        return None
    first, last = (int(closed[0]), int(closed[-1])) if len(closed) else (0, 0)
    own = left.filter(pl.col("n") > 0).with_columns(
        attempt=pl.lit(label), first=pl.lit(first, pl.Int64), last=pl.lit(last, pl.Int64)
    )
    return own.select(list(PASSES))


def _joined(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Put records together; places are not looked at."""
    rows = pl.concat(parts) if len(parts) > 1 else parts[0]
    return rows.with_columns(position=pl.lit(None, pl.Int64))


def _source(side: _Opened, known: dict[int, pl.DataFrame], passes: pl.DataFrame | None) -> Source:
    """Give a source that knows of some records how many they are, and not what."""
    source = side.source
    places = {side.label(place): place for place in side.rows}
    none = pl.DataFrame(schema=_KNOWN)

    def records(label: str, first: int, last: int | None) -> pl.DataFrame:
        if label not in places:
            return source.records(label, first, last)
        until = side.until(places[label])
        own = side.rows[places[label]].filter(_within(first, last))
        if until == END or (last is not None and last <= until):
            return own
        later = source.records(label, max(first, until + 1), last)
        return pl.concat([own, later.with_columns(position=pl.lit(None, pl.Int64))])

    def of_tries(label: str, first: int, last: int | None) -> pl.DataFrame:
        return known[places[label]].filter(_within(first, last)) if label in places else none

    told = source.passes if passes is None else passes
    return replace(source, records=records, known=of_tries, passes=told)


def _within(first: int, last: int | None) -> pl.Expr:
    step = pl.col("step")
    return step >= first if last is None else step.is_between(first, last)
