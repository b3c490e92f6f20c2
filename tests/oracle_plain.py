"""
A slow oracle in plain Python: section 5 of the design, one small function for each rule.

It shares no line with the product.
Where the text leaves a choice, a `Reading:` comment says which one was taken.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

COLUMNS = ("source", "epoch", "sample_id", "token_start", "token_end")
RESUMED = (
    "void",
    "in-place",
    "moved",
    "padding",
    "replayed",
    "duplicated",
    "repeat-unexplained",
    "unexpected",
    "fresh",
)
EXPECTED = ("matched", "declared", "repeat-missing", "skipped", "pending", "undecided")
END = float("inf")

Key = tuple[Any, ...]


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

    def names(
        self, source: str | None, position: int | None, sample_id: int | str | None
    ) -> bool:
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


#: An attempt and the steps (after, through) that it holds of a surviving stream.
Part = tuple[Attempt, int, float]
#: The numbers of the positions, or null.
Block = dict[str, int] | None


# --- reading -------------------------------------------------------------------------------------


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


# --- lineage -------------------------------------------------------------------------------------


@dataclass
class Link:
    """One attempt of a lineage, and the step and the attempt that it was resumed from."""

    attempt: Attempt
    at: int = 0
    parent: Attempt | None = None


def newest(attempts: dict[str, Attempt]) -> Attempt:
    """Give the attempt that started last among those that nobody resumed from."""
    parents = {attempt.parent[0] for attempt in attempts.values() if attempt.parent}
    leaves = [attempt for label, attempt in attempts.items() if label not in parents] or list(
        attempts.values()
    )
    if all(attempt.started_at for attempt in leaves):
        return max(leaves, key=lambda attempt: (min(attempt.started_at), attempt.appeared))
    if all(re.fullmatch(r"\d+", str(attempt.label)) for attempt in leaves):
        return max(leaves, key=lambda attempt: int(attempt.label))
    return max(leaves, key=lambda attempt: attempt.appeared)


def lineage(attempts: dict[str, Attempt]) -> list[Link]:
    """Give the chain of attempts whose committed steps made the newest weights, oldest first."""
    return ancestry(attempts, newest(attempts)) if attempts else []


def ancestry(attempts: dict[str, Attempt], attempt: Attempt) -> list[Link]:
    """Give the lineage of one attempt, oldest first."""
    chain: list[Link] = []
    walked = set[int]()
    while attempt.parent and id(attempt) not in walked:
        walked.add(id(attempt))
        label, at = attempt.parent
        parent = attempts.get(label) or Attempt(attempt.start["resumed_from"]["attempt"])
        chain.append(Link(attempt, at, parent))
        attempt = parent
        # Reading: resumed from p at a step before p's own start: p's lineage up to C is what
        # counts, so p is outside.
        while attempt.parent and at < attempt.parent[1] and attempt.parent[0] in attempts:
            attempt = attempts[attempt.parent[0]]
    chain.append(Link(attempt))
    return chain[::-1]


def kept(chain: Sequence[Link], upto: float) -> list[Part]:
    """Which attempt holds which steps (after, through) of the surviving stream up to a step."""
    ends = [*(link.at for link in chain[1:]), END]
    return [(link.attempt, link.at, min(end, upto)) for link, end in zip(chain, ends, strict=True)]


def held(parts: Iterable[Part], after: float = 0) -> list[Row]:
    """Give the records of the surviving stream after a step, in order."""
    rows = [
        row for attempt, lo, hi in parts for row in attempt.rows if max(lo, after) < row.step <= hi
    ]
    return sorted(rows, key=lambda row: row.order)


# --- one resume ----------------------------------------------------------------------------------


@dataclass(eq=False)
class Case:
    """One resume: its three windows and everything that is worked out about them."""

    parent: Attempt
    to: Attempt
    at: int
    order: str
    past: list[Part]
    until: float
    kind: str
    source: list[Part]
    columns: tuple[str, ...] = COLUMNS
    notes: set[str] = field(default_factory=set)
    mate: dict[Row, Row] = field(default_factory=dict)
    outcome: dict[Row, str] = field(default_factory=dict)

    @cached_property
    def before(self) -> list[Row]:
        """Everything the lineage used at steps up to C, void tries too."""
        return held(self.past)

    @cached_property
    def committed(self) -> list[Row]:
        """The committed window: void tries are never committed."""
        return solid(self.before)

    @cached_property
    def reference(self) -> list[Row]:
        """The reference window, committed or not."""
        return held(self.source, self.at)

    @cached_property
    def resumed(self) -> list[Row]:
        """Up to the next resume everything; of the newest the committed steps and void tries."""
        mine = [row for row in self.to.rows if self.at < row.step <= self.until]
        if self.until == END:
            mine = [row for row in mine if row.void or self.to.committed(row.step)]
        return sorted(mine, key=lambda row: row.order)

    @cached_property
    def lost_commits(self) -> set[int]:
        """The steps of the newest attempt that are not committed, while a later one is."""
        # Decision: such a step has lost a commit: its unvoided records are out of the window, and
        # count as missing.
        mine = {step for step in self.to.by_step if step > self.at}
        mine |= {step for _, step in self.to.commits if step > self.at}
        last = max((step for step in mine if self.to.committed(step)), default=0)
        newest = self.until == END
        return {step for step in mine if newest and step < last and not self.to.committed(step)}

    @cached_property
    def acts(self) -> list[Act]:
        """What is declared for this resume."""
        # Decision: only what the resumed attempt declares, at a step >= C or at none.
        return [act for act in self.to.acts if act.step is None or act.step >= self.at]

    @cached_property
    def reset(self) -> bool:
        """Whether the stream was deliberately started anew."""
        return any(act.kind == "reset" for act in self.acts)

    @cached_property
    def steps(self) -> list[int]:
        """The steps of the resumed window, those too whose records are all lost."""
        events = {
            step
            for _, step in self.to.commits
            if self.at < step <= self.until and self.to.committed(step)
        }
        return sorted({row.step for row in self.resumed} | events | self.lost_commits)

    @cached_property
    def whole_resumed(self) -> list[int]:
        """The whole steps of the resumed window."""
        return [step for step in self.steps if self.to.whole(step)]

    @cached_property
    def whole_through(self) -> int:
        """The reference is whole through this step (C where no step is)."""
        step = self.at
        while owner(self.source, step + 1).whole(step + 1):
            step += 1
        return step

    @cached_property
    def missing(self) -> int:
        """Records known to be missing in the resumed window."""
        return sum(self.lacking(step) for step in self.steps)

    def lacking(self, step: int) -> int:
        """Count the records known to be missing in a resumed step."""
        gone = solid(self.to.by_step.get(step, ())) if step in self.lost_commits else []
        return self.to.missing(step) + len(gone)

    @cached_property
    def sampled(self) -> bool:
        """Whether ranks are not logged on either side."""
        sides = [(self.to, self.at + 1), (owner(self.source, self.at + 1), self.at + 1)]
        return any(attempt.sampled(step) for attempt, step in sides)

    @cached_property
    def by_positions(self) -> bool:
        """Where all records of both windows have positions, places are positions."""
        rows = self.reference + self.resumed
        # Decision: not after a declared reset.
        return bool(self.reference and self.resumed and not self.reset) and all(
            row.position is not None for row in rows
        )

    @cached_property
    def consumed(self) -> set[Key]:
        """What committed updates up to C had consumed."""
        return {self.key(row) for row in self.committed}

    @cached_property
    def used(self) -> set[Key]:
        """What was used in the resumed window, void tries too."""
        return {self.key(row) for row in self.resumed}

    @cached_property
    def met(self) -> set[Row]:
        """The reference records that have a partner, once all rounds are over."""
        return set(self.mate.values())

    @cached_property
    def consumed_by_all(self) -> set[Key]:
        """What the lineage consumed, before C and in the resumed window."""
        return self.consumed | {self.key(row) for row in solid(self.resumed)}

    @cached_property
    def to_epochs(self) -> Epochs:
        """Epochs as the whole resumed attempt shows them, steps that the crash cut included."""
        later = [row for row in self.to.rows if row.step > self.at]
        return Epochs(
            self, [*self.before, *sorted(later, key=lambda row: row.order)], [(self.to, 0, END)]
        )

    @cached_property
    def window_epochs(self) -> Epochs:
        """Epochs as the resumed window alone shows them."""
        return Epochs(self, [*self.before, *self.resumed], [(self.to, 0, END)])

    @cached_property
    def ref_epochs(self) -> Epochs:
        """Epochs as the reference shows them, from the beginning of its own run."""
        clipped = held([(attempt, lo, min(hi, self.at)) for attempt, lo, hi in self.source])
        earlier = self.before if self.kind == "rolled-back" else clipped
        return Epochs(self, [*earlier, *self.reference], self.source)

    def key(self, row: Row) -> Key:
        """Give the identity of a record."""
        return tuple(getattr(row, name) for name in self.columns)


def solid(rows: Iterable[Row]) -> list[Row]:
    """All but the void tries."""
    return [row for row in rows if not row.void]


def owner(parts: Sequence[Part], step: int) -> Attempt:
    """Give the attempt that holds a step of a surviving stream."""
    return next((attempt for attempt, lo, hi in parts if lo < step <= hi), parts[-1][0])


# --- epochs and padding --------------------------------------------------------------------------


@dataclass(eq=False)
class Epochs:
    """The epochs of one stretch of stream; there are none unless the epoch is in the identity."""

    case: Case
    rows: list[Row]
    parts: list[Part]
    verdicts: dict[Key, bool] = field(default_factory=dict)

    def of(self, row: Row) -> Key | None:
        """Give the pass over its source that a record belongs to."""
        if "epoch" not in self.case.columns or row.epoch is None:
            return None
        return (row.source if "source" in self.case.columns else None, row.epoch)

    @cached_property
    def last(self) -> dict[Key, tuple[int, ...]]:
        """Where the last record of each epoch stands."""
        return {epoch: row.order for row in self.rows if (epoch := self.of(row)) is not None}

    @cached_property
    def distinct(self) -> dict[Key, set[Key]]:
        """The samples used in each epoch."""
        samples: dict[Key, set[Key]] = defaultdict(set)
        for row in self.rows:
            if (epoch := self.of(row)) is not None:
                samples[epoch].add((row.source, row.sample_id))
        return samples

    def over(self, epoch: Key | None) -> bool:
        """Tell if a later epoch follows it, or its distinct samples reach `dataset_samples`."""
        if epoch is None:
            return False
        if epoch not in self.verdicts:
            size = self.parts[-1][0].fact("dataset_samples")
            here = self.last.get(epoch, (0,))
            follows = any(
                e[0] == epoch[0] and e[1] > epoch[1] and at > here for e, at in self.last.items()
            )
            full = size is not None and len(self.distinct.get(epoch, ())) >= size
            self.verdicts[epoch] = follows or full
        return self.verdicts[epoch]

    def at_end(self, row: Row) -> bool:
        """Whether a record stands in the last step of its epoch."""
        epoch = self.of(row)
        return epoch is not None and self.last.get(epoch, (0,))[0] == row.step

    def closing(self, row: Row) -> bool:
        """Whether a record stands in the last step of an epoch that is over."""
        return self.at_end(row) and self.over(self.of(row))

    @cached_property
    def repeats_at_end(self) -> set[Row]:
        """Repeats in the last step of an epoch, over or not."""
        found, seen = set[Row](), set[Key]()
        for row in solid(self.rows):
            key = self.case.key(row)
            if key in seen and self.at_end(row):
                found.add(row)
            seen.add(key)
        return found

    @cached_property
    def repeats(self) -> set[Row]:
        """Repeats in the last step of an epoch that is over."""
        return {row for row in self.repeats_at_end if self.closing(row)}

    @cached_property
    def repeat_count(self) -> Counter[Key | None]:
        """How many repeats each epoch has in its last step, matched ones included."""
        return Counter(self.of(row) for row in self.repeats_at_end)

    def rounds(self, step: int) -> list[int]:
        """To what a sampler rounds an epoch up: ranks, micro-batches, global batches."""
        attempt = owner(self.parts, step)
        world = len(attempt.members(step))
        if attempt.fact("sampler") == "DistributedSampler" or not world:
            return [world] if world else []
        # Reading: b and A as seen (the fullest micro-batch, the most slots) or as configured: a
        # fingerprint key taken away must not make a verdict broken.
        seen = (fullest_batch(attempt), max((row.slot + 1 for row in attempt.rows), default=1))
        told = (attempt.fact("micro_batch_size"), attempt.fact("accumulation"))
        recipes = {seen, (int(told[0] or seen[0]), int(told[1] or seen[1]))}
        return sorted({n for b, a in recipes for n in (world, world * b, world * b * a)})

    def paddings(self, step: int) -> set[int]:
        """How many repeats a sampler adds at the end of an epoch."""
        size = owner(self.parts, step).fact("dataset_samples")
        return set() if size is None else {-int(size) % each for each in self.rounds(step)}

    def most(self, step: int) -> int:
        """The largest padding there can be; where N is not logged, short of a whole round."""
        return max(self.paddings(step) or {n - 1 for n in self.rounds(step)}, default=0)


def fullest_batch(attempt: Attempt) -> int:
    """Give the most sequences that any rank had in one slot."""
    sequences = {row.sequence for row in attempt.rows}
    return max(Counter(sequence[:4] for sequence in sequences).values(), default=1)


# --- identity ------------------------------------------------------------------------------------


def choose_columns(case: Case) -> None:
    """Leave out each column that is null in every record of a non-empty window."""
    windows = [rows for rows in (case.committed, case.reference, case.resumed) if rows]
    for name in COLUMNS:
        empty = [all(getattr(row, name) is None for row in rows) for rows in windows]
        if any(empty):
            case.columns = tuple(column for column in case.columns if column != name)
            if not all(empty):
                case.notes.add("column-left-out")


def settled(rows: Sequence[Row]) -> list[Row]:
    """One try of each step: its void tries are left out where it has another."""
    tried = {row.step for row in rows if not row.void}
    return [row for row in rows if not row.void or row.step not in tried]


def drop_wrong_epoch(case: Case) -> None:
    """Leave the epoch out if the first resumed step matches only, and wholly, without it."""
    if "epoch" not in case.columns or not case.resumed or not case.reference:
        return
    # Reading: a batch tried twice counts once here, on both sides.
    first = settled([row for row in case.resumed if row.step == case.resumed[0].step])
    if {case.key(row) for row in first} & {case.key(row) for row in case.reference}:
        return
    bare = tuple(name for name in case.columns if name != "epoch")
    head = settled(case.reference)[: len(first)]
    if Counter(pick(row, bare) for row in first) == Counter(pick(row, bare) for row in head):
        case.columns = bare
        case.notes.add("epoch-label-changed")


def pick(row: Row, names: Iterable[str]) -> Key:
    """Give some columns of a record."""
    return tuple(getattr(row, name) for name in names)


# --- matching ------------------------------------------------------------------------------------


def match(case: Case) -> None:
    """Three rounds for tries that stand, and only then the same rounds for void tries."""
    # Reading: records that stand are served before void ones, on both sides: of a batch voided and
    # tried again, one side would else be called a duplicate or a skip.
    resumed, reference = case.resumed, case.reference
    for void_resumed, void_reference in product((False, True), repeat=2):
        rounds: list[Callable[[Row], Key]] = [
            lambda row: (case.key(row), row.step, row.rank, row.slot),
            lambda row: (case.key(row), row.step),
            case.key,
        ]
        for by in rounds:
            taken = set(case.mate.values())
            free: dict[Key, deque[Row]] = defaultdict(deque)
            for row in reference:
                if row.void == void_reference and row not in taken:
                    free[by(row)].append(row)
            for row in resumed:
                if row.void == void_resumed and row not in case.mate and free[by(row)]:
                    case.mate[row] = free[by(row)].popleft()


# --- amounts -------------------------------------------------------------------------------------


def reference_amount(case: Case) -> int:
    """Sequences of the reference through its last whole step, less repeats that end an epoch."""
    rows = [row for row in case.reference if row.step <= case.whole_through]
    # Reading: a void try whose batch came again is the same stretch of stream and counts once.
    again = {case.key(row) for row in solid(rows)}
    counted = [
        row
        for row in rows
        if row not in case.ref_epochs.repeats and not (row.void and case.key(row) in again)
    ]
    return len({row.sequence for row in counted})


def covered_steps(case: Case) -> set[int]:
    """Find the resumed steps through which no more was used than the whole reference holds."""
    # Reading: on the resumed side every void try counts as used.
    # Decision: so does, from the first step on, what was skipped by declaration.
    room, covered = reference_amount(case), set[int]()
    passed = [row for row in case.reference if not met(case, row) and declared(case, row)]
    used_so_far = len({row.sequence for row in passed})
    sequences: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for row in case.resumed:
        if row not in case.to_epochs.repeats:
            sequences[row.step].add(row.sequence)
    for step in case.steps:
        used_so_far += len(sequences[step]) + case.lacking(step)
        if used_so_far <= room:
            covered.add(step)
    return covered


def fits_one_pass(case: Case) -> dict[int, bool]:
    """Whether all records so far, through each resumed step, fit into `dataset_samples`."""
    # Reading: missing records, void tries and the share of ranks that are not logged count too.
    size, total, fits = case.to.fact("dataset_samples"), 0.0, dict[int, bool]()
    for attempt, lo, hi in case.past:
        for step in steps_of(attempt, lo, hi):
            seen = len(attempt.by_step.get(step, ())) + attempt.missing(step)
            total += seen * whole_share(attempt, step)
    held_now = Counter(row.step for row in case.resumed)
    for step in case.steps:
        total += (held_now[step] + case.lacking(step)) * whole_share(case.to, step)
        fits[step] = size is not None and total <= size
    return fits


def steps_of(attempt: Attempt, lo: int, hi: float) -> set[int]:
    """Give the steps of a stretch of an attempt, those too whose records are all lost."""
    return {
        step for step in {*attempt.by_step, *(at for _, at in attempt.commits)} if lo < step <= hi
    }


def whole_share(attempt: Attempt, step: int) -> float:
    """By how much a step is larger than what its logged ranks hold."""
    return len(attempt.members(step)) / (len(attempt.logged(step)) or 1)


def repeats_by_design(case: Case) -> bool:
    """Whether committed window and reference repeat more often than padding explains."""
    # Decision: the reference counts too, less what the last step that it shows of a generation
    # may hold as padding; each generation that is over in either window explains the largest
    # padding (none where `dataset_samples` is not logged).
    epochs, now = case.ref_epochs, case.window_epochs
    repeats, seen = list[Row](), set(case.consumed)
    for row in solid(case.reference):
        if case.key(row) in seen:
            repeats.append(row)
        seen.add(case.key(row))
    ends = {epochs.of(row): row.step for row in case.reference}
    closing = Counter(
        epoch
        for row in repeats
        if (epoch := epochs.of(row)) is not None and row.step == ends[epoch]
    )
    spared = sum(n for epoch, n in closing.items() if n <= epochs.most(ends[epoch]))
    over = {e for e in epochs.last if epochs.over(e)} | {e for e in now.last if now.over(e)}
    # Reading: recipes may differ along the lineage; the one that pads most counts.
    recipes = [(part, step) for part in (case.past, case.source) for _, step, _ in part]
    largest = max(
        (n for part, lo in recipes for n in Epochs(case, [], part).paddings(lo + 1)), default=0
    )
    count = len(case.committed) - len(case.consumed) + len(repeats) - spared
    return count > len(over) * largest


# --- outcomes of resumed records -----------------------------------------------------------------


def classify_resumed(case: Case) -> None:
    """Give every resumed record the first outcome that fits."""
    covered, fits = covered_steps(case), fits_one_pass(case)
    known = "epoch" in case.columns
    by_design = repeats_by_design(case)
    in_reference = {case.key(row) for row in case.reference}
    lost_through, lost = {}, 0
    for step in case.steps:
        lost += case.lacking(step)
        lost_through[step] = lost
    earlier: set[Key] = set()
    for row in case.resumed:
        key = case.key(row)
        # Reading: covered, or else (generation known and no repeats by design).
        proven = row.step in covered or ((known or fits[row.step]) and not by_design)
        if row.void:
            case.outcome[row] = "void"
            continue
        if row in case.mate:
            case.outcome[row] = "in-place" if case.mate[row].step == row.step else "moved"
        elif (as_padding := padding(case, row, row.step in covered)) is not None:
            case.outcome[row] = as_padding
        elif key in case.consumed:
            case.outcome[row] = "replayed" if proven else "repeat-unexplained"
        elif key in earlier or key in in_reference:
            case.outcome[row] = "duplicated" if proven else "repeat-unexplained"
        elif row.step in covered and not lost_through[row.step] and may_surprise(case, row):
            # Decision: what was reset, reshuffled or blended anew surprises nobody.
            case.outcome[row] = "fresh" if freed(case, row) else "unexpected"
        else:
            case.outcome[row] = "fresh"
        earlier.add(key)


def may_surprise(case: Case, row: Row) -> bool:
    """Not where ranks are unlogged, not under order `none`, not beyond the reference's end."""
    places = [other.position for other in case.reference if other.position is not None]
    beyond = (
        row.position is not None
        and len(places) == len(case.reference)
        and row.position > max(places, default=END)
    )
    return not case.sampled and case.order != "none" and not beyond


