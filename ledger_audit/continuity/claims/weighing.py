"""Weighs one number of the claims: over all ranks that say it, and as one sum where it must be."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ledger_audit.continuity.claims.claim import Count
from ledger_audit.continuity.claims.elements import common
from ledger_audit.continuity.claims.gap import SAMPLE_UNITS, Gap, shared
from ledger_audit.continuity.claims.judging import judge
from ledger_audit.continuity.claims.number import EACH, WHOSE, Judged, Number
from ledger_audit.continuity.claims.passes import Pass
from ledger_audit.continuity.claims.places import by_read
from ledger_audit.continuity.claims.proven import Proven
from ledger_audit.continuity.claims.wording import amount, going_on, ranks_told
from ledger_audit.model.claims import Comparison
from ledger_audit.model.ranges import closed_ranges

MOST_SPLIT = 64
"""Comparisons of one number that are told: as many groups of ranks that differ."""


@dataclass(frozen=True)
class Said:
    """One number of the claims, and what each rank says it is."""

    count: Count
    """Its value is only that of the first rank."""
    values: Mapping[int, int]
    passes: Mapping[int, tuple[int | None, int | None]]
    """Rank → the pass that it is in, and how it numbers the first one."""


@dataclass(frozen=True)
class Weighed:
    """One number of the claims, compared."""

    comparisons: tuple[Comparison, ...]
    ahead: int | None
    is_position: bool
    """It counts samples, so that `ahead` is what a resume would skip."""
    notes: tuple[str, ...] = ()
    is_of_all: bool = False
    """It is a number of all ranks, whoever says it."""


def weigh(said: Said, known: Proven) -> Weighed:
    """
    Compare one number with what the ledger proves.

    What void updates used after the last committed step may be used again or passed over, by all
    ranks alike: a number that is right by either is right.
    """
    weighed = _weigh(said, known)
    if known.passed_back is None or not _is_wrong(weighed):
        return weighed
    back = _weigh(said, known.passed_back)
    if not _is_wrong(back):
        return replace(back, comparisons=tuple(_used_again(one) for one in back.comparisons))
    # behind both, only what was committed is replayed
    is_behind = (weighed.ahead or 0) < 0 and (back.ahead or 0) < 0
    return back if is_behind else weighed


def _is_wrong(weighed: Weighed) -> bool:
    return any(one.agreement == "contradicts" for one in weighed.comparisons)


def _used_again(one: Comparison) -> Comparison:
    if one.agreement != "agrees":
        return one
    return replace(one, text=f"{one.text}; what void updates used after that may be used again")


def _weigh(said: Said, known: Proven) -> Weighed:
    as_place = _as_place(said, known) if said.count.stage == "read" else None
    if as_place is not None:
        return as_place
    if said.count.of == "all":
        return replace(_of_all(said, known), is_of_all=True)
    return _of_ranks(said, known)


def _as_place(said: Said, known: Proven) -> Weighed | None:
    """Compare what all ranks read with the place that comes next; null: it is only told."""
    at = by_read(known)
    is_it = said.count.since == "run" and said.count.unit in (None, "records", "sequences")
    if at is None or at.agreement == "not-compared" or not is_it:
        return None
    if at.claimed not in (*said.values.values(), sum(said.values.values())):
        return None  # it is another key that says it
    places = known.tally.places
    story = f"{amount(at.claimed, known.noun(said.count.unit))} {at.text}"
    judged = Judged(
        at.claimed, None if places is None else places.next, at.agreement, story, at.ahead
    )
    comparison = _comparison(said, judged, said.values, "", "")
    return Weighed((comparison,), at.ahead, is_position=True, is_of_all=True)


def _where(said: Said, rank: int, known: Proven) -> Pass:
    """Find the pass that the count of one rank is about."""
    if said.count.since == "run":
        return Pass("whole")
    epoch, first_epoch = said.passes[rank]
    whose = rank if said.count.of == "rank" else None
    place = known.passes.locate(epoch, first_epoch, whose)
    is_unsaid = epoch is None and said.values[rank] == 0 and place.place in ("whole", "newest")
    if is_unsaid and known.whole.records and known.passes.ending(place.label) in ("over", "rest"):
        # without a number of its own, a pass that has used nothing may be the next one
        return Pass("next", None if place.label is None else place.label + 1)
    return place


def _of_all(said: Said, known: Proven) -> Weighed:
    """Compare a count of all ranks: all should say the same."""
    sayers: dict[tuple[object, ...], list[int]] = {}
    for rank, value in said.values.items():
        in_pass = said.passes[rank] if said.count.since == "epoch" else None
        sayers.setdefault((value, in_pass), []).append(rank)
    comparisons, judgements = [], []
    for ranks in sayers.values():
        count = replace(said.count, value=said.values[ranks[0]])
        judged = judge(Number(count, None, _where(said, ranks[0], known), known))
        who = "" if len(sayers) == 1 else f" of {ranks_told(ranks)}"
        judgements.append(judged)
        comparisons.append(_comparison(said, judged, ranks, who, "of all ranks"))
    notes = [one.note for one in judgements if one.note is not None]
    ahead = judgements[0].ahead if len(sayers) == 1 else None
    if len(sayers) > 1:
        notes.append(f"ranks differ in {said.count.key}, which counts the use of all of them")
    return _cut(tuple(comparisons), ahead, said, notes)


def _of_ranks(said: Said, known: Proven) -> Weighed:
    """Compare a rank's own count, each rank with what it used itself."""
    where = {rank: _where(said, rank, known) for rank in said.values}
    used = {rank: _used(said, rank, where, known) for rank in said.values}
    others = _used_by_others(said, where, known)
    whose = shared(said.values, used | others)
    numbers = {
        rank: Number(replace(said.count, value=value), rank, where[rank], known, whose.get(rank))
        for rank, value in said.values.items()
    }
    readings = common(numbers.values()) if said.count.unit == "elements" else None
    judged = {rank: judge(replace(one, readings=readings)) for rank, one in numbers.items()}
    missing = set(known.ranks) - said.values.keys()
    is_consumed = said.count.stage == "consumed"
    is_wrong = any(one.agreement == "contradicts" for one in judged.values())
    if known.is_reshaped and is_wrong and None not in used.values():
        return _dealt_anew(said, missing, where, used, known)
    notes = [one.note for one in judged.values() if one.note is not None]
    if missing and is_consumed:
        notes.append(_alone(said, missing, others))
    parts = [one.ahead for one in judged.values()]
    return _cut(_merged(said, judged), _total(parts, missing), said, notes)


