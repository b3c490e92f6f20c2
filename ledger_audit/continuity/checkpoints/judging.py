"""Judges every checkpoint of a ledger: whole or not, coherent or not, and what it leads to."""

from dataclasses import replace

from ledger_audit.continuity.checkpoints.archive import Archive, Probe
from ledger_audit.continuity.checkpoints.branch import every_attempt
from ledger_audit.continuity.checkpoints.case import Case, case_of, launches_of
from ledger_audit.continuity.checkpoints.digests import digest_of
from ledger_audit.continuity.checkpoints.evidence import Evidence, gathered
from ledger_audit.continuity.checkpoints.ladder import ladder_of
from ledger_audit.continuity.checkpoints.resumable import Data, resumable
from ledger_audit.continuity.checkpoints.saves import Told, gather, starts
from ledger_audit.continuity.checkpoints.tallies import tally_of
from ledger_audit.continuity.checkpoints.weights import label_of
from ledger_audit.continuity.checkpoints.wholeness import named
from ledger_audit.continuity.claims.compare import compare
from ledger_audit.continuity.claims.tally import Tally
from ledger_audit.errors import UsageError
from ledger_audit.model.checkpoints import Checkpoint
from ledger_audit.model.claims import ClaimFacts
from ledger_audit.printable import counted


def judge(
    archive: Archive, only: str | None = None, probe: Probe | None = None
) -> tuple[tuple[Checkpoint, ...], tuple[str, ...]]:
    """
    Judge every checkpoint.

    Args:
        archive: the ledger.
        only: the attempt whose checkpoints are asked for; null: all.
        probe: looks at the files of a path; null: nobody does.

    Returns:
        The checkpoints, newest first; and what is to be said beside them.

    Raises:
        UsageError: there is no attempt of this label.
    """
    known = every_attempt(archive.source.lineage)
    if only is not None and only not in known:
        raise UsageError(
            f"--attempt {only}: there is no attempt of this label",
            hint=f"there are: {', '.join(known) or 'none'}",
        )
    said, unplaced = gather(archive.source.acts)
    told = [one for one in said if only in (None, one.attempt)]
    launches = launches_of(archive.source.acts, (one.attempt for one in told))
    cases = [case_of(place, one, known, launches) for place, one in enumerate(told)]
    evidence = gathered(archive, cases, said, known, starts(archive.source.acts))
    found = [_checkpoint(evidence, case, probe) for case in cases]
    age = {label: place for place, label in enumerate(known)}
    found.sort(key=lambda one: (age[one.attempt], one.step, one.nth), reverse=True)
    notes = tuple(
        f"{counted(count, 'checkpoint event')} of attempt {label} left out: no step is named"
        for label, count in sorted(unplaced.items())
        if only in (None, label)
    )
    return tuple(found), notes


def _checkpoint(evidence: Evidence, case: Case, probe: Probe | None) -> Checkpoint:
    """Judge one."""
    told, attempt = case.told, evidence.known[case.told.attempt]
    own = evidence.walks[attempt.label]
    tally = tally_of(evidence.summed, case, evidence.documents(case))
    wholeness = evidence.wholeness(told)
    label = label_of(evidence.archive, told, own, evidence.ends[attempt.label].get(case.place))
    digest = digest_of(told, case.legs, evidence.walks, evidence.starts)
    claim = _compared(case, tally)
    paths = tuple(dict.fromkeys(one.path for one in told.saves.values() if one.path))
    probed = None if probe is None else tuple(probe(path) for path in paths)
    data = Data(claim, tally.unseen, digest, _silent(told, claim))
    verdict, because = resumable(wholeness, label, data, probed)
    placed = {rank for rank, save in told.saves.items() if save.snapshot is not None}
    knows_open = attempt.participants(told.step) <= placed
    return Checkpoint(
        attempt=told.attempt,
        step=told.step,
        nth=told.nth,
        in_lineage=evidence.is_in_lineage(told),
        loaded_by=evidence.loaded.get((told.attempt, told.step), ()),
        wholeness=wholeness,
        label=label,
        ladder=ladder_of(tally, case.claims, knows_open=knows_open),
        claim=claim,
        unseen=tally.unseen,
        digest=digest,
        fingerprint=case.fingerprint,
        paths=paths,
        probed=probed,
        resumable=verdict,
        because=because,
    )


def _compared(case: Case, tally: Tally) -> ClaimFacts | None:
    """
    Compare what a checkpoint claims; null: nothing.

    Where ranks claim twice, and not the same, nothing says which of the two a resume would load:
    the second may contradict, and what it leaves open is open.
    """
    if not case.claims:
        return None
    found = compare(case.claims, tally)
    if not case.others or found.agreement == "contradicts":
        return found
    other = compare({**case.claims, **case.others}, tally)
    if other.agreement == "agrees" and other.silent == found.silent:
        return found
    ranks = named(case.others)
    told = f"{ranks} claimed twice for this save, and not the same"
    if other.agreement == "contradicts":
        return replace(other, text=f"{told}; the second contradicts: {other.text}")
    why = f"{told}: nothing of the second is compared"
    return replace(found, agreement="not-compared", comparisons=(), text=why)


def _silent(told: Told, claim: ClaimFacts | None) -> frozenset[int]:
    """
    Give the ranks that wrote a part of the checkpoint and claim nothing, while others do.

    A rank that writes no part of it is given the state that another wrote: that is no silence.
    """
    ranges = () if claim is None else claim.silent
    return frozenset(one for first, last in ranges for one in told.saves if first <= one <= last)
