"""
The path of `verify`: open → lineage → every record once → passes → verdict → report.

It asks of a whole run, and not of a resume, whether each sample was used as often as promised.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from ledger_audit.continuity.contract import DIFF, Contract
from ledger_audit.continuity.exposure import judge
from ledger_audit.continuity.exposure.generations import Promised
from ledger_audit.continuity.exposure.library import Library, Looked, Seen, Steps
from ledger_audit.errors import UsageError
from ledger_audit.ledger.counting import Tally, look
from ledger_audit.ledger.id_lists import read_ids
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.searching import Search
from ledger_audit.ledger.uses import Bytes, Hashes, seen
from ledger_audit.ledger.whole import Scan, Whole
from ledger_audit.model import Reading
from ledger_audit.model.exposure import Exposure
from ledger_audit.sources import source_of

MEMORY = 2 << 30
"""Bytes for counting, unless more or less is asked for."""


def verify(
    roots: Sequence[Path],
    reading: Reading,
    contract: Contract = DIFF,
    *,
    manifest: Path | None = None,
    samples: Mapping[str | None, int] | None = None,
    memory: int = MEMORY,
    tell: Callable[[str], None] = lambda _: None,
) -> Exposure:
    """
    Say whether the newest weights used each sample of each pass as often as promised.

    Args:
        roots: of the ledger.
        reading: the stream and the columns.
        contract: what the stream promises.
        manifest: a list of all samples of a pass.
        samples: source → samples of a pass; null: of the only source.
        memory: bytes for counting; the answer does not depend on it.
        tell: takes a few words on what is being done.

    Raises:
        UsageError: the contract lets samples be drawn anew, or the ledger holds no record.
    """
    if contract.draws_anew:
        raise UsageError(
            "the contract lets samples be drawn anew: none is promised once",
            hint="use diff, which measures such draws against chance, or --no-contract",
        )
    tell("opening the ledger")
    contract = contract.of_stream(reading.stream)
    ledger = open_ledger(roots, columns=reading.columns, stream=reading.stream)
    library = library_of(ledger)
    if not any(one.seen for one in library.archive.source.lineage.chain):
        raise UsageError(f"{ledger.name}: holds no record", hint="point at a ledger with records")
    listed = None
    if manifest is not None:
        listed = read_ids(manifest, column="sample_id", source=None, id_type=ledger.id_type)
    promised = Promised(dict(samples or {}), listed)
    inputs = {
        "ledger": [str(root) for root in roots],
        "manifest": None if manifest is None else str(manifest),
    }
    options = {
        "stream": reading.stream,
        "columns": dict(reading.columns),
        "samples": [[source, count] for source, count in promised.samples.items()],
    }
    return judge(library, promised, contract, memory, tell, (inputs, options))


def library_of(ledger: Ledger) -> Library:
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

    def looked(uses: Seen, steps: Steps, rows: Iterable[pl.DataFrame]) -> Looked:
        assert isinstance(uses, Bytes | Hashes)
        tally = Tally(ledger.name, uses, has_spans, has_positions)
        look(whole, _scan(steps), rows, tally)
        return Looked(tally.counts(), tally.sums())

    return Library(
        archive=source_of(ledger).archive(),
        id_type=ledger.id_type,
        begin=begin,
        look=looked,
        find=lambda steps, where: whole.records(_scan(steps), where),
        lowest=lambda steps, where, most: whole.lowest(_scan(steps), where, most),
        sums=lambda steps: whole.sums(_scan(steps)),
        ids=lambda steps: whole.ids(_scan(steps)),
        put_away=lambda: dict(Search(ledger).put_away()),
        times=whole.times,
    )


def _scan(steps: Steps) -> Scan:
    return Scan(steps.attempt, steps.first, steps.last, steps.but)
