"""Checks the terms of a contract against its classes, and what no single term can say."""

import math
from dataclasses import fields, replace
from datetime import date, time
from pathlib import Path
from typing import Any

from ledger_audit.continuity.contract import Bound, Contract, IdList
from ledger_audit.contract_file.allowed import Place
from ledger_audit.contract_file.coherence import incoherent
from ledger_audit.contract_file.mistakes import Mistake, shown, unknown_term, wrong_value

_DEEPEST = 4
"""Levels of tables and lists in a contract; what lies deeper is no value of any term."""

_IN_KEY = "[key]"
"""What ends the place of a mistake that is in the key and not in its value."""


def checked(
    terms: object, folder: Path, table: Place = ()
) -> tuple[Contract | None, tuple[str, ...]]:
    """
    Check the terms of a contract.

    Args:
        terms: as TOML gives them.
        folder: what relative paths start from.
        table: where the terms stand in their file, for the mistakes.

    Returns:
        The contract, null if its terms do not fit the classes; one line for each mistake.
    """
    if not isinstance(terms, dict):
        return None, (Mistake((), f"is {shown(terms)}, not a table").under(table),)
    contract, mistakes = _fitted(terms)
    mistakes += incoherent(terms, folder)
    order = [one.name for one in fields(Contract)]

    def standing(one: Mistake) -> tuple[int, int]:
        name, index = (*one.place, -1, -1)[:2]
        return (
            order.index(str(name)) if name in order else len(order),
            index if isinstance(index, int) else -1,
        )

    lines = dict.fromkeys(one.under(table) for one in sorted(mistakes, key=standing))
    return None if contract is None else _settled(contract, folder), tuple(lines)


def _fitted(terms: dict[str, Any]) -> tuple[Contract | None, list[Mistake]]:
    """Fit terms to the classes of the contract."""
    import json  # noqa: PLC0415  # with pydantic, half of the time that `--help` may take

    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    # `file` is a field of the contract and no term: whatever checks it must not know it
    given = {key: value for key, value in terms.items() if key != "file"}
    found = [unknown_term(("file",))] if "file" in terms else []
    try:
        # only from JSON do strict types take a list for a tuple and a table for a class
        contract = TypeAdapter(Contract).validate_json(json.dumps(_as_json(given)))
    except ValidationError as problem:
        wrong = problem.errors(include_url=False, include_context=False, include_input=False)
        return None, found + [_mistake(one["type"], one["loc"], terms) for one in wrong]
    return contract, found


def _as_json(value: object, depth: int = 0) -> object:
    """Give values that JSON has; a NaN, which fits no term, stands for all others."""
    if depth <= _DEEPEST and isinstance(value, dict):
        return {key: _as_json(one, depth + 1) for key, one in value.items()}
    if depth <= _DEEPEST and isinstance(value, list):
        return [_as_json(one, depth + 1) for one in value]
    return math.nan if isinstance(value, dict | list | date | time) else value


def _mistake(kind: str, place: Place, terms: object) -> Mistake:
    """Tell in our words what pydantic found; only its kinds of errors are its own."""
    if place[-1:] == (_IN_KEY,):
        return Mistake(place[:-1], "is a name of no characters")
    if kind == "missing":
        return Mistake(place, "is missing")
    if kind == "unexpected_keyword_argument":
        return unknown_term(place)
    return wrong_value(place, value_at(terms, place))


def value_at(terms: Any, place: Place) -> object:
    """Give what stands at a place of the terms."""
    for step in place:
        terms = terms[step]
    return terms


def _settled(contract: Contract, folder: Path) -> Contract:
    """Give paths from the working directory, and leave out bounds that bound nothing."""

    def found(lists: tuple[IdList, ...]) -> tuple[IdList, ...]:
        return tuple(replace(one, file=folder / one.file) for one in lists)

    bound = None if contract.bounded_replay == Bound() else contract.bounded_replay
    return replace(
        contract, bounded_replay=bound, forbid=found(contract.forbid), only=found(contract.only)
    )