def padding(case: Case, row: Row, covered: bool) -> str | None:
    """Judge an unmatched repeat at an epoch's end: padding, unexplained, or neither (None)."""
    epochs = case.to_epochs
    epoch = epochs.of(row)
    if epoch is None or epochs.last[epoch][0] != row.step or not repeats_in(case, row):
        return None
    size, allowed = case.to.fact("dataset_samples"), epochs.paddings(row.step)
    count = epochs.repeat_count[epoch]
    if epochs.over(epoch) and size is None:
        return "repeat-unexplained"
    if epochs.over(epoch) and count in allowed:
        return "padding"
    # Reading: a rank, a record or `dataset_samples` taken away must not make a verdict broken. So
    # where records are missing or unlogged the count need not be exact, and the epoch may be over
    # unseen.
    # Decision: where N is not logged, the epoch may be over with any padding, unless the reference
    # covers the step.
    if size is None:
        return "repeat-unexplained" if count <= epochs.most(row.step) and not covered else None
    unseen = END if case.to.sampled(row.step) else case.missing + sum(map(past_missing, case.past))
    share = len(case.to.members(row.step)) / (len(case.to.logged(row.step)) or 1)
    perhaps = len(epochs.distinct[epoch]) * share + (unseen if unseen < END else 0) >= size
    doubtful = unseen and perhaps and any(count <= n <= count + unseen for n in allowed)
    return "repeat-unexplained" if doubtful else None


