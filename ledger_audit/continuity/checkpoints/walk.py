"""
Walks through one attempt once, and sums up what it used and committed to each of some steps.

Micro-batches are summed up unseen where nothing is odd about their step; of steps that hold a
void try, or lines that may be there twice, every record is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.checkpoints.amounts import AMOUNTS, counted
from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.tries import (
    STEPS,
    committed_twice,
    steps_from,
    stretches,
    with_fates,
)

SUMS = {
    "rank": pl.Int32(),
    "step": pl.Int64(),
    "slot": pl.Int32(),
    "epoch": pl.Int32(),
    "try_seq": pl.Int64(),
    "is_void": pl.Boolean(),
    "seq_low": pl.Int64(),
    **AMOUNTS,
}
"""One row a micro-batch, try and pass."""

_BY = ["rank", "step", "slot", "epoch", "try_seq", "is_void"]

COMMITTED = {"edge": pl.Int64(), "rank": pl.Int32(), "epoch": pl.Int32(), **AMOUNTS}
OPEN = {"checkpoint": pl.Int64(), "rank": pl.Int32(), "step": pl.Int64(), "epoch": pl.Int32()} | (
    dict(AMOUNTS)
)
TRIES = {"rank": pl.Int32(), "seq": pl.Int64(), "step": pl.Int64(), "kind": pl.String()}
LACKING = {
    "edge": pl.Int64(),
    "rank": pl.Int32(),
    "step": pl.Int64(),
    "records": pl.Int64(),
    "tokens": pl.Int64(),
}
DIGESTS = {
    "edge": pl.Int64(),
    "rank": pl.Int32(),
    "digest": pl.UInt64(),
    "digested": pl.Int64(),
    "commits": pl.Int64(),
}

SNAPSHOTS = {
    "checkpoint": pl.Int64(),
    "rank": pl.Int32(),
    "step": pl.Int64(),
    "seq": pl.Int64(),
    "is_begin": pl.Boolean(),
}
"""Where a rank's snapshot stands in its order of writing: one row a checkpoint and rank."""


@dataclass(frozen=True)
class Walk:
    """What one attempt used and committed; the `edge` of a step is the first one from it on."""

    attempt: Attempt
    committed: pl.DataFrame
    """COMMITTED: what the updates from edge to edge used."""
    lacking: pl.DataFrame
    """LACKING: what commits say beyond the records that are there."""
    void: pl.DataFrame
    """RECORDS of tries that were thrown away."""
    looked_at: pl.DataFrame
    """RECORDS of the steps of which every record was read."""
    opened: pl.DataFrame
    """OPEN: what was used after a checkpoint's step, and before its snapshot."""
    steps: pl.DataFrame
    """STEPS, with `edge`, `expected` (ranks that take part), `digested` (commits with digest)."""
    digests: pl.DataFrame
    """DIGESTS: sums over the commits from edge to edge."""
    ends: pl.DataFrame
    """SNAPSHOTS with `commit_before` and `void_before` (steps of the last such event of the rank
    before the snapshot), `own_commit` (the `seq` of the commit of the checkpoint's step) and
    `newest_commit` (the last step that the rank ever committed)."""
    twice: tuple[str, ...] = ()
    """What shows that the attempt is two launches under one label."""


def walk(archive: Archive, attempt: Attempt, edges: Sequence[int], snapshots: pl.DataFrame) -> Walk:
    """
    Walk through an attempt's own steps up to the last edge, and to the last snapshot.

    Args:
        archive: the ledger.
        attempt: whose steps.
        edges: steps to which it is to be summed up, ascending.
        snapshots: SNAPSHOTS of its checkpoints.
    """
    first = 0 if attempt.resumed_at is None else attempt.resumed_at + 1
    last = edges[-1] if edges else first - 1
    stretches = archive.stretches(attempt.label, first, last) if first <= last else []
    parts = [_stretch(archive, attempt, one, edges, snapshots) for one in stretches]
    parts.append(_tail(archive, attempt, max(first, last + 1), snapshots))
    names = ("committed", "lacking", "void", "looked_at", "opened", "steps", "digests", "ends")
    merged = {name: pl.concat([getattr(part, name) for part in parts]) for name in names}
    return Walk(attempt, **merged, twice=tuple(text for part in parts for text in part.twice))


