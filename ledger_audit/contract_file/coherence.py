"""
Checks what no single term can say: terms that need or exclude each other, codes and files.

Terms are looked at as TOML gives them, and only where they are of the right type, so that these
mistakes are told together with those of the types.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ledger_audit.continuity.contract import FORGIVABLE, Bound
from ledger_audit.contract_file.mistakes import Mistake, meant_or_listed

_WHAT = ("finding", "limit", "change")
"""What an allowance can be about."""

_BOUNDS = tuple(one.name for one in fields(Bound))


def incoherent(terms: dict[str, Any], folder: Path) -> list[Mistake]:
    """
    List what is wrong between the terms of a contract.

    Args:
        terms: as TOML gives them, of any type.
        folder: what relative paths start from.
    """
    return [*_of_promise(terms), *_of_lists(terms, folder), *_of_ranks(terms), *_of_allow(terms)]


def _of_promise(terms: dict[str, Any]) -> Iterator[Mistake]:
    promise = terms.get("promise", "exactly-once")
    bounds = terms.get("bounded_replay", {})
    if promise == "bounded-replay" and bounds == {}:
        told = f"is missing: promise {promise!r} needs at least one of {', '.join(_BOUNDS)}"
        yield Mistake(("bounded_replay",), told)
    others = ("exactly-once", "at-least-once", "resampled")
    if promise in others and isinstance(bounds, dict) and bounds.keys() & {*_BOUNDS}:
        told = f"belongs to promise 'bounded-replay', and the promise is {promise!r}"
        yield Mistake(("bounded_replay",), told)
    if promise != "resampled":
        return
    if terms.get("order") in ("step", "relative"):
        told = f"is {terms['order']!r}, and what is resampled has no order: leave it out"
        yield Mistake(("order",), told)
    if terms.get("placement") == "kept":
        yield Mistake(("placement",), "is 'kept', and what is resampled has no place to keep")


def _of_lists(terms: dict[str, Any], folder: Path) -> Iterator[Mistake]:
    for name in ("forbid", "only"):
        for index, one in enumerate(_tables(terms.get(name))):
            file = None if one is None else one.get("file")
            if isinstance(file, str) and (problem := _problem_of(folder / file)):
                yield Mistake((name, index, "file"), f"is {file!r}, {problem}")


def _problem_of(path: Path) -> str | None:
    try:
        if path.is_file():
            return None
        return "which is no file" if path.exists() else f"and {path} does not exist"
    except (OSError, ValueError) as problem:  # it may not be looked at, or has a NUL in it
        return f"which cannot be read: {getattr(problem, 'strerror', None) or problem}"


def _of_ranks(terms: dict[str, Any]) -> Iterator[Mistake]:
    ranks = terms.get("ranks")
    sampled = ranks.get("sampled") if isinstance(ranks, dict) else None
    if not isinstance(sampled, list):
        return
    if not sampled:
        yield Mistake(("ranks", "sampled"), "names no rank: leave it out where all ranks log")
    named = Counter(rank for rank in sampled if type(rank) is int)
    for rank, times in named.items():
        if times > 1:
            yield Mistake(("ranks", "sampled"), f"names rank {rank} more than once")


def _of_allow(terms: dict[str, Any]) -> Iterator[Mistake]:
    allowed = _tables(terms.get("allow"))
    for index, one in enumerate(allowed):
        if one is not None:
            yield from _of_allowance(("allow", index), one)
    for what in _WHAT:
        first: dict[str, int] = {}
        for index, one in enumerate(allowed):
            value = None if one is None else one.get(what)
            if isinstance(value, str) and first.setdefault(value, index) != index:
                told = f"is {value!r}, which allow[{first[value]}] allows already"
                yield Mistake(("allow", index, what), told)


def _of_allowance(place: tuple[str, int], one: dict[str, Any]) -> Iterator[Mistake]:
    given = [what for what in _WHAT if what in one]
    if len(given) != 1:
        has = f"has {' and '.join(given)}" if given else "allows nothing"
        yield Mistake(place, f"{has}: give exactly one of {', '.join(_WHAT)}")
    if "finding" in given and "at_most" not in one:
        yield Mistake((*place, "at_most"), "is missing: a finding is allowed up to a number")
    if "finding" not in given and "at_most" in one:
        yield Mistake((*place, "at_most"), "goes with finding, and there is none")
    known: Sequence[str] = FORGIVABLE
    finding, code = one.get("finding"), one.get("limit")
    if isinstance(finding, str) and finding and finding not in known:
        meant = meant_or_listed(finding, known)
        told = f"is {finding!r}, which is no outcome that breaks anything; {meant}"
        yield Mistake((*place, "finding"), told)
    if isinstance(code, str) and code:
        from ledger_audit.continuity.limit_codes import LIMITS  # noqa: PLC0415  # loads the engine

        if code not in LIMITS:
            told = f"is {code!r}, which is no limit; {meant_or_listed(code, LIMITS)}"
            yield Mistake((*place, "limit"), told)


def _tables(found: object) -> list[dict[str, Any] | None]:
    """Give the tables of a list, each in its place; what is no table is null."""
    if not isinstance(found, list):
        return []
    return [one if isinstance(one, dict) else None for one in found]
