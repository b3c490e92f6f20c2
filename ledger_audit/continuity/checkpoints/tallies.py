"""Adds up, for each checkpoint, what its lineage had used when its state was snapshot."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ledger_audit.continuity.checkpoints.amounts import counted
from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.checkpoints.branch import Leg
from ledger_audit.continuity.checkpoints.case import Case
from ledger_audit.continuity.checkpoints.doubts import is_first_pass, unlogged_until, unseen
from ledger_audit.continuity.checkpoints.places import Passed, places_of
from ledger_audit.continuity.checkpoints.walk import Walk
from ledger_audit.continuity.claims.tally import TALLY, Tally
from ledger_audit.continuity.identity import IDENTITY

_SUMMED = ["records", "sequences", "spans", "tokens", "micro-batches"]


@dataclass(frozen=True)
class Known:
    """All that tallies are made of."""

    archive: Archive
    walks: Mapping[str, Walk]
    """By attempt; those without own steps in any checkpoint have none."""
    again: pl.DataFrame
    """Committed uses of what void tries had used: attempt, rank, step, seq, IDENTITY."""
    passed: Mapping[str, Passed]
    """Places, by attempt."""
    staged: Mapping[int, Mapping[str, int]]
    """Checkpoint → stage → records of its own attempt before its snapshot."""
    sources: Mapping[str, frozenset[str | None]]
    """The data sets of an attempt's records; empty where no claim asks."""


def tally_of(known: Known, case: Case, documents: pl.DataFrame | None) -> Tally:
    """
    Add up what a checkpoint's lineage had used.

    Args:
        known: the ledger, walked through.
        case: the checkpoint.
        documents: rank, epoch, documents: distinct ones that were committed; null: no claim asks.
    """
    legs, fingerprint = case.legs, case.fingerprint.value
    own = [leg for leg in legs if leg.first <= leg.last and leg.attempt.label in known.walks]
    walks = [(leg, known.walks[leg.attempt.label]) for leg in own]
    earlier = [pair for pair in walks if pair[0].attempt != legs[-1].attempt]
    void, last_kept = _void(walks), _last_kept(legs, known.walks)
    voided = _not_used_again(void, known, walks)
    committed_before = _tally([_committed(*pair) for pair in earlier], None)
    voided_before = _not_used_again(_void(earlier), known, earlier)
    used_before = [committed_before, _tally([_summed(voided_before)], None)]
    before = sum(int(frame["records"].sum()) for frame in used_before)
    newest = known.walks.get(legs[-1].attempt.label)
    opened = [] if newest is None else [newest.opened.filter(checkpoint=case.place)]
    # what an earlier attempt had read ahead was read again: it is counted as far as it was used
    staged = {stage: n + before for stage, n in known.staged.get(case.place, {}).items()}
    sources = frozenset().union(*(known.sources.get(leg.attempt.label, ()) for leg in own))
    return Tally(
        step=case.told.step,
        committed=_tally([_committed(*pair) for pair in walks], documents),
        voided=_tally([_summed(voided)], None),
        voided_last=_tally([_summed(voided, after=last_kept)], None),
        open=_tally(opened, None),
        read=staged.get("read"),
        queued=staged.get("queued"),
        dropped=known.staged.get(case.place, {}).get("dropped"),
        places=places_of(
            known.passed,
            walks,
            is_cut=legs[0].attempt.is_absent or unlogged_until(legs[0], known.walks) is not None,
        ),
        dataset_samples=_whole(fingerprint, "dataset_samples"),
        workers=_whole(fingerprint, "workers"),
        prefetch_factor=_whole(fingerprint, "prefetch_factor"),
        micro_batch_size=_whole(fingerprint, "micro_batch_size"),
        unseen=unseen(known.archive, legs, known.walks, case.every_claim),
        committed_before=committed_before if earlier else None,
        world_sizes=_world_sizes(legs),
        sources=max(1, len(sources)),
        drop_last=drops if isinstance(drops := fingerprint.get("drop_last"), bool) else None,
        voided_all=_tally([_summed(void)], None),
    )


def _committed(leg: Leg, walk: Walk) -> pl.DataFrame:
    """Give the sums of the committed steps of a leg, with what commits say was put away."""
    rows = walk.committed.filter(pl.col("edge") <= leg.last).select(["rank", "epoch", *_SUMMED])
    lacking = walk.lacking.filter(pl.col("step") <= leg.last)
    if lacking.is_empty():
        return rows
    of_pass = pl.lit(0 if is_first_pass(walk) else None, pl.Int32)
    away = lacking.select(
        "rank",
        of_pass.alias("epoch"),
        "records",
        sequences="records",
        spans=pl.when(pl.col("tokens").is_null()).then(0).otherwise("records").cast(pl.Int64),
        tokens=pl.col("tokens").fill_null(0),
    ).with_columns(pl.lit(0, pl.Int64).alias("micro-batches"))
    return pl.concat([rows, away.select(rows.columns)])


