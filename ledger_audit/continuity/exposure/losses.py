"""Says what was used and is in no weights that are left, and what each failure took back."""

from typing import Any

import polars as pl

from ledger_audit.continuity.exposure.counting import Counted
from ledger_audit.continuity.exposure.library import PASS, Library
from ledger_audit.continuity.exposure.summary import Summary
from ledger_audit.continuity.exposure.wasted import failures
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.model.exposure import Loss, Share, Survival, Unused


def unused_of(summary: Summary) -> tuple[Unused, ...]:
    """List what changed no weights, by attempt, fate and pass."""
    return tuple(
        Unused(
            attempt=row["attempt"],
            fate=row["fate"],
            source=row["source"],
            epoch=row["epoch"],
            records=row["records"],
            samples=row["samples"],
            tokens=row["tokens"] if row["spans"] else None,
            never=row["samples"] - row["met"],
        )
        for row in summary.unused.iter_rows(named=True)
    )


def losses_of(library: Library, summary: Summary) -> tuple[Loss, ...]:
    """Say of each attempt but the newest what its failure took back, in the order of launches."""
    lost = {row["attempt"]: row for row in summary.lost.iter_rows(named=True)}
    return tuple(
        _loss(library, failed, after, heir, lost[failed.label])
        for failed, after, heir in failures(library)
    )


def _loss(
    library: Library, failed: Attempt, after: int, heir: str | None, lost: dict[str, Any]
) -> Loss:
    """Say what the failure of one attempt took back; without an heir, all that it did."""
    tries = library.archive.source.tries(failed.label, after + 1, None)
    reached = max(failed.last_step or after, _last(tries, after))
    return Loss(
        from_attempt=failed.label,
        to_attempt=heir,
        checkpoint_step=after,
        steps=max(0, reached - after),
        committed_steps=_committed(failed, tries.filter(kind="commit")),
        records=lost["records"],
        samples=lost["samples"],
        tokens=lost["tokens"] if lost["spans"] else None,
        seconds=_seconds(library.times(failed.label, after)),
        used_again=lost["met"],
    )


def survival_of(library: Library, counted: Counted) -> tuple[Survival, ...]:
    """Say which steps of the newest weights each attempt made."""
    lineage = library.archive.source.lineage
    found = []
    for place, attempt in enumerate(lineage.chain):
        own = counted.used.filter(place=place)
        stretch = counted.stretches[place]
        committed = stretch.seen.filter("committed")["step"]
        steps = None
        if stretch.last is not None and not stretch.is_empty and len(committed):
            first = committed.min()
            assert isinstance(first, int)
            steps = (first, stretch.last)
        found.append(Survival(attempt.label, steps, int(own["records"].sum()), _tokens(own)))
    found += [Survival(one.label, None, 0, None) for one in lineage.outside]
    return tuple(found)


def shares_of(library: Library, counted: Counted) -> tuple[Share, ...]:
    """Say how large the share of each source was in what each attempt gave."""
    chain = library.archive.source.lineage.chain
    totals = dict(counted.used.group_by("place").agg(pl.col("records").sum()).iter_rows())
    ordered = counted.used.sort("place", *PASS)
    return tuple(
        Share(
            attempt=chain[row["place"]].label,
            source=row["source"],
            epoch=row["epoch"],
            records=row["records"],
            tokens=row["tokens"] if row["spans"] else None,
            share=round(row["records"] / totals[row["place"]], 6),
        )
        for row in ordered.iter_rows(named=True)
    )


def _tokens(sums: pl.DataFrame) -> int | None:
    return int(sums["tokens"].sum()) if sums.height and sums["spans"].sum() else None


def _last(tries: pl.DataFrame, least: int) -> int:
    last = tries["step"].max()
    return last if isinstance(last, int) else least


def _committed(attempt: Attempt, commits: pl.DataFrame) -> int:
    """Count the steps that all ranks that vote have committed."""
    voters = len(attempt.seen)
    ranks = commits.group_by("step").agg(pl.col("rank").n_unique())
    return ranks.filter(pl.col("rank") >= voters).height


def _seconds(times: pl.DataFrame) -> float | None:
    """Give the median over ranks of the time that each measured on its own clock."""
    spent = (times["until_ns"] - times["since_ns"]).drop_nulls()
    median = spent.filter(spent >= 0).median()
    return round(median / 1e9, 3) if isinstance(median, float) else None