def repeats_in(case: Case, row: Row) -> bool:
    """Whether an unmatched record of an epoch's last step repeats an earlier or a matched one."""
    # Reading: of two uses in one step, the unmatched one is the repeat, whichever came first.
    key = case.key(row)
    twins = [other for other in case.mate if other.step == row.step and case.key(other) == key]
    return row in case.to_epochs.repeats_at_end or bool(solid(twins))


# --- outcomes of expected records ----------------------------------------------------------------


def classify_expected(case: Case) -> None:
    """Give every reference record the first outcome that fits; `undecided` comes out of skips."""
    budgets: dict[Key, int] = {}
    past = moved_past(case)
    for row in case.reference:
        if met(case, row):
            case.outcome[row] = "matched"
        elif declared(case, row):
            case.outcome[row] = "declared"
        elif repeat_missing(case, row, budgets):
            case.outcome[row] = "repeat-missing"
        else:
            case.outcome[row] = "skipped" if past(row) else "pending"
    # Reading: as many as are missing, first of what would be skipped, then of the missing ranks'
    # lanes: any missing record could hold any of them, and a rank taken away must not make a
    # verdict broken.
    left = END if case.sampled else case.missing
    for row in [row for row in case.reference if case.outcome[row] == "skipped"]:
        if left > 0:
            case.outcome[row], left = "undecided", left - 1
    left = 0 if case.missing == 0 else min(left, case.missing)
    for row in [row for row in case.reference if case.outcome[row] == "pending"]:
        if left > 0 and row.rank in case.to.logged(row.step) and row.rank not in case.to.seen:
            case.outcome[row], left = "undecided", left - 1


