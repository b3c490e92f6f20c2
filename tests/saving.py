"""Lets the ranks of a job save: checkpoint events among lines of the JSON Lines dialect."""

from collections.abc import Iterable, Mapping
from typing import Any

from native import Line


def with_saves(lines: Iterable[Line], claim: Mapping[str, Any] | None = None) -> list[Line]:
    """Save after every commit or void, on every rank; without commits, after every step."""
    told = list(lines)
    has_commits = any(line["kind"] == "commit" for line in told)
    found: list[Line] = []
    for line, following in zip(told, [*told[1:], None], strict=True):
        found.append(line)
        place = line["attempt"], line["rank"], line.get("step")
        goes_on = following is not None and place == (
            following["attempt"],
            following["rank"],
            following.get("step"),
        )
        is_over = line["kind"] in ("commit", "void")
        if not has_commits:
            is_over = line["kind"] == "sample" and line.get("step") is not None and not goes_on
        if is_over:
            found += saves(line, claim)
    return found


def saves(line: Line, claim: Mapping[str, Any] | None = None, **told: Any) -> list[Line]:
    """Give the begin and the complete of one rank, at the place and step of a line."""
    place = {key: line[key] for key in ("attempt", "rank", "step")}
    begin = {"phase": "begin", **({} if claim is None else {"claim": dict(claim)}), **told}
    return [
        {"kind": "checkpoint", **place, "data": begin},
        {"kind": "checkpoint", **place, "data": {"phase": "complete"}},
    ]
