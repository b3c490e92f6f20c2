"""Lists the streams and stages of a ledger's records, from footers where they settle it."""

from collections.abc import Iterable

import polars as pl

from ledger_audit.ledger.parts import Group, Part
from ledger_audit.ledger.queries import collect


def streams_of(parts: Iterable[Part], name: str) -> frozenset[tuple[str | None, str | None]]:
    """
    List each stream and stage that has a record.

    Returns:
        Pairs: stream (null: training), stage (null: used).
    """
    found: set[tuple[str | None, str | None]] = set()
    frames = []
    for part in parts:
        if part.groups is None:
            frames.append(part.rows)
            continue
        told = [(group, _only(group, "stream"), _only(group, "stage")) for group in part.groups]
        found |= {(stream[0], stage[0]) for _, stream, stage in told if stream and stage}
        frames += part.only(group for group, stream, stage in told if not (stream and stage))
    if frames:
        rows = pl.concat([frame.select("stream", "stage").unique() for frame in frames])
        found |= set(collect(rows.unique(), name, streams=True).iter_rows())
    return frozenset(found)


def _only(group: Group, column: str) -> tuple[str | None] | None:
    """Give the one value that a column is known to have in every row; null: it is not known."""
    if group.is_null(column):
        return (None,)
    bounds = group.bounds(column)
    is_one = group.is_full(column) and bounds.low is not None and bounds.low == bounds.high
    return (bounds.low,) if is_one else None