def met(case: Case, row: Row) -> bool:
    """Whether an expected record is matched, or void and its identity used again."""
    return row in case.met or (row.void and case.key(row) in case.used)


def declared(case: Case, row: Row) -> bool:
    """Whether a declaration at or after C names a record."""
    return any(act.names(row.source, row.position, row.sample_id) for act in case.acts)


def freed(case: Case, row: Row) -> bool:
    """Whether a resumed record's source was reset, reshuffled or blended by declaration."""
    acts = [act for act in case.acts if act.kind != "skip"]
    return any(act.names(row.source, None, None) for act in acts)


def repeat_missing(case: Case, row: Row, budgets: dict[Key, int]) -> bool:
    """Find a padding repeat of the reference that is not needed: consumed already in its epoch."""
    epochs = case.ref_epochs
    epoch = epochs.of(row)
    if epoch is None or not epochs.closing(row) or case.key(row) not in case.consumed_by_all:
        return False
    if epoch not in budgets:
        # Reading: the largest padding of the arithmetic, for each epoch; without `dataset_samples`
        # as many as are seen.
        allowed = epochs.paddings(row.step)
        budgets[epoch] = max(allowed) if allowed else epochs.repeat_count[epoch]
    budgets[epoch] -= 1
    return budgets[epoch] >= 0


