"""Lets all records of a ledger pass by: where the archive meets the reasoning about whole runs."""

from collections.abc import Iterable, Sequence

import polars as pl

from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.exposure.library import Library, Looked, Seen, Steps
from ledger_audit.ledger.counting import Tally, look
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.searching import Search
from ledger_audit.ledger.tables import hash_frame
from ledger_audit.ledger.uses import Bytes, Hashes, seen
from ledger_audit.ledger.whole import Scan, Whole

CONTENT = {
    "token_start": "token_start",
    "token_end": "token_start",
    "source": "source",
    "epoch": "epoch",
    "position": "position",
}
"""What a record is beside its sample → the column without a value in which it has none."""


def library_of(ledger: Ledger, archive: Archive) -> Library:
    """Let all records of a ledger pass by."""
    whole = Whole(ledger)
    has_spans = whole.bounds("token_start") is not None
    has_positions = whole.bounds("position") is not None

    def begin(memory: int, may_be_direct: bool) -> Bytes | Hashes:
        bounds = None
        if may_be_direct and ledger.id_type.is_integer():
            bounds = whole.bounds("sample_id")
        rows = sum(Search(ledger).size(attempt) for attempt in ledger.attempts)
        return seen(bounds, rows, memory)

    def looked(
        uses: Seen | None,
        steps: Steps,
        rows: Iterable[pl.DataFrame],
        mixes: Sequence[str] | None,
    ) -> Looked:
        assert uses is None or isinstance(uses, Bytes | Hashes)
        mixed = None if mixes is None else tuple(mixes)
        tally = Tally(ledger.name, uses, has_spans, has_positions, mixed)
        look(whole, _scan(steps), rows, tally)
        return Looked(tally.counts(), tally.sums())

    return Library(
        archive=archive,
        id_type=ledger.id_type,
        begin=begin,
        look=looked,
        content=tuple(name for name in CONTENT if whole.has(CONTENT[name])),
        hashed=hash_frame,
        find=lambda steps, where: whole.records(_scan(steps), where),
        lowest=lambda steps, where, most: whole.lowest(_scan(steps), where, most),
        sums=lambda steps: whole.sums(_scan(steps)),
        ids=lambda steps: whole.ids(_scan(steps)),
        put_away=lambda: dict(Search(ledger).put_away()),
        times=whole.times,
    )


def _scan(steps: Steps) -> Scan:
    return Scan(steps.attempt, steps.first, steps.last, steps.but)
