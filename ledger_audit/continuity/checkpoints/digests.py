"""Sums the digests of commits up to a checkpoint, and compares the cursors that it holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ledger_audit.continuity.checkpoints.branch import Leg
from ledger_audit.continuity.checkpoints.saves import Told
from ledger_audit.continuity.checkpoints.walk import Walk
from ledger_audit.continuity.checkpoints.wholeness import named
from ledger_audit.continuity.tries import stretches
from ledger_audit.model.checkpoints import Digest

Starts = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""Attempt → rank → data of its start event."""

_ALL = 1 << 64


def digest_of(told: Told, legs: Sequence[Leg], walks: Mapping[str, Walk], starts: Starts) -> Digest:
    """Give the sum up to a checkpoint, and whether its cursors have those of their ranks."""
    own = [leg for leg in legs if leg.first <= leg.last]
    known = [(leg, walks[leg.attempt.label]) for leg in own if leg.attempt.label in walks]
    why = _unknown(own, known)
    value = None if why else str(_signed(sum(_sum(leg, walk) for leg, walk in known)))
    sums = {leg.attempt.label: _by_rank(leg, walk) for leg, walk in known}
    wrong: list[int] = []
    right: list[int] = []
    for rank, save in told.saves.items():
        claimed = _claimed(save.cursor, told.step)
        found = None if claimed is None else _of_rank(rank, legs, sums, starts)
        if claimed is not None and found is not None:
            (right if claimed == found else wrong).append(rank)
    if wrong:
        it = "it stands" if len(wrong) == 1 else "they stand"
        text = f"{_cursors(wrong, has_sum=False)}: what {it} for is not what was committed"
        return Digest(value, "contradicts", text)
    if right:
        return Digest(value, "agrees", _cursors(right, has_sum=True))
    return Digest(value, "not-compared", why or "no cursor with a digest was saved")


def _cursors(ranks: Sequence[int], *, has_sum: bool) -> str:
    """Say of the cursors of some ranks whether they have the sums of their ranks' commits."""
    no = "" if has_sum else " not"
    who = named(ranks)
    if len(ranks) == 1:
        return f"the cursor of {who} has{no} the sum of its rank's commits"
    return f"the cursors of {who} have{no} the sums of their ranks' commits"


def _unknown(own: Sequence[Leg], known: Sequence[tuple[Leg, Walk]]) -> str | None:
    """Say why the sum is not known; null: it is."""
    if len(known) < len(own):
        return "an attempt of the lineage is not in the ledger"
    if len({leg.attempt.digest_columns for leg in own}) > 1:
        return "the attempts of the lineage digest different columns"
    for leg, walk in known:
        steps = walk.steps.filter(pl.col("committed"), pl.col("step") <= leg.last)
        if leg.attempt.is_sampled or leg.attempt.missing or leg.attempt.has_several_starts:
            return f"not every rank of attempt {leg.attempt.label} tells its commits once"
        if (steps["digested"] < steps["expected"]).any():
            return f"a commit of attempt {leg.attempt.label} tells no digest"
    return None if known else "nothing was committed"


def _sum(leg: Leg, walk: Walk) -> int:
    """Sum the digests of a leg, of all ranks."""
    total: int = sum(walk.digests.filter(pl.col("edge") <= leg.last)["digest"].to_list())
    return total


def _by_rank(leg: Leg, walk: Walk) -> dict[int, int]:
    """Sum the digests of a leg by rank; one of which a commit has none, or is lost, is left out."""
    steps = walk.steps.filter(pl.col("step") <= leg.last)
    if not steps.filter(~pl.col("committed") & ~pl.col("voided")).is_empty():
        return {}
    committed = steps.filter("committed")
    taking_part: dict[int, int] = {}
    for is_within, ranks in stretches(leg.attempt):
        n = committed.filter(is_within).height
        for rank in ranks:
            taking_part[rank] = taking_part.get(rank, 0) + n
    rows = walk.digests.filter(pl.col("edge") <= leg.last).group_by("rank")
    sums = rows.agg(pl.col("digest").sum(), pl.col("digested").sum(), pl.col("commits").sum())
    return {
        rank: digest
        for rank, digest, digested, commits in sums.iter_rows()
        if digested == commits == taking_part.get(rank)
    }


def _of_rank(
    rank: int, legs: Sequence[Leg], sums: Mapping[str, Mapping[int, int]], starts: Starts
) -> int | None:
    """
    Sum what a rank's cursor counts; null: it is not known.

    A cursor goes on counting where the very same rank, in the same world, was given it back.
    """
    total = 0
    for leg in reversed(legs):
        attempt = leg.attempt
        start = starts.get(attempt.label, {}).get(rank)
        if start is None or attempt.has_several_starts:
            return None
        if leg.first <= leg.last:
            own = sums.get(attempt.label, {}).get(rank)
            if own is None:
                return None
            total += own
        restored = start.get("restored")
        place = (rank, attempt.world_size)
        if not isinstance(restored, dict):
            return total % _ALL
        if (restored.get("rank"), restored.get("world_size")) != place:
            return total % _ALL
    return None  # it goes on from an attempt that is not in the lineage


def _claimed(cursor: Mapping[str, Any] | None, step: int) -> int | None:
    """Read the digest of a cursor at the checkpoint's step; null: there is none."""
    digest = None if cursor is None else cursor.get("digest")
    if cursor is None or cursor.get("step") != step or not isinstance(digest, str):
        return None
    try:
        return int(digest) % _ALL
    except ValueError:
        return None


def _signed(value: int) -> int:
    value %= _ALL
    return value - _ALL if value >= _ALL >> 1 else value
