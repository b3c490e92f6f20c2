"""Compares the claim that was saved, the one that was restored, and the first resumed records."""

import json
from collections.abc import Iterable, Mapping

from ledger_audit.continuity.claims import read_claim
from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.compare import compare
from ledger_audit.continuity.claims.proven import NOTHING, used
from ledger_audit.continuity.claims.tally import Tally
from ledger_audit.continuity.claims.values import parsed
from ledger_audit.continuity.claims.wording import amount, ranks_told
from ledger_audit.model.claims import Agreement, ClaimPair
from ledger_audit.model.ranges import closed_ranges
from ledger_audit.printable import quoted

MOST_TOLD = 64
"""Groups of ranks that are told one by one."""
MOST_NESTED = 6
"""How deep two states are searched."""


def pairwise(
    saved: Mapping[int, object],
    restored: Mapping[int, object],
    tally: Tally,
    first: int | None,
) -> tuple[ClaimPair, ...]:
    """
    Compare pairwise what should be one position: saved, restored, and gone on from.

    Args:
        saved: rank → the state that it saved at the checkpoint.
        restored: rank → the state that it loaded.
        tally: what committed updates had consumed at the checkpoint.
        first: where the first resumed records stand in the order of what was consumed, counted
            in records from what should have come next (`first_place`); null: not known.
    """
    saved, restored = _unpacked(saved), _unpacked(restored)
    return (
        *_saved_restored(saved, restored),
        _saved_ledger(saved, tally),
        _restored_records(restored, tally, first),
    )


def uncounted(
    saved: Mapping[int, object], restored: Mapping[int, object], why: str
) -> tuple[ClaimPair, ...]:
    """Compare what was saved with what was restored alone; `why` nothing was counted."""
    saved, restored = _unpacked(saved), _unpacked(restored)
    return (
        *_saved_restored(saved, restored),
        ClaimPair("saved-ledger", "not-compared", closed_ranges(saved), why),
        ClaimPair("restored-records", "not-compared", closed_ranges(restored), why),
    )


def _saved_ledger(saved: Mapping[int, object], tally: Tally) -> ClaimPair:
    facts = compare({rank: read_claim(state) for rank, state in saved.items()}, tally)
    agreement, ranks = facts.agreement, closed_ranges(saved)
    found = {(one.key, one.found) for one in facts.comparisons if one.ranks}
    is_borrowed = any(
        one.agreement == "contradicts" and one.claimed and (one.key, one.claimed) in found
        for one in facts.comparisons
    )
    return ClaimPair("saved-ledger", agreement, ranks, facts.text, facts.ahead, is_borrowed)


def _saved_restored(
    saved: Mapping[int, object], restored: Mapping[int, object]
) -> tuple[ClaimPair, ...]:
    """Compare what each rank restored with what it saved; ranks that fare alike are one pair."""
    if not saved or not restored:
        who = "saved" if not saved else "restored"
        return (
            ClaimPair("saved-restored", "not-compared", (), f"no rank logs the state it {who}"),
        )
    owners: dict[str, list[int]] = {}
    for rank, state in sorted(saved.items()):
        text = canonical(state)
        if text is not None:
            owners.setdefault(text, []).append(rank)
    found: dict[tuple[Agreement, str], list[int]] = {}
    for rank, state in sorted(restored.items()):
        found.setdefault(_one(rank, state, saved, owners), []).append(rank)
    order = sorted(found, key=lambda one: one[0] != "contradicts")
    told = [
        ClaimPair(
            "saved-restored",
            key[0],
            closed_ranges(found[key]),
            f"{ranks_told(found[key])} {key[1]}",
            is_borrowed=key[0] == "contradicts"
            and all(owners.get(canonical(restored[rank]) or "") for rank in found[key]),
        )
        for key in order[: MOST_TOLD if len(order) <= MOST_TOLD else MOST_TOLD - 1]
    ]
    rest = order[len(told) :]
    if rest:
        ranks = [rank for key in rest for rank in found[key]]
        text = f"{ranks_told(ranks)} restored other states, in {len(rest):,} ways"
        told.append(ClaimPair("saved-restored", rest[0][0], closed_ranges(ranks), text))
    return tuple(told)


def _one(
    rank: int, state: object, saved: Mapping[int, object], owners: Mapping[str, list[int]]
) -> tuple[Agreement, str]:
    """Judge what one rank restored."""
    text = canonical(state)
    if text is None:
        return "not-compared", "restored a state that is no JSON"
    same = owners.get(text, [])
    if rank in same:
        return "agrees", "restored the state that was saved"
    if same:
        return _anothers(same, rank in saved, len(saved), len(owners))
    if rank not in saved and len(saved) > 1:
        return "not-compared", "had saved no state, and restored one that no rank had saved"
    own = saved.get(rank, next(iter(saved.values())))
    if canonical(own) is None:
        return "not-compared", "had saved a state that is no JSON"
    return _alike(own, state)


def _anothers(owners: list[int], has_own: bool, saved: int, kinds: int) -> tuple[Agreement, str]:
    """
    Judge a state that other ranks had saved.

    Args:
        owners: who had saved it.
        has_own: the rank had saved one of its own, which is another.
        saved: how many ranks had saved one.
        kinds: how many different ones there were.
    """
    whose = (
        f"{ranks_told(owners)}'s state"
        if len(owners) == 1
        else f"the state of {ranks_told(owners)}"
    )
    if has_own:
        return "contradicts", f"restored {whose}"
    if saved == 1:
        return "agrees", f"restored {whose}, the only one that was saved"
    if kinds == 1:
        return "agrees", "restored the state that all ranks had saved"
    return "not-compared", f"restored {whose}, and had saved none"


