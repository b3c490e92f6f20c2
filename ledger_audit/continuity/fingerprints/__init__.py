"""
Fingerprints: what decided the order of the stream before a resume and after it.

What each rank logged is gathered from its events, compared rank by rank, and held against what
the contract asks; beside it, whether restore, iterator and first record came in this order.
"""

from ledger_audit.continuity.fingerprints.by_rank import changes_of, rank_differences
from ledger_audit.continuity.fingerprints.changes import (
    changes,
    mismatches,
    rank_change,
    undecided,
    unlogged,
)
from ledger_audit.continuity.fingerprints.judging import audit_fingerprints, faults, limits
from ledger_audit.continuity.fingerprints.logged import Logged, at_checkpoint, at_launch, at_restore
from ledger_audit.continuity.fingerprints.restoring import restoring

__all__ = [
    "Logged",
    "at_checkpoint",
    "at_launch",
    "at_restore",
    "audit_fingerprints",
    "changes",
    "changes_of",
    "faults",
    "limits",
    "mismatches",
    "rank_change",
    "rank_differences",
    "restoring",
    "undecided",
    "unlogged",
]
