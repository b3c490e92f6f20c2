"""Compares the step that a checkpoint is named by with what its weights held at the snapshot."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.checkpoints.saves import Told
from ledger_audit.continuity.checkpoints.walk import Walk
from ledger_audit.continuity.checkpoints.wholeness import named
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.model.checkpoints import Label


def label_of(archive: Archive, told: Told, walk: Walk, ends: pl.DataFrame | None) -> Label:
    """
    Judge one checkpoint: only `begin` stands in an order with commits, per rank.

    Args:
        archive: the ledger.
        told: the checkpoint.
        walk: through its attempt.
        ends: of the walk, those of this checkpoint; null: no rank says a place for it.
    """
    rows = [] if ends is None else ends.to_dicts()
    began = [row for row in rows if told.saves[row["rank"]].begin is not None]
    held = {row["rank"]: _held(row, walk.attempt) for row in began}
    why = _unordered(archive, walk.attempt, held)
    if why is not None:
        return Label("unknown", why)
    behind = {rank: step for rank, step in held.items() if step > told.step}
    ahead = {rank: step for rank, step in held.items() if step < told.step}
    if behind:
        return Label("behind", _behind(told.step, behind))
    if not ahead:
        ranks = named(held)
        return Label("agrees", f"the last update before the snapshot was {told.step:,} on {ranks}")
    if any(one.attempt == walk.attempt.label for one in archive.source.unread):
        return Label("unknown", "commits may be lost with a file that cannot be read")
    if all(_is_lost(row) for row in began if row["rank"] in ahead):
        ranks = named(ahead)
        text = f"the commit of step {told.step:,} is not logged on {ranks}, later ones are"
        return Label("unknown", text)
    return Label("ahead", _ahead(told.step, ahead))


def _unordered(archive: Archive, attempt: Attempt, held: Mapping[int, int]) -> str | None:
    """Say why snapshots and commits are in no order; null: they are."""
    if not archive.source.has_commits:
        return "no commits are logged: what the weights held cannot be told"
    if attempt.has_several_starts:
        return "two launches count their order of writing apart"
    return None if held else "no begin is logged: the step is taken at its word"


def _held(row: Mapping[str, Any], attempt: Attempt) -> int:
    """
    Give the last update that was in the weights of a rank at the snapshot.

    An update that was thrown away is none, but the step that it was for is over, unless it was
    tried again later.
    """
    step = row["commit_before"]
    held = int((attempt.resumed_at or 0) if step is None else step)
    is_over = row["void_before"] == row["step"] and row["own_commit"] is None
    return int(row["step"]) if is_over and held < row["step"] else held


def _is_lost(row: Mapping[str, Any]) -> bool:
    """Tell whether a rank went on past a step whose commit it never logged."""
    is_past = row["newest_commit"] is not None and row["newest_commit"] > row["step"]
    return row["own_commit"] is None and is_past


def _behind(step: int, held: Mapping[int, int]) -> str:
    most = max(held.values())
    what = f"update {step + 1:,}" if most == step + 1 else f"updates {step + 1:,} to {most:,}"
    return (
        f"{named(held)} committed {what} before the snapshot: the weights hold more "
        f"than step {step:,} says, and a resume from it trains {what} again"
    )


def _ahead(step: int, held: Mapping[int, int]) -> str:
    least = min(held.values())
    what = f"update {step:,}" if least == step - 1 else f"updates {least + 1:,} to {step:,}"
    return (
        f"{named(held)} had not committed {what} at the snapshot: a resume from it "
        f"leaves {'it' if least == step - 1 else 'them'} out"
    )


def ends_of(walk: Walk) -> dict[int, pl.DataFrame]:
    """Put together, by checkpoint, what stretches of steps tell of each rank's snapshot."""
    if walk.ends.is_empty():
        return {}
    rows = walk.ends.group_by("checkpoint", "rank", "step", "seq").agg(
        pl.col("commit_before").sort_by("commit_seq", nulls_last=False).last(),
        pl.col("void_before").sort_by("void_seq", nulls_last=False).last(),
        pl.col("own_commit").max(),
        pl.col("newest_commit").max(),
    )
    return {
        int(str(place)): own.sort("rank")
        for (place,), own in rows.partition_by("checkpoint", as_dict=True).items()
    }
