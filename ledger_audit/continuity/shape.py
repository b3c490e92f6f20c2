"""
Tells what a ledger looks like: the ranks, columns, streams and keys that a contract is about.

Nothing is judged: a contract that is drafted from a shape says what the job already does.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ledger_audit.continuity.lineage import Attempt

COLUMNS = ("epoch", "position", "source", "token_start", "worker")
"""Columns that may be left out and that a proof is better with."""

KEPT_BY_A_RESUME = (
    "dataset",
    "index_files",
    "dataset_samples",
    "dataset_order",
    "seed",
    "filter",
    "packing",
    "sampler",
    "drop_last",
)
"""Keys of a fingerprint that decide the order, and that nothing need change at a restart."""

_HELD_OUT = frozenset(
    {
        "dev",
        "eval",
        "evaluation",
        "heldout",
        "holdout",
        "test",
        "val",
        "valid",
        "validation",
    }
)


@dataclass(frozen=True)
class Neighbours:
    """Spans of one document that begin where the one before ends, or sooner."""

    count: int
    shared: int | None
    """Tokens that each has in common with the one before; null: not all as many, or no spans."""


@dataclass(frozen=True)
class Shape:
    """What a ledger looks like."""

    stream: str | None
    """The stream that was looked at; null: training."""
    chain: tuple[Attempt, ...]
    """The lineage, oldest first."""
    records: int
    """Those that were looked at."""
    steps: tuple[int, int]
    """The first and the last step of these."""
    columns: tuple[str, ...]
    """Those of COLUMNS that have a value."""
    uses: Mapping[str, int]
    """Source → the most uses of one of its samples, or spans, in one pass of one attempt."""
    other_streams: tuple[str, ...]
    """Streams beside training and the one that was looked at."""
    stages: tuple[str, ...]
    neighbours: Neighbours
    kept_keys: tuple[str, ...]
    """Those of KEPT_BY_A_RESUME that every attempt logs, with one value."""
    changed_keys: Mapping[str, str]
    """Those with several values → the first attempt with another one."""
    restores: Mapping[str, bool]
    """Resumed attempt that says when it restored → whether that came before its iterator."""

    @property
    def newest(self) -> Attempt:
        """The attempt that made the newest weights."""
        return self.chain[-1]

    @property
    def sampled(self) -> tuple[int, ...] | None:
        """The ranks that write a ledger; null: all."""
        if not any(one.is_sampled for one in self.chain):
            return None
        return tuple(sorted(frozenset().union(*(one.logged or one.everyone for one in self.chain))))

    @property
    def world_sizes(self) -> tuple[int, ...]:
        """Every number of ranks that there was, in the order of their first time."""
        known = [one for one in self.chain if one.world_size is not None or one.memberships]
        return tuple(dict.fromkeys(size for one in known for size in one.world_sizes))

    @property
    def held_out(self) -> tuple[str, ...]:
        """Streams whose name says that they are not to be trained on."""
        return tuple(one for one in self.other_streams if _is_held_out(one))

    @property
    def global_batch(self) -> int | None:
        """Sequences of one step, by the newest fingerprint; null: it does not tell."""
        sequences = self.number("micro_batch_size")
        ranks = self.number("world_size") or len(self.newest.everyone)
        return None if sequences is None else sequences * (self.number("accumulation") or 1) * ranks

    def number(self, key: str) -> int | None:
        """Give a number of the newest fingerprint; null: it has no such, or none from 1."""
        value = self.newest.fingerprint.get(key)
        return value if type(value) is int and value > 0 else None


def _is_held_out(stream: str) -> bool:
    """Tell whether a stream's name says that it is not to be trained on."""
    words = re.split(r"[^a-z]+", stream.lower())
    return not _HELD_OUT.isdisjoint(words) or {"held", "out"} <= {*words}