def _alike(saved: object, restored: object) -> tuple[Agreement, str]:
    """Compare two states that are not equal by the counts that both have."""
    if holds(restored, saved) or holds(saved, restored):
        return "agrees", "restored the state that was saved, one of them inside of another"
    before, after = read_claim(saved), read_claim(restored)
    ours, theirs = _counts(before), _counts(after)
    both = [one for one in ours if one in theirs]
    for one in both:
        if ours[one][1] != theirs[one][1]:
            return (
                "contradicts",
                f"restored another position than was saved: {ours[one][0]} was {ours[one][1]:,}, "
                f"{theirs[one][0]} is {theirs[one][1]:,}",
            )
    if before.reader == after.reader:
        return "contradicts", f"restored another state than was saved: {differing(saved, restored)}"
    if both:
        names = " and ".join(ours[one][0] for one in both[:2])
        return "agrees", f"restored another kind of state with the same position ({names})"
    return (
        "not-compared",
        f"restored a state of another kind ({after.reader}) than was saved ({before.reader})",
    )


def _counts(claim: Claim) -> dict[tuple[object, ...], tuple[str, int]]:
    """Give its counts by what they mean, so that like is compared with like."""
    return {
        (one.of, one.since, one.unit, claim.epoch if one.since == "epoch" else None): (
            one.key,
            one.value,
        )
        for one in claim.counts
        if one.stage == "consumed"
    }


def _restored_records(restored: Mapping[int, object], tally: Tally, first: int | None) -> ClaimPair:
    """Compare the restored position with that of the first resumed records."""

    def pair(agreement: Agreement, text: str) -> ClaimPair:
        return ClaimPair("restored-records", agreement, closed_ranges(restored), text)

    if not restored:
        return pair("not-compared", "no rank logs the state it restored")
    facts = compare({rank: read_claim(state) for rank, state in restored.items()}, tally)
    if facts.ahead is None:
        return pair("not-compared", f"the restored position is not known: {facts.text}")
    if first is None:
        return pair("not-compared", "where the first resumed records stand is not known")
    whole = sum(used(tally.committed).of_pass.values(), NOTHING)
    if whole.records != whole.sequences and (facts.ahead or first):
        text = "sequences hold several records, so the first ones stand at a number of another unit"
        return pair("not-compared", text)
    total = whole.sequences + sum(used(tally.voided).of_pass.values(), NOTHING).sequences
    noun = "samples" if whole.is_plain else "sequences"
    says, stand = total + facts.ahead, total + first
    told = f"restored says {amount(says, noun)}, the first resumed records stand at {stand:,}"
    return pair("agrees" if says == stand else "contradicts", told)


def _unpacked(states: Mapping[int, object]) -> dict[int, object]:
    return {rank: unpacked(state) for rank, state in states.items() if state is not None}


def unpacked(state: object, depth: int = 0) -> object:
    """Give a state with what it keeps as JSON text taken out of it, as a loader may give it."""
    if isinstance(state, str):
        held = parsed(state)
        return state if held is None else held
    if isinstance(state, dict) and depth < MOST_NESTED:
        return {key: unpacked(one, depth + 1) for key, one in state.items()}
    return state


def canonical(state: object) -> str | None:
    """Give the one text that all equal states have; null: it is no JSON."""
    try:
        return json.dumps(state, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None


def holds(outer: object, inner: object) -> bool:
    """Whether one state lies inside another, as where a trainer keeps it among its own keys."""
    wanted = canonical(inner) if isinstance(inner, dict) and inner else None
    level = [outer]
    for _ in range(MOST_NESTED if wanted is not None else 0):
        level = [one for state in level if isinstance(state, dict) for one in state.values()]
        if any(isinstance(one, dict) and canonical(one) == wanted for one in level):
            return True
    return False


def differing(one: object, other: object) -> str:
    """Name the first key in which two states differ, and both values if they are short."""
    path: list[str] = []
    for _ in range(MOST_NESTED):
        key = _first_differing(one, other)
        if key is None:
            break
        path.append(quoted(str(key)))
        one, other = _at(one, key), _at(other, key)
    told = f"{_short(one)} became {_short(other)}"
    return f"{'.'.join(path)}: {told}" if path else told


def _first_differing(one: object, other: object) -> str | int | None:
    if isinstance(one, dict) and isinstance(other, dict):
        keys: Iterable[str] = sorted(str(key) for key in one.keys() | other.keys())
        return next((key for key in keys if _differ(one, other, key)), None)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return next((place for place in range(len(one)) if _differ(one, other, place)), None)
    return None


def _differ(one: object, other: object, key: str | int) -> bool:
    return canonical(_at(one, key)) != canonical(_at(other, key))


def _at(state: object, key: str | int) -> object:
    if isinstance(state, dict):
        return state.get(key)
    return state[key] if isinstance(state, list) and isinstance(key, int) else None


def _short(value: object) -> str:
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value):,}"
    return quoted(str(value)) if isinstance(value, str) else quoted(canonical(value) or "?")
