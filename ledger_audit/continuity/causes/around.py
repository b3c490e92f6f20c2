"""Adds to a judged resume why it did not continue, with what the ledger says around it."""

from collections.abc import Callable
from dataclasses import replace

import polars as pl

from ledger_audit.continuity import declared
from ledger_audit.continuity.causes import causes_of
from ledger_audit.continuity.causes.case import Case
from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.checkpoints.around import with_claims
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.windows import Source
from ledger_audit.explained import causes
from ledger_audit.model import Resume


def with_reasons(
    resume: Resume, source: Source, index: int, archive: Callable[[], Archive]
) -> Resume:
    """
    Add how its claims compare, and why it did not continue, to a judged resume.

    Args:
        resume: it.
        source: the ledger.
        index: the place of the resumed attempt in the lineage.
        archive: opens sums over the ledger, if anything is claimed.
    """
    return explained(with_claims(resume, source, index, archive), source, index)


def explained(resume: Resume, source: Source, index: int) -> Resume:
    """
    Add the causes of a broken resume; where repeats have no explanation, what was there before.

    Args:
        resume: it, with its claims.
        source: the ledger.
        index: the place of the resumed attempt in the lineage.
    """
    if resume.clues is None:
        return resume
    chain = source.lineage.chain
    case = Case(
        resume=resume,
        clues=resume.clues,
        checkpoints=_checkpoints(source, index),
        earlier=tuple(at for one in chain[1:index] if (at := one.resumed_at) is not None),
        voids=0 if resume.read_steps is not None else _voids(source, index),
        loaders=_loaders(chain[index - 1]),
        shuffle_buffer=_buffer(chain[index - 1]),
        declared=declared.lengths(chain[: index + 1], resume.checkpoint_step),
        claimed_ahead=next((one.ahead for one in resume.claims if one.ahead is not None), None),
    )
    return replace(resume, causes=causes_of(case, causes()))


def _checkpoints(source: Source, index: int) -> tuple[int, ...]:
    """Give the steps of the checkpoints that the lineage had, newest first, but for the loaded."""
    if "kind" not in source.acts.columns:
        return ()
    own = [one.label for one in source.lineage.chain[:index]]
    at = source.lineage.chain[index].resumed_at
    rows = source.acts.filter(pl.col("kind") == "checkpoint", pl.col("attempt").is_in(own))
    steps = rows["step"].drop_nulls().unique().sort(descending=True).to_list()
    return tuple(step for step in steps if step != at)


def _voids(source: Source, index: int) -> int:
    """Count the updates before the checkpoint that the rank with the most of them threw away."""
    total = 0
    for place, one in enumerate(source.lineage.chain[:index]):
        tries = source.tries(one.label, 0, source.lineage.until(place, index))
        counts = tries.filter(pl.col("kind") == "void").group_by("rank").len()["len"]
        total += max(counts.to_list(), default=0)
    return total


def _loaders(attempt: Attempt) -> tuple[int, int] | None:
    known = attempt.fingerprint
    found = known.get("workers"), known.get("prefetch_factor")
    workers, batches = found
    if workers == 0:
        return 0, 0
    return (workers, batches) if isinstance(workers, int) and isinstance(batches, int) else None


def _buffer(attempt: Attempt) -> int | None:
    found = attempt.fingerprint.get("shuffle_buffer")
    return found if isinstance(found, int) else None
