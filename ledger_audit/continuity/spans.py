"""
Compares spans as intervals where the packing changed: whole spans do not match, documents do.

Every record is cut at each boundary that any record of its document has, in any window; from
there on the pieces are compared like records, and a record is what the worst of its pieces is.
"""

from dataclasses import replace

import polars as pl

from ledger_audit.continuity.frames import ORDER, Side
from ledger_audit.continuity.identity import SPAN, Keyed, keyed

_SHARED_TOKENS = 1
"""Neighbouring spans may share one token: the target of the last is the first of the next."""


def packing_changed(known: Keyed, pairs: pl.DataFrame, overlap: int | None) -> bool:
    """
    Tell whether unmatched spans of the resumed window overlap unmatched or committed ones.

    Spans that overlap by design, before the resume already, say nothing about it. `overlap`
    tokens are shared by neighbours by contract; null: up to one.
    """
    shared = _SHARED_TOKENS if overlap is None else overlap
    # where the contract says what is shared, pieces leave it out: any overlap may be a change
    least = _SHARED_TOKENS if overlap is None else 0
    if not set(SPAN) <= set(known.columns):
        return False
    committed, reference, resumed = known.windows.sides
    document = [name for name in known.columns if name not in SPAN]
    columns = [*document, *SPAN]
    ours = (
        resumed.records.join(pairs, left_on="order", right_on="resumed", how="anti")
        .join(committed.records, on="key", how="anti")
        .select(columns)
        .drop_nulls(list(SPAN))
        .unique()
    )
    left = reference.records.join(pairs, left_on="order", right_on="reference", how="anti")
    theirs = pl.concat([left.select(columns), committed.records.select(columns)])
    theirs = theirs.drop_nulls(list(SPAN)).unique().sort(*document, "token_start", "token_end")
    if ours.is_empty() or theirs.is_empty():
        return False
    before = theirs.with_columns(
        reached=pl.col("token_end").shift(1).over(document).fill_null(0),
    )
    if (before["token_start"] < before["reached"] - shared).any():
        return False
    code = theirs.select(document).unique().with_row_index("document")
    ours = ours.join(code, on=document, nulls_equal=True)
    theirs = theirs.join(code, on=document, nulls_equal=True)
    nearest = (
        ours.select("document", "token_start", at=pl.col("token_end") - least - 1)
        .sort("at")
        .join_asof(
            theirs.select("document", begin="token_start", reached="token_end").sort("begin"),
            left_on="at",
            right_on="begin",
            by="document",
            strategy="backward",
            check_sortedness=False,
        )
    )
    overlaps = nearest["reached"] > nearest["token_start"] + least
    return bool(overlaps.fill_null(value=False).any())


def cut_into_pieces(known: Keyed, overlap: int | None) -> Keyed:
    """
    Cut the records of all windows at every boundary of their documents, and key the pieces.

    What neighbouring spans share by contract belongs to the later one alone.
    """
    document = [name for name in known.columns if name not in SPAN]
    columns = [*document, "token_start"]
    begins = pl.concat([side.records.select(columns) for side in known.windows.sides]).unique()
    uncut = [_without_shared(side, begins, document, overlap or 0) for side in known.windows.sides]
    every = pl.concat([side.records.select(*document, *SPAN) for side in uncut])
    points = (
        pl.concat([every.select(*document, at=pl.col(name)) for name in SPAN])
        .drop_nulls("at")
        .unique()
        .sort(*document, "at")
        .with_columns(until=pl.col("at").shift(-1).over(document))
        .with_row_index("piece")
        .with_columns(pl.col("piece").cast(pl.Int64))
    )
    sides = [_cut(side, points, document) for side in uncut]
    windows = replace(known.windows, committed=sides[0], reference=sides[1], resumed=sides[2])
    return replace(known, windows=keyed(windows, known.columns))


def _without_shared(side: Side, begins: pl.DataFrame, document: list[str], overlap: int) -> Side:
    """Let each span end where a later one of its document, in any window, begins with it."""
    if not overlap:
        return side
    next_begins = begins.rename({"token_start": "begin"})
    rows = side.records.with_columns(begin=pl.col("token_end") - overlap).join(
        next_begins.with_columns(shares=pl.lit(value=True)),
        on=[*document, "begin"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    is_shared = pl.col("shares") & (pl.col("begin") > pl.col("token_start"))
    rows = rows.with_columns(
        token_end=pl.when(is_shared).then(pl.col("begin")).otherwise("token_end")
    )
    return replace(side, records=rows.drop("begin", "shares"))


def _cut(side: Side, points: pl.DataFrame, document: list[str]) -> Side:
    rows = side.records.drop("key")
    places = points.select(*document, "at", "piece")
    for name, end in (("token_start", "begin"), ("token_end", "end")):
        rows = rows.join(
            places.rename({"at": name, "piece": end}),
            on=[*document, name],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
    pieces = (
        rows.with_columns(piece=pl.int_ranges("begin", "end"))
        .explode("piece")
        .join(points.select("piece", "at", "until"), on="piece", how="left")
        .with_columns(
            token_start=pl.coalesce("at", "token_start"),
            token_end=pl.coalesce("until", "token_end"),
        )
        .with_columns(tokens=pl.col("token_end") - pl.col("token_start"))
        .drop("begin", "end", "piece", "at", "until", "order")
        .sort("beyond", *ORDER, "token_start")
        .with_row_index("order")
        .with_columns(pl.col("order").cast(pl.Int64))
    )
    return replace(side, records=pieces)
