"""Sets the four positions of a checkpoint side by side: read, queued, used, committed."""

from collections.abc import Mapping

import polars as pl

from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.tally import Tally
from ledger_audit.model.checkpoints import Ladder


def ladder_of(tally: Tally, claims: Mapping[int, Claim], *, knows_open: bool) -> Ladder:
    """
    Give the four positions, in sequences of all ranks.

    Args:
        tally: what the ledger has.
        claims: what the ranks claim: what they read and queued, where the ledger does not log it.
        knows_open: every rank's snapshot has a place in its order of writing.
    """
    committed = _sequences(tally.committed)
    used = committed + _sequences(tally.voided) + _sequences(tally.open)
    frames = (tally.committed, tally.voided, tally.open)
    is_plain = all(frame["records"].sum() == frame["sequences"].sum() for frame in frames)
    read = tally.read if is_plain else None
    queued = tally.queued if is_plain else None
    if read is None:
        read = _claimed(claims, "read", is_plain=is_plain)
    if queued is None:
        waiting = _claimed(claims, "queued", is_plain=is_plain)
        # a claim tells how many wait, a ledger how many ever came
        queued = None if waiting is None or not knows_open else used + waiting
    is_whole = tally.unseen is None
    return Ladder(
        read=read,
        queued=queued,
        used=used if knows_open and is_whole else None,
        committed=committed if is_whole else None,
    )


def _sequences(frame: pl.DataFrame) -> int:
    return int(frame["sequences"].sum())


def _claimed(claims: Mapping[int, Claim], stage: str, *, is_plain: bool) -> int | None:
    """Add up what all ranks say of a stage since the run began; null: not all say it."""
    total = 0
    for claim in claims.values():
        counts = [one for one in claim.counts if one.stage == stage]
        units = ("sequences", "records", "documents", None) if is_plain else ("sequences",)
        told = [one for one in counts if one.unit in units]
        if len(told) != 1 or (stage == "read" and told[0].since != "run"):
            return None
        if told[0].of == "all":
            return told[0].value
        total += told[0].value
    return total if claims else None
