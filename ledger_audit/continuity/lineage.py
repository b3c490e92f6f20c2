"""
Reconstructs which attempt resumed from which, and the chain that made the newest weights.

The trainer's own words decide: parent and step come from the `start` events. Without any, an
attempt is taken to resume where its first record says, and nothing about it is proven.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from ledger_audit.continuity.told import (
    Event,
    check_declared,
    data_of,
    digest_columns_of,
    disagreement_of,
    distinct,
    expects,
    field_of,
    memberships_of,
    origin_of,
    says_twice,
    world_size_of,
)
from ledger_audit.errors import UnreadableError


@dataclass(frozen=True)
class Attempt:
    """One launch of the job, as its events and the extent of its records tell it."""

    label: str
    parent: str | None = None
    resumed_at: int | None = None
    """C: the last step that the loaded checkpoint holds; null for a first launch."""
    world_size: int | None = None
    """Ranks that shard data; null where no start event says it."""
    logged: frozenset[int] | None = None
    """The ranks that write a ledger; null: all."""
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    has_end: bool = False
    started_ns: int | None = None
    memberships: tuple[tuple[int, frozenset[int]], ...] = ()
    """The ranks that take part from a step on, sorted by step."""
    declares: tuple[tuple[int | None, Mapping[str, Any]], ...] = ()
    """Step and data of every `declare`."""
    lost: tuple[tuple[int | None, int], ...] = ()
    """Step and records of every `lost`."""
    first_step: int | None = None
    last_steps: Mapping[int, int] = field(default_factory=dict)
    """The last step of each rank that left a record."""
    seen: frozenset[int] = frozenset()
    """Ranks that left a record, a commit or a void."""
    peers: frozenset[int] = frozenset()
    """Where no start event says the world size: ranks that the log compared with it holds."""
    disagreement: str | None = None
    """What the start events contradict each other about; null: nothing."""
    loaded_at: int | None = None
    """The last step that a later attempt resumed it from: committed up to it by that fact."""
    has_several_starts: bool = False
    """A rank said twice that it started: a spare took over, or it is two launches."""
    has_start: bool = False
    """Some rank said that it started."""
    digest_columns: tuple[str, ...] | None = None
    """What the digests in its commits cover; null: nothing says so."""
    expects: str | None = None
    """The kind of stream that it says is expected: nobody ran it; null: it is a launch of a job."""
    is_absent: bool = False
    """Nothing of it is in the ledger: only its child names it."""
    is_assumed: bool = False
    """No start event tells where it resumed from: its first record does."""

    @property
    def is_sampled(self) -> bool:
        """Only some of its ranks write a ledger."""
        return self.logged is not None and not self.logged >= self.everyone

    @property
    def everyone(self) -> frozenset[int]:
        """All ranks of the launch, logged or not; those seen, where no start says how many."""
        if self.world_size is None:
            return self.seen | self.peers
        return frozenset(range(self.world_size))

    @property
    def world_sizes(self) -> tuple[int, ...]:
        """How many ranks took part, logged or not: at the launch, then after each change."""
        return len(self.everyone), *(len(members) for _, members in self.memberships)

    def participants(self, step: int) -> frozenset[int]:
        """Give the logged ranks that take part in a step."""
        ranks = self.everyone
        for since, members in self.memberships:
            if since <= step:
                ranks = members
        return ranks if self.logged is None else ranks & self.logged

    @property
    def spans(self) -> tuple[tuple[int | None, int | None, frozenset[int]], ...]:
        """The logged ranks that take part, by stretches of steps: first, last (null: open)."""
        starts = [None, *(since for since, _ in self.memberships)]
        stretches = []
        for since, following in zip(starts, [*starts[1:], None], strict=True):
            until = None if following is None else following - 1
            stretches.append((since, until, self.participants(-1 if since is None else since)))
        return tuple(stretches)

    @property
    def missing(self) -> frozenset[int]:
        """Logged ranks that take part and left neither a record nor a commit nor a void."""
        return frozenset().union(*(ranks for _, _, ranks in self.spans)) - self.seen

    @property
    def last_step(self) -> int | None:
        """The last step that any of its ranks reached."""
        return max(self.last_steps.values(), default=None)


@dataclass(frozen=True)
class Lineage:
    """The attempts of a ledger and the chain that made the newest weights."""

    chain: tuple[Attempt, ...]
    """Oldest first; each resumed from the one before it."""
    outside: tuple[Attempt, ...]
    """Attempts whose work is not in the newest weights."""

    @property
    def is_expected(self) -> bool:
        """It is no run: all of it says that it is expected, and nobody ran it."""
        return bool(self.chain) and all(one.expects is not None for one in self.chain)

    def until(self, index: int, resumed: int) -> int | None:
        """
        Give the last step that attempt `index` contributes to what attempt `resumed` loaded.

        Null where nothing limits it: `resumed` is `index` itself and the newest.
        """
        later = self.chain[index + 1 : resumed + 1]
        return min((one.resumed_at for one in later if one.resumed_at is not None), default=None)


def reconstruct(
    acts: pl.DataFrame, extents: pl.DataFrame, runs: Mapping[str, frozenset[str]] | None = None
) -> Lineage:
    """
    Find the lineage of the newest weights.

    Args:
        acts: EVENTS without commits and voids, of all attempts.
        extents: one row per attempt and rank that left something: first_step, last_step.
        runs: the run ids that the files of each attempt name; several contradict each other.

    Raises:
        UnreadableError: attempts resume from each other in a circle, or an event's data is not
            what its kind needs.
    """
    attempts = _attempts(acts, extents)
    if not attempts:
        return Lineage((), ())
    for label, ids in (runs or {}).items():
        if len(ids) > 1 and label in attempts:
            said = f"run_id: {' and '.join(sorted(ids))}"
            attempts[label] = replace(attempts[label], disagreement=said)
    parents = {attempt.parent for attempt in attempts.values() if attempt.parent is not None}
    holders = {attempt.label: _holder(attempt, attempts) for attempt in attempts.values()}
    for parent in {label for label in holders.values() if label is not None} & attempts.keys():
        loads = [one.resumed_at for one in attempts.values() if holders[one.label] == parent]
        attempts[parent] = replace(
            attempts[parent], loaded_at=max((at for at in loads if at is not None), default=None)
        )
    leaves = [attempt for attempt in attempts.values() if attempt.label not in parents]
    if not leaves:
        raise UnreadableError(
            "the attempts " + ", ".join(sorted(attempts)) + " resume from each other in a circle",
            hint="their start events contradict each other; remove the copied ones",
        )
    chain = chain_to(max(leaves, key=age), attempts)
    inside = {attempt.label for attempt in chain}
    outside = sorted((one for one in attempts.values() if one.label not in inside), key=age)
    return Lineage(chain, tuple(outside))


def chain_to(leaf: Attempt, attempts: Mapping[str, Attempt]) -> tuple[Attempt, ...]:
    """Give the attempts whose steps the weights of one hold, oldest first, itself last."""
    chain = [leaf]
    while (origin := _holder(chain[-1], attempts)) is not None:
        known = attempts.get(origin, Attempt(origin, is_absent=True))
        if known in chain:
            raise UnreadableError(
                f"attempt {chain[-1].label} resumes from its own descendant {origin}",
                hint="its start event is wrong or was copied",
            )
        chain.append(known)
    return tuple(reversed(chain))


def _holder(attempt: Attempt, attempts: Mapping[str, Attempt]) -> str | None:
    """
    Name the attempt that made the checkpoint that an attempt loaded.

    It is the parent, unless the checkpoint is no newer than the parent's own: then the parent
    only passed it on, and its own steps are neither in the weights nor a reference.
    """
    label = attempt.parent
    seen = {attempt.label}
    while label is not None and label not in seen:
        seen.add(label)
        parent = attempts.get(label)
        if parent is None or parent.resumed_at is None or attempt.resumed_at is None:
            return label
        if attempt.resumed_at > parent.resumed_at:
            return label
        label = parent.parent
    return label


def age(attempt: Attempt) -> tuple[int, list[tuple[int, str]]]:
    """Order attempts by start time, and by the numbers in their labels where times are equal."""
    return attempt.started_ns or 0, natural(attempt.label)


def natural(label: str) -> list[tuple[int, str]]:
    """Give a sort key under which `a9` precedes `a10`."""
    parts = re.findall(r"\d+|\D+", label)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _attempts(acts: pl.DataFrame, extents: pl.DataFrame) -> dict[str, Attempt]:
    labels = sorted({*acts["attempt"], *extents["attempt"]}, key=natural)
    attempts: dict[str, Attempt] = {}
    previous: Attempt | None = None
    for label in labels:
        events = [
            (row["kind"], row["step"], data_of(row), row)
            for row in acts.filter(attempt=label).sort("rank", "seq").iter_rows(named=True)
        ]
        ranks = extents.filter(attempt=label)
        attempts[label] = previous = _attempt(label, events, ranks, previous)
    return attempts


def _attempt(
    label: str, events: Sequence[Event], ranks: pl.DataFrame, previous: Attempt | None
) -> Attempt:
    starts = [data for kind, _, data, _ in events if kind == "start"]
    first = starts[0] if starts else {}
    origin = origin_of(first, label)
    first_step = ranks["first_step"].min()
    first_step = first_step if isinstance(first_step, int) else None
    is_assumed = not starts and previous is not None and first_step is not None
    if is_assumed and previous is not None and first_step is not None:
        origin = (previous.label, first_step - 1)
    for kind, _, data, _ in events:
        if kind == "declare":
            check_declared(data, label)
    logged = field_of(first, "logged_ranks", list, label)
    times = [row["time_ns"] for kind, _, _, row in events if kind == "start" and row["time_ns"]]
    return Attempt(
        label=label,
        parent=None if origin is None else origin[0],
        resumed_at=None if origin is None else origin[1],
        world_size=world_size_of(first, label),
        logged=None if logged is None else frozenset(logged),
        fingerprint=field_of(first, "fingerprint", dict, label) or {},
        has_end=any(kind == "end" for kind, *_ in events),
        started_ns=min(times, default=None),
        memberships=memberships_of(events, label),
        declares=distinct(events, "declare"),
        lost=tuple(
            (step, field_of(data, "records", int, label) or 0)
            for kind, step, data, _ in events
            if kind == "lost"
        ),
        first_step=first_step,
        last_steps={
            row["rank"]: row["last_step"]
            for row in ranks.iter_rows(named=True)
            if row["last_step"] is not None
        },
        seen=frozenset(ranks["rank"]),
        disagreement=disagreement_of(starts),
        is_assumed=is_assumed,
        has_start=bool(starts),
        expects=expects(first, label),
        has_several_starts=says_twice(events),
        digest_columns=digest_columns_of(starts),
    )
