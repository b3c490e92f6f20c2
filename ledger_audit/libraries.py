"""Lets all records of a ledger pass by: where the archive meets the reasoning about whole runs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.exposure.library import Library, Looked, Seen, Steps
from ledger_audit.ledger.buckets import Bucket
from ledger_audit.ledger.counting import Hashing, Tally, look, sizes
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.searching import Search
from ledger_audit.ledger.spent import Spent
from ledger_audit.ledger.uses import Bytes, Hashes, Unnoted
from ledger_audit.ledger.uses import seen as noting
from ledger_audit.ledger.whole import Scan, Whole

_FEW = 8
"""Buckets of which each may note its uses in a byte for each id; a key has as many bytes."""


@dataclass(frozen=True)
class Engine:
    """What lets all records of a ledger pass by."""

    library: Callable[[Ledger, Archive], Library]
    """Asks the questions about all records."""
    lookup: Callable[[Ledger], Callable[[str, pl.Series], pl.DataFrame]]
    """→ attempt, ids → every used record of the attempt with one of the ids."""


def library_of(ledger: Ledger, archive: Archive, bucket: Bucket | None = None) -> Library:
    """Let all records of a ledger pass by, or those of the samples of one bucket."""
    whole = Whole(ledger, bucket)
    has_spans = whole.bounds("token_start") is not None
    has_positions = whole.bounds("position") is not None

    def bounds() -> tuple[int, int] | None:
        return whole.bounds("sample_id") if ledger.id_type.is_integer() else None

    def begin(memory: int, may_be_direct: bool) -> Bytes | Hashes:
        # a byte for each id of the whole range: of few samples, a key for each is less
        is_direct = may_be_direct and (bucket is None or bucket.of <= _FEW)
        edges = bounds() if is_direct else None
        rows = sum(Search(ledger).size(attempt) for attempt in ledger.attempts)
        return noting(edges, rows if bucket is None else -(-rows // bucket.of), memory)

    def own(rows: pl.DataFrame) -> pl.DataFrame:
        return rows if bucket is None else rows.filter(bucket.holds(ledger.id_type))

    def looked(
        seen: Seen,
        steps: Steps,
        rows: Iterable[pl.DataFrame],
        hashing: Hashing | None,
    ) -> Looked:
        assert isinstance(seen, Bytes | Hashes | Spent | Unnoted)
        tally = Tally(ledger.name, seen, has_spans, has_positions, hashing)
        look(whole, _scan(steps), map(own, rows), tally)
        return Looked(tally.counts(), tally.sums())

    return Library(
        archive=archive,
        id_type=ledger.id_type,
        bounds=bounds,
        begin=begin,
        unnoted=Unnoted,
        look=looked,
        find=lambda steps, where: whole.records(_scan(steps), where),
        lowest=lambda steps, where, most: whole.lowest(_scan(steps), where, most),
        sums=lambda steps: whole.sums(_scan(steps)),
        ids=lambda steps: whole.ids(_scan(steps)),
        put_away=lambda: dict(Search(ledger).put_away()),
        times=whole.times,
        sizes=lambda steps: sizes(whole, _scan(steps)),
        own=own,
    )


def _scan(steps: Steps) -> Scan:
    return Scan(steps.attempt, steps.first, steps.last, steps.but)


LOCAL = Engine(library_of, lambda ledger: ledger.lookup)
"""This process."""
