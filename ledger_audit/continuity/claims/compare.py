"""Compares what a checkpoint claims with what the ledger proves was consumed."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ledger_audit.continuity.claims.claim import Claim, Count
from ledger_audit.continuity.claims.proven import Proven, proven
from ledger_audit.continuity.claims.tally import Tally
from ledger_audit.continuity.claims.weighing import MOST_SPLIT, Said, Weighed, weigh
from ledger_audit.continuity.claims.wording import ranks_told
from ledger_audit.model.claims import Agreement, ClaimFacts, Comparison
from ledger_audit.model.ranges import Ranges, closed_ranges

MOST_NOTES = 24


def compare(claims: Mapping[int, Claim], tally: Tally) -> ClaimFacts:
    """
    Compare claims with what committed updates consumed.

    Args:
        claims: rank → what it says.
        tally: what the ledger proves at the checkpoint.
    """
    known = proven(tally, claims)
    weighed = [weigh(said, known) for said in _numbers(claims)]
    weighed += _slots(claims, known)
    comparisons = tuple(one for each in weighed for one in each.comparisons)
    notes = [note for claim in claims.values() for note in claim.notes]
    notes += [note for each in weighed for note in each.notes]
    notes += _end_notes(claims, comparisons, known)
    notes += _silent(claims)
    return ClaimFacts(
        agreement=_worst(one.agreement for one in comparisons),
        readers=tuple(dict.fromkeys(claim.reader for claim in claims.values())),
        comparisons=comparisons,
        ahead=_ahead(weighed),
        text=_text(claims, comparisons),
        notes=tuple(dict.fromkeys(notes))[:MOST_NOTES],
        silent=_unheard(weighed, known),
    )


def _numbers(claims: Mapping[int, Claim]) -> list[Said]:
    """Bring together what the ranks say of the same number."""
    found: dict[Count, tuple[dict[int, int], dict[int, tuple[int | None, int | None]]]] = {}
    for rank, claim in sorted(claims.items()):
        for count in claim.counts:
            values, passes = found.setdefault(replace(count, value=0), ({}, {}))
            values.setdefault(rank, count.value)
            passes[rank] = (claim.epoch, claim.first_epoch)
    return [Said(count, values, passes) for count, (values, passes) in found.items()]


def _slots(claims: Mapping[int, Claim], known: Proven) -> list[Weighed]:
    """An accumulation group that had begun is in no update: the next step begins at slot 0."""
    sayers: dict[int, list[int]] = {}
    for rank, claim in sorted(claims.items()):
        if claim.slot:
            sayers.setdefault(claim.slot, []).append(rank)
    step = known.tally.step + 1
    comparisons = tuple(
        Comparison(
            "slot",
            closed_ranges(ranks),
            slot,
            0,
            "slots",
            "contradicts",
            f"the claim of {ranks_told(ranks)} says that slot {slot:,} of step {step:,} comes "
            "next, and the weights hold whole updates only: a resume from here will skip what its "
            f"slots before {slot:,} used",
        )
        for slot, ranks in list(sayers.items())[:MOST_SPLIT]
    )
    return [Weighed(comparisons, None, is_position=False)] if comparisons else []


def _end_notes(
    claims: Mapping[int, Claim], comparisons: Iterable[Comparison], known: Proven
) -> list[str]:
    """Give what a resume needs where the claims stand at the end of their pass."""
    if any(one.agreement == "contradicts" for one in comparisons) or not known.whole.records:
        return []
    notes = []
    for rank, claim in claims.items():
        if claim.end_note is None or not any(one.value for one in claim.counts):
            continue
        place = known.passes.locate(claim.epoch, claim.first_epoch, rank)
        if place.place in ("newest", "whole") and known.passes.ending(place.label) == "over":
            notes.append(claim.end_note)
    return notes


def _silent(claims: Mapping[int, Claim]) -> list[str]:
    """Name the ranks that say nothing, where others do."""
    silent: dict[str, list[int]] = {}
    for rank, claim in claims.items():
        if claim.silence is not None:
            silent.setdefault(claim.silence, []).append(rank)
    if sum(len(ranks) for ranks in silent.values()) == len(claims):
        return []
    return [f"{ranks_told(ranks)}: {why}" for why, ranks in silent.items()]


def _unheard(weighed: Iterable[Weighed], known: Proven) -> Ranges:
    """Give the ranks that take part and whose position nothing tells that was compared."""
    heard: set[int] = set()
    for one in weighed:
        for each in one.comparisons:
            if one.is_of_all and each.agreement == "agrees":
                return ()
            if each.agreement != "not-compared":
                heard |= {rank for first, last in each.ranks for rank in range(first, last + 1)}
    return closed_ranges(set(known.ranks) - heard)


def _ahead(weighed: Iterable[Weighed]) -> int | None:
    """Give how far the claims are ahead, if those numbers that say it agree."""
    told = {
        (one.is_position, one.ahead)
        for one in weighed
        if any(each.agreement != "not-compared" for each in one.comparisons)
    }
    positions = {ahead for is_position, ahead in told if is_position}
    others = {ahead for is_position, ahead in told if not is_position}
    if positions:
        return positions.pop() if len(positions) == 1 else None
    return 0 if others == {0} else None


def _worst(agreements: Iterable[Agreement]) -> Agreement:
    found = set(agreements)
    order: tuple[Agreement, ...] = ("contradicts", "agrees")
    return next((one for one in order if one in found), "not-compared")


def _text(claims: Mapping[int, Claim], comparisons: tuple[Comparison, ...]) -> str:
    """Give the sentence that matters most."""
    for agreement in ("contradicts", "agrees", "not-compared"):
        fitting = [one for one in comparisons if one.agreement == agreement]
        if fitting:
            more = len(fitting) - 1 if agreement == "contradicts" else 0
            also = f" (and {more:,} more contradict)" if more > 1 else ""
            also = " (and one more contradicts)" if more == 1 else also
            return fitting[0].text + also
    silence = next((one.silence for one in claims.values() if one.silence is not None), None)
    return f"the claim says no position: {silence}" if silence else "no rank says a position"