def _stretch(
    archive: Archive,
    attempt: Attempt,
    stretch: tuple[int, int],
    edges: Sequence[int],
    snapshots: pl.DataFrame,
) -> Walk:
    label, source = attempt.label, archive.source
    tries = source.tries(label, *stretch).unique(maintain_order=True)
    sums, looked_at = _sums(archive, label, archive.usage(label, *stretch, None), tries)
    left = sums.group_by("rank", "step", "try_seq").agg(
        pl.col("records").sum().alias("n"),
        pl.col("records").filter(~pl.col("is_void")).sum().alias("n_used"),
    )
    steps = steps_from(attempt, left, tries, has_commits=source.has_commits)
    edge = pl.DataFrame({"edge": edges}, schema={"edge": pl.Int64()})
    steps = steps.join_asof(edge, left_on="step", right_on="edge", strategy="forward")
    steps = _with_commits(steps, attempt, tries)
    committed = steps.filter("committed").select("step", "edge")
    used = sums.filter(~pl.col("is_void")).join(committed, on="step")
    commits = tries.filter(kind="commit").join(committed, on="step")
    return Walk(
        attempt,
        committed=used.group_by("edge", "rank", "epoch")
        .agg(pl.col(name).sum() for name in AMOUNTS)
        .select(list(COMMITTED)),
        lacking=_lacking(archive, label, stretch, left, commits),
        void=looked_at.filter(~IS_USED),
        looked_at=looked_at,
        opened=_opened(sums, snapshots),
        steps=steps,
        digests=commits.group_by("edge", "rank")
        .agg(
            pl.col("digest").reinterpret(signed=False).sum(),
            pl.col("digest").count().cast(pl.Int64).alias("digested"),
            pl.len().cast(pl.Int64).alias("commits"),
        )
        .select(list(DIGESTS)),
        ends=_ends(tries, snapshots),
        twice=tuple(committed_twice(tries, label)) if attempt.has_several_starts else (),
    )


def _tail(archive: Archive, attempt: Attempt, first: int, snapshots: pl.DataFrame) -> Walk:
    """See what was used and committed after the last edge, and before the last snapshot."""
    nothing = archive.source.none()
    tries = pl.DataFrame(schema=TRIES)
    sums = pl.DataFrame(schema=SUMS)
    last = snapshots["seq"].max()
    if isinstance(last, int):
        tries = archive.source.tries(attempt.label, first, None).select(list(TRIES)).unique()
        usage = archive.usage(attempt.label, first, None, last)
        sums = _plain(usage, pl.lit(None, pl.Int64))
    return Walk(
        attempt,
        committed=pl.DataFrame(schema=COMMITTED),
        lacking=pl.DataFrame(schema=LACKING),
        void=nothing,
        looked_at=nothing,
        opened=_opened(sums, snapshots),
        steps=pl.DataFrame(schema=_STEPS),
        digests=pl.DataFrame(schema=DIGESTS),
        ends=_ends(tries, snapshots),
    )


_STEPS = {**STEPS, "edge": pl.Int64(), "expected": pl.Int64(), "digested": pl.Int64()}


