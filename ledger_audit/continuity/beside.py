"""What is known of a resume beside its records: fingerprints, and samples that are forbidden."""

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from ledger_audit.continuity import fingerprints
from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.forbidden import Found, hits_of
from ledger_audit.continuity.limit_codes import limit
from ledger_audit.continuity.weights import held_by
from ledger_audit.continuity.windows import Source
from ledger_audit.model import ClauseName, Limit
from ledger_audit.model.fingerprints import FingerprintFacts
from ledger_audit.model.forbidden import Came
from ledger_audit.printable import counted, quoted

MOST_REASONS = 3
"""Reasons why something may be hidden that are told one by one."""


@dataclass(frozen=True)
class Beside:
    """What was found beside the records of one resume, or of a whole stream."""

    fingerprints: FingerprintFacts | None = None
    """Null: of a whole stream."""
    forbidden: Found | None = None
    """Of the whole lineage; null: the contract forbids nothing."""
    place: int | None = None
    """The resumed attempt's in the lineage, from 0; null: it is about the whole stream."""
    attempt: str | None = None
    """Its label, likewise."""
    later: frozenset[str] = frozenset()
    """Attempts of the lineage that come after it."""
    held: int | None = None
    """The last update in the weights that were loaded, where that is more than their label."""
    trained_again: str | None = None
    """What of these was used again; null: nothing."""

    @cached_property
    def hits(self) -> pl.DataFrame | None:
        """The records against any list that the resumed attempt, or the stream, holds."""
        return None if self.forbidden is None else hits_of(self.forbidden, self.attempt)


def look_beside(
    source: Source, index: int, contract: Contract, forbidden: Found | None, last: int | None
) -> Beside:
    """
    Gather what is beside the records of a resume.

    Args:
        source: the ledger.
        index: the place of the resumed attempt in the lineage.
        contract: what the stream promises.
        forbidden: what was found in the lineage.
        last: the last step that is looked at.
    """
    before, after = source.lineage.chain[index - 1], source.lineage.chain[index]
    rows = pl.DataFrame(schema={"attempt": pl.String(), "rank": pl.Int32(), "seq": pl.Int64()})
    if _says_when(source, after.label) or contract.fingerprint.restore_first:
        # as written: the order matters of records that were never committed, too
        rows = source.records(after.label, (after.resumed_at or 0) + 1, last)
    first = rows.group_by("attempt", "rank").agg(pl.col("seq").min())
    facts = fingerprints.audit_fingerprints(source.acts, first, before, after, contract)
    held = held_by(source, index)
    beyond = held if held > (after.resumed_at or 0) else None
    later = frozenset(one.label for one in source.lineage.chain[index + 1 :])
    return Beside(facts, forbidden, index, after.label, later, beyond)


def _says_when(source: Source, label: str) -> bool:
    if "kind" not in source.acts.columns:
        return False
    said = source.acts.filter(pl.col("attempt") == label)["kind"]
    return bool(said.is_in(["restore", "iterator"]).any())


def faults(beside: Beside, contract: Contract) -> dict[ClauseName, tuple[str, ...]]:
    """
    Say what breaks the clauses that are about more than the records of the windows.

    A sample that is forbidden and was used before the restart already is no fault of the resume.
    """
    found: dict[ClauseName, tuple[str, ...]] = {}
    if beside.fingerprints is not None:
        found[ClauseName.FINGERPRINT] = fingerprints.faults(beside.fingerprints, contract)
    if beside.forbidden is not None:
        found[ClauseName.FORBIDDEN] = _against(beside, came="with the restart")
    if beside.trained_again is not None:
        found[ClauseName.PROMISE] = (beside.trained_again,)
    return found


def remarks(beside: Beside) -> dict[ClauseName, tuple[str, ...]]:
    """Say what a clause found that breaks it elsewhere, and is not to be blamed on the resume."""
    if beside.forbidden is None:
        return {}
    return {ClauseName.FORBIDDEN: _against(beside, came="before")}


def _against(beside: Beside, came: Came) -> tuple[str, ...]:
    """Say what the resumed attempt, or the whole stream, used against each list."""
    assert beside.forbidden is not None
    told = []
    for listed in beside.forbidden.report.lists:
        hits = [one for one in listed.hits if beside.attempt in (None, one.attempt)]
        if beside.place is None:
            is_so, when = came == "with the restart", ""
        else:
            is_so, when = listed.came(beside.place) == came, f", {came}"
        if hits and is_so:
            records = counted(sum(one.records for one in hits), "record")
            since = " the restart already" if came == "before" and when else ""
            told.append(f"{records} {AGAINST[listed.kind]} {quoted(listed.name)}{when}{since}")
    return tuple(told)


AGAINST = {"forbid": "of", "only": "outside of", "held-out": "of the held-out stream"}
"""How a record stands to a list that it is against."""


def limits(beside: Beside, contract: Contract) -> list[Limit]:
    """List what cannot be known of these clauses, and what is worth a note."""
    found = []
    if beside.fingerprints is not None:
        told = fingerprints.limits(beside.fingerprints, contract)
        found += [limit(code, text) for code, text in told]
    if beside.held is not None:
        text = f"the loaded checkpoint was taken after update {beside.held}, its label is behind"
        found.append(limit("label-behind-weights", text))
    if beside.forbidden is None:
        return found
    if unseen := beside.forbidden.report.blocking(contract.waived, beside.later):
        reasons = [one.text for one in unseen[:MOST_REASONS]]
        if len(unseen) > MOST_REASONS:
            reasons.append(f"and {len(unseen) - MOST_REASONS:,} more reasons")
        found.append(limit("forbidden-unseen", "; ".join(reasons)))
    return found
