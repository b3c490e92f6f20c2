"""One run as its files tell it: attempts with their records, commits, voids and other events."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

COLUMNS = ("source", "epoch", "sample_id", "token_start", "token_end")


@dataclass(eq=False, slots=True)
class Row:
    """One used record of the audited stream."""

    rank: int
    step: int
    slot: int
    row: int
    seq: int
    source: str | None
    epoch: int | None
    sample_id: int | str
    token_start: int | None
    token_end: int | None
    position: int | None
    turn: int
    void: bool = False

    @property
    def order(self) -> tuple[int, ...]:
        """The order in which records meet each other: step, slot, rank, row, seq."""
        return (self.step, self.slot, self.rank, self.row, self.seq)

    @property
    def sequence(self) -> tuple[int, ...]:
        """Spans of one packed sequence share rank, step, slot, row and try."""
        return (self.rank, self.step, self.turn, self.slot, self.row)


@dataclass(frozen=True)
class Act:
    """One deliberate act of a `declare`: a skip, a reset, a reshuffle or a blend."""

    kind: str
    step: int | None
    sources: list[str]
    ids: list[int | str] | None = None
    positions: list[Any] | None = None

    def names(self, source: str | None, position: int | None, sample_id: int | str | None) -> bool:
        """Whether it names this source, position or id; without a source it is about all."""
        # Decision: a reset, reshuffle or blend that names no source is about all records.
        if self.kind != "skip":
            return not self.sources or source in self.sources
        # Reading: the sources of a skip narrow its ids and positions, and excuse by themselves
        # where it has neither; a record without a source is of none that is told to be another.
        if self.ids is None and self.positions is None:
            return source in self.sources
        if self.sources and source is not None and source not in self.sources:
            return False
        by_id = sample_id is not None and sample_id in (self.ids or [])
        return by_id or (position is not None and within(position, self.positions or []))


@dataclass(eq=False)
class Attempt:
    """One launch: its used records, and what its events say."""

    label: Any
    appeared: int = 0
    rows: list[Row] = field(default_factory=list)
    starts: list[dict[str, Any]] = field(default_factory=list)
    started_at: list[int] = field(default_factory=list)
    commits: set[tuple[int, int]] = field(default_factory=set)
    voids: set[tuple[int, int]] = field(default_factory=set)
    lacks: Counter[tuple[int, int]] = field(default_factory=Counter)
    memberships: list[tuple[int, list[int]]] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    dropped: set[int | None] = field(default_factory=set)
    ended: bool = False
    resumed_upto: int = 0
    assumed: bool = False

    @cached_property
    def start(self) -> dict[str, Any]:
        """The first start event speaks for the attempt."""
        return self.starts[0] if self.starts else {}

    @cached_property
    def parent(self) -> tuple[str, int] | None:
        """Label and step of the checkpoint that this attempt was resumed from."""
        link = self.start.get("resumed_from")
        return (str(link["attempt"]), int(link["step"])) if link else None

    @cached_property
    def by_step(self) -> dict[int, list[Row]]:
        """The records of each step."""
        steps: dict[int, list[Row]] = defaultdict(list)
        for row in self.rows:
            steps[row.step].append(row)
        return steps

    @cached_property
    def newest_step(self) -> dict[int, int]:
        """The last step in which each rank wrote a record."""
        last: dict[int, int] = {}
        for row in self.rows:
            last[row.rank] = max(row.step, last.get(row.rank, row.step))
        return last

    @cached_property
    def seen(self) -> set[int]:
        """Ranks with a record (of this stream), a commit or a void."""
        return {row.rank for row in self.rows} | {rank for rank, _ in self.commits | self.voids}

    def fact(self, name: str) -> Any:
        """Give a key of the fingerprint, None where it was not logged."""
        return (self.start.get("fingerprint") or {}).get(name)

    def members(self, step: int) -> list[int]:
        """All of `world_size`, or the last `membership` in force; without either, whoever wrote."""
        for since, ranks in reversed(self.memberships):
            if since <= step:
                return ranks
        world = self.start.get("world_size")
        return sorted(self.seen) if world is None else list(range(int(world)))

    def logged(self, step: int) -> list[int]:
        """Give the ranks that take part in the step and are meant to keep a ledger."""
        listed = self.start.get("logged_ranks")
        return [rank for rank in self.members(step) if listed is None or rank in listed]

    def voters(self, step: int) -> list[int]:
        """Give the logged ranks that are not missing: only these have a vote."""
        return [rank for rank in self.logged(step) if rank in self.seen]

    def sampled(self, step: int) -> bool:
        """Whether some rank that takes part is not logged."""
        return len(self.logged(step)) < len(self.members(step))

    @cached_property
    def assumed_through(self) -> int:
        """Without any commit: the last step that every voter reached, less one without an `end`."""
        # Reading: "the last" is the last of the steps that every voter reached (the careful side).
        reached = [
            step
            for step in self.by_step
            if all(self.newest_step.get(rank, 0) >= step for rank in self.voters(step))
        ]
        return max(reached, default=0) - (0 if self.ended else 1)

    def committed(self, step: int) -> bool:
        """Tell if resumed from it, or every voter committed it, or that is assumed."""
        # Decision: whoever resumed from it, in the lineage or outside.
        if step <= self.resumed_upto:
            return True
        if self.assumed:
            return step <= self.assumed_through
        voters = self.voters(step)
        return bool(voters) and all((rank, step) in self.commits for rank in voters)

    def missing(self, step: int) -> int:
        """Count known missing records: short of a commit; a missing rank's fullest peer."""
        held = Counter(row.rank for row in self.by_step.get(step, ()))
        short = (
            {rank: n for (rank, at), n in self.lacks.items() if at == step} if self.lacks else {}
        )
        fullest = max((held[rank] + short.get(rank, 0) for rank in {*held, *short}), default=0)
        silent = len(self.logged(step)) - len(self.voters(step))
        return sum(short.values()) + silent * fullest

    def whole(self, step: int) -> bool:
        """Tell if every logged rank has records and it is committed, or all voided it."""
        logged = self.logged(step)
        voided = [
            (rank, step) in self.voids and (rank, step) not in self.commits for rank in logged
        ]
        if voided and all(voided):
            return True
        held = {row.rank for row in self.by_step.get(step, ())}
        # Reading: "has records of every logged rank" means all of them: a step that is known to
        # lack one is not whole.
        return (
            bool(logged)
            and held.issuperset(logged)
            and self.committed(step)
            and not self.missing(step)
        )

    @property
    def mixed(self) -> bool:
        """Whether start events disagree on run, parent, C or world (a missing key denies none)."""
        told: dict[str, set[str]] = defaultdict(set)
        for start in self.starts:
            link = start.get("resumed_from")
            told["link"].add(str((str(link.get("attempt")), link.get("step")) if link else None))
            for name in ("run_id", "world_size"):
                if start.get(name) is not None:
                    told[name].add(str(start[name]))
        return any(len(words) > 1 for words in told.values())


