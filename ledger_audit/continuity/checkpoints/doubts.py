"""Says why the amounts of a ledger up to a checkpoint may be too small."""

from collections.abc import Iterable, Mapping

import polars as pl

from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.checkpoints.branch import Leg
from ledger_audit.continuity.checkpoints.walk import Walk
from ledger_audit.continuity.checkpoints.wholeness import named
from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.model import Unread
from ledger_audit.printable import counted

BEFORE = "nothing says what the run had used before"

_MOST = 2
"""Reasons that are told; the rest is counted."""


def unseen(
    archive: Archive, legs: Iterable[Leg], walks: Mapping[str, Walk], claims: Iterable[Claim]
) -> str | None:
    """Tell why amounts up to a checkpoint may be too small; null: they are whole."""
    wanted = list(claims)
    found: list[str] = []
    for number, leg in enumerate(legs):
        found += _of_attempt(leg)
        if number == 0 and (since := unlogged_until(leg, walks)) is not None:
            found.append(f"attempt {leg.attempt.label} begins at step {since:,}: {BEFORE}")
        if leg.first <= leg.last and leg.attempt.label in walks:
            found += _of_steps(archive, leg, walks[leg.attempt.label], wanted)
    told = list(dict.fromkeys(found))
    if not told:
        return None
    more = f", and {counted(len(told) - _MOST, 'more reason')}" if len(told) > _MOST else ""
    return "; ".join(told[:_MOST]) + more


def unlogged_until(leg: Leg, walks: Mapping[str, Walk]) -> int | None:
    """
    Give the first step of a log that was switched on in the middle of a run; null: it was not.

    Args:
        leg: the oldest of a lineage.
        walks: through its attempts.
    """
    if leg.attempt.is_absent or leg.attempt.resumed_at is not None or leg.last < leg.first:
        return None
    steps = None if leg.attempt.label not in walks else walks[leg.attempt.label].steps
    # where not even the checkpoint's own step is there, nothing of the lineage is
    first = leg.last + 1 if steps is None or steps.is_empty() else int(steps["step"][0])
    return first if first > 1 else None


def _of_attempt(leg: Leg) -> list[str]:
    """Tell what leaves a whole attempt in doubt."""
    attempt, found = leg.attempt, []
    name = f"attempt {attempt.label}"
    if attempt.is_absent:
        found.append(f"{name}, which was resumed from, is not in the ledger")
    if attempt.disagreement is not None:
        found.append(f"start events of {name} disagree about {attempt.disagreement}")
    if attempt.is_assumed:
        found.append(f"nothing says where {name} resumed from")
    if leg.last < leg.first:
        return found
    ranks = frozenset().union(*(attempt.participants(one) for one in (leg.first, leg.last)))
    if attempt.is_sampled and attempt.logged is not None:
        logged, everyone = len(attempt.logged & attempt.everyone), len(attempt.everyone)
        found.append(f"only {logged:,} of {counted(everyone, 'rank')} are logged")
    if ranks & attempt.missing:
        found.append(f"{named(ranks & attempt.missing)} of {name} left nothing")
    given_up = sum(records for step, records in attempt.lost if step is None)
    if given_up:
        found.append(f"writers of {name} gave up {counted(given_up, 'record')} of unknown steps")
    return found


