"""Adds the steps that both sides are known to have consumed alike to what the others came to."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from ledger_audit.continuity.windows import Windows
from ledger_audit.model import Amount, Expected, Overlay, Resumed


def add_resumed(found: Mapping[Resumed, Amount], windows: Windows) -> dict[Resumed, Amount]:
    """Count what nobody looked at as in its place."""
    more = _sum(windows.resumed.known)
    return {**found, Resumed.IN_PLACE: _added(found[Resumed.IN_PLACE], more)}


def add_expected(found: Mapping[Expected, Amount], windows: Windows) -> dict[Expected, Amount]:
    """Count what nobody looked at as matched, or as pending where the window ends before it."""
    known = windows.reference.known
    is_reached = pl.col("step").is_in(windows.resumed.known["step"].implode())
    return {
        **found,
        Expected.MATCHED: _added(found[Expected.MATCHED], _sum(known.filter(is_reached))),
        Expected.PENDING: _added(found[Expected.PENDING], _sum(known.filter(~is_reached))),
    }


def add_overlays(
    found: Mapping[Overlay, Amount | None], windows: Windows
) -> dict[Overlay, Amount | None]:
    """Say that slots were not seen of what nobody looked at."""
    if windows.resumed.known.is_empty():
        return dict(found)
    return {**found, Overlay.MISPLACED: None}


def _sum(known: pl.DataFrame) -> Amount:
    tokens = known["tokens"]
    return Amount(int(known["n"].sum()), None, None if tokens.null_count() else int(tokens.sum()))


def _added(one: Amount, other: Amount) -> Amount:
    """Add up two amounts; distinct samples of what nobody looked at are not known."""
    if not other.records:
        return one
    if not one.records:
        return replace(other, samples=None)
    tokens = None if one.tokens is None or other.tokens is None else one.tokens + other.tokens
    return Amount(one.records + other.records, None, tokens)