def natural(text: str) -> list[Any]:
    """Sort `attempt10` after `attempt2`."""
    return [
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text)
    ]


def read(folder: Path, stream: str | None) -> dict[str, Attempt]:
    """Read a folder of JSON Lines into attempts by label."""
    attempts: dict[str, Attempt] = {}
    lines: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: natural(path.name)):
        for text in path.read_text(encoding="utf-8").splitlines():
            if text.strip():
                line = json.loads(text)
                label = str(line["attempt"])
                attempts.setdefault(label, Attempt(line["attempt"], len(attempts)))
                lines[label, int(line.get("rank") or 0)].append(line)
    for (label, rank), mine in lines.items():
        numbered = [
            (line["seq"] if line.get("seq") is not None else i, i, line)
            for i, line in enumerate(mine)
        ]
        absorb(attempts[label], rank, sorted(numbered, key=lambda item: item[:2]), stream)
    any_commit = any(attempt.commits for attempt in attempts.values())
    for attempt in attempts.values():
        attempt.assumed = not any_commit
        attempt.memberships.sort(key=lambda item: item[0])
        if attempt.parent and attempt.parent[0] in attempts:
            parent = attempts[attempt.parent[0]]
            parent.resumed_upto = max(parent.resumed_upto, attempt.parent[1])
    return attempts