def _of_steps(archive: Archive, leg: Leg, walk: Walk, claims: list[Claim]) -> list[str]:
    """Tell what leaves steps of an attempt in doubt."""
    name = f"attempt {leg.attempt.label}"
    steps = walk.steps.filter(pl.col("step") <= leg.last)
    lacking = walk.lacking.filter(pl.col("step") <= leg.last)
    excused = lacking.group_by("step").agg(pl.col("records").sum().alias("excused"))
    steps = steps.join(excused, on="step", how="left").with_columns(
        pl.col("excused").fill_null(0), is_excused=pl.col("excused").is_not_null()
    )
    found = [*walk.twice]
    if leg.last not in steps["step"] and not _is_before(leg):
        found.append(f"step {leg.last:,} of {name} left nothing")
    open_steps = steps.filter(~pl.col("committed") & ~pl.col("voided"))
    if open_steps.height:
        why = "not committed by all ranks"
        if not archive.source.has_commits:
            why = "not taken as committed: no commits are logged, and it is the last"
        found.append(_told(open_steps, f"of {name} {why}"))
    missing = steps.filter(pl.col("committed"), pl.col("missing") > pl.col("excused"))
    if missing.height:
        records = int((missing["missing"] - missing["excused"]).sum())
        first, last = int(missing["step"][0]), int(missing["step"][-1])
        of = f"of step {first:,}" if first == last else f"of steps {first:,} to {last:,}"
        found.append(f"{counted(records, 'record')} {of} of {name} missing")
    silent = steps.filter(
        pl.col("committed"), ~pl.col("whole"), pl.col("missing") == 0, ~pl.col("is_excused")
    )
    if silent.height:
        found.append(_told(silent, f"of {name} without records of some rank"))
    there = steps["step"]
    vanished = sum(
        records
        for step, records in leg.attempt.lost
        if step is not None and leg.first <= step <= leg.last and step not in there
    )
    if vanished:
        found.append(f"writers of {name} gave up {counted(vanished, 'record')} of whole steps")
    found += _torn(archive.source.unread, leg, steps)
    return found + _put_away(archive, leg, lacking, walk, claims)


def _is_before(leg: Leg) -> bool:
    return leg.last < 1  # the state before the first update


def _told(steps: pl.DataFrame, what: str) -> str:
    first = int(steps["step"][0])
    if steps.height == 1:
        return f"step {first:,} {what}"
    return f"{counted(steps.height, 'step')} {what}, the first of them {first:,}"


def _torn(unread: Iterable[Unread], leg: Leg, steps: pl.DataFrame) -> list[str]:
    """Name files that cannot be read, and hold steps that commits do not count in full."""
    found = []
    for part in unread:
        if part.attempt != leg.attempt.label or (part.from_step or 0) > leg.last:
            continue
        first = max(leg.first, part.from_step or 0)
        last = leg.last if part.to_step is None else min(leg.last, part.to_step)
        within = steps.filter(pl.col("step").is_between(first, last))
        is_counted = within.filter(pl.col("committed"), ~pl.col("counted")).is_empty()
        is_there = within.height >= last - max(first, 1) + 1
        if not (is_counted and is_there):
            found.append(f"{part.file} is {part.reason}")
    return found


def _put_away(
    archive: Archive, leg: Leg, lacking: pl.DataFrame, walk: Walk, claims: list[Claim]
) -> list[str]:
    """Say what commits do not tell of records that were not kept, if a claim asks for it."""
    kept = archive.put_away.get(leg.attempt.label)
    if kept is None or lacking.is_empty():
        return []
    records = int(lacking["records"].sum())
    told = f"{counted(records, 'record')} of attempt {leg.attempt.label} were put away (retain)"
    if records > kept:
        return [f"{told}, and only {kept:,} of them on purpose"]
    counts = [one for claim in claims for one in claim.counts if one.stage == "consumed"]
    units = {one.unit for one in counts}
    committed = walk.committed
    is_packed = committed["records"].sum() != committed["sequences"].sum()
    has_passes = committed["epoch"].null_count() < committed.height and not is_first_pass(walk)
    by_batch = bool(units & {"micro-batches", "elements"}) or any(one.batch for one in counts)
    unknown = {
        "pass": has_passes and any(one.since == "epoch" for one in counts),
        "micro-batches": by_batch,
        "sequences": is_packed and bool(units & {"sequences", None}),
        "documents": "documents" in units,
        "tokens": "tokens" in units and lacking["tokens"].null_count() > 0,
    }
    return [f"{told}: their {what} cannot be told" for what, is_one in unknown.items() if is_one][
        :1
    ]


def is_first_pass(walk: Walk) -> bool:
    """Tell whether what was put away can only be of the first pass: what was kept is, too."""
    lowest = walk.committed["epoch"].min()
    return isinstance(lowest, int) and lowest == 0
