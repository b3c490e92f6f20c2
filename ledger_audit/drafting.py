"""Drafts a contract from what a ledger shows, of which only a little is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger_audit.continuity.lineage import reconstruct
from ledger_audit.continuity.shape import shape_of
from ledger_audit.contract_file.draft import draft
from ledger_audit.errors import UsageError
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.printable import quoted

STEPS, ATTEMPTS, RECORDS = 20, 2, 50_000
"""What is looked at: the last steps of the newest attempts, and so many records of each."""


@dataclass(frozen=True)
class Draft:
    """A contract that was not written by a person."""

    text: str
    """TOML."""
    records: int
    """Those that it was drafted from."""


def draft_contract(
    roots: Sequence[Path], columns: Mapping[str, str] | None = None, stream: str | None = None
) -> Draft:
    """
    Draft the contract of a ledger.

    Raises:
        UsageError: the ledger holds no used record of the stream.
    """
    ledger = open_ledger(roots, columns=columns, stream=stream)
    acts, extents = ledger.acts(), ledger.extents()
    # what sealing said makes no attempt
    chain = reconstruct(acts.filter(acts["kind"] != "recovered"), extents, ledger.runs).chain
    with_records = [one for one in chain if one.last_step is not None]
    streams = ledger.streams()
    if not with_records:
        names = sorted({name for name, _ in streams if name is not None})
        of = "" if stream is None else f" of the stream {quoted(stream)}"
        there = f"; it has {', '.join(map(quoted, names))} with --stream" if names else ""
        raise UsageError(
            f"{ledger.name}: holds no used record{of}",
            hint=f"point at a ledger with records, from which a contract can be drafted{there}",
        )
    glimpses = [
        ledger.glimpse(one.label, (one.last_step or 0) - STEPS + 1, RECORDS)
        for one in with_records[-ATTEMPTS:]
    ]
    shape = shape_of(chain, acts, glimpses, streams)
    return Draft(draft(shape, ledger.name), shape.records)
