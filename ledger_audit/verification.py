"""
The path of `verify`: open → lineage → every record once → passes → verdict → report.

It asks of a whole run, and not of a resume, whether each sample was used as often as promised.
What its samples came to may be counted in pieces, by processes that know nothing of each other.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from ledger_audit.continuity.contract import DIFF, Contract
from ledger_audit.continuity.exposure import judge, piece
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.continuity.exposure.pieces import Piece, frames_of, piece_from
from ledger_audit.continuity.exposure.promised import Promised
from ledger_audit.errors import UsageError
from ledger_audit.ledger.buckets import Bucket
from ledger_audit.ledger.digest import digest
from ledger_audit.ledger.id_lists import read_ids
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.ordered import write_ordered
from ledger_audit.ledger.pieces import Answer, read_pieces
from ledger_audit.libraries import LOCAL, library_of
from ledger_audit.model import Reading
from ledger_audit.model.exposure import Exposure
from ledger_audit.sources import opened_run

Tell = Callable[[str], None]
"""Takes a few words on what is being done now."""


def _quietly(_: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Question:
    """What is asked of a whole run."""

    roots: Sequence[Path]
    """Of the ledger."""
    reading: Reading
    """The stream, the columns, and how much memory may be used."""
    contract: Contract
    manifest: Path | None
    """A list of all samples of a pass."""
    samples: Mapping[str | None, int]
    """Source → samples of a pass; null: of the only source."""
    effects: Path | None = None
    """Where to write the net effect on each sample; null: nowhere."""
    hide: Callable[[str], str] | None = None
    """Gives what stands for a sample id there; null: ids stand there as they are."""

    @property
    def inputs(self) -> dict[str, Any]:
        """Give what was read, as the report shows it."""
        manifest = None if self.manifest is None else str(self.manifest)
        return {"ledger": [str(root) for root in self.roots], "manifest": manifest}

    @property
    def options(self) -> dict[str, Any]:
        """Give the options, as the report shows them."""
        return {
            "stream": self.reading.stream,
            "columns": dict(self.reading.columns),
            "trusts_digests": self.reading.trusts_digests,
            "samples": [[source, count] for source, count in self.samples.items()],
        }


@dataclass(frozen=True)
class _Opened:
    """A ledger that is open, and what is asked of it."""

    question: Question
    library: Library
    promised: Promised
    contract: Contract

    @property
    def head(self) -> dict[str, Any]:
        """Say what a piece is of, as JSON gives it back."""
        listed = self.promised.manifest
        ids = None if listed is None else digest([listed["sample_id"].rechunk().to_arrow()])
        told = {
            "of": "verify",
            "inputs": self.question.inputs,
            "options": self.question.options,
            "contract": self.contract.told(),
            "listed": None if listed is None else [listed.height, str(ids)],
        }
        found: dict[str, Any] = json.loads(json.dumps(told))
        return found

    def judged(self, tell: Tell, pieces: Sequence[Piece] | None = None) -> Exposure:
        """Judge the run; `pieces`: what was counted of it, null: nothing was."""
        question = self.question
        told = question.inputs, question.options
        memory = question.reading.memory
        listing = None if question.effects is None else self._list
        return judge(
            self.library, self.promised, self.contract, memory, tell, told, pieces, listing
        )

    def _list(self, effects: Iterator[pl.DataFrame]) -> None:
        """Write the net effect on each sample."""
        path, hide = self.question.effects, self.question.hide
        assert path is not None
        told = effects if hide is None else (_hidden(part, hide) for part in effects)
        write_ordered(path, told, ["source", "epoch", "sample_id"], "--effects")


def verify(
    roots: Sequence[Path],
    reading: Reading,
    contract: Contract = DIFF,
    *,
    manifest: Path | None = None,
    samples: Mapping[str | None, int] | None = None,
    tell: Tell = _quietly,
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
    return verified(Question(roots, reading, contract, manifest, samples or {}), tell)


def verified(question: Question, tell: Tell = _quietly) -> Exposure:
    """Answer a question, as `verify` does."""
    return _opened(question, tell).judged(tell)


def count_bucket(question: Question, bucket: Bucket, tell: Tell = _quietly) -> Answer:
    """
    Count what the samples of one bucket came to; answers of all give `merge` the whole report.

    Raises:
        UsageError: as `verify` does.
    """
    engine = replace(LOCAL, library=partial(library_of, bucket=bucket))
    reading = replace(question.reading, engine=engine)
    opened = _opened(replace(question, reading=reading), tell)
    found = piece(opened.library, opened.promised, opened.contract, question.reading.memory, tell)
    amounts = found.amounts
    own, every = int(amounts.used["records"].sum()), amounts.records
    head = {**opened.head, "bucket": [bucket.number, bucket.of]}
    return Answer(head, frames_of(found), f"Counted {own:,} of {every:,} records")


def merge(paths: Sequence[Path], question: Question, tell: Tell = _quietly) -> Exposure:
    """
    Judge a whole run by the pieces of all its buckets.

    Args:
        paths: of the pieces, in any order.
        question: as it was asked of each of them.
        tell: takes a few words on what is being done.

    Raises:
        UnreadableError: a piece is damaged, or was made of something else.
        UsageError: a piece is missing, or there twice.
    """
    opened = _opened(question, tell)
    id_type = opened.library.id_type
    found = read_pieces(paths, opened.head)
    return opened.judged(tell, [piece_from(tables, id_type, name) for name, tables in found])


def _opened(question: Question, tell: Tell) -> _Opened:
    """Open the ledger."""
    if question.contract.draws_anew:
        raise UsageError(
            "the contract lets samples be drawn anew: none is promised once",
            hint="use diff, which measures such draws against chance, or --no-contract",
        )
    tell("opening the ledger")
    reading = question.reading
    contract = question.contract.of_stream(reading.stream)
    ledger = open_ledger(question.roots, columns=reading.columns, stream=reading.stream)
    library = opened_run(ledger, reading.engine).library()
    if not any(one.seen for one in library.archive.source.lineage.chain):
        raise UsageError(f"{ledger.name}: holds no record", hint="point at a ledger with records")
    listed = None
    if question.manifest is not None:
        listed = read_ids(
            question.manifest, column="sample_id", source=None, id_type=ledger.id_type
        )
    promised = Promised(dict(question.samples), listed, reading.trusts_digests)
    return _Opened(question, library, promised, contract)


def _hidden(part: pl.DataFrame, hide: Callable[[str], str]) -> pl.DataFrame:
    """Put something else in the place of sample ids."""
    ids = [hide(str(one)) for one in part["sample_id"].to_list()]
    return part.with_columns(sample_id=pl.Series(ids, dtype=pl.String))
