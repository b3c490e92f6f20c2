"""What is against a list, once more in plain Python: written from the definitions, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from native import Line

Listed = tuple[Any, str | None, int | None, int | None]
"""sample_id, source, token_start, token_end of one line of a list."""


@dataclass(frozen=True)
class Use:
    """One training record of the lineage, and what became of it."""

    line: Line
    status: str
    """hit, voided, uncommitted or undecided, if it is against a list."""

    @property
    def place(self) -> tuple[Any, ...]:
        """Where it stands, and what it is."""
        names = ("attempt", "step", "slot", "rank", "row")
        told = (str(self.line["attempt"]), *(self.line[name] for name in names[1:]))
        return (*told, *self.listed)

    @property
    def listed(self) -> Listed:
        """What it is, as a list would say it."""
        names = ("source", "token_start", "token_end")
        source, start, end = (self.line.get(name) for name in names)
        return (self.line["sample_id"], source, start, end)


def uses(lines: Sequence[Line]) -> Iterator[Use]:
    """Give every training record of the steps that the lineage's attempts gave to the weights."""
    chain = lineage(lines)
    for nth, attempt in enumerate(chain):
        own = [line for line in lines if line["attempt"] == attempt]
        first = (_origin(own) or {"step": -1})["step"] + 1
        later = [_origin([line for line in lines if line["attempt"] == one]) for one in chain]
        ends = [one["step"] for one in later[nth + 1 :] if one is not None]
        last = min(ends, default=None)
        committed = _committed(own, last)
        for rank in sorted({line["rank"] for line in own}):
            told = [line for line in own if line["rank"] == rank]
            for at, line in enumerate(told):
                is_training = line["kind"] == "sample" and line.get("stream") is None
                if not is_training or line.get("stage") not in (None, "used"):
                    continue
                if line["step"] < first or (last is not None and line["step"] > last):
                    continue
                yield Use(line, _status(line, told[at:], committed))


def lineage(lines: Sequence[Line]) -> list[Any]:
    """Give the attempts that made the newest weights, oldest first."""
    attempts = sorted({line["attempt"] for line in lines})
    origins = {one: _origin([line for line in lines if line["attempt"] == one]) for one in attempts}
    parents = {origin["attempt"] for origin in origins.values() if origin is not None}
    chain = [max(one for one in attempts if one not in parents)]
    while (origin := origins[chain[0]]) is not None:
        chain.insert(0, origin["attempt"])
    return chain


def _origin(lines: Sequence[Line]) -> dict[str, Any] | None:
    start = next(line for line in lines if line["kind"] == "start")
    origin: dict[str, Any] | None = start["data"]["resumed_from"]
    return origin


def _committed(own: Sequence[Line], last: int | None) -> set[int]:
    """Give the steps that are in the weights."""
    steps = {line["step"] for line in own if line.get("step") is not None}
    if last is not None:
        return {step for step in steps if step <= last}
    spoke = ("commit", "void")
    ranks = {line["rank"] for line in own if line["kind"] in spoke or _is_record(line)}
    said = {(line["rank"], line["step"]) for line in own if line["kind"] == "commit"}
    return {step for step in steps if ranks and all((rank, step) in said for rank in ranks)}


def _is_record(line: Line) -> bool:
    return line["kind"] == "sample" and line.get("stream") is None


def _status(line: Line, told: Sequence[Line], committed: set[int]) -> str:
    ends = [
        one["kind"]
        for one in told
        if one["kind"] in ("commit", "void") and one["step"] == line["step"]
    ]
    if ends[:1] == ["void"]:
        return "voided"
    if line["step"] in committed:
        return "hit"
    return "undecided" if any(step > line["step"] for step in committed) else "uncommitted"


def against_forbidden(record: Listed, lines: Sequence[Listed], overlap: int) -> list[int | None]:
    """Give how many tokens of a record are forbidden (null: it has no span); nothing: none is."""
    fitting = [line for line in lines if _speaks_of(line, record)]
    if not fitting:
        return []
    if not _has_span(record):
        return [None]
    tokens = set(range(record[2] or 0, record[3] or 0))
    if any(not _has_span(line) for line in fitting):
        return [len(tokens)]
    stretches = _stretches(fitting)
    shared = [len(tokens & stretch) for stretch in stretches]
    found = sum(count for count in shared if count > overlap)
    return [found] if found else []


def against_allowed(record: Listed, lines: Sequence[Listed], overlap: int) -> list[int | None]:
    """Give how many tokens of a record are not allowed (null: it has no span); nothing: all are."""
    fitting = [line for line in lines if _speaks_of(line, record)]
    tokens = set(range(record[2] or 0, record[3] or 0)) if _has_span(record) else None
    if not fitting:
        return [None if tokens is None else len(tokens)]
    if tokens is None or any(not _has_span(line) for line in fitting):
        return []
    beyond = tokens.difference(*_stretches(fitting))
    return [len(beyond)] if len(beyond) > overlap else []


def _speaks_of(line: Listed, record: Listed) -> bool:
    return line[0] == record[0] and (None in (line[1], record[1]) or line[1] == record[1])


def _has_span(one: Listed) -> bool:
    return one[2] is not None and one[3] is not None


def _stretches(lines: Sequence[Listed]) -> list[set[int]]:
    """Join spans that overlap or touch."""
    tokens = sorted({token for line in lines for token in range(line[2] or 0, line[3] or 0)})
    found: list[set[int]] = []
    for token in tokens:
        if found and token - 1 in found[-1]:
            found[-1].add(token)
        else:
            found.append({token})
    return found
