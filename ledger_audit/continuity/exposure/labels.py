"""
Finds attempts whose epoch labels cannot be trusted: a resume that counts its epochs otherwise.

Where the label goes back or leaves one out at a resume, the work that the failure rolled back
tells whether the label is wrong or the stream is.
"""

import polars as pl

from ledger_audit.continuity import windows as cut
from ledger_audit.continuity.exposure.counting import Counted
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.continuity.identity import identify
from ledger_audit.continuity.windows import Source, Windows

STEPS = 20
"""Steps after the checkpoint that are looked at."""


def mislabelled(library: Library, counted: Counted) -> tuple[int, ...]:
    """Give the places in the lineage of attempts whose epochs do not go on from those before."""
    source = library.archive.source
    return tuple(place for place in _suspects(counted.used) if _is_doubtful(source, place))


def _suspects(used: pl.DataFrame) -> list[int]:
    """Give the attempts at whose resume the epoch of a source goes back, or leaves one out."""
    by_place = (
        used.drop_nulls("epoch")
        .group_by("source", "place")
        .agg(first=pl.col("epoch").min(), last=pl.col("epoch").max())
        .sort("source", "place")
        .with_columns(before=pl.col("last").cum_max().shift(1).over("source"))
    )
    is_odd = (pl.col("first") < pl.col("before")) | (pl.col("first") > pl.col("before") + 1)
    return by_place.filter(is_odd)["place"].unique().sort().to_list()


def _is_doubtful(source: Source, place: int) -> bool:
    """Tell whether the labels are wrong, or nothing tells that they are right."""
    after = source.lineage.chain[place].resumed_at or 0
    reference = cut.rolled_back_window(source, place, after + STEPS)
    if reference.records.is_empty():
        return True
    windows = Windows(
        checkpoint_step=after,
        committed=cut.nothing(source),
        reference=reference,
        resumed=cut.resumed_window(source, place, after + STEPS),
        reference_kind="rolled-back",
    )
    return identify(windows).has_wrong_labels