def absorb(
    attempt: Attempt, rank: int, lines: list[tuple[int, int, dict[str, Any]]], stream: str | None
) -> None:
    """Take in one rank's lines in time order, cut into tries at each commit or void."""
    open_try: dict[int, list[Row]] = defaultdict(list)
    turns: Counter[int] = Counter()
    for seq, _, line in lines:
        kind, step, data = line["kind"], int(line.get("step") or 0), line.get("data") or {}
        if kind == "sample" and line.get("stream") != stream:
            continue
        if kind == "sample" and line.get("stage") in (None, "used"):
            open_try[step].append(used(line, rank, seq, turns[step], open_try[step]))
            attempt.rows.append(open_try[step][-1])
        elif kind == "sample" and line["stage"] == "dropped":
            attempt.dropped.add(line.get("position"))
        elif kind in ("commit", "void"):
            closed = open_try.pop(step, [])
            turns[step] += 1
            if kind == "void":
                attempt.voids.add((rank, step))
                for row in closed:
                    row.void = True
            else:
                attempt.commits.add((rank, step))
                if stream is None and data.get("samples") is not None:
                    short = int(data["samples"]) - len(closed)
                    attempt.lacks.update({(rank, step): short} if short > 0 else {})
        else:
            note_event(attempt, rank, step, data, line)


def used(line: dict[str, Any], rank: int, seq: int, turn: int, before: list[Row]) -> Row:
    """Turn a sample line into a row; where no `row` is given, the order of writing gives it."""
    slot = int(line.get("slot") or 0)
    row = line.get("row")
    if row is None:
        row = sum(1 for other in before if other.slot == slot)
    facts: dict[str, Any] = {name: line.get(name) for name in (*COLUMNS, "position")}
    return Row(rank, int(line["step"]), slot, int(row), seq, turn=turn, **facts)


def note_event(
    attempt: Attempt, rank: int, step: int, data: dict[str, Any], line: dict[str, Any]
) -> None:
    """Keep what the remaining kinds of event say."""
    kind = line["kind"]
    if kind == "start":
        attempt.starts.append(data)
        if line.get("time_ns") is not None:
            attempt.started_at.append(int(line["time_ns"]))
    elif kind == "membership":
        # Reading: "from now on" is the event's step, and never a step that its writer had
        # committed before.
        done = max((at for who, at in attempt.commits if who == rank), default=0)
        attempt.memberships.append((max(step, done + 1), sorted(data["ranks"])))
    elif kind == "declare":
        attempt.acts.extend(acts(line.get("step"), data))
    elif kind == "end":
        attempt.ended = True


def acts(step: int | None, data: dict[str, Any]) -> list[Act]:
    """Give the acts of one `declare` event."""
    found = []
    for kind in ("skip", "reset", "reshuffle", "blend"):
        told = data.get(kind)
        if told is None or told is False:
            continue
        bare = {"ids" if kind == "skip" else "sources": told} if isinstance(told, list) else {}
        inner = told if isinstance(told, dict) else bare
        sources = inner.get("sources") or data.get("sources") or []
        found.append(Act(kind, step, list(sources), inner.get("ids"), inner.get("positions")))
    return found


def within(position: int, listed: Iterable[Any]) -> bool:
    """Whether a position is listed, alone or in a half-open range."""
    return any(
        item[0] <= position < item[1] if isinstance(item, list) else item == position
        for item in listed
    )
