"""
Says how the try of every record ended, and which steps were committed, voided, or not whole.

A try is what one rank recorded for one step between two of its commits or voids.
"""

from collections.abc import Callable, Iterator

import polars as pl

from ledger_audit.continuity.frames import IN_MEMORY, IS_USED, arranged
from ledger_audit.continuity.lineage import Attempt

STEPS = {
    "step": pl.Int64(),
    "attempt": pl.String(),
    "committed": pl.Boolean(),
    "voided": pl.Boolean(),
    "whole": pl.Boolean(),
    "counted": pl.Boolean(),
    "missing": pl.Int64(),
    "stray": pl.Int64(),
}

_PLACE = ["rank", "step", "slot", "row", "try_seq"]
_CONTENT = ["source", "epoch", "sample_id", "token_start", "token_end", "position"]


def with_fates(records: pl.DataFrame, tries: pl.DataFrame) -> pl.DataFrame:
    """
    Attach to each record how its try ended: the next commit or void of its rank and step.

    Args:
        records: SAMPLES of one attempt.
        tries: its commits and voids: rank, seq, step, kind.

    Returns:
        RECORDS without keys.
    """
    ends = tries.select("rank", "step", "seq", try_seq=pl.col("seq"), fate=pl.col("kind"))
    joined = (
        records.lazy()
        .sort("seq")
        .join_asof(
            ends.lazy().sort("seq"),
            on="seq",
            by=["rank", "step"],
            strategy="forward",
            check_sortedness=False,
        )
        .collect(engine=IN_MEMORY)
    )
    joined = _without_rewritten(joined)
    return arranged(
        joined.with_columns(
            tokens=pl.col("token_end") - pl.col("token_start"), beyond=pl.lit(value=False)
        )
    )


def _without_rewritten(rows: pl.DataFrame) -> pl.DataFrame:
    """
    Void what the same rank wrote again, word for word, in the same place of the same try.

    One place of a micro-batch holds a record once: it was tried again, and the void is lost.
    """
    if not rows.select(_PLACE).is_duplicated().any():
        return rows  # not even packed: nothing shares a place
    place = [*_PLACE, *_CONTENT]
    again = pl.int_range(pl.len()).over(place) < pl.len().over(place) - 1
    return rows.with_columns(fate=pl.when(again).then(pl.lit("void")).otherwise("fate"))


def mismatches(
    records: pl.DataFrame,
    tries: pl.DataFrame,
    label: str,
    hashed: Callable[[pl.DataFrame], pl.Series],
) -> list[str]:
    """
    Name the tries whose records are all there and do not have the digest that the commit tells.

    Args:
        records: RECORDS of one attempt, whole tries.
        tries: its commits and voids.
        label: of the attempt.
        hashed: gives the hash of each record.
    """
    told = tries.filter(pl.col("digest").is_not_null(), pl.col("samples").is_not_null())
    place = ["rank", "step", "try_seq"]
    told = told.select("rank", "step", "samples", "digest", try_seq=pl.col("seq"))
    rows = records.join(told, on=place, how="semi")
    if rows.is_empty():
        return []
    found = (
        rows.with_columns(hash=hashed(rows))
        .group_by(place)
        .agg(pl.len().alias("n"), pl.col("hash").sum().reinterpret(signed=True))
    )
    wrong = told.join(found, on=place).filter(
        pl.col("n") == pl.col("samples"), pl.col("hash") != pl.col("digest")
    )
    return [
        f"rank {rank}, step {step} of attempt {label}"
        for rank, step in wrong.sort("step", "rank").select("rank", "step").iter_rows()
    ]


def committed_twice(tries: pl.DataFrame, label: str) -> list[str]:
    """Say where a rank committed a step twice: a spare that takes over goes on after the last."""
    commits = tries.filter(kind="commit").select("rank", "step")
    twice = commits.filter(commits.is_duplicated()).sort("step", "rank")
    if twice.is_empty():
        return []
    rank, step = twice.row(0)
    return [f"attempt {label} was launched twice: rank {rank} committed step {step} in both"]


def steps_of(
    attempt: Attempt,
    records: pl.DataFrame,
    tries: pl.DataFrame,
    *,
    has_commits: bool,
) -> pl.DataFrame:
    """
    Judge every step of one stretch of an attempt that left a record, a commit or a void.

    Args:
        attempt: the attempt.
        records: RECORDS of the stretch.
        tries: its commits and voids in the stretch.
        has_commits: the ledger holds at least one commit event; without any, a step that every
            rank reached is taken as committed, except the last of an attempt without an end.

    Returns:
        STEPS, sorted by step.
    """
    return steps_from(attempt, left_of(records), tries, has_commits=has_commits)


def left_of(records: pl.DataFrame) -> pl.DataFrame:
    """Count the records of each try: rank, step, try_seq, n, n_used (those not voided)."""
    return records.group_by("rank", "step", "try_seq").agg(
        pl.len().cast(pl.Int64).alias("n"), IS_USED.sum().cast(pl.Int64).alias("n_used")
    )


