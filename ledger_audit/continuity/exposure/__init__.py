"""
Judges a whole run: whether the newest weights used each sample of each pass as often as promised.

Nothing is compared with another stream here: what is missing is known only of a pass that is over
and whose samples are counted or listed, or of places that the stream numbers.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.exposure.by_digests import passes_by_digest
from ledger_audit.continuity.exposure.counting import Asked, count
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
from ledger_audit.continuity.exposure.places import holes_of
from ledger_audit.continuity.exposure.promised import Promised
from ledger_audit.continuity.exposure.repeats import repeats_of
from ledger_audit.continuity.exposure.strangers import with_strangers
from ledger_audit.model import Clause, Limit, Verdict
from ledger_audit.model.exposure import Exposure, Generation


def judge(
    library: Library,
    promised: Promised,
    contract: Contract,
    memory: int,
    tell: Callable[[str], None],
    told: tuple[dict[str, Any], dict[str, Any]],
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
    """
    if promised.manifest is not None and (promised.trusts_digests or library.put_away()):
        tell("adding up digests")
        passes = passes_by_digest(library, promised.manifest)
        if passes is not None:
            limits = contract.waive(limits_of_digests(library, passes))
            return _concluded(told, passes, clauses_of_digests(limits), limits, contract)
    overlap = 1 if contract.token_overlap is None else contract.token_overlap
    tell("counting what was used")
    counted = count(library, Asked(memory, trusts_digests=promised.trusts_digests))
    try:
        tell("looking at what was used more than once")
        again = repeats_of(library, counted, contract.repeats, overlap, memory)
        unseen = unseen_limits(library, counted)
        doubt = Doubt(mislabelled(library, counted), is_complete=not unseen)
        found = generations_of(library, counted, again, promised, contract, doubt)
        found = with_strangers(library, counted, promised, found)
        tell("looking at what changed no weights")
        holes = holes_of(library, counted, found)
        whole = Whole(found, holes, counted, library, doubt, unseen)
        limits = contract.waive(limits_of(whole))
        clauses = clauses_of(whole, limits, contract, has_list=promised.manifest is not None)
        return replace(
            _concluded(told, found, clauses, limits, contract),
            holes=whole.holes,
            shares=shares_of(library, counted),
            unused=unused_of(library, counted),
            survival=survival_of(library, counted),
            losses=losses_of(library, counted),
        )
    finally:
        counted.seen.close()


def _concluded(
    told: tuple[dict[str, Any], dict[str, Any]],
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