def _alone(said: Said, missing: set[int], used: Mapping[int, int | None]) -> str:
    """Tell that not all ranks say their own count, and whether one count could be that of all."""
    told = f"only {ranks_told(said.values)} {'says its' if len(said.values) == 1 else 'say their'}"
    told += f" own count: what {ranks_told(missing)} would say is not known"
    differing = [
        rank
        for rank in missing
        if used.get(rank) is not None and used[rank] not in said.values.values()
    ]
    if differing:
        told += f", and {ranks_told(differing)} used another number"
    return told


def _total(parts: list[int | None], missing: set[int]) -> int | None:
    """Add up how far ranks are ahead; null where some are ahead and others behind."""
    known = [one for one in parts if one is not None]
    is_mixed = any(one > 0 for one in known) and any(one < 0 for one in known)
    return None if missing or is_mixed or len(known) < len(parts) else sum(known)


def _used(said: Said, rank: int, where: Mapping[int, Pass], known: Proven) -> int | None:
    """Give what a rank used of the passes that its count is about; null: it cannot be told."""
    place = where[rank]
    if place.place not in ("newest", "whole") or not known.is_known(rank):
        return None
    if said.count.stage != "consumed" or said.count.unit in ("steps", "elements"):
        return None
    return Gap(said.count, rank, place.label, 0, 0, known).used_by(rank)


def _used_by_others(said: Said, where: Mapping[int, Pass], known: Proven) -> dict[int, int | None]:
    """Give what ranks that say nothing used, to find whose count another one says."""
    silent = [rank for rank in known.ranks if rank not in said.values]
    place = next(iter(where.values()))
    return {rank: _used(said, rank, {rank: place}, known) for rank in silent}


