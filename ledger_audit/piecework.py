"""
The path of `gate` and `diff` in pieces: each answers for some samples, and knows of no other.

`gate` counts what these samples amount to in both ledgers, `diff` looks up what its windows leave
unmatched of them. The report of all pieces is that of one process, byte for byte.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import polars as pl

from ledger_audit import audit, sources
from ledger_audit.audit import Tell
from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.judging import judge
from ledger_audit.continuity.settling import may_settle
from ledger_audit.continuity.summing import Both, has_negative
from ledger_audit.continuity.tallies import SIDES, count_both, tallies_from
from ledger_audit.continuity.terms import asked_of
from ledger_audit.errors import UnreadableError, UsageError
from ledger_audit.expectations import open_following
from ledger_audit.ledger.buckets import Bucket
from ledger_audit.ledger.lookups import Noted, Noting
from ledger_audit.ledger.pieces import Answer, read_pieces
from ledger_audit.libraries import LOCAL, library_of
from ledger_audit.model import Reading, Report

Tables = dict[str, pl.DataFrame]
"""Of a piece, by their names."""


@dataclass(frozen=True)
class Comparison:
    """What is asked of a run and its resumes."""

    command: Literal["diff", "gate"]
    roots: Sequence[Path]
    """Of the run."""
    beside: Sequence[Path]
    """The control of `gate`; the reference of `diff`, if there is one."""
    reading: Reading
    contract: Contract

    @property
    def head(self) -> dict[str, Any]:
        """Say what a piece is of, as JSON gives it back."""
        told = {
            "of": self.command,
            "inputs": {
                "roots": [str(one) for one in self.roots],
                "beside": [str(one) for one in self.beside],
            },
            "options": self.reading.told(),
            "contract": self.contract.told(),
        }
        found: dict[str, Any] = json.loads(json.dumps(told))
        return found

    @property
    def reference(self) -> Path | None:
        """Give the reference of `diff`."""
        return self.beside[0] if self.beside else None

    @property
    def own_contract(self) -> Contract:
        """Give the contract of the stream that is asked for."""
        return self.contract.of_stream(self.reading.stream)


def answer_bucket(asked: Comparison, bucket: Bucket, tell: Tell) -> Answer:
    """
    Answer for the samples of one bucket.

    Raises:
        UsageError: nothing is counted or looked up for this question.
    """
    tables, done = (_count if asked.command == "gate" else _look_up)(asked, bucket, tell)
    return Answer({**asked.head, "bucket": [bucket.number, bucket.of]}, tables, done)


def merge(paths: Sequence[Path], asked: Comparison, tell: Tell) -> Report:
    """
    Judge by the pieces of all buckets.

    Args:
        paths: of the pieces, in any order.
        asked: as it was of each of them.
        tell: takes a few words on what is being done.

    Raises:
        UnreadableError: a piece is damaged, or was made of something else.
        UsageError: a piece is missing, or there twice.
    """
    pieces = read_pieces(paths, asked.head)
    if asked.command == "diff":
        engine = replace(LOCAL, lookup=Noted.of_pieces(pieces).of)
        reading = replace(asked.reading, engine=engine)
        return audit.diff(asked.roots, reading, asked.contract, tell, asked.reference)
    tell("opening both ledgers")
    control, run = sources.open_pair(asked.beside, asked.roots, asked.reading)
    both = _counted_of(asked, control, run)
    for name, tables in pieces:
        if bool(tables) != (both is not None):
            raise UnreadableError(
                f"{name}: was made when both ledgers were "
                + ("not counted" if both is not None else "counted")
                + ": one of them has changed since",
                hint="make all pieces anew, of the ledgers as they are now",
            )
    if both is not None:
        theirs, ours = tallies_from(pieces, both.run.id_type)
        control, run = replace(control, tally=theirs), replace(run, tally=ours)
    opened = control, run
    return audit.gate(asked.beside, asked.roots, asked.reading, asked.contract, tell, opened)


def _count(asked: Comparison, bucket: Bucket, tell: Tell) -> tuple[Tables, str]:
    """Count what the samples of a bucket amount to in both ledgers."""
    tell("opening both ledgers")
    engine = replace(LOCAL, library=partial(library_of, bucket=bucket))
    reading = replace(asked.reading, engine=engine)
    control, run = sources.open_pair(asked.beside, asked.roots, reading)
    both = _counted_of(asked, control, run)
    if both is None:
        return {}, "Counted nothing: `merge` reads all records"
    tell("counting what both used")
    tables = count_both(both)
    own, every = (
        sum(int(tables[f"{side}-{name}"]["records"].sum()) for side in SIDES)
        for name in ("used", "records")
    )
    return tables, f"Counted {own:,} of {every:,} records of both"


def _counted_of(asked: Comparison, control: sources.Opened, run: sources.Opened) -> Both | None:
    """Give both ledgers if they are settled by what is counted of them; null: records are read."""
    both = sources.both_of(control, run, asked.reading)
    contract = asked.own_contract
    sides = asked_of(control, contract), asked_of(run, contract)
    is_settled = both is not None and may_settle(*sides, contract) and not has_negative(both)
    return both if is_settled else None


def _look_up(asked: Comparison, bucket: Bucket, tell: Tell) -> tuple[Tables, str]:
    """Look up what the windows of each resume leave unmatched of a bucket."""
    contract = asked.own_contract
    if contract.draws_anew:
        raise UsageError(
            "--bucket: the contract lets samples be drawn anew: all records are read, and nothing "
            "is looked up",
            hint="run diff without --bucket",
        )
    tell("opening the ledger")
    noting = Noting(bucket)
    reading = replace(asked.reading, engine=replace(LOCAL, lookup=noting.of))
    source, expected = open_following(asked.roots, asked.reference, reading)
    for index in sources.chosen_resumes(source, reading):
        tell("looking up what has no match")
        # some records alone judge nothing: what is asked for is noted, the rest is of no use
        judge(source, index, contract, reading, None, expected, too_large=source.rows)
    tables = noting.tables()
    samples, records = tables["asked"].height, tables["found"].height
    return tables, f"Looked up {samples:,} samples, found {records:,} records"
