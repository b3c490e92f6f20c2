"""
What all records of a run, or those of some samples, amount to; amounts of all samples add up.

Which steps are looked at record by record depends on all records, so whoever counts some samples
first counts all, whoever's they are; what is counted of one ledger agrees on it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from ledger_audit.continuity.exposure.counting import USED, Asked, Counted, all_legs, count
from ledger_audit.continuity.exposure.legs import Leg, committed_of, looked_at, surplus
from ledger_audit.continuity.exposure.library import (
    PASS,
    Hashing,
    Library,
    Looked,
    Pass,
    Seen,
    Steps,
)
from ledger_audit.errors import UnreadableError

COUNTS = {
    "leg": pl.Int64(),
    "rank": pl.Int32(),
    "step": pl.Int64(),
    "n": pl.Int64(),
    "tokens": pl.Int64(),
    "spans": pl.Int64(),
    "mixed": pl.UInt64(),
}
"""What a stretch of steps used, by rank and step, as in `Looked.counts`."""

ODD = {"leg": pl.Int64(), "step": pl.Int64()}
"""Steps of each stretch that are looked at record by record."""

STATE = {
    "attempt": pl.String(),
    "first": pl.Int64(),
    "last": pl.Int64(),
    "tries": pl.Int64(),
    "rows": pl.Int64(),
}
"""A stretch, how many ends of tries it has, and how many rows its attempt: other ones are of
another ledger, or of one that has grown."""

NEED = "make all pieces anew, of the ledger as it is now"


@dataclass(frozen=True)
class Amounts:
    """What some samples of a run amount to."""

    counts: pl.DataFrame
    """COUNTS."""
    used: pl.DataFrame
    """USED."""
    odd: pl.DataFrame
    """ODD: of all records, the same whatever samples were counted."""
    records: int
    """Records that updates used, of all samples: what all amounts together must come to."""
    state: pl.DataFrame
    """STATE of the ledger when it was counted."""


@dataclass(frozen=True)
class Outline:
    """What all records of a run tell that whoever counts some samples must know."""

    legs: tuple[Leg, ...]
    """With the steps that are looked at record by record."""
    passes: tuple[Pass, ...]
    records: int
    """Records that updates used."""


def outline(library: Library) -> Outline:
    """Find the odd steps, the passes and the number of all records, whoever's they are."""
    legs, passes, records = [], [pl.DataFrame(schema=dict(list(USED.items())[1:3]))], 0
    for leg in all_legs(library):
        sizes, of_plain = library.sizes(leg.plain)
        more = surplus(leg, sizes)
        legs.append(leg.with_odd(more) if len(more) else leg)
        plain = sizes.filter(~pl.col("step").is_in(more.implode()))
        rows = [committed_of(leg, one) for one in looked_at(library, legs[-1])]
        passes += [of_plain, *(frame.select(PASS).unique() for frame in rows)]
        records += int(plain["n"].sum()) + sum(frame.height for frame in rows)
    found = pl.concat(passes).unique().sort(PASS)
    return Outline(tuple(legs), tuple(found.iter_rows()), records)


def nothing_counted(library: Library) -> Amounts:
    """Give the amounts of a run that is proven without a record."""
    counts, used, odd = (pl.DataFrame(schema=one) for one in (COUNTS, USED, ODD))
    return Amounts(counts, used, odd, 0, _state(library, all_legs(library)))


def amounts_of(library: Library, outlined: Outline, counted: Counted) -> Amounts:
    """Give what was counted of the samples that a library answers for."""
    numbered = enumerate(zip(outlined.legs, counted.counts, strict=True))
    counts, odd = [pl.DataFrame(schema=COUNTS)], [pl.DataFrame(schema=ODD)]
    for nth, (leg, found) in numbered:
        number = pl.lit(nth, pl.Int64).alias("leg")
        counts.append(found.select(number, *list(COUNTS)[1:]))
        odd.append(leg.odd.to_frame("step").select(number, "step"))
    return Amounts(
        pl.concat(counts).sort("leg", "step", "rank"),
        counted.used,
        pl.concat(odd).sort("leg", "step"),
        outlined.records,
        _state(library, outlined.legs),
    )


