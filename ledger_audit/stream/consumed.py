"""
Finds the authoritative cursor at a checkpoint: what committed updates of the lineage consumed.

It is proven or there is none: where records may have been used that are not there, nothing is said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import polars as pl

from ledger_audit.continuity.checkpoints.stages import STAGES
from ledger_audit.continuity.exposure.counting import Asked, Counted, count, found
from ledger_audit.continuity.exposure.judging import unseen_limits
from ledger_audit.continuity.exposure.library import Library, Seen, Steps
from ledger_audit.continuity.frames import Side
from ledger_audit.continuity.limits import digest_mismatch, limits_of_attempts
from ledger_audit.continuity.lineage import Attempt, Lineage
from ledger_audit.continuity.windows import attempt_window
from ledger_audit.errors import UnprovenError, UsageError
from ledger_audit.ledger.digest import signed
from ledger_audit.ledger.spent import Identity, Spent
from ledger_audit.model.plan import Amounts, InFlight

MOST_UNMATCHED = 1 << 20
"""Consumed records that a stream does not hold, beyond which it is another one's."""

_NONE = pl.Series([], dtype=pl.Int64)


@dataclass(frozen=True)
class Compared:
    """How what was consumed is compared with a stream."""

    identity: Identity
    others: frozenset[str]
    """Columns that only one of both has."""
    bounds: tuple[int, int] | None
    """The lowest and the highest id of both; null: ids are text."""
    since: int
    """The first step of the stream; what was consumed before is not in it."""


@dataclass(frozen=True)
class Consumed:
    """What committed updates consumed up to a checkpoint, and what was on its way."""

    spent: Spent
    library: Library
    """Of the ledger; its lineage ends with the checkpoint."""
    counted: Counted
    amounts: Amounts
    passes: pl.DataFrame
    """source, epoch, records, tokens (null: no spans), placed."""
    in_flight: InFlight
    others: frozenset[str]
    """Columns that only the ledger or only the reference has: they are not compared."""
    is_assumed: bool
    """The ledger has no commit event."""

    @property
    def holder(self) -> Attempt:
        """The attempt that made the checkpoint."""
        return self.library.archive.source.lineage.chain[-2]


def at(library: Library, step: int) -> Library:
    """
    End the lineage with a checkpoint.

    Raises:
        UsageError: the newest weights never reached it.
    """
    source = library.archive.source
    chain = source.lineage.chain
    kept = [one for one in chain if one.resumed_at is None or one.resumed_at < step]
    kept = list(chain[: len(kept)])  # those that resumed later are not in it
    reached = max(source.lineage.until(len(kept) - 1, len(chain) - 1) or 0, _last(library, kept))
    if step < 1 or reached < step:
        raise UsageError(
            f"--checkpoint-step {step}: the lineage of the newest weights has steps 1 to {reached}",
            hint="name the step of a checkpoint that the job made and can load",
        )
    end = Attempt("", parent=kept[-1].label, resumed_at=step)
    cut = replace(source, lineage=Lineage((*kept, end), source.lineage.outside))
    return replace(library, archive=replace(library.archive, source=cut))


def consumed_at(library: Library, asked: Compared, memory: int) -> Consumed:
    """
    Find what was consumed.

    Args:
        library: as `at` gives it.
        asked: with what it is compared, and how.
        memory: bytes that may be used.

    Raises:
        UnprovenError: records may have been consumed that are not there, or are not as committed.
    """
    source = library.archive.source
    last = source.lineage.chain[-1].resumed_at
    assert last is not None

    def begin(memory: int, may_be_direct: bool) -> Seen:
        edges = asked.bounds if may_be_direct and _is_dense(library, asked.bounds) else None
        return cast(
            Seen, Spent(asked.identity, edges, memory, asked.since)
        )  # it is only handed on to `look`

    counted = count(replace(library, begin=begin), Asked(memory, hashing="digest"))
    spent = cast(Spent, counted.seen)
    _check(library, counted, last)
    spent.freeze()
    mixed = sum(int(one["mixed"].sum()) for one in counted.counts)
    tokens = int(counted.used["tokens"].sum()) if counted.used["spans"].sum() else None
    is_whole = not spent.earlier and not asked.identity.has_spans
    amounts = Amounts(
        records=counted.records,
        samples=spent.distinct if is_whole else None,
        tokens=tokens,
        digest=signed(mixed),
    )
    passes = counted.used.group_by("source", "epoch").agg(
        pl.col("records", "tokens", "spans", "placed").sum()
    )
    return Consumed(
        spent=spent,
        library=library,
        counted=counted,
        amounts=amounts,
        passes=passes.sort("source", "epoch"),
        in_flight=_in_flight(library, last),
        others=asked.others,
        is_assumed=not source.has_commits,
    )


