"""Says what may stand at each place of a contract, from the annotations of its classes."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Le, Len

from ledger_audit.continuity.contract import Contract

Place = tuple[str | int, ...]
"""Keys, and indices of lists from 0, from the top of the terms."""

_NO_TERM = "file"
"""A field of the contract that no file sets."""

_TOLD: Mapping[Any, str] = {bool: "true or false", str: "text", Path: "text"}
_MANY: Mapping[Any, str] = {int: "integers", str: "texts"}


@cache
def terms_of(kind: Any) -> dict[str, Any]:
    """Give the terms of a class, in their order, each with its annotation."""
    hints = get_type_hints(kind, include_extras=True)
    names = [one.name for one in fields(kind)]
    return {name: _some(hints[name]) for name in names if (kind, name) != (Contract, _NO_TERM)}


def kind_at(place: Place) -> Any:
    """Give the annotation of what stands at a place."""
    kind: Any = Contract
    for step in place:
        kind = terms_of(kind)[str(step)] if _is_table(kind) else _inner(kind)
    return kind


def told_at(place: Place, value: object) -> str:
    """Say what may stand at a place where `value` was found."""
    plain, marks = _marks(kind_at(place))
    if get_origin(plain) is Literal:
        return "one of " + ", ".join(repr(one) for one in get_args(plain))
    if get_origin(plain) is tuple:
        inner, _ = _marks(_inner(plain))
        tables = f"a list of tables, each under [[{place[-1]}]]"
        return tables if _is_table(inner) else f"a list of {_MANY[inner]}"
    if plain is int:
        return _told_integer(marks, value)
    if any(isinstance(one, Len) for one in marks):
        return "text of at least one character"
    return _TOLD.get(plain, "a table")


def places_of(name: str) -> list[str]:
    """List where a term of this name stands, dotted."""
    return [".".join(place) for place in _places(Contract) if place[-1] == name]


def _places(kind: Any) -> Iterator[tuple[str, ...]]:
    for name, found in terms_of(kind).items():
        yield (name,)
        inner = _inner(found) if get_origin(found) is tuple else found
        if _is_table(inner):
            for place in _places(inner):
                yield (name, *place)


def _is_table(kind: Any) -> bool:
    return is_dataclass(kind)


def _told_integer(marks: tuple[Any, ...], value: object) -> str:
    least = next(one.ge for one in marks if isinstance(one, Ge))
    most: Any = next(one.le for one in marks if isinstance(one, Le))
    is_beyond = type(value) is int and value > most
    return f"an integer from {least}" + (f" to {most}" if is_beyond else "")


def _inner(kind: Any) -> Any:
    """Give the annotation of the items of a list, or of the values of a table."""
    return _some([one for one in get_args(kind) if one is not Ellipsis][-1])


def _some(kind: Any) -> Any:
    """Give what an annotation says of a value that is there: TOML has no null."""
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    return kind


def _marks(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Split an annotation into its type and its marks."""
    marks = getattr(kind, "__metadata__", ())
    return (kind.__origin__, marks) if marks else (kind, ())