def moved_past(case: Case) -> Callable[[Row], bool]:
    """Its epoch is over, or it is before the lane's frontier, or at it while whole steps go on."""
    frontier = frontiers(case)
    last_whole = max(case.whole_resumed, default=0)

    def past(row: Row) -> bool:
        # Reading: "over in the resumed attempt" by the window alone; what a cut step holds is not
        # consumed yet.
        if case.window_epochs.over(case.window_epochs.of(row)):
            return True
        if case.order == "none" and not case.by_positions:
            return False
        place = row.position if case.by_positions else row.step
        reached, when = frontier.get(-1 if case.by_positions else row.rank, (None, 0))
        if place is None or reached is None:
            return False
        return place < reached or (place == reached and last_whole > when)

    return past


def frontiers(case: Case) -> dict[int, tuple[float, int]]:
    """Find each lane's largest place (-1: positions) and the resumed step that first gave it."""
    found: dict[int, tuple[float, int]] = {}
    steps: dict[int, list[Row]] = defaultdict(list)
    for row in case.resumed:
        steps[row.step].append(row)
    for step, rows in sorted(steps.items()):
        places = {-1: position_place(case, rows)} if case.by_positions else lane_places(case, rows)
        for lane, place in places.items():
            if place is not None and (lane not in found or place > found[lane][0]):
                found[lane] = (place, step)
    if case.by_positions or largest_step(case.resumed) >= largest_step(case.reference):
        return found
    # Decision: of smaller steps it takes several to use up one of the reference, so the frontier
    # is reached with the last that has any match there.
    latest: dict[float, int] = {}
    for row, mate in case.mate.items():
        latest[mate.step] = max(row.step, latest.get(mate.step, row.step))
    return {
        lane: (place, max(first, latest.get(place, first)))
        for lane, (place, first) in found.items()
    }


def largest_step(rows: Iterable[Row]) -> int:
    """Count the sequences of the largest step."""
    # Reading: tries of one step are counted one by one: a retry makes no batch larger.
    tries: dict[tuple[int, int], set[tuple[int, ...]]] = defaultdict(set)
    for row in rows:
        tries[row.step, row.turn].add(row.sequence)
    return max(map(len, tries.values()), default=0)


