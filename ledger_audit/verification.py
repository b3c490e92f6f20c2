"""
The path of `verify`: open → lineage → every record once → passes → verdict → report.

It asks of a whole run, and not of a resume, whether each sample was used as often as promised.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ledger_audit.continuity.contract import DIFF, Contract
from ledger_audit.continuity.exposure import judge
from ledger_audit.continuity.exposure.promised import Promised
from ledger_audit.errors import UsageError
from ledger_audit.ledger.id_lists import read_ids
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.model import Reading
from ledger_audit.model.exposure import Exposure
from ledger_audit.sources import opened_run


def verify(
    roots: Sequence[Path],
    reading: Reading,
    contract: Contract = DIFF,
    *,
    manifest: Path | None = None,
    samples: Mapping[str | None, int] | None = None,
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
        tell: takes a few words on what is being done.

    Where the reading trusts digests, or records were not kept, a manifest's digest is compared with
    what commits tell, and records are read only where that proves nothing.

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
    library = opened_run(ledger).library()
    if not any(one.seen for one in library.archive.source.lineage.chain):
        raise UsageError(f"{ledger.name}: holds no record", hint="point at a ledger with records")
    listed = None
    if manifest is not None:
        listed = read_ids(manifest, column="sample_id", source=None, id_type=ledger.id_type)
    promised = Promised(dict(samples or {}), listed, reading.trusts_digests)
    inputs = {
        "ledger": [str(root) for root in roots],
        "manifest": None if manifest is None else str(manifest),
    }
    options = {
        "stream": reading.stream,
        "columns": dict(reading.columns),
        "trusts_digests": reading.trusts_digests,
        "samples": [[source, count] for source, count in promised.samples.items()],
    }
    return judge(library, promised, contract, reading.memory, tell, (inputs, options))
