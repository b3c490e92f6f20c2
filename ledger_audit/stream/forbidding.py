"""Says of records whether a contract forbids them: its lists, and streams that are held out."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.forbidden.held_out import held_out_of
from ledger_audit.continuity.forbidden.id_matching import (
    LISTED,
    forbidden_among,
    strangers_among,
)
from ledger_audit.continuity.forbidden.searching import Rule, Searchable
from ledger_audit.errors import UnprovenError
from ledger_audit.stream.remaining import Refused


def forbidding(source: Searchable, lists: Sequence[Rule], contract: Contract) -> Refused | None:
    """
    Give what tells which records must not be planned; null: the contract forbids nothing.

    Raises:
        UnprovenError: a stream is held out, and not all of its samples are known.
    """
    held, unseen = held_out_of(source, source.search, contract.held_out)
    if unseen:
        raise UnprovenError(
            "not all samples that are held out are known: they could not be left out of a plan",
            hint="bring the missing files, or list the ids in the contract's `forbid`",
            details=[one.text for one in unseen],
        )
    overlap = contract.token_overlap or 0
    against = [one.listed.select(LISTED).unique() for one in lists if one.kind != "only"]
    against += [one.rows.select(LISTED).unique() for one in held]
    allowed = [one.listed.select(LISTED) for one in lists if one.kind == "only"]
    every = pl.concat(allowed).unique() if allowed else None
    if not against and every is None:
        return None

    def refused(rows: pl.DataFrame) -> NDArray[np.bool_]:
        records = rows.select(LISTED).with_row_index("line")
        found = np.zeros(rows.height, np.bool_)
        for listed in against:
            found[forbidden_among(records, listed, overlap)["line"].to_numpy()] = True
        if every is not None:
            found[strangers_among(records, every, overlap)["line"].to_numpy()] = True
        return found

    return refused
