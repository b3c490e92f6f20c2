"""
Says which training records may have been used and are not there to be looked at.

A step is counted in full where the commit of every logged rank says how many records it had, and
all of them are there: then nothing of it is unseen, whatever else was lost.

COUNTS is one row for each end of a try of a rank and step: rank, step, try_seq, and n, the records
that the rank wrote of the step before it; where no try of theirs ended, try_seq is null.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

import polars as pl

from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.tries import steps_of, stretches
from ledger_audit.model import Unread
from ledger_audit.model.forbidden import Unseen
from ledger_audit.printable import counted

TRIES = {
    "rank": pl.Int32(),
    "step": pl.Int64(),
    "try_seq": pl.Int64(),
    "lost": pl.Int64(),
    "surplus": pl.Int64(),
}
"""A commit that says how many records its try had: those that are not there, those too many."""

SEEN = {
    "step": pl.Int64(),
    "committed": pl.Boolean(),
    "voided": pl.Boolean(),
    "counted": pl.Boolean(),
    "lost": pl.Int64(),
}
"""One step of an attempt of which anything is there; `counted`: in full."""

MOST_TOLD = 8


@dataclass(frozen=True)
class Stretch:
    """The steps that one attempt gave to the newest weights, and what is there of them."""

    attempt: Attempt
    first: int
    last: int | None
    """Null where nothing was committed."""
    seen: pl.DataFrame
    """SEEN."""

    @property
    def is_empty(self) -> bool:
        """The attempt gave no step."""
        return self.last is None or self.last < self.first

    @property
    def in_doubt(self) -> pl.DataFrame:
        """Its committed steps that are not counted in full, of those of which anything is there."""
        within = pl.col("step").is_between(self.first, self.last)
        return self.seen.filter(
            within, pl.col("committed") & ~pl.col("voided") & ~pl.col("counted")
        )

    def may_hide(self, first: int | None, last: int | None) -> bool:
        """Tell whether records of some of these steps may have been lost (null: open)."""
        assert self.last is not None
        start = self.first if first is None else max(first, self.first)
        end = self.last if last is None else min(last, self.last)
        if end < start:
            return False
        within = pl.col("step").is_between(start, end)
        there = self.seen.filter(within)["step"].n_unique()
        return there < end - start + 1 or self.in_doubt.filter(within).height > 0


def compared(tries: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
    """
    Compare what commits say with what is there: TRIES.

    Args:
        tries: commits and voids of some steps of one attempt.
        counts: COUNTS of the same steps.
    """
    of_rank = pl.struct("rank", "step")
    before = pl.when(of_rank == of_rank.shift(1)).then(pl.col("n").shift(1)).otherwise(0)
    ended = counts.drop_nulls("try_seq").sort("rank", "step", "try_seq")
    ended = ended.with_columns(n=pl.col("n") - before)
    told = tries.filter(pl.col("kind") == "commit").drop_nulls("samples")
    difference = pl.col("samples") - pl.col("n").fill_null(0)
    return (
        told.select("rank", "step", "samples", try_seq="seq")
        .join(ended, on=["rank", "step", "try_seq"], how="left")
        .select(
            "rank",
            "step",
            "try_seq",
            lost=difference.clip(lower_bound=0),
            surplus=(-difference).clip(lower_bound=0),
        )
    )


def seen_steps(
    attempt: Attempt,
    tries: pl.DataFrame,
    counts: pl.DataFrame,
    told: pl.DataFrame,
    *,
    has_commits: bool,
) -> pl.DataFrame:
    """
    Say of each step what is there of it: SEEN.

    Args:
        attempt: the attempt.
        tries: commits and voids of some steps.
        counts: COUNTS of these steps.
        told: TRIES of these steps.
        has_commits: the ledger holds at least one commit event.
    """
    places = counts.select("rank", "step", "try_seq", fate=pl.lit(None, pl.String))
    steps = steps_of(attempt, places, tries, has_commits=has_commits)
    parts = []
    for is_within, ranks in stretches(attempt):
        own = told.filter(is_within, pl.col("rank").is_in(sorted(ranks)))
        parts.append(
            own.group_by("step").agg(
                pl.col("lost").sum(),
                is_told=pl.col("rank").n_unique() >= len(ranks),
            )
        )
    counted_up = pl.col("is_told").fill_null(value=False) & (pl.col("lost") == 0)
    return (
        steps.join(pl.concat(parts), on="step", how="left")
        .with_columns(pl.col("lost").fill_null(0))
        .select("step", "committed", "voided", counted=counted_up, lost="lost")
    )


def unseen_of(
    stretch: Stretch,
    unread: Iterable[Unread],
    put_away: Callable[[], Mapping[str, tuple[int, int]]],
) -> list[Unseen]:
    """
    Say why training records of a stretch may have been used and are not there.

    Args:
        stretch: of one attempt.
        unread: what is known of the ledger that it cannot be read.
        put_away: attempt → segments that were not kept on purpose, and their records.
    """
    attempt, label = stretch.attempt, stretch.attempt.label
    if stretch.is_empty:
        return []
    assert stretch.last is not None
    if attempt.is_absent:
        return [Unseen("parent-missing", label, f"attempt {label} left nothing in this ledger")]
    found = [*of_ranks(attempt, stretch.first, stretch.last), *_of_steps(stretch)]
    for part in unread:
        is_ours = part.attempt == label and not is_segment_of(part, "events")
        if is_ours and stretch.may_hide(part.from_step, part.to_step):
            found.append(Unseen("unread-segment", label, f"{part.file} is {part.reason}"))
    for step, records in attempt.lost:
        if records > 0 and stretch.may_hide(step, step):
            at = "" if step is None else f" of step {step}"
            text = f"a writer of attempt {label} lost {counted(records, 'record')}{at}"
            found.append(Unseen("records-missing", label, text))
    if stretch.may_hide(None, None):
        found += of_put_away(label, put_away())
    return found


def of_ranks(attempt: Attempt, first: int | None = None, last: int | None = None) -> list[Unseen]:
    """Say which ranks of an attempt, in some of its steps, left nothing, or log nothing."""
    label, found = attempt.label, []
    members: frozenset[int] = frozenset()
    for start, end, ranks in attempt.spans:
        is_before = last is not None and start is not None and start > last
        is_after = first is not None and end is not None and end < first
        members |= frozenset() if is_before or is_after else ranks
    missing = members - attempt.seen
    if missing:
        text = f"{_ranks(missing)} of attempt {label} left no ledger"
        found.append(Unseen("rank-missing", label, text))
    if attempt.is_sampled:
        silent = attempt.everyone - (attempt.logged or frozenset())
        text = f"{_ranks(silent)} of attempt {label} {'does' if len(silent) == 1 else 'do'} not log"
        found.append(Unseen("ranks-not-logged", label, text))
    return found


def of_put_away(label: str, put_away: Mapping[str, tuple[int, int]]) -> list[Unseen]:
    """Say what the writers of an attempt did not keep."""
    if label not in put_away:
        return []
    files, records = put_away[label]
    some = f", {counted(records, 'record')}," if records else ""
    text = f"{counted(files, 'segment')} of attempt {label}{some} not kept (`retain`)"
    return [Unseen("records-put-away", label, text)]


def is_segment_of(part: Unread, table: str) -> bool:
    """Tell whether an unread file is a segment of this table, and so of no other."""
    path = PurePosixPath(part.file)
    return path.parent.name.startswith("attempt=") and path.name.startswith(f"{table}-")


def _of_steps(stretch: Stretch) -> list[Unseen]:
    """Say which steps left nothing, and of which steps there is less than their commits say."""
    label, found = stretch.attempt.label, []
    assert stretch.last is not None
    within = stretch.seen.filter(pl.col("step").is_between(stretch.first, stretch.last))
    there = within["step"].unique().sort()
    absent = stretch.last - stretch.first + 1 - len(there)
    if absent > 0:
        text = f"{_gaps(there, stretch.first, stretch.last)} of attempt {label} left nothing"
        found.append(Unseen("steps-missing", label, text))
    short = within.filter(pl.col("committed") & ~pl.col("voided") & (pl.col("lost") > 0))
    if short.height:
        lost = counted(int(short["lost"].sum()), "record")
        text = f"{lost} that commits of attempt {label} count are not there: {_range(short)}"
        found.append(Unseen("records-missing", label, text))
    return found


def _range(steps: pl.DataFrame) -> str:
    first, last = (f"{step:,}" for step in steps["step"].sort()[[0, -1]])
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _gaps(there: pl.Series, first: int, last: int) -> str:
    """Name the steps of a stretch that are not there: the first few ranges."""
    bounds = pl.concat([pl.Series([first - 1]), there, pl.Series([last + 1])])
    gaps = pl.DataFrame({"start": bounds[:-1] + 1, "end": bounds[1:] - 1})
    gaps = gaps.filter(pl.col("start") <= pl.col("end"))
    told = [
        f"{start:,}" if start == end else f"{start:,} to {end:,}"
        for start, end in gaps.head(MOST_TOLD).iter_rows()
    ]
    more = ", …" if gaps.height > MOST_TOLD else ""
    is_one = gaps.height == 1 and gaps["start"][0] == gaps["end"][0]
    return f"{'step' if is_one else 'steps'} {', '.join(told)}{more}"


def _ranks(ranks: frozenset[int]) -> str:
    shown = sorted(ranks)
    text = ", ".join(str(rank) for rank in shown[:MOST_TOLD])
    more = f", … ({len(shown):,} in all)" if len(shown) > MOST_TOLD else ""
    return f"{'rank' if len(shown) == 1 else 'ranks'} {text}{more}"