def position_place(case: Case, rows: Sequence[Row]) -> float | None:
    """Of a step, the smallest position not consumed before C."""
    done = {row.position for row in case.committed}
    return min(
        (row.position for row in rows if row.position is not None and row.position not in done),
        default=None,
    )


def lane_places(case: Case, rows: Sequence[Row]) -> dict[int, float | None]:
    """Give each lane its smallest matched reference step, or the end if only strangers stand."""
    places: dict[int, float | None] = {}
    for lane in sorted({row.rank for row in case.reference}):
        mates = [
            case.mate[row].step for row in rows if row in case.mate and case.mate[row].rank == lane
        ]
        stand = [row for row in solid(rows) if row.rank == lane or world_changed(case)]
        strangers = all(
            row not in case.mate and case.key(row) not in case.consumed for row in stand
        )
        places[lane] = min(mates) if mates else END if stand and strangers else None
    return places


def world_changed(case: Case) -> bool:
    """Whether other ranks take part than in the reference."""
    other = owner(case.source, case.at + 1)
    moved = bool(case.to.memberships or other.memberships)
    return moved or case.to.members(case.at + 1) != other.members(case.at + 1)


# --- order and positions -------------------------------------------------------------------------


def out_of_order(case: Case) -> int:
    """Count matched records less the longest non-decreasing run of their reference steps."""
    # Reading: void tries of the resume are not counted here.
    # Decision: nor what was reset, reshuffled or blended anew by declaration.
    pairs = sorted(
        (row.step, mate.step)
        for row, mate in case.mate.items()
        if not row.void and not freed(case, row)
    )
    tails: list[int] = []
    for _, step in pairs:
        at = bisect_right(tails, step)
        tails[at : at + 1] = [step]
    return len(pairs) - len(tails)


def positions(case: Case) -> Block:
    """Give the second line of evidence, by positions; null where a record has none."""
    rows = case.committed + case.resumed
    # Decision: and null after a declared reset.
    if case.reset or not case.resumed or any(row.position is None for row in rows):
        return None
    done = {row.position for row in case.committed}
    expected = max((p for p in done if p is not None), default=-1) + 1
    first = min(
        p
        for row in case.resumed
        if row.step == case.resumed[0].step and (p := row.position) is not None
    )
    uses = [row.position for row in {row.sequence: row for row in solid(case.resumed)}.values()]
    fresh = {p for p in uses if p not in done}
    return {
        "expected": expected,
        "first": first,
        "shift": first - expected,
        "repeated": len(uses) - len(fresh),
        "holes": 0 if case.sampled else holes(case, expected),
        "drift": drift(case),
    }


def holes(case: Case, expected: int) -> int:
    """Positions from the expected one up to the frontier that nobody used, dropped or declared."""
    # Reading: holes below the expected position were there before the resume; void and dropped
    # samples leave none.
    rows = case.before + case.resumed
    gone = {row.position for row in rows} | case.to.dropped
    gone |= {row.position for row in case.reference if case.outcome[row] == "declared"}
    skips = [act for act in case.acts if act.kind == "skip"]
    for attempt, _, _ in case.past:
        gone |= attempt.dropped
    by_step: dict[int, list[Row]] = defaultdict(list)
    for row in case.resumed:
        by_step[row.step].append(row)
    places = [
        place for mine in by_step.values() if (place := position_place(case, mine)) is not None
    ]
    behind = range(expected, int(max(places, default=expected)))
    return sum(
        1
        for place in behind
        if place not in gone and not any(act.names(None, place, None) for act in skips)
    )


def drift(case: Case) -> int:
    """Resumed positions that hold another sample than in the reference or before C."""

    def contents(rows: Iterable[Row]) -> dict[int | None, list[set[Key]]]:
        names = [name for name in case.columns if name != "epoch"]
        sequences: dict[tuple[int, ...], tuple[int | None, set[Key]]] = {}
        for row in rows:
            sequences.setdefault(row.sequence, (row.position, set()))[1].add(pick(row, names))
        found: dict[int | None, list[set[Key]]] = defaultdict(list)
        for place, spans in sequences.values():
            found[place].append(spans)
        return found

    before, expected, now = (
        contents(case.committed),
        contents(case.reference),
        contents(case.resumed),
    )
    # Reading: where records are known to be missing, fewer spans at a position are no other
    # sample.
    loose = case.missing > 0

    def other(one: set[Key], two: set[Key]) -> bool:
        return one != two and not (loose and (one <= two or two <= one))

    return sum(
        1
        for place, mine in now.items()
        if place is not None
        and any(other(a, b) for a in mine for b in before[place] + expected[place])
    )


# --- later epochs --------------------------------------------------------------------------------


