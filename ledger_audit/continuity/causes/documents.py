"""Tells what became of documents that the checkpoint cut: their rest, or their beginning."""

import polars as pl

from ledger_audit.continuity.classify import Classified
from ledger_audit.model import Expected, Resumed

_NAMES = ("source", "epoch", "sample_id")


def holed_documents(classified: Classified, committed: pl.DataFrame) -> int:
    """
    Count documents of which the end is skipped, and nothing but ends of documents is.

    What is skipped in the middle of a long document, or whole, is another matter: then 0.
    """
    expected = classified.expected
    skipped = expected.filter(pl.col("worst") == Expected.SKIPPED, pl.col("token_end") > 0)
    used = pl.concat(
        [
            classified.resumed.select(*_NAMES, other="token_start"),
            committed.select(*_NAMES, other="token_start"),
            expected.filter(pl.col("worst") == Expected.MATCHED).select(
                *_NAMES, other="token_start"
            ),
        ]
    )
    both = (
        skipped.join(used, on=_NAMES, how="left", nulls_equal=True)
        .group_by("order")
        .agg(
            pl.col(*_NAMES, "token_end").first(),
            begun=(pl.col("other") < pl.col("token_start").first()).any(),
            goes_on=(pl.col("other") >= pl.col("token_end").first()).any(),
        )
    )
    is_rest = pl.col("begun").fill_null(value=False) & ~pl.col("goes_on").fill_null(value=False)
    if both.filter(~is_rest).height:
        return 0
    return both.select(_NAMES).unique().height


def reread_documents(classified: Classified, committed: pl.DataFrame) -> tuple[int, int]:
    """
    Count the documents that the checkpoint cut and whose used part is used again.

    Returns:
        Documents and tokens; 0 and 0 where anything else is used again, too.
    """
    again = classified.resumed.filter(pl.col("worst") == Resumed.REPLAYED)
    if again.is_empty() or again["token_end"].null_count():
        return 0, 0
    reached = committed.group_by(_NAMES).agg(reached=pl.col("token_end").max())
    due = classified.expected.group_by(_NAMES).agg(due=pl.col("token_start").min())
    cut = reached.join(due, on=_NAMES, nulls_equal=True).filter(pl.col("due") >= pl.col("reached"))
    own = again.join(cut.select(_NAMES), on=_NAMES, how="semi", nulls_equal=True)
    if own.height < again.height:
        return 0, 0
    return own.select(_NAMES).unique().height, int(own["tokens"].sum())