def added_up(library: Library, parts: Sequence[Amounts], asked: Asked) -> Counted:
    """
    Add up the amounts of all samples, as if they had been counted together.

    Raises:
        UnreadableError: they do not add up to what the ledger holds.
    """
    first = parts[0]
    legs = all_legs(library)
    state = _state(library, legs)
    alike = all(
        one.odd.equals(first.odd) and one.records == first.records and one.state.equals(state)
        for one in parts
    )
    used = pl.concat([one.used for one in parts])
    counts = pl.concat([one.counts for one in parts])
    sums = counts.group_by("leg", "rank", "step").agg(pl.all().sum())
    numbers = pl.concat([counts["leg"], first.odd["leg"]])
    is_whole = int(used["records"].sum()) == first.records == int(counts["n"].sum())
    if not alike or not is_whole or not numbers.is_between(0, len(legs) - 1).all():
        raise UnreadableError(
            "the pieces do not add up to what the ledger holds: it has changed since, or they are "
            "damaged",
            hint=NEED,
        )
    odd = first.odd.partition_by("leg", as_dict=True)
    legs = [
        leg.with_odd(odd[(nth,)]["step"]) if (nth,) in odd else leg for nth, leg in enumerate(legs)
    ]
    answers = _Answers(tuple(legs), sums.sort("leg", "step", "rank"), used)
    from_parts = replace(library, look=answers.look)
    return count(from_parts, replace(asked, notes=False), legs)


def _state(library: Library, legs: Sequence[Leg]) -> pl.DataFrame:
    rows = [(leg.attempt.label, leg.first, leg.last, leg.tries.height) for leg in legs]
    lineage = library.archive.source.lineage
    labels = [one.label for one in (*lineage.chain, *lineage.outside)]
    sizes = [(label, None, None, None, library.archive.size(label)) for label in labels]
    return pl.DataFrame([(*row, None) for row in rows] + sizes, schema=STATE, orient="row")


@dataclass(frozen=True)
class _Answers:
    """Says of each stretch what was counted."""

    legs: tuple[Leg, ...]
    counts: pl.DataFrame
    """COUNTS, of all samples."""
    used: pl.DataFrame
    """USED, of all parts."""

    def look(
        self,
        seen: Seen,  # noqa: ARG002
        steps: Steps,
        rows: Iterable[pl.DataFrame],
        hashing: Hashing | None,  # noqa: ARG002
    ) -> Looked:
        """Give what was counted; the odd steps pass by, as what they tell is told on the way."""
        for _ in rows:
            pass
        keys = [(leg.attempt.label, leg.first) for leg in self.legs]
        nth = keys.index((steps.attempt, steps.first))
        leg = self.legs[nth]
        is_first = nth == 0 or self.legs[nth - 1].place != leg.place
        # what an attempt came to is not told stretch by stretch: its first one tells all
        own = self.used.filter(place=leg.place) if is_first else self.used.clear()
        return Looked(self.counts.filter(leg=nth).drop("leg"), own.drop("place"))


def frames_of(amounts: Amounts) -> dict[str, pl.DataFrame]:
    """Give amounts as tables by their names, each in an order of its own."""
    records = pl.DataFrame({"records": [amounts.records]}, schema=TABLES["records"])
    return {
        "records": records,
        "state": amounts.state,
        "counts": amounts.counts,
        "used": amounts.used,
        "odd": amounts.odd,
    }


TABLES: Mapping[str, Mapping[str, pl.DataType]] = {
    "records": {"records": pl.Int64()},
    "state": STATE,
    "counts": COUNTS,
    "used": USED,
    "odd": ODD,
}
"""The tables of amounts with their columns."""


def amounts_from(frames: Mapping[str, pl.DataFrame], name: str) -> Amounts:
    """
    Read amounts from their tables; `name` of the file, for messages.

    Raises:
        UnreadableError: a table is missing, or has other columns or types.
    """
    check_tables(frames, TABLES, name)
    counts, used, odd = (frames[one] for one in ("counts", "used", "odd"))
    return Amounts(counts, used, odd, records_in(frames, "records", name), frames["state"])


def records_in(frames: Mapping[str, pl.DataFrame], table: str, name: str) -> int:
    """
    Read a table that is one number of records.

    Raises:
        UnreadableError: it is not.
    """
    records = frames[table]["records"]
    if len(records) != 1 or records.null_count():
        raise UnreadableError(f"{name}: {table!r} is not one number", hint=NEED)
    return int(records[0])


def check_tables(
    frames: Mapping[str, pl.DataFrame],
    wanted: Mapping[str, Mapping[str, pl.DataType]],
    name: str,
) -> None:
    """
    Check that a file holds some tables, with these columns.

    Raises:
        UnreadableError: a table is missing, or has other columns or types.
    """
    for table, schema in wanted.items():
        found = frames.get(table)
        if found is None or dict(found.schema) != dict(schema):
            raise UnreadableError(f"{name}: {table!r} is not the table of a piece", hint=NEED)
