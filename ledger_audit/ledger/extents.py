"""
Says how far each rank of an attempt got, from footers where they settle it.

Of the row groups that a footer leaves open, only those are read that could say more than is known:
neither a step beyond the known ones of a rank, nor a rank that is not known, may be in the others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.parts import Group, Groups, Mask, Part
from ledger_audit.ledger.queries import collect
from ledger_audit.ledger.schema import USED

TRY_KINDS = ("commit", "void")

SCHEMA = {
    "attempt": pl.String(),
    "rank": pl.Int32(),
    "first_step": pl.Int64(),
    "last_step": pl.Int64(),
}

_INT32 = (-(1 << 31), (1 << 31) - 1)


def used(stream: str | None) -> list[pl.Expr]:
    """Give what the records that count as used in a stream fulfil."""
    return [
        pl.col("stage").is_null() | (pl.col("stage") == USED),
        pl.col("stream").eq_missing(pl.lit(stream, pl.String)),
    ]


@dataclass(frozen=True)
class Ranks:
    """What is known of the ranks of one attempt, while it grows."""

    steps: dict[int, tuple[int, int]] = field(default_factory=dict)
    """First and last step of the used records of a rank."""
    tried: set[int] = field(default_factory=set)
    """Ranks that left a commit or void."""

    def add(self, rank: int, first: int, last: int) -> None:
        """Widen what is known of a rank."""
        known = self.steps.get(rank, (first, last))
        self.steps[rank] = (min(known[0], first), max(known[1], last))

    def cover(self, group: Group) -> bool:
        """Tell whether nothing that a row group can hold would widen what is known."""
        ranks, steps = group.bounds("rank"), group.bounds("step")
        is_known = ranks.low is not None and steps.low is not None
        if not is_known or not group.is_full("rank") or not group.is_full("step"):
            return False
        if ranks.high - ranks.low >= len(self.steps):
            return False
        known = [self.steps.get(rank) for rank in range(ranks.low, ranks.high + 1)]
        return all(
            one is not None and one[0] <= steps.low and one[1] >= steps.high for one in known
        )

    def hold(self, group: Group) -> bool:
        """Tell whether every rank that a row group can name left something already."""
        ranks = group.bounds("rank")
        if ranks.low is None or not group.is_full("rank"):
            return False
        if ranks.high - ranks.low >= len(self.steps) + len(self.tried):
            return False
        return all(
            rank in self.steps or rank in self.tried for rank in range(ranks.low, ranks.high + 1)
        )


def extents(
    attempt: str, samples: Sequence[Part], events: Sequence[Part], stream: str | None, name: str
) -> pl.DataFrame:
    """
    Say how far each rank of an attempt got that left a used record, a commit or a void.

    Returns:
        attempt, rank, first_step, last_step (of its used records; null without one).

    Raises:
        UnreadableError: a used record has no rank or no step.
    """
    where = f"{name}: attempt {attempt}"
    ranks = Ranks()
    loaded = [part.rows for part in samples if part.groups is None]
    left = [
        (part, group) for part in samples for group in _unsettled(part.groups or (), stream, ranks)
    ]
    _read([*loaded, *_rows(_outermost(left))], ranks, stream, where, name)
    inner = [(part, group) for part, group in left if not ranks.cover(group)]
    _read(_rows(inner), ranks, stream, where, name)
    _find_tries(events, ranks, where, name)
    left_any = sorted(ranks.steps.keys() | ranks.tried)
    rows = [(attempt, rank, *ranks.steps.get(rank, (None, None))) for rank in left_any]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def has_commits(events: Sequence[Part], name: str) -> bool:
    """Tell whether there is any commit event."""
    frames = [part.rows for part in events if part.groups is None]
    for part in events:
        maybe = [
            one for one in part.groups or () if one.bounds("kind").may_hold("commit", "commit")
        ]
        if any(one.bounds("kind").is_only(["commit"]) and _some(one, "kind") for one in maybe):
            return True
        frames += [*part.only(maybe[:1]), *part.only(maybe[1:])]  # most often the first has one
    return any(
        collect(frame.filter(pl.col("kind") == "commit").head(1), name).height for frame in frames
    )


def acts(events: Sequence[Part]) -> list[pl.LazyFrame]:
    """Give every event that is neither a commit nor a void."""
    frames = []
    for part in events:
        if part.groups is None:
            frames.append(part.rows)
        else:
            others = [one for one in part.groups if not one.bounds("kind").is_only(TRY_KINDS)]
            frames += part.only(others)
    return [frame.filter(~pl.col("kind").is_in(TRY_KINDS)) for frame in frames]


def _some(group: Group, column: str) -> bool:
    """Tell whether a column is known to have a value in some row."""
    nulls = group.bounds(column).nulls
    return nulls is not None and nulls < group.rows


def _unsettled(groups: Sequence[Group], stream: str | None, ranks: Ranks) -> list[Group]:
    """Take from footers what they say of the used records; give those that leave something."""
    if isinstance(groups, Groups):
        plain = _plain(groups, stream)
        own, steps = groups.columns["rank"].low[plain], groups.columns["step"]
        order = np.argsort(own, kind="stable")
        found, starts = np.unique(own[order], return_index=True)
        if len(found):
            lows = np.minimum.reduceat(steps.low[plain][order], starts)
            highs = np.maximum.reduceat(steps.high[plain][order], starts)
            for rank, low, high in zip(
                *(one.tolist() for one in (found, lows, highs)), strict=True
            ):
                ranks.add(rank, low, high)
        groups = [groups[number] for number in np.flatnonzero(~plain).tolist()]
    return [group for group in groups if not _settles(group, stream, ranks)]


def _plain(groups: Groups, stream: str | None) -> Mask:
    """Tell which row groups hold used records of one known rank alone, as most files do."""
    used = groups.is_null("stage") | groups.is_only("stage", USED)
    if stream is None:
        used &= groups.is_null("stream")
    else:
        used &= groups.is_only("stream", stream) & groups.is_full("stream")
    own = groups.columns["rank"].low
    is_placed = groups.is_full("rank") & groups.is_full("step") & groups.columns["step"].is_known
    is_own = groups.is_one("rank") & (own >= _INT32[0]) & (own <= _INT32[1])
    return used & is_placed & is_own & (groups.rows > 0)


def _settles(group: Group, stream: str | None, ranks: Ranks) -> bool:
    """Take from a footer what it says of the used records; false: it leaves something to read."""
    if group.rows == 0 or _is_unused(group, stream):
        return True
    own, steps = group.bounds("rank"), group.bounds("step")
    is_placed = group.is_full("rank") and group.is_full("step")
    is_known = own.low is not None and own.low == own.high and steps.low is not None
    if not (is_placed and is_known and _is_used(group, stream)):
        return False
    if not _INT32[0] <= own.low <= _INT32[1]:
        return False  # reading says what is wrong with it
    ranks.add(own.low, steps.low, steps.high)
    return True


def _is_used(group: Group, stream: str | None) -> bool:
    """Tell whether every record of a row group is known to be a used one of a stream."""
    is_used = group.is_null("stage") or group.bounds("stage").is_only([USED])
    if stream is None:
        return is_used and group.is_null("stream")
    is_own = group.bounds("stream").is_only([stream]) and group.is_full("stream")
    return is_used and is_own


def _is_unused(group: Group, stream: str | None) -> bool:
    """Tell whether no record of a row group is a used one of a stream."""
    if group.is_full("stage") and not group.bounds("stage").may_hold(USED, USED):
        return True
    if stream is None:
        return group.is_full("stream")
    return group.is_null("stream") or not group.bounds("stream").may_hold(stream, stream)


def _outermost(left: Sequence[tuple[Part, Group]]) -> list[tuple[Part, Group]]:
    """Choose of each file the row groups that can hold its first and its last step."""
    first: dict[object, tuple[Part, Group]] = {}
    last: dict[object, tuple[Part, Group]] = {}
    for part, group in left:
        steps, file = group.bounds("step"), group.file
        if steps.low is None:
            continue
        if file not in first or steps.low < first[file][1].bounds("step").low:
            first[file] = (part, group)
        if file not in last or steps.high > last[file][1].bounds("step").high:
            last[file] = (part, group)
    return [*first.values(), *last.values()]


def _rows(chosen: Sequence[tuple[Part, Group]]) -> list[pl.LazyFrame]:
    parts: dict[int, tuple[Part, list[Group]]] = {}
    for part, group in chosen:
        parts.setdefault(id(part), (part, []))[1].append(group)
    return [frame for part, groups in parts.values() for frame in part.only(groups)]


def _read(
    frames: Iterable[pl.LazyFrame], ranks: Ranks, stream: str | None, where: str, name: str
) -> None:
    """Read how far the ranks got in rows that no footer settles."""
    found = [
        frame.filter(*used(stream))
        .group_by("rank")
        .agg(
            pl.col("step").min().alias("first"),
            pl.col("step").max().alias("last"),
            pl.col("step").null_count().alias("unplaced"),
        )
        for frame in frames
    ]
    if not found:
        return
    for rank, first, last, unplaced in collect(pl.concat(found), name).iter_rows():
        if rank is None or unplaced:
            raise _unplaced(where)
        ranks.add(rank, first, last)


def _find_tries(events: Sequence[Part], ranks: Ranks, where: str, name: str) -> None:
    """Find ranks that left a commit or void and no used record."""
    frames = []
    for part in events:
        if part.groups is None:
            frames.append(part.rows)
            continue
        kinds = [
            group
            for group in part.groups
            if any(group.bounds("kind").may_hold(kind, kind) for kind in TRY_KINDS)
        ]
        frames += part.only(group for group in kinds if not ranks.hold(group))
    tried = [frame.filter(pl.col("kind").is_in(TRY_KINDS)).select("rank") for frame in frames]
    if not tried:
        return
    for rank in collect(pl.concat(tried).unique(), name)["rank"]:
        if rank is None:
            raise _unplaced(where)
        ranks.tried.add(rank)


def _unplaced(where: str) -> UnreadableError:
    return UnreadableError(
        f"{where} has a used record without 'step' or 'rank'",
        hint="every used record needs rank, step, slot and sample_id",
    )