def unmatched(consumed: Consumed) -> pl.DataFrame:
    """
    Give consumed records that were not struck out: the stream does not hold them, or not so often.

    Raises:
        UnprovenError: they are so many that the stream is another one.
    """
    spent, library = consumed.spent, consumed.library
    if spent.left > MOST_UNMATCHED:
        raise UnprovenError(
            f"the reference does not hold {spent.left:,} of the consumed records: it is another "
            "stream's",
            hint="give the stream that the run was to follow, with the same ids and spans",
        )
    if not spent.left:
        return library.archive.source.records("", 0, -1)
    rows = found(library, consumed.counted, spent.left_keys())
    return spent.left_of(rows.filter(pl.col("step") >= spent.since))


def window_after(library: Library) -> Side:
    """Give what the attempt that made the checkpoint did after it."""
    chain = library.archive.source.lineage.chain
    after = chain[-1].resumed_at
    assert after is not None
    last = max(chain[-2].last_step or after, after)
    return attempt_window(library.archive.source, chain[-2], after + 1, last)


def _last(library: Library, kept: Sequence[Attempt]) -> int:
    tried = library.archive.source.tries(kept[-1].label, 0, None)["step"].max()
    return max(kept[-1].last_step or 0, tried if isinstance(tried, int) else 0)


def _is_dense(library: Library, bounds: tuple[int, int] | None) -> bool:
    if bounds is None:
        return False
    rows = sum(library.archive.size(one.label) for one in library.archive.source.lineage.chain[:-1])
    return bounds[1] - bounds[0] < 16 * max(rows, 1 << 16)


def _check(library: Library, counted: Counted, last: int) -> None:
    """Refuse what does not prove what was consumed."""
    chain = library.archive.source.lineage.chain[:-1]
    limits = limits_of_attempts(chain, counted.relaunched, resumed=chain[1:])
    limits += digest_mismatch(counted.mismatched)
    doubts = [one.text for one in (*limits, *unseen_limits(library, counted))]
    for stretch in counted.stretches[:-1]:
        seen = stretch.seen.filter(pl.col("step").is_between(stretch.first, last))
        open_ends = seen.filter(~pl.col("committed") & ~pl.col("voided"))["step"].sort()
        if stretch.last is not None and not stretch.is_empty and len(open_ends):
            doubts.append(
                f"not every rank of attempt {stretch.attempt.label} committed step {open_ends[0]}"
            )
    if doubts:
        counted.seen.close()
        raise UnprovenError(
            f"the ledger does not prove what was consumed up to step {last}: no plan is made",
            hint="bring the missing files, or plan from a checkpoint before the gap; "
            "`ledger-audit preflight` names what is missing",
            details=list(dict.fromkeys(doubts)),
        )


def _in_flight(library: Library, last: int) -> InFlight:
    """Say what the holder did after the checkpoint, and what its loaders held at it."""
    holder = library.archive.source.lineage.chain[-2]
    tries = library.archive.source.tries(holder.label, last, None)
    end = holder.last_step
    sums = None
    if end is not None and end > last:
        sums = library.sums(Steps(holder.label, last + 1, end, _NONE))
    commits = tries.filter(pl.col("kind") == "commit", pl.col("step") > last)
    ranks = commits.group_by("step").agg(pl.col("rank").n_unique())
    return InFlight(
        attempt=holder.label,
        steps=0 if end is None else max(0, end - last),
        committed_steps=ranks.filter(pl.col("rank") >= len(holder.seen)).height,
        records=0 if sums is None else int(sums["records"].sum()),
        stages=tuple(sorted(_staged(library, holder, tries.filter(step=last)).items())),
    )


def _staged(library: Library, holder: Attempt, commits: pl.DataFrame) -> Mapping[str, int]:
    """Count what every rank had read or queued, and not used, when it committed the checkpoint."""
    archive = library.archive
    stages = archive.stages.intersection(STAGES)
    cuts = commits.filter(kind="commit").group_by("rank").agg(pl.col("seq").max())
    if not stages or cuts.height < len(holder.seen) or holder.label in archive.put_away:
        return {}
    counts = archive.staged(holder.label, cuts).join(cuts, on=["rank", "seq"])
    return {
        str(row[0]): int(row[1])
        for row in counts.group_by("stage").agg(n=pl.col("n").sum()).iter_rows()
    }
