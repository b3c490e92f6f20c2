"""Pieces of a whole run: what one share of its samples came to. Pieces of all shares add up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.exposure.amounts import (
    Amounts,
    added_up,
    amounts_from,
    amounts_of,
    check_tables,
    nothing_counted,
    outline,
)
from ledger_audit.continuity.exposure.amounts import frames_of as frames_of_amounts
from ledger_audit.continuity.exposure.counting import Asked, Counted, count
from ledger_audit.continuity.exposure.library import PASS, Library
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


@dataclass(frozen=True)
class Piece:
    """What some samples of a run came to."""

    amounts: Amounts
    summary: Summary


def nothing_to_count(library: Library) -> Piece:
    """Give the piece of a run that is proven without a record."""
    frames = {name: pl.DataFrame(schema=one) for name, one in _tables(library.id_type).items()}
    return Piece(nothing_counted(library), _summary(frames))


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
    outlined = outline(library)
    counted = count(library, asked, outlined.legs)
    try:
        again = repeats_of(library, counted, repeats, overlap, asked.memory)
        summary = summarise(library, counted, promised, again, outlined.passes)
    finally:
        counted.seen.close()
    return Piece(amounts_of(library, outlined, counted), summary)


def put_together(
    library: Library, pieces: Sequence[Piece], asked: Asked
) -> tuple[Counted, Summary]:
    """
    Add up pieces of all samples, counted as asked.

    Raises:
        UnreadableError: they do not add up to what the ledger holds.
    """
    counted = added_up(library, [one.amounts for one in pieces], asked)
    return counted, added([one.summary for one in pieces], nothing(library.id_type))


def frames_of(piece: Piece) -> dict[str, pl.DataFrame]:
    """Give a piece as tables by their names, each in an order of its own."""
    told, again = piece.summary, piece.summary.again
    return {
        **frames_of_amounts(piece.amounts),
        "few": told.few.sort(SAMPLE),
        "listed": told.listed.sort(PASS),
        "unused": told.unused,
        "lost": told.lost,
        "extra": again.extra,
        "uses": again.uses,
        "several": again.several.sort(PASS),
        "tokens": again.tokens.sort(PASS),
    }


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
    amounts = amounts_from(frames, name)
    check_tables(frames, _tables(id_type), name)
    return Piece(amounts, _summary(frames))


def _summary(frames: Mapping[str, pl.DataFrame]) -> Summary:
    again = Again(*(frames[name] for name in ("extra", "uses", "several", "tokens")))
    return Summary(again, *(frames[name] for name in ("few", "listed", "unused", "lost")))


def _tables(id_type: pl.DataType) -> dict[str, Mapping[str, pl.DataType]]:
    """Give the tables of a summary with their columns."""
    ids = pl.List(id_type)
    return {
        "few": {"source": pl.String(), "epoch": pl.Int32(), "sample_id": id_type},
        "listed": {**LISTED, "missing": ids, "strangers": ids},
        "unused": UNUSED,
        "lost": LOST,
        "extra": {**EXTRA, "examples": ids},
        "uses": USES,
        "several": SEVERAL,
        "tokens": TOKENS,
    }
