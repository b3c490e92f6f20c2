"""Compares two fingerprints, key by key, and marks what the contract says of each change."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.fingerprints.effects import REQUIRED, effect_of
from ledger_audit.model.fingerprints import Change, LoggedBy

DEPTH = 4
"""Levels below a key that are compared one by one; what lies deeper is compared as one value."""

MOST_OF_A_KEY = 16
MOST_IN_ALL = 64
"""Changes that are told; the rest is counted."""

LONGEST = 120
"""Characters of a value, or of a key, that are told."""

OPEN = frozenset({"versions"})
"""Objects that may list more or less: what one side leaves out was not asked for."""

ALL = "*"

_COMPARABLE: Mapping[str, str] = {}


def changes(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    contract: Contract,
    incomparable: Mapping[str, str] = _COMPARABLE,
) -> tuple[Change, ...]:
    """
    List the keys that are not the same, those that can change the order first.

    Objects are told by their keys. A null counts as not logged. A key that only one side logs
    cannot be compared; of an object that both log, what one side lacks is a change, except of
    `versions`.

    Args:
        before: the fingerprint at the checkpoint.
        after: that of the resumed attempt.
        contract: what must match, and what is allowed to change.
        incomparable: keys whose two values say nothing about a change, and why.
    """
    if not _but_world_size(before) or not _but_world_size(after):
        return folded(_one_sided(before, after, contract))
    return folded(compared(before, after, contract, incomparable))


def compared(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    contract: Contract,
    incomparable: Mapping[str, str] = _COMPARABLE,
) -> Iterator[Change]:
    """Give every change, however many there are."""
    named = [*contract.fingerprint.must_match, *(one.change or "" for one in contract.allow)]
    depth = max(DEPTH, *(name.count(".") for name in named), 0)
    for key in sorted({*before, *after}):
        for path, old, new in _leaves(told(before, key), told(after, key), depth):
            yield change_of(key, (old, new), contract, incomparable.get(key), path=path)


def mismatches(found: Iterable[Change]) -> tuple[Change, ...]:
    """Give the changes that break the clause `fingerprint`."""
    return tuple(one for one in found if one.must_match and one.is_compared and one.allowed is None)


def unlogged(
    before: Mapping[str, Any], after: Mapping[str, Any], contract: Contract
) -> tuple[str, ...]:
    """
    Name the keys that must match and that one side, or both, do not log.

    They leave the clause `fingerprint` unproven. Where `*` must match, these are all keys of the
    format that can change the order, unless the contract allows them to change.
    """
    found = [one for one in compared(before, after, contract) if one.must_match]
    settled = [one.key for one in found if one.is_compared]
    asked = contract.fingerprint.must_match
    wanted = [*(name for name in asked if name != ALL), *(REQUIRED if ALL in asked else ())]
    missing = [
        name
        for name in dict.fromkeys(wanted)
        if None in (at(before, name), at(after, name))
        and not any(covers(name, key) for key in settled)
    ]
    missing += [
        one.key
        for one in found
        if not one.is_compared and not any(covers(name, one.key) for name in missing)
    ]
    return tuple(name for name in missing if _allowance(name, contract) is None)


def undecided(found: Iterable[Change], contract: Contract) -> tuple[Change, ...]:
    """
    Give the changes that leave `*` unproven: nothing is known of what they do to the order.

    An allowance, or naming the key in `must_match`, settles them.
    """
    if ALL not in contract.fingerprint.must_match:
        return ()
    return tuple(
        one
        for one in found
        if one.is_compared
        and one.can_change_order == "unknown"
        and not one.must_match
        and one.allowed is None
    )


def rank_change(
    before: Mapping[str, Any], after: Mapping[str, Any], contract: Contract
) -> Change | None:
    """
    Tell whether the number of ranks changed; null: both sides log the same.

    Where one side or none logs it, the change is told as one that is not compared.
    """
    key = "world_size"
    values = (told(before, key), told(after, key))
    if None not in values and _same(*values):
        return None
    return change_of(key, values, contract)


def covers(name: str, key: str) -> bool:
    """Tell whether a name in a contract means a key: itself, or an object that holds it."""
    return name in (ALL, key) or key.startswith(f"{name}.")


def told(logged: Mapping[str, Any], key: str) -> Any:
    """Give what is logged under a key; null where that says nothing."""
    value = logged.get(key)
    return None if key in OPEN and value == {} else value


def at(logged: Mapping[str, Any], name: str) -> Any:
    """Give what is logged under a dotted name; null where nothing is."""
    value = told(logged, name)
    if value is not None:
        return value
    for key, below in logged.items():
        if isinstance(below, Mapping) and name.startswith(f"{key}."):
            value = at(below, name[len(key) + 1 :])
            if value is not None:
                return value
    return None


def by_effect(found: Iterable[Change]) -> list[Change]:
    """Sort changes: those that can change the order first, then by their keys."""
    return sorted(found, key=lambda one: (_RANKING[one.can_change_order], one.key, one.ranks))


def folded(found: Iterable[Change]) -> tuple[Change, ...]:
    """Keep the first few changes of each key, and in all; say of the rest how many they are."""
    few = _fold(by_effect(found), MOST_OF_A_KEY, by_key=True)
    return tuple(_cut(one) for one in _fold(few, MOST_IN_ALL, by_key=False))


_RANKING = {"yes": 0, "unknown": 1, "no": 2}


def _fold(found: Sequence[Change], most: int, *, by_key: bool) -> list[Change]:
    seen: Counter[str] = Counter()
    kept: list[Change] = []
    rest: dict[tuple[Any, ...], Change] = {}
    for one in found:
        key = one.key.split(".", 1)[0] if by_key else ALL
        seen[key] += 1
        if seen[key] <= most:
            kept.append(one)
            continue
        # alike in all that a verdict asks for
        kind = key, one.logged, one.is_compared, one.can_change_order, one.allowed, one.must_match
        so_far = rest.get(kind)
        count = one.count + (0 if so_far is None else so_far.count)
        rest[kind] = replace(one, key=key, before=None, after=None, ranks=(), count=count)
    return [*kept, *rest.values()]


def change_of(
    key: str,
    values: tuple[Any, Any],
    contract: Contract,
    incomparable: str | None = None,
    *,
    path: tuple[str, ...] = (),
) -> Change:
    """
    Describe one difference, with what the contract says of it.

    Args:
        key: of the fingerprint.
        values: before and after; null: not logged.
        contract: what must match, and what is allowed to change.
        incomparable: why the two values say nothing about a change; null: they do.
        path: where the difference lies within the key's value.
    """
    before, after = values
    name = ".".join((key, *path))
    effect = effect_of(key, path[0] if path else None)
    logged: LoggedBy = "both"
    if before is None:
        logged = "neither" if after is None else "after"
    elif after is None:
        logged = "before"
    is_whole = logged == "both" or (bool(path) and key not in OPEN)
    because = effect.because
    if not is_whole:
        side = {"neither": "on neither side of", "before": "only before", "after": "only after"}
        because = f"it is logged {side[logged]} the resume: nothing tells whether it changed"
    asked = contract.fingerprint.must_match
    return Change(
        key=name,
        before=before,
        after=after,
        logged=logged,
        is_compared=is_whole and incomparable is None,
        can_change_order=effect.can_change_order,
        because=incomparable or because,
        allowed=_allowance(name, contract),
        must_match=any(one != ALL and covers(one, name) for one in asked)
        or (ALL in asked and effect.can_change_order == "yes"),
    )


def _allowance(name: str, contract: Contract) -> str | None:
    """Give the reason for which a key may change; null: nothing says that it may."""
    for one in contract.allow:
        if one.change is not None and covers(one.change, name):
            return one.reason
    return None


def _but_world_size(logged: Mapping[str, Any]) -> bool:
    """Tell whether a fingerprint says anything that a start event does not say beside it."""
    return any(told(logged, key) is not None for key in logged if key != "world_size")


def _one_sided(
    before: Mapping[str, Any], after: Mapping[str, Any], contract: Contract
) -> list[Change]:
    """Tell that one side logs no fingerprint at all: that is one fact, not one of each key."""
    found = list(compared(before, after, contract))
    ranks = [one for one in found if one.key == "world_size"]
    others = [one for one in found if one.key != "world_size"]
    if not others:
        return ranks
    side = "before" if others[0].logged == "after" else "after"
    because = f"no fingerprint is logged {side} the resume: nothing tells what changed"
    nothing = Change(
        key=ALL,
        before=None,
        after=None,
        logged=others[0].logged,
        is_compared=False,
        can_change_order="unknown",
        because=because,
        count=len(others),
    )
    return [*ranks, nothing]


def _leaves(
    before: Any, after: Any, depth: int, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Give what differs: path within the value, before, after."""
    if isinstance(before, Mapping) and isinstance(after, Mapping) and len(path) < depth:
        for key in sorted({*before, *after}):
            yield from _leaves(before.get(key), after.get(key), depth, (*path, key))
    elif not _same(before, after):
        yield path, before, after


def _same(before: Any, after: Any) -> bool:
    """Compare two values as numbers and texts; NaN is NaN."""
    return bool(before == after) or _text(before) == _text(after)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _cut(change: Change) -> Change:
    """Shorten what is too long to tell, around the first difference."""
    texts = _text(change.before), _text(change.after)
    begin = 0
    if change.logged == "both" and min(map(len, texts)) > LONGEST:
        differs = (n for n, (a, b) in enumerate(zip(*texts, strict=False)) if a != b)
        begin = max(0, next(differs, min(map(len, texts))) - LONGEST // 4)
    return replace(
        change,
        key=_part(change.key, 0),
        before=shown(change.before, begin),
        after=shown(change.after, begin),
    )


def shown(value: Any, begin: int = 0) -> Any:
    """Give a value as it may stand in a report: as it is, or a part of its text from `begin` on."""
    text = _text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return text  # JSON has no such number
    if len(text) <= LONGEST and not ("NaN" in text or "Infinity" in text):
        return value
    return _part(text, begin)


def _part(text: str, begin: int) -> str:
    end = begin + LONGEST
    before = f"(+{begin})..." if begin else ""
    after = f"...(+{len(text) - end})" if len(text) > end else ""
    return f"{before}{text[begin:end]}{after}"