def _sums(
    archive: Archive, label: str, usage: pl.DataFrame, tries: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Give SUMS of a stretch, and RECORDS of the steps that had to be looked at."""
    ends = tries.group_by("rank", "step").agg(
        pl.len().alias("tries"),
        (pl.col("kind") == "void").any().alias("has_void"),
        pl.col("seq").max().alias("end"),
        pl.col("samples").max().alias("said"),
    )
    by_step = (
        usage.group_by("rank", "step")
        .agg(pl.col("n").sum(), pl.col("seq_high").max(), pl.col("is_odd").any())
        .join(ends, on=["rank", "step"], how="full", coalesce=True)
    )
    is_odd = (
        pl.col("is_odd").fill_null(value=False)
        | (pl.col("tries") > 1).fill_null(value=False)
        | pl.col("has_void").fill_null(value=False)
        | (pl.col("seq_high") > pl.col("end")).fill_null(value=False)
        | (pl.col("n") > pl.col("said")).fill_null(value=False)
    )
    odd = by_step.filter(is_odd)["step"].unique().sort()
    plain = usage.filter(~pl.col("step").is_in(odd.implode())).join(
        by_step.select("rank", "step", "end"), on=["rank", "step"], how="left"
    )
    sums = _plain(plain, pl.col("end"))
    if odd.is_empty():
        return sums, archive.source.none()
    own = tries.filter(pl.col("step").is_in(odd.implode()))
    records = with_fates(archive.records(label, odd), own)
    records = records.with_columns(is_void=~IS_USED)
    exact = counted(records, _BY).join(
        records.group_by(_BY).agg(pl.col("seq").min().alias("seq_low")), on=_BY, nulls_equal=True
    )
    return pl.concat([sums, exact.select(list(SUMS))]), records.drop("is_void")


def _plain(usage: pl.DataFrame, try_seq: pl.Expr) -> pl.DataFrame:
    """Give SUMS of micro-batches of which each had one try."""
    return usage.select(
        "rank",
        "step",
        "slot",
        "epoch",
        try_seq.cast(pl.Int64).alias("try_seq"),
        pl.lit(value=False).alias("is_void"),
        "seq_low",
        pl.col("n").alias("records"),
        "sequences",
        "spans",
        pl.col("tokens").fill_null(0),
        pl.lit(1, pl.Int64).alias("micro-batches"),
        "placed",
    ).select(list(SUMS))


def _with_commits(steps: pl.DataFrame, attempt: Attempt, tries: pl.DataFrame) -> pl.DataFrame:
    """Say how many ranks take part in a step, and how many told the digest of what they used."""
    expected = pl.lit(0)
    for is_within, ranks in stretches(attempt):
        expected = pl.when(is_within).then(len(ranks)).otherwise(expected)
    told = tries.filter(pl.col("kind") == "commit", pl.col("digest").is_not_null())
    digested = told.group_by("step").agg(pl.col("rank").n_unique().alias("digested"))
    return (
        steps.join(digested, on="step", how="left")
        .with_columns(
            expected=expected.cast(pl.Int64),
            digested=pl.col("digested").fill_null(0).cast(pl.Int64),
        )
        .select(list(_STEPS))
        .sort("step")
    )


def _lacking(
    archive: Archive,
    label: str,
    stretch: tuple[int, int],
    left: pl.DataFrame,
    commits: pl.DataFrame,
) -> pl.DataFrame:
    """Give, of an attempt that put records away, what its commits say beyond what is there."""
    if label not in archive.put_away or commits.is_empty():
        return pl.DataFrame(schema=LACKING)
    there = left.select("rank", "step", "n", seq="try_seq")
    said = commits.join(there, on=["rank", "step", "seq"], how="left")
    said = said.join(archive.tokens(label, *stretch), on=["rank", "seq"], how="left")
    lacking = said.with_columns(records=pl.col("samples") - pl.col("n").fill_null(0))
    # of a try of which a part is there, nobody knows the tokens of the rest
    tokens = pl.when(pl.col("n").is_null()).then("tokens")
    return (
        lacking.filter(pl.col("records") > 0)
        .with_columns(tokens=tokens.cast(pl.Int64))
        .select(list(LACKING))
    )


def _opened(sums: pl.DataFrame, snapshots: pl.DataFrame) -> pl.DataFrame:
    """Find what was used after the step of a checkpoint and before its snapshot."""
    found = [pl.DataFrame(schema=OPEN)]
    turn = pl.int_range(pl.len(), dtype=pl.Int64).over("rank")
    ordered = snapshots.sort("step", "seq").with_columns(turn=turn)
    rows = sums.sort("step").join_asof(
        ordered.select("rank", "turn", mark="step"),
        left_on="step",
        right_on="mark",
        by="rank",
        strategy="backward",
        allow_exact_matches=False,
        check_sortedness=False,
    )
    while rows.height:  # most often once: a snapshot is taken before the next is due
        marked = rows.join(ordered.select("rank", "turn", "seq", "checkpoint"), on=["rank", "turn"])
        before = marked.filter(pl.col("seq_low") < pl.col("seq"))
        found.append(
            before.group_by("checkpoint", "rank", "step", "epoch")
            .agg(pl.col(name).sum() for name in AMOUNTS)
            .select(list(OPEN))
        )
        rows = before.select(*SUMS, pl.col("turn") - 1).filter(pl.col("turn") >= 0)
    return pl.concat(found)


def _ends(tries: pl.DataFrame, snapshots: pl.DataFrame) -> pl.DataFrame:
    """Place every snapshot among the commits and voids of its rank."""
    placed = snapshots.select(list(SNAPSHOTS)).sort("seq")
    for kind in ("commit", "void"):
        own = tries.filter(kind=kind).select("rank", "seq", "step").sort("seq")
        placed = placed.join_asof(
            own.select(
                "rank",
                "seq",
                pl.col("step").alias(f"{kind}_before"),
                pl.col("seq").alias(f"{kind}_seq"),
            ),
            on="seq",
            by="rank",
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
    commits = tries.filter(kind="commit")
    own = commits.group_by("rank", "step").agg(pl.col("seq").min().alias("own_commit"))
    newest = commits.group_by("rank").agg(pl.col("step").max().alias("newest_commit"))
    return placed.join(own, on=["rank", "step"], how="left").join(newest, on="rank", how="left")
