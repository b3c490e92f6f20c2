"""`ledger-audit merge`: the report of what was answered in pieces."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_audit.cli.options import ANY_FORMAT, ANY_REPORT, JUDGED, LEDGER, REDACT, Reports
from ledger_audit.cli.output import tell
from ledger_audit.cli.progress import progress
from ledger_audit.cli.verify import tell_exposure
from ledger_audit.errors import UnreadableError
from ledger_audit.report import EVERYWHERE

if TYPE_CHECKING:
    from ledger_audit.continuity.contract import Contract
    from ledger_audit.model import Order
    from ledger_audit.piecework import Comparison
    from ledger_audit.verification import Question

_WHOLE = ("stream", "columns", "trusts_digests")
_AROUND = (*_WHOLE, "before", "after", "full", "resume", "awaited")


@click.command(epilog=JUDGED)
@click.argument("piece", nargs=-1, required=True, type=LEDGER)
@REDACT
@ANY_FORMAT
@ANY_REPORT
def merge(piece: tuple[Path, ...], form: str, reports: Reports) -> int:
    """
    Make the report of `verify`, `gate` or `diff` out of the PIECEs of all its buckets.

    It is that of one process, byte for byte. Ledgers, lists of samples and the contract are read
    where they were when the pieces were made: what all records came to is taken from the pieces.
    """
    from ledger_audit.ledger.pieces import read_piece

    head = read_piece(piece[0])[0]
    try:
        question = _question(head)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise UnreadableError(
            f"{piece[0]}: does not say what it is of: {problem!r:.200}",
            hint="make the piece anew with --bucket",
        ) from problem
    from ledger_audit import piecework, verification

    if isinstance(question, piecework.Comparison):
        with progress() as told:
            report = piecework.merge(piece, question, told)
        return tell(report, form, reports)
    for kind in (form, *(kind for kind, _ in reports)):
        if kind not in EVERYWHERE:
            raise click.UsageError(f"{kind}: verify tells {' and '.join(EVERYWHERE)}")
    with progress() as told:
        exposure = verification.merge(piece, question, told)
    return tell_exposure(exposure, form, reports)


def _question(head: dict[str, Any]) -> "Question | Comparison":
    """Read from a piece what was asked."""
    from ledger_audit.ledger.address import place_of
    from ledger_audit.model import Reading
    from ledger_audit.piecework import Comparison
    from ledger_audit.verification import Question

    command, inputs, options = head["of"], head["inputs"], head["options"]
    if command == "verify":
        manifest = None if inputs["manifest"] is None else place_of(inputs["manifest"])
        samples = {source: int(count) for source, count in options["samples"]}
        reading = Reading(**{name: options[name] for name in _WHOLE})
        ledger = tuple(place_of(root) for root in inputs["ledger"])
        return Question(ledger, reading, _contract(head, "relative"), manifest, samples)
    if command not in ("gate", "diff"):
        raise ValueError(command)
    reading = Reading(**{name: options[name] for name in _AROUND})
    roots, beside = ([place_of(one) for one in inputs[name]] for name in ("roots", "beside"))
    order: Order = "step" if command == "gate" else "relative"
    return Comparison(command, roots, beside, reading, _contract(head, order))


def _contract(head: dict[str, Any], default: "Order") -> "Contract":
    """Read the contract where it was, and change it as the flags did."""
    from ledger_audit.continuity.contract import Contract
    from ledger_audit.contract_file import read_contract

    file, flags = head["contract"]["file"], head["flags"]
    contract = Contract() if file is None else read_contract(Path(file))
    waived = sorted(str(one) for one in flags["waived"])
    return contract.with_terms(default=default, order=flags["order"], waived=waived)
