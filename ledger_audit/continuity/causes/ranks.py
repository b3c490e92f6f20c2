"""Causes that lie in how ranks and workers go on with their shares."""

from collections import Counter
from collections.abc import Mapping, Sequence

from ledger_audit.continuity.causes.case import Case
from ledger_audit.continuity.causes.position import Found
from ledger_audit.model import Expected, Overlay, Resumed


def rank_cursor_shared(case: Case) -> Found:
    """Several ranks go on with one rank's lane."""
    lanes = case.clues.lanes
    if not lanes:
        return _own_counts_shared(case)
    goers = Counter(lanes.values())
    shared = {
        rank: lane
        for rank, lane in lanes.items()
        if lane not in lanes and (goers[lane] > 1 or lane not in case.clues.by_rank)
    }
    if not shared or case.clues.deal.ranks != case.clues.deal_now.ranks:
        return None
    if not (case.amount(Resumed.DUPLICATED) or case.amount(Expected.SKIPPED)):
        return None
    told = _few([f"rank {rank} goes on with rank {lane}'s" for rank, lane in shared.items()])
    return "proven", f"{told}, and its own samples are not used"


def _own_counts_shared(case: Case) -> Found:
    """Ranks go on in their own lanes at the count of another rank."""
    if not case.clues.by_rank and not any(case.clues.shifted_records.values()):
        return None
    for pair in case.resume.claims:
        if pair.is_borrowed:
            return "likely", pair.text
    if not case.is_all_read or case.clues.mixed_ranks:
        return None
    used = case.clues.used_by
    return _at_others(
        {rank: n for rank, (n, _) in used.items()}, case.clues.by_rank, "sequence"
    ) or _at_others(
        {rank: records for rank, (_, records) in used.items()},
        {rank: shift for rank, shift in case.clues.shifted_records.items() if shift},
        "record",
    )


def _at_others(used: Mapping[int, int], shifts: Mapping[int, int], unit: str) -> Found:
    begins = {rank: used[rank] + shift for rank, shift in shifts.items() if rank in used}
    others = {
        rank: next((one for one in used if one != rank and used[one] == at), None)
        for rank, at in begins.items()
    }
    if not begins or len(begins) < len(shifts) or None in others.values():
        return None
    if len(set(used.values())) == 1:
        return None
    told = [
        f"rank {rank} had used {used[rank]} {unit}s and goes on after {begins[rank]}, as many as "
        f"rank {one} had used"
        for rank, one in others.items()
    ]
    return "likely", _few(told)


def ranks_swapped(case: Case) -> Found:
    """Every sample comes at its step, on another rank."""
    misplaced = case.resume.overlays.get(Overlay.MISPLACED)
    lanes = case.clues.lanes
    if misplaced is None or not misplaced.records or not lanes:
        return None
    if set(lanes) != set(lanes.values()) or case.clues.deal.ranks != case.clues.deal_now.ranks:
        return None
    if case.amount(Expected.SKIPPED) or case.amount(Resumed.REPLAYED):
        return None
    return "proven", _few([f"rank {rank} has rank {lane}'s" for rank, lane in lanes.items()])


def rank_cursor_stale(case: Case) -> Found:
    """One rank's lane is shifted, and the others are right."""
    shifts = case.clues.by_rank
    ranks = case.clues.deal.ranks
    if case.clues.lanes:
        return None
    if not shifts or case.clues.mixed_ranks or case.amount(Resumed.UNEXPECTED):
        return None
    is_most = len(shifts) * 2 > ranks
    if len(shifts) >= ranks or (is_most and len({one > 0 for one in shifts.values()}) > 1):
        return None
    told = _few([f"rank {rank} by {shift:+}" for rank, shift in shifts.items()])
    return "likely", f"{told} records; the other {ranks - len(shifts)} ranks are right"


def worker_state_lost(case: Case) -> Found:
    """Loader workers of one rank differ in their shift: some are right."""
    by_worker = case.clues.by_worker
    shifted = {one: shift for one, (shift, wrong) in by_worker.items() if wrong}
    wrong = {rank for rank, _ in shifted}
    right = {rank for rank, worker in by_worker if (rank, worker) not in shifted}
    if not shifted or not wrong <= right or case.clues.is_led:
        return None
    if case.changed("workers") or case.clues.deal.ranks != case.clues.deal_now.ranks:
        return None
    told = _few(
        [
            f"worker {worker} of rank {rank} by {shift:+}"
            for (rank, worker), shift in shifted.items()
        ]
    )
    return "likely", f"{told} records; the other workers of the same ranks are right"


def resharded_wrongly(case: Case) -> Found:
    """The number of ranks changed, and shares of the old ones are lost or read twice."""
    before, now = case.clues.deal.ranks, case.clues.deal_now.ranks
    lost, twice = case.amount(Expected.SKIPPED), case.amount(Resumed.DUPLICATED)
    twice += case.amount(Resumed.REPLAYED)
    if before == now or not (lost or twice):
        return None
    return "likely", (
        f"{before} ranks became {now}; {lost} records that were due are skipped, {twice} are used "
        f"again"
    )


def _few(told: Sequence[str]) -> str:
    """Join what is told of each rank; of many, only the first are told."""
    most = 4
    more = f" and {len(told) - most} more" if len(told) > most else ""
    return ", ".join(told[:most]) + more
