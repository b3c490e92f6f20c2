"""
Cuts the three windows of a resume out of the attempts: committed, reference, resumed.

Reading is a function that the caller hands in, so that nothing here touches a disk.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from ledger_audit.continuity.frames import IS_USED, KNOWN, PASSES, Side, arranged
from ledger_audit.continuity.holding import is_held
from ledger_audit.continuity.lineage import Attempt, Lineage
from ledger_audit.continuity.tries import (
    STEPS,
    committed_twice,
    left_of,
    mismatches,
    steps_from,
    with_fates,
)
from ledger_audit.model import Unread

Read = Callable[[str, int, int | None], pl.DataFrame]
"""Attempt, first step, last step (null: open) → its records, or its commits and voids."""


END = 1 << 62
"""A step after every other."""


@dataclass(frozen=True)
class Source:
    """Where the records of one ledger come from."""

    lineage: Lineage
    records: Read
    tries: Read
    lookup: Callable[[str, pl.Series], pl.DataFrame]
    """Attempt, sample ids → every used record of the attempt with one of them."""
    has_commits: bool
    hashed: Callable[[pl.DataFrame], pl.Series] | None = None
    """RECORDS → the 64-bit hash of each; null: digests do not tell of these records."""
    digest_columns: tuple[str, ...] = ()
    """What the hash covers; digests of other columns are not compared."""
    unread: tuple[Unread, ...] = ()
    dropped: Callable[[str], pl.Series] | None = None
    """Attempt → the positions of what its loaders dropped; null: nobody can tell."""
    known: Read | None = None
    """
    Attempt, first step, last step (null: open) → rank, step, try_seq, n, n_used, tokens: of how
    many records of a try it is known that they are there, and none is given; null: of none.
    """
    passes: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=PASSES))
    """PASSES of these, as far as they are known."""
    acts: pl.DataFrame = field(default_factory=pl.DataFrame)
    """EVENTS that are neither commits nor voids, of all attempts; no column: none were read."""
    rows: int = 0
    """Rows of its files, as far as they need not be read for it."""
    most: int | None = None
    """Records that memory holds at once; null: as many as there are."""

    @property
    def is_too_large(self) -> bool:
        """Tell whether memory does not hold all records at once."""
        return not is_held(self.rows, self.most)

    def none(self) -> pl.DataFrame:
        """Give RECORDS without a row."""
        return with_fates(self.records("", 0, None), self.tries("", 0, None))


@dataclass(frozen=True)
class Stretch:
    """The steps that one attempt contributes to a window, both ends included."""

    attempt: Attempt
    first: int
    last: int | None


@dataclass(frozen=True)
class Windows:
    """The three windows of one resume."""

    checkpoint_step: int
    committed: Side
    reference: Side
    resumed: Side
    reference_kind: str
    dropped: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.Int64))
    """Positions that loaders dropped, sorted: nothing was to be used there."""

    @property
    def sides(self) -> tuple[Side, Side, Side]:
        """Committed, reference, resumed."""
        return self.committed, self.reference, self.resumed


def read_ahead(source: Source, index: int, first: int, last: int) -> Source:
    """Read a stretch of one attempt once; what is asked for within it is cut from that."""
    own = source.lineage.chain[index].label

    def ahead(read: Read) -> Read:
        rows = read(own, first, last)

        def cut(label: str, start: int, end: int | None) -> pl.DataFrame:
            if label != own or start < first or end is None or end > last:
                return read(label, start, end)
            return rows.filter(pl.col("step").is_between(start, end))

        return cut

    return replace(source, records=ahead(source.records), tries=ahead(source.tries))


def committed_window(source: Source, resumed: int, first: int | None = None) -> Side:
    """
    Give what the lineage had committed when attempt `resumed` of the chain began.

    Void tries are kept, with their fate: they are no use, but they are no hole either.
    """
    chain = source.lineage.chain
    stretches = []
    for index, attempt in enumerate(chain[:resumed]):
        last = source.lineage.until(index, resumed)
        begin = 0 if attempt.resumed_at is None else attempt.resumed_at + 1
        stretches.append(Stretch(attempt, max(begin, first or 0), last))
    return _side(source, stretches)


def rolled_back_window(source: Source, resumed: int, last: int | None = None) -> Side:
    """Give what the attempt before `resumed` had done after the checkpoint: lost work."""
    chain = source.lineage.chain
    after = chain[resumed].resumed_at or 0
    return _side(source, [Stretch(chain[resumed - 1], after + 1, last)])


def resumed_window(source: Source, resumed: int, last: int | None = None) -> Side:
    """
    Give what attempt `resumed` did after its checkpoint.

    It ends at the step from which the next attempt of the lineage resumed; for the newest it
    holds the committed steps and the void tries.
    """
    return settled(_side(source, [_own(source, resumed, last)]))


def surviving_stream(source: Source, *, is_reference: bool) -> Side:
    """
    Give the whole stream of a run, through all attempts of its lineage.

    As a reference it keeps what the newest attempt did and did not commit, too.
    """
    chain = source.lineage.chain
    side = _side(source, [_own(source, index, None) for index in range(len(chain))])
    return side if is_reference else settled(side)


def looked_up(source: Source, ids: pl.Series) -> list[tuple[Attempt, pl.DataFrame]]:
    """Find samples in the whole stream of the newest weights, attempt by attempt."""
    chain = source.lineage.chain
    found = []
    for index, attempt in enumerate(chain):
        own = _own(source, index, None)
        within = pl.col("step").is_between(own.first, END if own.last is None else own.last)
        found.append((attempt, source.lookup(attempt.label, ids).filter(within)))
    return found


def stream_between(source: Source, first: int, last: int) -> Side:
    """Give some steps of the whole stream that an expected run or a control went through."""
    stretches = [_own(source, index, last) for index in range(len(source.lineage.chain))]
    near = [replace(one, first=max(one.first, first)) for one in stretches]
    return _side(source, [one for one in near if one.last is None or one.first <= one.last])


def attempt_window(source: Source, attempt: Attempt, first: int, last: int) -> Side:
    """Give some steps of one attempt, whatever became of them."""
    return _side(source, [Stretch(attempt, first, last)])


def after(side: Side, step: int) -> Side:
    """Cut a window to what comes after a step."""
    later = pl.col("step") > step
    return replace(
        side,
        records=arranged(side.records.filter(later)),
        steps=side.steps.filter(later),
        known=side.known.filter(later),
        passes=side.passes.filter(pl.col("first") > step),
    )


def through(side: Side, step: int) -> Side:
    """Cut a window to what comes up to a step."""
    earlier = pl.col("step") <= step
    return replace(
        side,
        records=arranged(side.records.filter(earlier)),
        steps=side.steps.filter(earlier),
        known=side.known.filter(earlier),
    )


def nothing(source: Source) -> Side:
    """Give an empty window."""
    return _side(source, [])


def _own(source: Source, index: int, last: int | None) -> Stretch:
    """Give the steps of one attempt that the newest weights went through."""
    chain = source.lineage.chain
    attempt = chain[index]
    until = source.lineage.until(index, len(chain) - 1)
    begin = 0 if attempt.resumed_at is None else attempt.resumed_at + 1
    ends = [end for end in (until, last) if end is not None]
    return Stretch(attempt, begin, min(ends, default=None))


def settled(side: Side) -> Side:
    """Keep committed steps and void tries; what else was used there is kept out as stray."""
    committed = side.steps.filter("committed").select("attempt", "step")
    is_committed = pl.struct("attempt", "step").is_in(
        committed.select(pl.struct("attempt", "step")).to_series().implode()
    )
    records = side.records.filter(is_committed | ~IS_USED)
    if records.height < side.records.height:
        records = arranged(records)
    last = committed["step"].max()
    steps = side.steps
    if isinstance(last, int):
        # what a step without a full set of commits used, while later steps are committed, was
        # most likely applied too: its commit is missing, and it may hold what seems skipped
        lost = pl.when(pl.col("step") < last).then(pl.col("stray")).otherwise(0)
        steps = steps.with_columns(missing=pl.col("missing") + lost)
        steps = steps.filter(pl.col("committed") | pl.col("voided") | (pl.col("step") < last))
    else:
        steps = steps.filter("voided")
    return replace(side, records=records, steps=steps)


def _side(source: Source, stretches: Sequence[Stretch]) -> Side:
    records, steps = [], []
    torn: list[str] = []
    mismatched: list[str] = []
    relaunched: list[str] = []
    known = [pl.DataFrame(schema=KNOWN)]
    for stretch in stretches:
        label = stretch.attempt.label
        tries = source.tries(label, stretch.first, stretch.last)
        rows = with_fates(source.records(label, stretch.first, stretch.last), tries)
        left = left_of(rows)
        if source.known is not None:
            unread = source.known(label, stretch.first, stretch.last)
            known.append(unread.select("step", "tokens", n="n_used").select(list(KNOWN)))
            left = pl.concat([left, unread.select(left.columns)])
            left = left.group_by("rank", "step", "try_seq").agg(pl.col("n", "n_used").sum())
        own = steps_from(stretch.attempt, left, tries, has_commits=source.has_commits)
        for part in source.unread:
            if part.attempt == label:
                hit = (pl.col("step") >= (part.from_step or 0)) & (
                    pl.col("step") <= (END if part.to_step is None else part.to_step)
                )
                hit &= ~pl.col("counted")  # what a commit counted, and is there, was not lost
                if own.filter(hit & pl.col("committed")).height:
                    torn.append(part.file)
                own = own.with_columns(whole=pl.col("whole") & ~hit)
        digests = stretch.attempt.digest_columns
        if source.hashed is not None and digests == source.digest_columns:
            mismatched += mismatches(rows, tries, label, source.hashed)
        if stretch.attempt.has_several_starts:
            relaunched += committed_twice(tries, label)
        records.append(rows)
        steps.append(own)
    if len(records) == 1:
        merged = records[0]  # arranged already
    else:
        merged = arranged(pl.concat(records or [source.none()], how="diagonal"))
    attempts = tuple(stretch.attempt for stretch in stretches)
    labels = [one.label for one in attempts]
    every = pl.concat([pl.DataFrame(schema=STEPS), *steps]).sort("step")
    return Side(
        merged,
        every,
        attempts,
        tuple(dict.fromkeys(torn)),
        tuple(mismatched),
        tuple(relaunched),
        _by_step(pl.concat(known)),
        source.passes.filter(pl.col("attempt").is_in(labels)),
    )


def _by_step(known: pl.DataFrame) -> pl.DataFrame:
    """Add up KNOWN; tokens of which some are not known are not known."""
    tokens = pl.when(pl.col("tokens").null_count() == 0).then(pl.col("tokens").sum())
    return known.group_by("step").agg(pl.col("n").sum(), tokens).sort("step")


def with_beyond(source: Source, side: Side, found: Sequence[tuple[Attempt, pl.DataFrame]]) -> Side:
    """Add records that a look-up found outside a window: known, but not judged."""
    extra = []
    for attempt, rows in found:
        if rows.height:
            first, last = rows["step"].min(), rows["step"].max()
            assert isinstance(first, int)
            assert isinstance(last, int)
            tries = source.tries(attempt.label, first, last)
            extra.append(with_fates(rows, tries).with_columns(beyond=pl.lit(value=True)))
    if not extra:
        return side
    columns = side.records.columns
    return replace(
        side,
        records=arranged(pl.concat([side.records, *(rows.select(columns) for rows in extra)])),
    )


def whole_through(side: Side, after: int) -> int | None:
    """Give the last step up to which every step after `after` is whole; null: not one is."""
    through = None
    for step, whole in (
        side.steps.filter(pl.col("step") > after).select("step", "whole").iter_rows()
    ):
        if not whole or step != (after if through is None else through) + 1:
            break
        through = step
    return through