def later_epochs_broken(case: Case) -> bool:
    """Compare every later finished epoch with the first whole one, or with `dataset_samples`."""
    # Reading: what is repeated beyond padding is `replayed` or `duplicated` already; an epoch that
    # the reference holds to its end is judged by the reference; amounts are compared, since
    # drop_last drops other samples in each epoch.
    epochs = case.window_epochs
    over = [e for e in epochs.last if epochs.over(e) and epochs.last[e][0] > case.at]
    if not over:
        case.notes.add("no-later-epoch")
    elif frozen(case, over):
        case.notes.add("frozen-epochs")
    if case.sampled:
        return False
    lost = permitted(case) + case.missing + sum(past_missing(part) for part in case.past)
    # Reading: `dataset_samples` says nothing about one source of a blend.
    size = case.to.fact("dataset_samples") if len({e[0] for e in epochs.last}) == 1 else None
    batch = max(Counter(row.step for row in case.resumed).values(), default=1)
    # Decision: whatever `drop_last` says, less than one global batch may be dropped.
    slack = lost + batch - 1
    packed = len({row.sequence for row in epochs.rows}) < len(epochs.rows)
    names = (
        ("source", "sample_id") if packed else ("source", "sample_id", "token_start", "token_end")
    )
    amount: dict[Key, set[Key]] = defaultdict(set)
    for row in epochs.rows:
        if (epoch := epochs.of(row)) is not None:
            amount[epoch].add(pick(row, names))
    for epoch in over:
        if any(anew(act, epoch[0]) for act in all_acts(case)):
            continue
        full = whole_before(case, epoch)
        target = len(amount[full]) if full else None if packed else size
        in_reference = epoch in case.ref_epochs.last and case.ref_epochs.over(epoch)
        if target is not None and not in_reference and target - len(amount[epoch]) > slack:
            return True
    return False


def all_acts(case: Case) -> list[Act]:
    """Give what was declared in the lineage: an epoch under way at C may have begun before."""
    return [act for attempt in {case.to, *(part[0] for part in case.past)} for act in attempt.acts]


def anew(act: Act, source: str | None) -> bool:
    """Whether an act leaves the epochs of a source without a promise."""
    bare = act.ids is None and act.positions is None
    return bare and (source is None or act.names(source, None, None))


def permitted(case: Case) -> int:
    """Count the ids and positions that were skipped by declaration."""
    ids, places = set[int | str](), set[int]()
    for act in all_acts(case):
        ids |= set(act.ids or [])
        for item in act.positions or []:
            places |= set(range(*item)) if isinstance(item, list) else {item}
    return len(ids) + len(places)


def past_missing(part: Part) -> int:
    """Count records known to be missing in one stretch of the committed window."""
    attempt, lo, hi = part
    return sum(attempt.missing(step) for step in steps_of(attempt, lo, hi))


def whole_before(case: Case, epoch: Key) -> Key | None:
    """Find the first epoch of the same source that was over before C, seen from its start."""
    epochs = Epochs(case, case.before, case.past)
    done = sorted(e for e in epochs.last if e[0] == epoch[0] and e[1] < epoch[1] and epochs.over(e))
    if case.before and case.before[0].step > 1:
        done = done[1:]
    return done[0] if done else None


def frozen(case: Case, over: Iterable[Key]) -> bool:
    """Whether a finished epoch has an earlier one's exact order."""
    order: dict[Key, list[Key]] = defaultdict(list)
    for row in solid(case.window_epochs.rows):
        if (epoch := case.window_epochs.of(row)) is not None:
            order[epoch].append((row.sample_id, row.token_start, row.token_end))
    pairs = [(e, o) for e in over for o in list(order) if o[0] == e[0] and o[1] < e[1]]
    return any(order[o] == order[e] for e, o in pairs)


# --- reference and control -----------------------------------------------------------------------


def control_differs(case: Case, control: list[Part]) -> bool:
    """Whether the control differs from the lineage in any step up to C, padding aside."""
    # Reading: what one side is known to lack (missing or unlogged ranks, lost records) is no
    # difference.
    theirs = held([(attempt, lo, min(hi, case.at)) for attempt, lo, hi in control])
    left, right = per_step(case, case.before, case.past), per_step(case, theirs, control)
    for step in {*left, *right}:
        more, less = left[step] - right[step], right[step] - left[step]
        here, there = owner(case.past, step), owner(control, step)
        if sum(more.values()) > lack(there, step) or sum(less.values()) > lack(here, step):
            return True
    return False


def lack(attempt: Attempt, step: int) -> float:
    """How many records of a step may be absent without that meaning anything."""
    return END if attempt.sampled(step) else attempt.missing(step)


def per_step(case: Case, rows: list[Row], parts: list[Part]) -> dict[int, Counter[Key]]:
    """Give the identities committed in each step, less the repeats that end an epoch."""
    without = Epochs(case, rows, parts).repeats
    steps: dict[int, Counter[Key]] = defaultdict(Counter)
    for row in solid(rows):
        if row not in without:
            steps[row.step][case.key(row)] += 1
    return steps


# --- the verdict ---------------------------------------------------------------------------------


def limits(case: Case, block: Block, disorder: int) -> list[str]:
    """Give what cannot be known and blocks a clause."""
    found = set[str]()
    source = owner(case.source, case.at + 1)
    if case.whole_through == case.at and block is None:
        found.add("no-reference")
    if not case.whole_resumed:
        found.add("no-resumed-step")
    for outcome in ("undecided", "repeat-unexplained"):
        if outcome in case.outcome.values():
            found.add(outcome)
    holed = block is not None and 0 < block["holes"] <= hole_allowance(case)
    if holed or 0 < strayed(case, disorder) <= case.missing:
        found.add("undecided")
    if case.sampled:
        found.add("ranks-not-logged")
    # Reading: a rank that merely had not come to C+1 yet is excused where positions are there.
    lanes = {row.rank for row in case.reference}
    bare = set(source.logged(case.at + 1)) - lanes if lanes else set()
    if bare and (block is None or bare - source.seen):
        found.add("lane-without-evidence")
    # Reading: whole reference micro-batches are those of its whole steps; the larger of both
    # worker counts.
    workers = max(int(source.fact("workers") or 0), int(case.to.fact("workers") or 0))
    whole = [row for row in case.reference if row.step <= case.whole_through]
    batches = Counter(rank for rank, _, _ in {(row.rank, row.step, row.slot) for row in whole})
    if block is None and whole and min(batches.values()) < workers:
        found.add("fewer-micro-batches-than-workers")
    return sorted(found | hopeless(case))


