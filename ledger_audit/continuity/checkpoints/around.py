"""Compares, around one resume, the claim that was saved, the one restored, and the records."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.checkpoints.branch import every_attempt
from ledger_audit.continuity.checkpoints.case import case_of, launches_of
from ledger_audit.continuity.checkpoints.digests import Starts
from ledger_audit.continuity.checkpoints.evidence import gathered
from ledger_audit.continuity.checkpoints.saves import Told, first_start, gather, starts
from ledger_audit.continuity.checkpoints.tallies import tally_of
from ledger_audit.continuity.checkpoints.wholeness import Habits, newest_of
from ledger_audit.continuity.claims.pairs import pairwise, uncounted
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.told import data_of
from ledger_audit.continuity.windows import Source
from ledger_audit.model import Resume

MOST_COUNTED = 1_000_000
"""Records that are counted, to compare a claim, though only a window was to be read."""


def with_claims(
    resume: Resume, source: Source, index: int, archive: Callable[[], Archive]
) -> Resume:
    """
    Add to a judged resume how claim saved, claim restored and first records compare.

    Args:
        resume: it.
        source: the ledger.
        index: the place of the resumed attempt in the lineage.
        archive: opens sums over the ledger, if anything is claimed.
    """
    before, after = source.lineage.chain[index - 1], source.lineage.chain[index]
    if "kind" not in source.acts.columns:
        return resume
    said, _ = gather(source.acts)
    step = after.resumed_at or 0
    own = [one for one in said if (one.attempt, one.step) == (before.label, step)]
    restored = restored_by(source.acts, after.label)
    if not own and not restored:
        return resume
    begun = starts(source.acts)
    told = _loaded(said, own, before, begun) if own else Told(before.label, step, 1, {})
    saved = {rank: save.claim for rank, save in told.saves.items() if save.claim is not None}
    if not saved and not restored:
        return resume
    opened = archive()
    rows = sum(opened.size(one.label) for one in source.lineage.chain[:index])
    if resume.read_steps is not None and rows > MOST_COUNTED:
        # a window was asked for: to count all that came before it would read everything
        why = f"counting {rows:,} records is left to --full, or to the command checkpoints"
        return replace(resume, claims=uncounted(saved, restored, why))
    known = every_attempt(source.lineage)
    case = case_of(0, told, known, launches_of(source.acts, [told.attempt]))
    evidence = gathered(opened, [case], said, known, begun)
    tally = tally_of(evidence.summed, case, evidence.documents(case))
    return replace(resume, claims=pairwise(saved, restored, tally, resume.first_place))


def _loaded(said: Sequence[Told], own: Sequence[Told], attempt: Attempt, begun: Starts) -> Told:
    """Choose among the saves of a step: one that never ended was not loaded."""
    habits = Habits.of([one for one in said if one.attempt == attempt.label])
    return newest_of(own, attempt, habits, first_start(begun, attempt.label))


def restored_by(acts: pl.DataFrame, label: str) -> Mapping[int, Any]:
    """
    Give the state that each rank of an attempt says it loaded.

    The `claim` of its `restore` event, else what its `start` says was `restored`.
    """
    found: dict[int, Any] = {}
    own = acts.filter(pl.col("attempt") == label).sort("rank", "seq")
    for kind, key in (("start", "restored"), ("restore", "claim")):
        seen: set[int] = set()
        for row in own.filter(pl.col("kind") == kind).iter_rows(named=True):
            state = data_of(row).get(key)
            if state is not None and row["rank"] not in seen:
                seen.add(row["rank"])
                found[row["rank"]] = state
    return found
