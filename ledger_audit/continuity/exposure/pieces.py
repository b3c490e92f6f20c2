"""
Pieces of a whole run: what one share of its samples came to. Pieces of all shares add up.

Which steps are looked at record by record depends on all records, so each piece first counts these,
whoever's they are; all pieces of one ledger agree on it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from ledger_audit.continuity.exposure.promised import Promised
from ledger_audit.continuity.exposure.repeats import (
    EXTRA,
    SEVERAL,
    TOKENS,
    USES,
    Again,
    nothing,
    repeats_of,
)
from ledger_audit.continuity.exposure.summary import (
    LISTED,
    LOST,
    SAMPLE,
    UNUSED,
    Summary,
    added,
    summarise,
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

_NEED = "make all pieces anew, of the ledger as it is now"


@dataclass(frozen=True)
class Piece:
    """What some samples of a run came to."""

    counts: pl.DataFrame
    """COUNTS."""
    used: pl.DataFrame
    """USED."""
    odd: pl.DataFrame
    """ODD: of all records, the same in each piece."""
    summary: Summary
    records: int
    """Records that updates used, of all samples: what all pieces together must have counted."""
    state: pl.DataFrame
    """STATE of the ledger when it was counted."""


def nothing_to_count(library: Library) -> Piece:
    """Give the piece of a run that is proven without a record."""
    frames = {name: pl.DataFrame(schema=one) for name, one in _tables(library.id_type)}
    state = _state(library, all_legs(library))
    return Piece(frames["counts"], frames["used"], frames["odd"], _summary(frames), 0, state)


def counted_piece(
    library: Library, promised: Promised, asked: Asked, repeats: Mapping[str, int], overlap: int
) -> Piece:
    """
    Count what the samples that a library answers for came to.

    Args:
        library: the ledger.
        promised: what a pass should hold.
        asked: how to count.
        repeats: source → uses of a sample that are promised in one pass.
        overlap: tokens that neighbouring spans share by design.
    """
    legs, passes, records = _settled(library)
    counted = count(library, asked, legs)
    try:
        again = repeats_of(library, counted, repeats, overlap, asked.memory)
        summary = summarise(library, counted, promised, again, passes)
    finally:
        counted.seen.close()
    numbered = enumerate(zip(legs, counted.counts, strict=True))
    counts, odd = [pl.DataFrame(schema=COUNTS)], [pl.DataFrame(schema=ODD)]
    for nth, (leg, found) in numbered:
        number = pl.lit(nth, pl.Int64).alias("leg")
        counts.append(found.select(number, *list(COUNTS)[1:]))
        odd.append(leg.odd.to_frame("step").select(number, "step"))
    return Piece(
        pl.concat(counts).sort("leg", "step", "rank"),
        counted.used,
        pl.concat(odd).sort("leg", "step"),
        summary,
        records,
        _state(library, legs),
    )


def _state(library: Library, legs: Sequence[Leg]) -> pl.DataFrame:
    rows = [(leg.attempt.label, leg.first, leg.last, leg.tries.height) for leg in legs]
    lineage = library.archive.source.lineage
    labels = [one.label for one in (*lineage.chain, *lineage.outside)]
    sizes = [(label, None, None, None, library.archive.size(label)) for label in labels]
    return pl.DataFrame([(*row, None) for row in rows] + sizes, schema=STATE, orient="row")


def _settled(library: Library) -> tuple[list[Leg], list[Pass], int]:
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
    return legs, list(found.iter_rows()), records


def put_together(
    library: Library, pieces: Sequence[Piece], asked: Asked
) -> tuple[Counted, Summary]:
    """
    Add up pieces of all samples, counted as asked.

    Raises:
        UnreadableError: they do not add up to what the ledger holds.
    """
    first = pieces[0]
    legs = all_legs(library)
    state = _state(library, legs)
    alike = all(
        one.odd.equals(first.odd) and one.records == first.records and one.state.equals(state)
        for one in pieces
    )
    used = pl.concat([one.used for one in pieces])
    counts = pl.concat([one.counts for one in pieces])
    sums = counts.group_by("leg", "rank", "step").agg(pl.all().sum())
    numbers = pl.concat([counts["leg"], first.odd["leg"]])
    is_whole = int(used["records"].sum()) == first.records == int(counts["n"].sum())
    if not alike or not is_whole or not numbers.is_between(0, len(legs) - 1).all():
        raise UnreadableError(
            "the pieces do not add up to what the ledger holds: it has changed since, or they are "
            "damaged",
            hint=_NEED,
        )
    odd = first.odd.partition_by("leg", as_dict=True)
    legs = [
        leg.with_odd(odd[(nth,)]["step"]) if (nth,) in odd else leg for nth, leg in enumerate(legs)
    ]
    answers = _Answers(tuple(legs), sums.sort("leg", "step", "rank"), used)
    from_pieces = replace(library, look=answers.look)
    counted = count(from_pieces, replace(asked, notes=False), legs)
    return counted, added([one.summary for one in pieces], nothing(library.id_type))


@dataclass(frozen=True)
class _Answers:
    """Says of each stretch what the pieces counted."""

    legs: tuple[Leg, ...]
    counts: pl.DataFrame
    """COUNTS, of all samples."""
    used: pl.DataFrame
    """USED, of all pieces."""

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


def frames_of(piece: Piece) -> dict[str, pl.DataFrame]:
    """Give a piece as tables by their names, each in an order of its own."""
    told, again = piece.summary, piece.summary.again
    found = {
        "counts": piece.counts,
        "used": piece.used,
        "odd": piece.odd,
        "few": told.few.sort(SAMPLE),
        "listed": told.listed.sort(PASS),
        "unused": told.unused,
        "lost": told.lost,
        "extra": again.extra,
        "uses": again.uses,
        "several": again.several.sort(PASS),
        "tokens": again.tokens.sort(PASS),
    }
    records = pl.DataFrame({"records": [piece.records]}, schema={"records": pl.Int64()})
    return {"records": records, "state": piece.state, **found}


def piece_from(frames: Mapping[str, pl.DataFrame], id_type: pl.DataType, name: str) -> Piece:
    """
    Read a piece from its tables.

    Args:
        frames: by their names.
        id_type: of the ledger's ids.
        name: of the file, for messages.

    Raises:
        UnreadableError: a table is missing, or has other columns or types.
    """
    for table, schema in _tables(id_type):
        found = frames.get(table)
        if found is None or dict(found.schema) != dict(schema):
            raise UnreadableError(f"{name}: {table!r} is not the table of a piece", hint=_NEED)
    records = frames["records"]["records"]
    if len(records) != 1 or records.null_count():
        raise UnreadableError(f"{name}: 'records' is not one number", hint=_NEED)
    counts, used, odd = (frames[one] for one in ("counts", "used", "odd"))
    return Piece(counts, used, odd, _summary(frames), int(records[0]), frames["state"])


def _summary(frames: Mapping[str, pl.DataFrame]) -> Summary:
    again = Again(*(frames[name] for name in ("extra", "uses", "several", "tokens")))
    return Summary(again, *(frames[name] for name in ("few", "listed", "unused", "lost")))


def _tables(id_type: pl.DataType) -> Iterator[tuple[str, Mapping[str, pl.DataType]]]:
    """Give the tables of a piece with their columns."""
    ids = pl.List(id_type)
    few = {"source": pl.String(), "epoch": pl.Int32(), "sample_id": id_type}
    tables: dict[str, Mapping[str, pl.DataType]] = {
        "records": {"records": pl.Int64()},
        "state": STATE,
        "counts": COUNTS,
        "used": USED,
        "odd": ODD,
        "few": few,
        "listed": {**LISTED, "missing": ids, "strangers": ids},
        "unused": UNUSED,
        "lost": LOST,
        "extra": {**EXTRA, "examples": ids},
        "uses": USES,
        "several": SEVERAL,
        "tokens": TOKENS,
    }
    yield from tables.items()
