"""Sums up, step by step, what the ranks of a dead attempt had used beyond a checkpoint."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ledger_audit.ledger.opening import open_events
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.recovery import still_unread
from ledger_audit.ledger.schema import DIGEST_COLUMNS, event_data
from ledger_audit.model.rolled_back import RolledBack, Used, global_batch_of

MOST_STEPS = 10_000
"""Steps that are summed up; more were rarely lost, and every rank gets them all."""


def rolled_back(root: Path, attempt: str, after: int) -> RolledBack:
    """
    Read what an attempt had used after a checkpoint, from its events alone.

    What cannot be read is told as a reason, and never raised: a trainer asks.

    Args:
        root: of the ledger.
        attempt: that died.
        after: the step of the checkpoint.
    """
    try:
        return _read(open_events(root, attempt), attempt, after)
    except (Exception, pl.exceptions.PanicException) as problem:  # all ranks wait for the answer
        return RolledBack(because=f"attempt {attempt} cannot be read: {problem}")


def _read(ledger: Ledger, attempt: str, after: int) -> RolledBack:
    acts = ledger.acts().filter(attempt=attempt)
    starts = acts.filter(kind="start")
    told = [event_data(text) for text in starts["data"]]
    problem = _unfit(acts, starts, told, after)
    if problem is not None:
        return RolledBack(because=f"attempt {attempt} {problem}")
    world_size, logged = told[0]["world_size"], told[0].get("logged_ranks")
    tries = ledger.tries(attempt, after + 1, after + MOST_STEPS)
    ranks = frozenset(_up_to(world_size, tries["rank"]) if logged is None else logged)
    holes = [one.from_step for one in still_unread(acts, ledger.unread)]
    sure = min((after if step is None else step for step in holes), default=after + MOST_STEPS)
    is_whole = logged is not None or len(ranks) == world_size
    steps = _steps(tries, ranks, sure) if is_whole else {}
    nothing = f"no step after {after} that every rank committed with a digest"
    return RolledBack(
        steps=steps,
        world_size=world_size,
        logged=None if logged is None else ranks,
        global_batch=global_batch_of(told[0].get("fingerprint") or {}, world_size),
        because=None if steps else f"attempt {attempt} holds {nothing}",
    )


def _unfit(
    acts: pl.DataFrame, starts: pl.DataFrame, told: Sequence[Mapping[str, Any]], after: int
) -> str | None:
    """Say why nothing can be compared with an attempt; null: it can."""
    shapes = {json.dumps([one.get("world_size"), one.get("logged_ranks")]) for one in told}
    is_sized = len(shapes) == 1 and all(isinstance(one.get("world_size"), int) for one in told)
    late = (pl.col("kind") == "declare") & (pl.col("step").fill_null(after) >= after)
    reasons = {
        "has no start event": starts.is_empty(),
        "was launched twice under one label": starts["rank"].is_duplicated().any(),
        "lost or gained ranks while it ran": not acts.filter(kind="membership").is_empty(),
        "declared something after the checkpoint": not acts.filter(late).is_empty(),
        "does not say one number of ranks": not is_sized,
        "digests other columns": any(
            one.get("digest_columns") != [*DIGEST_COLUMNS] for one in told
        ),
    }
    return next((why for why, is_so in reasons.items() if is_so), None)


def _up_to(world_size: int, ranks: pl.Series) -> list[int]:
    """Give the ranks of a world that left anything: it may say that it is larger than memory."""
    return [rank for rank in ranks.unique().to_list() if 0 <= rank < world_size]


def _steps(tries: pl.DataFrame, ranks: frozenset[int], sure: int) -> dict[int, Used]:
    """Sum up the steps that each of the ranks committed once, and last of all."""
    members = pl.col("rank").is_in(list(ranks))
    half = pl.col("digest").reinterpret(signed=False)
    ended = (
        tries.sort("seq")
        .group_by("rank", "step")
        .agg(
            pl.col("kind").last(),
            pl.col("samples").last(),
            pl.col("digest").last(),
            commits=(pl.col("kind") == "commit").sum(),
        )
    )
    is_sure = (
        (pl.col("kind") == "commit") & (pl.col("commits") == 1) & pl.col("digest").is_not_null()
    )
    summed = (
        ended.filter(is_sure, pl.col("samples").is_not_null(), members)
        .with_columns(high=half // (1 << 32), low=half % (1 << 32))
        .group_by("step")
        .agg(pl.len(), pl.col("samples", "high", "low").sum())
        .filter(pl.col("len") == len(ranks))
        .sort("step")
        .join_asof(_voids(tries.filter(members)), on="step")
        .with_columns(pl.col("voids").fill_null(0))
    )

    def all_threw(step: int, voids: int) -> int:
        return -1 if step > sure or voids % len(ranks) else voids // len(ranks)

    return {
        step: Used(records, ((high << 32) + low) % (1 << 64), all_threw(step, voids))
        for step, records, high, low, voids in summed.select(
            "step", "samples", "high", "low", "voids"
        ).iter_rows()
    }


def _voids(tries: pl.DataFrame) -> pl.DataFrame:
    """Count the voids of all ranks up to each step that has one."""
    voids = tries.filter(kind="void").group_by("step").agg(voids=pl.len().cast(pl.Int64))
    return voids.sort("step").with_columns(pl.col("voids").cum_sum())
