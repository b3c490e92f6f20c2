"""A count of all ranks since the run began, where it is taken for a place of the stream."""

from dataclasses import dataclass

from ledger_audit.continuity.claims.gap import Gap
from ledger_audit.continuity.claims.proven import Proven
from ledger_audit.continuity.claims.tally import Places
from ledger_audit.continuity.claims.wording import amount, was
from ledger_audit.model.claims import Agreement


@dataclass(frozen=True)
class AtPlace:
    """What a count is worth as a place."""

    agreement: Agreement
    text: str
    """What is to be said of it; of what is not compared, why."""
    ahead: int | None
    claimed: int
    """The place."""


def by_place(gap: Gap) -> AtPlace | None:
    """
    Judge a count as a place, or give null: it is none, or its amount alone decides.

    Where all places before the next one were used, count and place are one. Where some were not,
    a stream that goes on at the count comes back to places that were used; unless the claim says
    beside it how many were read, which then is the place.
    """
    places, value, used = gap.known.tally.places, gap.count.value, gap.committed + gap.voided
    if places is None or not may_be_place(gap):
        return None
    if places.is_next(value) and (places.hole_count or value != used):
        return _next(places, value)
    if value != used or value >= places.next or _replayed(value, places) == 0:
        return None
    read = by_read(gap.known)
    if read is None:
        return AtPlace("contradicts", _no_place(value, places), _replayed(value, places), value)
    if read.agreement == "not-compared":
        return read
    who = "committed and void updates" if gap.voided else "committed updates"
    return AtPlace("agrees", f"as {who} consumed", read.ahead, value)


def may_be_place(gap: Gap) -> bool:
    """Tell whether a count could be a place that the ledger knows."""
    known = gap.known
    if known.tally.places is None or known.tally.unseen is not None or gap.rank is not None:
        return False
    is_samples = gap.is_samples and gap.count.unit != "documents"
    whole = known.whole
    is_sequences = gap.count.unit == "sequences" or whole.records == whole.sequences
    return gap.count.since == "run" and is_samples and is_sequences


def other_place(gap: Gap) -> int | None:
    """Give the place that comes next where it is another number than was used; null: the same."""
    places = gap.known.tally.places
    if places is None or not may_be_place(gap):
        return None
    return None if places.is_next(gap.committed + gap.voided) else places.next


def by_read(known: Proven) -> AtPlace | None:
    """
    Judge what the claims say was read as a place; null: it says none.

    It does where what was consumed is none, because places were left out. What was read ahead
    still waits in the loader, and only a claim that tells how much has a place.
    """
    places, read = known.tally.places, known.read
    if places is None or known.tally.unseen is not None or not read:
        return None
    if places.is_next(known.whole.sequences):
        return None
    for waiting in (0, *sorted({sum(known.queued.values()), *known.queued.values()} - {0})):
        for value in read:
            if places.is_next(value - waiting):
                at = _next(places, value - waiting)
                queue = f", {waiting:,} of them queued" if waiting else ""
                return AtPlace(at.agreement, f"read{queue}: {at.text}", at.ahead, value)
    if max(read) > places.last_next:
        why = (
            f"as many were consumed, but a count is not a place: {places.next:,} comes next, and "
            f"what waits of the {max(read):,} that were read is not told"
        )
        return AtPlace("not-compared", why, None, max(read))
    if not known.is_read_by_all:
        return None
    value = max(read)
    text = f"read, and places up to {places.next - 1:,} were used: {_replaying(value, places)}"
    return AtPlace("contradicts", text, _replayed(value, places), value)


def _next(places: Places, value: int) -> AtPlace:
    """Judge a place from which the stream goes on: what was left out before it is lost."""
    left_out = value - places.next
    text = "the place that comes next"
    if left_out:
        text += f" after {amount(left_out, 'places')} left out on purpose"
    if not places.hole_count:
        return AtPlace("agrees", text, 0, value)
    text += f", but {_unused(places)}: a resume from here will not come back to "
    text += "it" if places.hole_count == 1 else "them"
    return AtPlace("contradicts", text, places.hole_count, value)


def _replayed(value: int, places: Places) -> int | None:
    """Give how far a place that was passed is ahead; null: it would skip, too, or is not known."""
    again = None if places.has_hole_before(value) else places.used_from(value)
    return None if again is None else -again


def _no_place(value: int, places: Places) -> str:
    told = "as were consumed, but a count is not a place: "
    if not places.has_hole_before(value):
        left_out = places.next - value
        told += f"{left_out:,} of the places before {places.next:,} "
        told += f"{'was' if left_out == 1 else 'were'} left out, and {_used(value, places)}: "
        return told + _replaying(value, places)
    below = sum(one < value for one in places.holes)
    what = f"{_unused(places)}, and {_used(value, places)}"
    if len(places.holes) == places.hole_count:
        again = places.used_from(value)
        if again is None:
            again = places.next - value - (places.hole_count - below)
        what = (
            f"{was(below, 'places', 'before it')} never used (first: {min(places.holes):,}), and "
            f"{was(again, 'places', 'from it on')} used"
        )
    return f"{told}{what}: a resume at place {value:,} will lose the former and replay the latter"


def _used(value: int, places: Places) -> str:
    """Tell that places from one on were used: how many, where it is known."""
    again = places.used_from(value)
    if again is None:
        return f"places from {value:,} on were used"
    return f"{was(again, 'places', f'from {value:,} on')} used"


def _replaying(value: int, places: Places) -> str:
    again = places.used_from(value)
    what = "those" if again is None else amount(again, "places")
    return f"a resume at place {value:,} will replay {what}"


def _unused(places: Places) -> str:
    told = f"{was(places.hole_count, 'places', 'before it')} never used"
    return f"{told} (first: {min(places.holes):,})" if places.holes else told
