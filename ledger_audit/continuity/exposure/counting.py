"""Lets every record of the newest weights pass by once, and finds out what each pass came to."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from ledger_audit.continuity.exposure.legs import (
    Leg,
    committed_of,
    legs_of,
    looked_at,
    seen_of,
    surplus,
    tells,
    tried,
    wrong_digests,
)
from ledger_audit.continuity.exposure.library import Hashing, Library, Seen
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.continuity.tries import committed_twice, mismatches
from ledger_audit.continuity.unseen import SEEN, Stretch
from ledger_audit.errors import TooLargeError

USED = {
    "place": pl.Int64(),
    "source": pl.String(),
    "epoch": pl.Int32(),
    "records": pl.Int64(),
    "tokens": pl.Int64(),
    "spans": pl.Int64(),
    "inner": pl.Int64(),
    "placed": pl.Int64(),
    "first_step": pl.Int64(),
    "last_step": pl.Int64(),
}
"""What the attempt at a place of the lineage gave to a pass."""


_SAMPLE = ["source", "epoch", "sample_id"]


@dataclass(frozen=True)
class Counted:
    """What the newest weights used."""

    seen: Seen
    legs: tuple[Leg, ...]
    counts: tuple[pl.DataFrame, ...]
    """Of each leg what `Looked.counts` gives."""
    used: pl.DataFrame
    """USED."""
    stretches: tuple[Stretch, ...]
    """What is there of each attempt of the lineage; none where only amounts are of use."""
    relaunched: tuple[str, ...]
    """What shows that attempts are two launches under one label."""
    void: pl.DataFrame
    """source, epoch, sample_id: what void tries used, each once."""
    mismatched: tuple[str, ...]
    """Tries whose records do not have the digest that their commit tells."""
    largest: int
    """The most records that one step used."""

    @property
    def records(self) -> int:
        """Records of committed updates."""
        return int(self.used["records"].sum())


@dataclass(frozen=True)
class Asked:
    """How to count."""

    memory: int
    """Bytes that may be used; where one for each id of each pass is more, keys are noted."""
    hashing: Hashing | None = None
    """How all records are hashed; null: only those are of which commits tell the sum."""
    trusts_digests: bool = False
    """What commits tell is not compared with the records, which are not hashed for it."""
    notes: bool = True
    """It is noted which samples were used."""

    @property
    def is_judged(self) -> bool:
        """Tell whether records are compared with commits, and not those of two ledgers."""
        return self.hashing != "quick"


def all_legs(library: Library) -> list[Leg]:
    """Give the stretches of all attempts of the lineage, as far as events tell what is odd."""
    chain = library.archive.source.lineage.chain
    return [leg for place in range(len(chain)) for leg in legs_of(library, place)]


def count(library: Library, asked: Asked, legs: Sequence[Leg] | None = None) -> Counted:
    """Count what the newest weights used; `legs`: what was found out of the steps before."""
    legs = all_legs(library) if legs is None else legs
    for may_be_direct in (True, False):
        seen = _begun(library, asked, may_be_direct)
        try:
            return _counted(library, seen, [*legs], asked, may_be_direct=may_be_direct)
        except TooLargeError:
            seen.close()
    raise AssertionError("keys need no more memory than there is")


def _begun(library: Library, asked: Asked, may_be_direct: bool) -> Seen:
    return library.begin(asked.memory, may_be_direct) if asked.notes else library.unnoted()


def _counted(
    library: Library, seen: Seen, legs: list[Leg], asked: Asked, *, may_be_direct: bool
) -> Counted:
    """Count; where a step turns out to be odd on the way, once more with that known."""
    wrong: list[str] = []
    void = [library.archive.source.none().select(_SAMPLE)]
    used, parts, twice, largest, every = [pl.DataFrame(schema=USED)], [], False, 0, []
    for nth, leg in enumerate(legs):
        is_told = asked.is_judged and not asked.trusts_digests and tells(library, leg)
        hashed = library.archive.source.hashed if is_told else None
        hashing: Hashing | None = "digest" if is_told else asked.hashing
        counts, odd, sums = _look(library, seen, leg, hashed, hashing)
        void += odd.void
        every.append(counts)
        found = surplus(leg, counts)
        if len(found):
            legs[nth], twice = leg.with_odd(found), True
        used.append(sums)
        most = counts.group_by("step").agg(pl.col("n").sum())["n"].max()
        largest = max(largest, most if isinstance(most, int) else 0)
        if asked.is_judged:
            parts.append((leg, seen_of(library, leg, counts, odd.tried)))
        wrong += [*wrong_digests(leg, counts), *odd.wrong] if is_told else []
    if twice:
        seen.close()
        seen = _begun(library, asked, may_be_direct)
        return _counted(library, seen, legs, asked, may_be_direct=may_be_direct)
    relaunched = [
        text
        for leg in legs
        if leg.attempt.has_several_starts
        for text in committed_twice(leg.tries, leg.attempt.label)
    ]
    return Counted(
        seen,
        tuple(legs),
        tuple(every),
        _totals(pl.concat(used)),
        tuple(_stretches(library, parts)) if asked.is_judged else (),
        tuple(dict.fromkeys(relaunched)),
        pl.concat(void).unique(),
        tuple(wrong),
        largest,
    )


def _totals(used: pl.DataFrame) -> pl.DataFrame:
    """Add up USED of the stretches of each attempt."""
    totals = used.group_by("place", "source", "epoch").agg(
        pl.col("records", "tokens", "spans", "inner", "placed").sum(),
        pl.col("first_step").min(),
        pl.col("last_step").max(),
    )
    return totals.sort("source", "epoch", "place")


@dataclass(frozen=True)
class _Odd:
    """What the records of odd steps told when they passed by."""

    tried: list[pl.DataFrame] = field(default_factory=list)
    void: list[pl.DataFrame] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def _look(
    library: Library,
    seen: Seen,
    leg: Leg,
    hashed: Callable[[pl.DataFrame], pl.Series] | None,
    hashing: Hashing | None,
) -> tuple[pl.DataFrame, _Odd, pl.DataFrame]:
    """Let the records of a stretch pass by; `hashed` compares odd ones with their digests."""
    odd = _Odd()

    def committed() -> Iterator[pl.DataFrame]:
        for records in looked_at(library, leg):
            odd.tried.append(tried(records))
            odd.void.append(records.filter(~IS_USED).select(_SAMPLE).unique())
            if hashed is not None:
                odd.wrong.extend(mismatches(records, leg.tries, leg.attempt.label, hashed))
            yield committed_of(leg, records)

    looked = library.look(seen, leg.plain, committed(), hashing)
    place = pl.lit(leg.place, pl.Int64).alias("place")
    return looked.counts, odd, looked.sums.select(place, *list(USED)[1:])


def again(library: Library, counted: Counted) -> Seen:
    """Let all records pass by once more, where that is needed to suspect any of them."""
    seen = counted.seen.again()
    if seen is None:
        return counted.seen
    for leg in counted.legs:
        records = (committed_of(leg, one) for one in looked_at(library, leg))
        library.look(seen, leg.plain, records, None)
    return seen


def found(library: Library, counted: Counted, where: pl.Expr) -> pl.DataFrame:
    """Give the records of the newest weights that fulfil a condition, with `place`: SAMPLES."""
    parts = []
    for leg in counted.legs:
        rows = [library.find(leg.plain, where)]
        rows += [
            library.own(committed_of(leg, one)).filter(where).select(rows[0].columns)
            for one in looked_at(library, leg)
        ]
        place = pl.lit(leg.place, pl.Int64).alias("place")
        parts += [part.with_columns(place) for part in rows if part.height]
    if not parts:
        nothing = library.archive.source.records("", 0, -1)
        return nothing.with_columns(pl.lit(0, pl.Int64).alias("place"))
    return pl.concat(parts, how="diagonal")


def _stretches(library: Library, parts: list[tuple[Leg, pl.DataFrame]]) -> Iterator[Stretch]:
    """Put together what is there of each attempt."""
    source = library.archive.source
    chain = source.lineage.chain
    for place, attempt in enumerate(chain):
        own = [seen for leg, seen in parts if leg.place == place]
        steps = pl.concat([pl.DataFrame(schema=SEEN), *own])
        begin = 0 if attempt.resumed_at is None else attempt.resumed_at + 1
        until = source.lineage.until(place, len(chain) - 1)
        last = until if until is not None else steps.filter("committed")["step"].max()
        first = 0 if begin == 0 and (steps["step"] == 0).any() else max(begin, 1)
        yield Stretch(attempt, first, last if isinstance(last, int) else None, steps)