def _tally(parts: Iterable[pl.DataFrame], documents: pl.DataFrame | None) -> pl.DataFrame:
    """Add up parts with rank, epoch and amounts as a TALLY."""
    columns = ["rank", "epoch", *_SUMMED]
    kept = [part.select(columns) for part in parts if part.width]
    if not kept:
        return pl.DataFrame(schema=TALLY)
    rows = pl.concat(kept).group_by("rank", "epoch").agg(pl.col(name).sum() for name in _SUMMED)
    if documents is None:
        # nobody asks how many are distinct
        rows = rows.with_columns(documents="records")
    else:
        rows = rows.join(documents, on=["rank", "epoch"], how="left", nulls_equal=True)
        rows = rows.with_columns(pl.coalesce("documents", "records"))
    tokens = pl.when(pl.col("spans") == pl.col("records")).then("tokens")
    return (
        rows.with_columns(tokens=tokens)
        .select(pl.col(name).cast(dtype) for name, dtype in TALLY.items())
        .sort("rank", "epoch")
    )


def _void(walks: Sequence[tuple[Leg, Walk]]) -> pl.DataFrame:
    """Give the records of void tries, with `turn`, the place of their attempt."""
    found = []
    for turn, (leg, walk) in enumerate(walks):
        void = walk.void.filter(pl.col("step") <= leg.last)
        if void.height:
            found.append(void.with_columns(turn=pl.lit(turn)))
    return pl.concat(found) if found else pl.DataFrame()


def _summed(void: pl.DataFrame, *, after: int = -1) -> pl.DataFrame:
    """Count records of void tries (of the steps after one)."""
    rows = void if void.is_empty() else void.filter(pl.col("step") > after)
    # tries of several attempts may share a `seq`
    return pl.DataFrame() if rows.is_empty() else counted(rows, ["rank", "epoch", "turn"])


def _last_kept(legs: Sequence[Leg], walks: Mapping[str, Walk]) -> int:
    """Give the last step that not all ranks voided, or of which nothing is logged; else -1."""
    for leg in reversed(legs):
        if leg.first > leg.last:
            continue
        walk = walks.get(leg.attempt.label)
        steps = None if walk is None else walk.steps.filter(pl.col("step") <= leg.last)
        if steps is None or steps["step"].max() != leg.last:
            return leg.last
        kept = steps.filter(~pl.col("voided"))["step"].max()
        if isinstance(kept, int):
            return kept
    return -1


def _not_used_again(
    void: pl.DataFrame, known: Known, walks: Sequence[tuple[Leg, Walk]]
) -> pl.DataFrame:
    """Keep the records of void tries that no committed update used again later."""
    if void.is_empty():
        return void
    void = void.with_row_index("place")
    turns = pl.DataFrame(
        [(leg.attempt.label, turn, leg.last) for turn, (leg, _) in enumerate(walks)],
        schema={"attempt": pl.String(), "turn_again": pl.Int32(), "last": pl.Int64()},
        orient="row",
    )
    again = known.again.join(turns, on="attempt").filter(pl.col("step") <= pl.col("last"))
    met = void.select("place", "turn", "rank", "step", "seq", *IDENTITY).join(
        again, on=IDENTITY, nulls_equal=True, suffix="_again"
    )
    # of one step, what another rank used has no order
    is_later = (pl.col("step_again") > pl.col("step")) | (
        (pl.col("step_again") == pl.col("step"))
        & ((pl.col("rank_again") != pl.col("rank")) | (pl.col("seq_again") > pl.col("seq")))
    )
    is_later = (pl.col("turn_again") > pl.col("turn")) | (
        (pl.col("turn_again") == pl.col("turn")) & is_later
    )
    used_again = met.filter(is_later)["place"].unique()
    return void.filter(~pl.col("place").is_in(used_again.implode()))


def _world_sizes(legs: Sequence[Leg]) -> tuple[int, ...]:
    """Give the ranks of each attempt, after each change of membership; none if not known."""
    sizes: list[int] = []
    for leg in legs:
        attempt = leg.attempt
        if not attempt.everyone:
            return ()
        sizes.append(len(attempt.everyone))
        sizes += [len(ranks) for since, ranks in attempt.memberships if since <= leg.last]
    return tuple(sizes)


def _whole(fingerprint: Mapping[str, Any], key: str) -> int | None:
    value = fingerprint.get(key)
    return value if type(value) is int and value >= 0 else None
