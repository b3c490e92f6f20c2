"""Reads what the events of one attempt say, and refuses what contradicts their format."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ledger_audit.errors import UnreadableError

MOST_RANKS = 1_000_000
"""More than any job has: what a file claims must not decide how much memory is used."""


def data_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Read the data of an event; what is no JSON object is refused."""
    text = row["data"]
    try:
        data = {} if text is None else json.loads(text)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise UnreadableError(
            f"attempt {row['attempt']} rank {row['rank']} seq {row['seq']}: the 'data' of its "
            f"{row['kind']} event is not a JSON object",
            hint="the writer of this event must put an object there",
        )
    return data


Kind = TypeVar("Kind", int, dict[str, Any], list[int])

Event = tuple[str, int | None, dict[str, Any], Mapping[str, Any]]


def says_twice(events: Sequence[Event]) -> bool:
    """Tell whether a rank has two start events; copies of one count once."""
    starts = [row for kind, _, _, row in events if kind == "start"]
    told = {(row["rank"], row["time_ns"], row["data"]) for row in starts}
    return len({rank for rank, *_ in told}) < len(told)


def digest_columns_of(starts: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    """Say what digests cover, if all ranks say the same."""
    told = {json.dumps(data.get("digest_columns")) for data in starts}
    found = json.loads(told.pop()) if len(told) == 1 else None
    return tuple(str(one) for one in found) if isinstance(found, list) else None


def field_of(data: Mapping[str, Any], name: str, kind: type[Kind], label: str) -> Kind | None:
    """Read a field of an event's data; null where it is absent."""
    value = data.get(name)
    is_right = value is None or type(value) is kind
    if is_right and isinstance(value, list):
        is_right = all(type(one) is int for one in value)
    if not is_right:
        wanted = {int: "an integer", dict: "an object", list: "a list of integers"}[kind]
        raise UnreadableError(
            f"attempt {label}: {name!r} in the data of an event is {value!r}, not {wanted}",
            hint="docs/ledger-format.md describes the data of every event",
        )
    return value


def world_size_of(start: Mapping[str, Any], label: str) -> int | None:
    """Give the ranks that a start event tells; null: it does not."""
    world_size = field_of(start, "world_size", int, label)
    if world_size is not None and not 1 <= world_size <= MOST_RANKS:
        raise UnreadableError(
            f"attempt {label}: 'world_size' of its start event is {world_size}",
            hint=f"a job has 1 to {MOST_RANKS} ranks; leave it out where it is not known",
        )
    return world_size


def expects(start: Mapping[str, Any], label: str) -> str | None:
    """Name the kind of stream that is expected and was never run; null: it is a launch."""
    told = field_of(start, "expected", dict, label)
    return None if told is None else str(told.get("kind"))


def memberships_of(events: Sequence[Event], label: str) -> tuple[tuple[int, frozenset[int]], ...]:
    """Give the ranks that take part from a step on; every rank may say the same."""
    changes = {
        (step or 0, frozenset(field_of(data, "ranks", list, label) or ()))
        for kind, step, data, _ in events
        if kind == "membership"
    }
    return tuple(sorted(changes, key=lambda change: (change[0], sorted(change[1]))))


def origin_of(start: Mapping[str, Any], label: str) -> tuple[str, int] | None:
    """Give attempt and step that a start event says it resumed from; null: it began anew."""
    origin = start.get("resumed_from")
    if origin is None:
        return None
    is_right = isinstance(origin, dict) and type(origin.get("step")) is int
    if not is_right or origin["step"] < 0 or type(origin.get("attempt")) not in (str, int):
        raise UnreadableError(
            f"attempt {label}: 'resumed_from' of its start event is {origin!r}",
            hint='write {"attempt": LABEL, "step": N} with N from 0, or null',
        )
    return str(origin["attempt"]), origin["step"]


def check_declared(data: Mapping[str, Any], label: str) -> None:
    """Refuse a declared act whose shape says something else than it means."""
    skip = data.get("skip")
    is_right = skip is None or isinstance(skip, dict)
    parts = [data, *(part for part in data.values() if isinstance(part, dict))]
    for part in parts:
        for name in ("ids", "positions", "sources"):
            is_right &= isinstance(part.get(name), list | None)
    places = (skip.get("positions") or []) if is_right and skip else []
    is_right &= all(
        type(one) is int or (isinstance(one, list) and [int, int] == [type(end) for end in one])
        for one in places
    )
    if not is_right:
        raise UnreadableError(
            f"attempt {label}: the 'data' of a declare event is {dict(data)!r}",
            hint='lists in "ids", "positions" (single ones and [from, to) pairs) and "sources"; '
            "docs/ledger-format.md has examples",
        )


def distinct(
    events: Sequence[Event], kind: str
) -> tuple[tuple[int | None, Mapping[str, Any]], ...]:
    """Every rank may say the same thing: keep each saying once."""
    said = {
        json.dumps([step, data], sort_keys=True): (step, data)
        for this, step, data, _ in events
        if this == kind
    }
    return tuple(said[text] for text in sorted(said))


def disagreement_of(starts: Sequence[Mapping[str, Any]]) -> str | None:
    """Say what the start events of one attempt contradict each other about; null: nothing."""
    for name in ("run_id", "resumed_from", "world_size", "logged_ranks"):
        values = {json.dumps(start.get(name), sort_keys=True) for start in starts}
        if len(values) > 1:
            return f"{name}: {' and '.join(sorted(values))}"
    return None
