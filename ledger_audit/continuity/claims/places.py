"""A count of all ranks since the run began, where it is taken for a place of the stream."""

from dataclasses import dataclass

from ledger_audit.continuity.claims.gap import Gap
from ledger_audit.continuity.claims.tally import Places
from ledger_audit.continuity.claims.wording import amount
from ledger_audit.model.claims import Agreement


@dataclass(frozen=True)
class AtPlace:
    """What a count is worth as a place."""

    agreement: Agreement
    text: str
    ahead: int | None


def by_place(gap: Gap) -> AtPlace | None:
    """
    Judge a count as a place, or give null: it is none, or its amount alone decides.

    Where all places before the next one were used, count and place are one. Where some were not,
    a stream that goes on at the count comes back to places that were used.
    """
    places, value, used = gap.known.tally.places, gap.count.value, gap.committed + gap.voided
    is_place = gap.count.since == "run" and gap.rank is None and gap.is_samples
    if places is None or not is_place or gap.known.tally.unseen is not None:
        return None
    if gap.count.unit == "documents" or not _counts_sequences(gap):
        return None
    if value == places.next and not places.hole_count and value != used:
        return AtPlace("agrees", "the place that comes next", 0)
    if value == places.next and places.hole_count:
        text = (
            f"the place that comes next, but {_unused(places)}: a resume from here will not come "
            "back to them"
        )
        return AtPlace("contradicts", text, places.hole_count)
    if value == used and value < places.next:
        return AtPlace("contradicts", _no_place(value, places), None)
    return None


def _counts_sequences(gap: Gap) -> bool:
    whole = gap.known.whole
    return gap.count.unit == "sequences" or whole.records == whole.sequences


def _no_place(value: int, places: Places) -> str:
    if places.hole_count == 0:
        left_out = places.next - value
        return (
            f"as were consumed, but a count is not a place: {left_out:,} of the places before "
            f"{places.next:,} were left out, and places from {value:,} on were used: a resume at "
            f"place {value:,} will replay those"
        )
    below = sum(one < value for one in places.holes)
    told = f"{_unused(places)}, and places from {value:,} on were used"
    if len(places.holes) == places.hole_count:
        beyond = places.next - value - (places.hole_count - below)
        told = (
            f"{_were(below, 'before it')} never used (first: {places.holes[0]:,}), and "
            f"{_were(beyond, 'from it on')} used"
        )
    return (
        f"as were consumed, but a count is not a place: {told}: a resume at place {value:,} will "
        "lose the former and replay the latter"
    )


def _unused(places: Places) -> str:
    told = f"{_were(places.hole_count, 'before it')} never used"
    return f"{told} (first: {places.holes[0]:,})" if places.holes else told


def _were(number: int, where: str) -> str:
    return f"{amount(number, 'places')} {where} {'was' if number == 1 else 'were'}"
