"""Says what a ledger holds of an item that a loader reads: its id, or its records' columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ledger_audit.errors import UsageError
from ledger_audit.ledger.writer.columns import OPTIONAL

_KEYS = ("sample_id", "id", "idx", "index")
"""Where an item of a stream may have its id."""

_REMEDY = "say where ids are: describe= takes an item's key, or a function of item and index"

Describe = str | Callable[[Any, Any], Any]
"""
Tells what the ledger says of an item: the item's key that holds its id, or a function of item and
index (null in a stream) that gives its id, a dictionary of columns, or a list of such for spans.
"""


class NoIdError(UsageError):
    """An item has no id. A worker hands on the message alone, so it names the remedy."""

    def __init__(self, message: str, *, hint: str = _REMEDY, details: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint, details=(*details, hint))


@dataclass(frozen=True)
class Item:
    """An item of the data set, and what the ledger says of it: a row for each record."""

    item: Any
    rows: Sequence[Mapping[str, Any]]


def columns_of(items: Sequence[Item], *, is_whole: bool) -> dict[str, Any]:
    """Give the columns of a batch; one whole item has a row for each record that is no span."""
    rows = [
        {"row": place if is_whole and "token_start" not in row else at, **row}
        for at, one in enumerate(items)
        for place, row in enumerate(one.rows)
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    found = {name: [row.get(name) for row in rows] for name in names}
    if found.get("row") == list(range(len(rows))):
        del found["row"]  # the writer counts rows by itself
    return {name: _packed(values) for name, values in found.items()}


def _packed(values: list[Any]) -> Any:
    """Give integers as an array, which passes from worker to main process at little cost."""
    if not all(type(one) is int for one in values):
        return values
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return values


def rows_of(item: Any, index: Any, describe: Describe | None) -> Sequence[Mapping[str, Any]]:
    """Give the records that an item makes."""
    told = plain(_told(item, index, describe))
    several = told if isinstance(told, list | tuple) else [told]
    return [row for one in several for row in _records(one)]


def _told(item: Any, index: Any, describe: Describe | None) -> Any:
    """Give what is known of an item; of one that is null, as much as there is."""
    if callable(describe):
        try:
            return describe(item, index)
        except (AttributeError, IndexError, KeyError, TypeError):
            if item is None:
                return []
            raise
    if describe is None and index is not None:
        return index
    if item is None:
        return []
    if describe is not None:
        try:
            return item[describe]
        except (IndexError, KeyError, TypeError) as problem:
            raise NoIdError(f"an item has nothing under {describe!r}") from problem
    for name in _KEYS if isinstance(item, Mapping) else ():
        if name in item:
            return item[name]
    raise NoIdError(f"an item of the stream has no id under any of {', '.join(_KEYS)}")


def _records(told: Any) -> list[dict[str, Any]]:
    """Give the records of an id, or of a dictionary of columns, whose values may be lists."""
    columns = dict(told) if isinstance(told, Mapping) else {"sample_id": told}
    columns = {name: plain(value) for name, value in columns.items()}
    if columns.get("sample_id") is None:
        raise NoIdError("what is told of an item has no sample_id, or null")
    if unknown := columns.keys() - OPTIONAL.keys() - {"sample_id"}:
        raise NoIdError(f"what is told of an item has columns of no ledger: {sorted(unknown)}")
    ids = columns["sample_id"]
    if not isinstance(ids, list | tuple):
        return [columns]
    return [
        {name: a[at] if isinstance(a, list | tuple) else a for name, a in columns.items()}
        for at in range(len(ids))
    ]


def plain(value: Any) -> Any:
    """Give an id out of a numpy or torch scalar, and a list of them out of an array."""
    return value.tolist() if hasattr(value, "tolist") else value
