"""
Judges a whole run: whether the newest weights used each sample of each pass as often as promised.

Nothing is compared with another stream here: what is missing is known only of a pass that is over
and whose samples are counted or listed, or of places that the stream numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.exposure.by_digests import passes_by_digest
from ledger_audit.continuity.exposure.counting import Asked, Counted, count
from ledger_audit.continuity.exposure.effects import Run, effects_of
from ledger_audit.continuity.exposure.generations import Doubt, generations_of
from ledger_audit.continuity.exposure.judging import (
    Whole,
    clauses_of,
    clauses_of_digests,
    limits_of,
    limits_of_digests,
    unseen_limits,
)
from ledger_audit.continuity.exposure.labels import mislabelled
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.continuity.exposure.losses import losses_of, shares_of, survival_of, unused_of
from ledger_audit.continuity.exposure.pieces import (
    Piece,
    counted_piece,
    nothing_to_count,
    put_together,
)
from ledger_audit.continuity.exposure.places import holes_of
from ledger_audit.continuity.exposure.promised import Promised
from ledger_audit.continuity.exposure.repeats import repeats_of, several_of
from ledger_audit.continuity.exposure.summary import Summary, summarise
from ledger_audit.errors import UsageError
from ledger_audit.model import Clause, Limit, Verdict
from ledger_audit.model.exposure import Exposure, Generation

Listing = Callable[[Iterator[pl.DataFrame]], None]
"""Takes EFFECTS of the samples, some at a time."""

Told = tuple[dict[str, Any], dict[str, Any]]
"""The inputs and the options, for the report."""


def judge(
    library: Library,
    promised: Promised,
    contract: Contract,
    memory: int,
    tell: Callable[[str], None],
    told: Told,
    pieces: Sequence[Piece] | None = None,
    listing: Listing | None = None,
) -> Exposure:
    """
    Judge a whole run.

    Args:
        library: the ledger.
        promised: what a pass should hold.
        contract: what the stream promises.
        memory: bytes that may be used for counting; the answer does not depend on it.
        tell: takes a few words on what is being done.
        told: the inputs and the options, for the report.
        pieces: what others have counted, each of its own samples; null: nothing is counted yet.
        listing: takes the net effect on each sample, where records are counted here.

    Raises:
        UsageError: effects are to be listed, and digests prove the run without a record.
    """
    passes = _by_digest(library, promised, tell)
    if passes is not None:
        if listing is not None:
            raise UsageError(
                "--effects: digests prove this run, and no record was counted",
                hint="leave out --trust-digests; where records were not kept there is no list",
            )
        limits = contract.waive(limits_of_digests(library, passes))
        return _concluded(told, passes, clauses_of_digests(limits), limits, contract)
    asked = Asked(memory, trusts_digests=promised.trusts_digests)
    if pieces is not None:
        tell("adding up")
        counted, summary = put_together(library, pieces, asked)
        return _judged(library, counted, summary, promised, contract, told)
    tell("counting what was used")
    counted = count(library, asked)
    try:
        tell("looking at what was used more than once")
        again = repeats_of(library, counted, contract.repeats, _overlap(contract), memory)
        tell("looking at what changed no weights")
        summary = summarise(library, counted, promised, again)
        report = _judged(library, counted, summary, promised, contract, told)
        if listing is not None:
            tell("listing the effect on each sample")
            run = Run(library, counted, promised, contract.repeats, report.generations)
            overlap = _overlap(contract)
            listing(
                effects_of(run, several_of(library, counted, contract.repeats, overlap, memory))
            )
    finally:
        counted.seen.close()
    return report


def piece(
    library: Library,
    promised: Promised,
    contract: Contract,
    memory: int,
    tell: Callable[[str], None],
) -> Piece:
    """Count what the samples that a library answers for came to; arguments as of `judge`."""
    if _by_digest(library, promised, tell) is not None:
        return nothing_to_count(library)
    tell("counting what was used")
    asked = Asked(memory, trusts_digests=promised.trusts_digests)
    return counted_piece(library, promised, asked, contract.repeats, _overlap(contract))


def _by_digest(
    library: Library, promised: Promised, tell: Callable[[str], None]
) -> tuple[Generation, ...] | None:
    """Give the passes if digests prove them; null: the records are to be counted."""
    if promised.manifest is None or not (promised.trusts_digests or library.put_away()):
        return None
    tell("adding up digests")
    return passes_by_digest(library, promised.manifest)


def _overlap(contract: Contract) -> int:
    return 1 if contract.token_overlap is None else contract.token_overlap


def _judged(
    library: Library,
    counted: Counted,
    summary: Summary,
    promised: Promised,
    contract: Contract,
    told: Told,
) -> Exposure:
    """Judge what was counted."""
    unseen = unseen_limits(library, counted)
    doubt = Doubt(mislabelled(library, counted), is_complete=not unseen)
    found = generations_of(library, counted, summary, promised, contract, doubt)
    whole = Whole(found, holes_of(library, counted, found), counted, library, doubt, unseen)
    limits = contract.waive(limits_of(whole))
    clauses = clauses_of(whole, limits, contract, has_list=promised.manifest is not None)
    return replace(
        _concluded(told, found, clauses, limits, contract),
        holes=whole.holes,
        shares=shares_of(library, counted),
        unused=unused_of(summary),
        survival=survival_of(library, counted),
        losses=losses_of(library, summary),
    )


def _concluded(
    told: Told,
    generations: tuple[Generation, ...],
    clauses: tuple[Clause, ...],
    limits: tuple[Limit, ...],
    contract: Contract,
) -> Exposure:
    """Give the report of what is judged; what only records tell is left out."""
    return Exposure(
        inputs=told[0],
        options=told[1],
        verdict=Verdict.worst([one.verdict for one in clauses]),
        clauses=clauses,
        generations=generations,
        limits=limits,
        contract=contract.told(),
    )