def steps_from(
    attempt: Attempt, left: pl.DataFrame, tries: pl.DataFrame, *, has_commits: bool
) -> pl.DataFrame:
    """
    Judge the same by counts alone.

    Args:
        attempt: the attempt.
        left: rank, step, try_seq, n and n_used (records of a try, and those not voided).
        tries: its commits and voids in the stretch.
        has_commits: as above.

    Returns:
        STEPS, sorted by step.
    """
    parts = []
    for is_within, ranks in stretches(attempt):
        is_own = is_within & pl.col("rank").is_in(sorted(ranks))
        own = left.lazy().filter(is_own), tries.lazy().filter(is_own)
        parts.append(_stretch(attempt, *own, ranks))
    steps = pl.concat(parts).sort("step")
    if has_commits:
        committed = pl.col("all_commit")
    else:
        reached = min((attempt.last_steps.get(rank, -1) for rank in attempt.seen), default=-1)
        committed = pl.col("step") <= (reached if attempt.has_end else reached - 1)
    if attempt.loaded_at is not None:  # whatever a checkpoint holds was committed
        committed |= pl.col("step") <= attempt.loaded_at
    if attempt.expects is not None:  # nobody ran it: a rank without a share of a step has none
        every = pl.lit(value=True)
        steps, committed = steps.with_columns(whole=every, missing=pl.lit(0, pl.Int64)), every
    steps = steps.with_columns(
        committed=committed, attempt=pl.lit(attempt.label), missing=_with_lost(attempt)
    )
    return (
        steps.with_columns(
            whole=pl.col("whole") & (pl.col("committed") | pl.col("voided")),
            stray=pl.when(~pl.col("committed")).then("n_used").otherwise(0),
        )
        .select(list(STEPS))
        .collect(engine=IN_MEMORY)
    )


def stretches(attempt: Attempt) -> Iterator[tuple[pl.Expr, frozenset[int]]]:
    """Give what tells a `step` of each stretch with the same members, and its logged ranks."""
    for first, last, ranks in attempt.spans:
        is_within = pl.lit(value=True)
        if first is not None:
            is_within &= pl.col("step") >= first
        if last is not None:
            is_within &= pl.col("step") <= last
        yield is_within, ranks


def _with_lost(attempt: Attempt) -> pl.Expr:
    """Add what the writer itself gave up to what the commits say is missing."""
    missing = pl.col("missing")
    for step, records in attempt.lost:
        if step is not None:
            given_up = pl.when(pl.col("step") == step).then(records).otherwise(0)
            missing = pl.max_horizontal(missing, given_up)
    return missing.cast(pl.Int64)


def _stretch(
    attempt: Attempt, left: pl.LazyFrame, tries: pl.LazyFrame, ranks: frozenset[int]
) -> pl.LazyFrame:
    """
    Count, by step, what the ranks of one membership left.

    Args:
        attempt: the attempt.
        left: rank, step, try_seq, n and n_used (records of a try, and those not voided).
        tries: commits and voids.
        ranks: the membership.
    """
    voters = len(ranks - attempt.missing)
    absent = len(ranks & attempt.missing)
    of_rank = left.group_by("step", "rank").agg(pl.col("n_used").sum(), heard=pl.lit(value=True))
    said = _said(left, tries).select(
        "step", "rank", "lost", said=pl.lit(value=True), heard=pl.col("samples") == 0
    )
    told = pl.concat([of_rank, said, tries.select("step", "rank", "kind")], how="diagonal")

    def ranks_of(fulfilled: pl.Expr) -> pl.Expr:
        return pl.col("rank").filter(fulfilled).n_unique()

    steps = told.group_by("step").agg(
        ranks_of(pl.col("heard")).alias("n_ranks"),
        pl.col("n_used").sum(),
        pl.col("n_used").max().fill_null(0).alias("peer"),
        pl.col("lost").sum(),
        ranks_of(pl.col("said")).alias("n_said"),
        ranks_of(pl.col("kind") == "commit").alias("commit"),
        ranks_of(pl.col("kind") == "void").alias("void"),
    )
    return steps.select(
        "step",
        (pl.lit(voters > 0) & (pl.col("commit") >= voters)).alias("all_commit"),
        (pl.lit(voters > 0) & (pl.col("void") >= voters) & (pl.col("commit") == 0)).alias("voided"),
        ((pl.col("n_ranks") >= len(ranks)) & (pl.col("lost") == 0)).alias("whole"),
        ((pl.col("n_said") >= len(ranks)) & (pl.col("lost") == 0)).alias("counted"),
        (pl.col("lost") + pl.col("peer") * absent).cast(pl.Int64).alias("missing"),
        pl.col("n_used"),
    )


def _said(left: pl.LazyFrame, tries: pl.LazyFrame) -> pl.LazyFrame:
    """Compare what each commit says its try held with what is there: rank, step, samples, lost."""
    return (
        tries.filter((pl.col("kind") == "commit") & pl.col("samples").is_not_null())
        .join(
            left.filter(pl.col("try_seq").is_not_null()),
            left_on=["rank", "step", "seq"],
            right_on=["rank", "step", "try_seq"],
            how="left",
        )
        .select(
            "rank",
            "step",
            "samples",
            (pl.col("samples") - pl.col("n").fill_null(0)).clip(0).alias("lost"),
        )
    )