def _dealt_anew(
    said: Said,
    missing: set[int],
    where: Mapping[int, Pass],
    used: Mapping[int, int | None],
    known: Proven,
) -> Weighed:
    """
    Compare ranks' own counts after their number changed, none of them being what it used.

    A right resume with other ranks deals out anew what was consumed, and the sum must be right. A
    count that is wrong by either reading contradicts; how far, only if both go the same way.
    """
    labels = {one.label for one in where.values()}
    total, noun = sum(said.values.values()), known.noun(said.count.unit)
    gap = Gap(replace(said.count, value=total), None, min(labels, key=str), 0, 0, known)
    found = gap.used_by(None)
    more = replace(gap, committed=found or 0).more
    story = f"{amount(total, noun)} of {ranks_told(said.values)} together"
    story = story if len(said.values) > 1 else story.removesuffix(" together")
    # other ranks may have other batches too, and a cursor is not dealt out
    is_exact = not said.count.may_restart and said.count.unit != "micro-batches"
    ahead = None
    if missing or len(labels) > 1 or (not is_exact and total != found) or found is None:
        why = "the number of ranks changed: what one consumed may have been dealt out anew"
        judged = Judged(total, found, "not-compared", f"{story}; not compared: {why}")
    elif more is None or (more and 0 <= total - found <= more):
        why = "void samples were used again, maybe in the next pass, and no epoch is logged"
        judged = Judged(total, found, "not-compared", f"{story}; not compared: {why}")
    elif total == found:
        judged = Judged(total, found, "agrees", f"{story}, as committed updates consumed", 0)
    elif total > found and known.tally.unseen is not None:
        why = f"{found:,} were found, but {known.tally.unseen}"
        judged = Judged(total, found, "not-compared", f"{story}; not compared: {why}")
    else:
        own = [value - (used[rank] or 0) for rank, value in said.values.items()]
        if any(one * (total - found) < 0 for one in own):
            story += _both_ways(said, sum(one or 0 for one in used.values()), found, known)
        else:
            left = gap.left if gap.left is not None else total
            extra = min(total - found - (more if total > found else 0), left)
            ahead = extra if said.count.unit in SAMPLE_UNITS and not more else None
            going = going_on(extra, noun) if extra else "nothing is left of its pass to skip"
            going += " at least" if more and extra else ""
            story += f", committed updates consumed {found:,}: {going}"
        judged = Judged(total, found, "contradicts", story, ahead)
    comparison = _comparison(said, judged, said.values, "", "")
    return Weighed((comparison,), judged.ahead, _is_sampled(said))


def _both_ways(said: Said, own: int, found: int, known: Proven) -> str:
    """Tell of counts that are ahead by one reading and behind by the other."""
    who = ranks_told(said.values)
    return (
        f": {who} used {amount(own, known.noun(said.count.unit))}, and all ranks that ever took "
        f"part {found:,}: it is neither, and which of the two it should be is not known after the "
        "number of ranks changed"
    )


def _merged(said: Said, judged: Mapping[int, Judged]) -> tuple[Comparison, ...]:
    """Put ranks together for which a number is worth the same."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for rank, one in judged.items():
        alike.setdefault((one.claimed, one.found, one.agreement, one.story), []).append(rank)
    return tuple(
        _comparison(said, judged[ranks[0]], ranks, "", f"of {_each(ranks)}")
        for ranks in alike.values()
    )


def _each(ranks: list[int]) -> str:
    return ranks_told(ranks) if len(ranks) == 1 else f"each of {ranks_told(ranks)}"


def _comparison(
    said: Said, judged: Judged, ranks: Iterable[int], who: str, whose: str
) -> Comparison:
    each = " of each" if whose.startswith("of each") else ""
    return Comparison(
        key=said.count.key,
        ranks=closed_ranges(ranks),
        claimed=judged.claimed,
        found=judged.found,
        unit=said.count.unit,
        agreement=judged.agreement,
        text=f"the claim{who} says {judged.story.replace(WHOSE, whose).replace(EACH, each)}",
    )


def _cut(
    comparisons: tuple[Comparison, ...], ahead: int | None, said: Said, notes: list[str]
) -> Weighed:
    """Keep as many groups of ranks as are told, those that contradict first."""
    told = sorted(comparisons, key=lambda one: one.agreement != "contradicts")[:MOST_SPLIT]
    if len(comparisons) > len(told):
        more = len(comparisons) - len(told)
        groups = "group of ranks differs" if more == 1 else "groups of ranks differ"
        notes = [*notes, f"{more:,} more {groups} in {said.count.key}"]
    is_position = _is_sampled(said)
    # elements that fit in one of two readings say no distance, and leave that to others
    is_position |= said.count.unit == "elements" and ahead is not None
    return Weighed(tuple(told), ahead, is_position, tuple(notes))


def _is_sampled(said: Said) -> bool:
    return said.count.stage == "consumed" and said.count.unit in SAMPLE_UNITS
