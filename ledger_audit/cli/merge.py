"""`ledger-audit merge`: the report of a whole run that was counted in pieces."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_audit.cli.options import FORMAT, JUDGED, LEDGER, REDACT, REPORT, Reports
from ledger_audit.cli.progress import progress
from ledger_audit.cli.verify import tell_exposure
from ledger_audit.errors import UnreadableError

if TYPE_CHECKING:
    from ledger_audit.verification import Question


@click.command(epilog=JUDGED)
@click.argument("piece", nargs=-1, required=True, type=LEDGER)
@REDACT
@FORMAT
@REPORT
def merge(piece: tuple[Path, ...], form: str, reports: Reports) -> int:
    """
    Make the report of a whole run out of the PIECEs of all its buckets.

    The report is that of `verify`, byte for byte. The ledger, the list of samples and the contract
    are read where they were when the pieces were made: of the ledger the events and a few steps.
    """
    from ledger_audit import verification
    from ledger_audit.ledger.pieces import read_piece

    question = _question(read_piece(piece[0])[0], piece[0])
    with progress() as told:
        report = verification.merge(piece, question, told)
    return tell_exposure(report, form, reports)


def _question(head: dict[str, Any], path: Path) -> "Question":
    """Read from a piece what was asked."""
    from ledger_audit.continuity.contract import Contract
    from ledger_audit.contract_file import read_contract
    from ledger_audit.ledger.address import place_of
    from ledger_audit.model import Reading
    from ledger_audit.verification import Question

    try:
        inputs, options, file = head["inputs"], head["options"], head["contract"]["file"]
        roots = tuple(place_of(root) for root in inputs["ledger"])
        manifest = None if inputs["manifest"] is None else Path(inputs["manifest"])
        samples = {source: int(count) for source, count in options["samples"]}
        names = ("stream", "columns", "trusts_digests")
        reading = Reading(**{name: options[name] for name in names})
        waived = sorted(str(one) for one in head["waived"])
        contract = Contract() if file is None else read_contract(Path(file))
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise UnreadableError(
            f"{path}: does not say what it is of: {problem!r:.200}",
            hint="make the piece anew with verify --bucket",
        ) from problem
    contract = contract.with_terms(default="relative", waived=waived)
    return Question(roots, reading, contract, manifest, samples)