def strayed(case: Case, disorder: int) -> int:
    """Count what the contract's order forbids."""
    # Reading: each record known to be missing may have cost one other record its right partner, so
    # only more than these break the order; a rank taken away must not make a verdict broken.
    moved = Counter(case.outcome.values())["moved"]
    return {"step": moved, "relative": disorder}.get(case.order, 0)


def hopeless(case: Case) -> set[str]:
    """Limits under which no clause at all is proven."""
    found = set[str]()
    # Reading: a mixed parent is as bad as a mixed child: neither its windows nor its steps are one
    # stream.
    if case.to.mixed or case.parent.mixed:
        found.add("mixed-attempt")
    first: dict[int, Row] = {}
    for row in case.to.rows:
        if row.rank not in first or row.seq < first[row.rank].seq:
            first[row.rank] = row
    if any(row.step <= case.at for row in first.values()):
        found.add("resume-step-mismatch")
    return found


def hole_allowance(case: Case) -> int:
    """Holes that records known to be missing could fill."""
    return case.missing + sum(past_missing(part) for part in case.past)


def broken(case: Case, block: Block, disorder: int) -> bool:
    """Whether any clause of the default contract is broken."""
    late, counts = later_epochs_broken(case), Counter(case.outcome.values())
    if any(counts[name] for name in ("replayed", "duplicated", "unexpected", "skipped")):
        return True
    if strayed(case, disorder) > case.missing:
        return True
    if block and (block["repeated"] or block["drift"] or block["holes"] > hole_allowance(case)):
        return True
    return late


def verdict(case: Case, block: Block, disorder: int, found: list[str]) -> str:
    """`broken` beats `unproven` beats `continuous`, save where nothing at all is proven."""
    late = broken(case, block, disorder)
    if {"mixed-attempt", "resume-step-mismatch"} & set(found):
        return "unproven"
    if not any(case.to.committed(step) for step in case.steps):
        return "broken" if case.to.ended and case.reference else "unproven"
    return "broken" if late else "unproven" if found else "continuous"


def shift(case: Case, disorder: int) -> int | None:
    """Skipped minus replayed, where that means anything."""
    counts = Counter(case.outcome.values())
    both = counts["skipped"] and counts["replayed"]
    if case.whole_through == case.at or disorder or both:
        return None
    return counts["skipped"] - counts["replayed"]


def through_step(case: Case, word: str, block: Block) -> int | None:
    """Find the last resumed step through which `continuous` is proven."""
    proven: int | None = None
    covered = covered_steps(case)
    for step in case.steps if word == "continuous" else []:
        if step not in case.whole_resumed or not (step in covered or block):
            break
        proven = step
    return proven


def judge_resume(case: Case) -> dict[str, Any]:
    """Audit one resume whose windows are known."""
    drop_wrong_epoch(case)
    match(case)
    classify_resumed(case)
    classify_expected(case)
    disorder, block = out_of_order(case), positions(case)
    found = limits(case, block, disorder)
    word = verdict(case, block, disorder, found)
    if case.to.assumed:
        case.notes.add("commits-assumed")
    places = [(row, case.mate[row]) for row in case.resumed if case.outcome[row] == "in-place"]
    misplaced = sum(1 for row, mate in places if (row.rank, row.slot) != (mate.rank, mate.slot))
    resumed = Counter(case.outcome[row] for row in case.resumed)
    expected = Counter(case.outcome[row] for row in case.reference)
    return {
        "reference": case.kind,
        "windows": {
            "committed": len(case.committed),
            "reference": len(case.reference),
            "resumed": len(case.resumed),
        },
        "outcomes": {
            "resumed": {name: resumed[name] for name in RESUMED},
            "expected": {name: expected[name] for name in EXPECTED},
            "overlays": {"misplaced": misplaced, "out-of-order": disorder},
        },
        "shift": shift(case, disorder),
        "verdict": word,
        "from_attempt": case.parent.label,
        "to_attempt": case.to.label,
        "checkpoint_step": case.at,
        "positions": block,
        "through_step": through_step(case, word, block),
        "limits": found,
        "notes": sorted(case.notes),
    }


def build(
    chain: list[Link], nth: int, order: str, control: list[Part] | None, died: list[Part]
) -> Case:
    """Cut the windows of the nth resume, against the control or else the rolled-back window."""
    link = chain[nth]
    parent = link.parent or chain[nth - 1].attempt
    until = chain[nth + 1].at if nth + 1 < len(chain) else END
    past = kept(chain[:nth], link.at)
    # Decision: where C lies before the parent's own start, its whole lineage was rolled back.
    kind, source = ("control", control) if control else ("rolled-back", died)
    case = Case(parent, link.attempt, link.at, order, past, until, kind, source)
    choose_columns(case)
    return case


def judge(
    run: Path, control: Path | None = None, order: str | None = None, stream: str | None = None
) -> list[dict[str, Any]]:
    """Judge every resume, oldest first: `gate` with a control, `diff --full` without."""
    attempts = read(Path(run), stream)
    chain = lineage(attempts)
    contract = order or ("relative" if control is None else "step")
    parts = kept(lineage(read(Path(control), stream)), END) if control is not None else None
    reports = []
    for nth in range(1, len(chain)):
        died = kept(ancestry(attempts, chain[nth].parent or chain[nth - 1].attempt), END)
        case = build(chain, nth, contract, parts, died)
        if parts and control_differs(case, parts):
            case = build(chain, nth, contract, None, died)
            case.notes.add("control-differs")
        reports.append(judge_resume(case))
    return reports
