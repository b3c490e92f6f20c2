"""What the caller knows about a resume beside its windows."""

from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.beside import Beside
from ledger_audit.model import LaterEpoch


@dataclass(frozen=True)
class Circumstances:
    """How a resume is looked at, and what is known of it beside its windows."""

    has_commits: bool = True
    is_narrow: bool = False
    """Only a window of steps was read."""
    too_large: int | None = None
    """Records that were all to be looked at, and are more than memory holds; null: they are not."""
    unread_from: int | None = None
    """The first step of the resumed attempt that was not read; null: all of them were."""
    awaited: int | None = None
    """Whole resumed steps without which nothing is to be proven."""
    beside: Beside | None = None
    """What is known beside the records; null: nothing was looked at."""
    later_epochs: tuple[LaterEpoch, ...] | None = None
    """The epochs that are over, if they were judged apart; null: the records are to tell."""
    departs_at: int | None = None
    """The committed step from which an expected stream is another one; null: it is followed."""
    departs_from: str = "reference"
    """What it is, where it departs: `reference`, or the `recipe` of the fingerprint."""
    skipped_before: pl.DataFrame | None = None
    """What earlier resumes of the lineage skipped: source, epoch, sample_id."""