def shape_of(
    chain: Sequence[Attempt],
    acts: pl.DataFrame,
    glimpses: Sequence[pl.DataFrame],
    streams: frozenset[tuple[str | None, str | None]],
) -> Shape:
    """
    Find the shape of a ledger.

    Args:
        chain: its lineage.
        acts: EVENTS without commits and voids.
        glimpses: some SAMPLES of one stream, of the newest attempts; at least one row.
        streams: each stream and stage that has a record.
    """
    records = pl.concat(glimpses)
    kept, changed = _keys([one.fingerprint for one in chain], [one.label for one in chain])
    first, last = records.select(first=pl.col("step").min(), last=pl.col("step").max()).row(0)
    stream = records["stream"][0]
    names = {name for name, _ in streams if name is not None and name != stream}
    return Shape(
        stream=stream,
        chain=tuple(chain),
        records=records.height,
        steps=(first, last),
        columns=tuple(one for one in COLUMNS if records[one].null_count() < records.height),
        uses=_uses(records),
        other_streams=tuple(sorted(names)),
        stages=tuple(sorted({stage for _, stage in streams if stage is not None})),
        neighbours=_neighbours(records),
        kept_keys=kept,
        changed_keys=changed,
        restores=_restores(chain, acts),
    )


def _keys(
    fingerprints: Sequence[Mapping[str, Any]], labels: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Sort the keys that every attempt logs into those with one value and those with several."""
    logged = [key for key in KEPT_BY_A_RESUME if all(key in one for one in fingerprints)]
    changed: dict[str, str] = {}
    for before, after, label in zip(fingerprints, fingerprints[1:], labels[1:], strict=False):
        for key in logged:
            if before[key] != after[key]:
                changed.setdefault(key, label)
    return tuple(key for key in logged if key not in changed), changed


def _neighbours(records: pl.DataFrame) -> Neighbours:
    document = ["attempt", "source", "epoch", "sample_id"]
    spans = ["token_start", "token_end"]
    found = records.select(*document, *spans).drop_nulls(spans).unique().sort(*document, *spans)
    reached = pl.col("token_end").shift(1).over(document)
    shared = found.select(shared=reached - pl.col("token_start"))["shared"].drop_nulls()
    shared = shared.filter(shared >= 0)
    amounts = shared.unique().to_list()
    return Neighbours(len(shared), amounts[0] if len(amounts) == 1 else None)


def _uses(records: pl.DataFrame) -> dict[str, int]:
    identity = ["attempt", "source", "epoch", "sample_id", "token_start", "token_end"]
    found = records.filter(pl.col("source").is_not_null()).group_by(identity).len()
    return dict(found.group_by("source").agg(pl.col("len").max()).sort("source").iter_rows())


def _restores(chain: Sequence[Attempt], acts: pl.DataFrame) -> dict[str, bool]:
    """Tell of each resumed attempt whether every rank restored its loader before it was used."""
    told = acts.filter(pl.col("kind").is_in(["restore", "iterator"])).sort("seq")
    found = {}
    for attempt in chain:
        rows = told.filter(pl.col("attempt") == attempt.label)
        if attempt.parent is None or rows.is_empty():
            continue
        firsts: dict[int, dict[str, Any]] = {rank: {} for rank in attempt.seen}
        for rank, kind, data in rows.select("rank", "kind", "data").iter_rows():
            firsts.setdefault(rank, {}).setdefault(kind, _fingerprint(data))
        found[attempt.label] = all(_is_right(one, attempt) for one in firsts.values())
    return found


def _fingerprint(data: str | None) -> object:
    try:
        told = json.loads(data or "{}")
    except ValueError:
        return None
    return told.get("fingerprint") if isinstance(told, dict) else None


def _is_right(firsts: Mapping[str, Any], attempt: Attempt) -> bool:
    """Tell whether a rank restored first, and saw the fingerprint of the start both times."""
    if list(firsts) != ["restore", "iterator"]:
        return False
    restored, made = firsts["restore"], firsts["iterator"]
    if not isinstance(restored, dict) or restored != made:
        return False
    started = attempt.fingerprint
    return all(restored[key] == started[key] for key in restored.keys() & started.keys())
