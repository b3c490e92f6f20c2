"""Gives a planted job as a ledger in memory, read as any other is."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from ledger_audit.ledger.reader import Ledger, in_memory
from ledger_audit.ledger.tables import events_schema, samples_schema
from ledger_audit.planting.job import Leg, Planted

_ROOM = 1 << 32
"""More lines than a rank writes in a step: where each stands is told by the step."""


def ledger_of(planted: Planted, *, has_commits: bool) -> Ledger:
    """Write down what every rank of the job would have logged."""
    id_type = planted.legs[0].records.schema["sample_id"]
    samples = [_samples(number, leg) for number, leg in enumerate(planted.legs)]
    events = [
        _events(number, leg, has_commits=has_commits) for number, leg in enumerate(planted.legs)
    ]
    return in_memory(
        "a planted copy",
        pl.concat([pl.DataFrame(schema=samples_schema(id_type)), *samples], how="diagonal"),
        pl.concat([pl.DataFrame(schema=events_schema()), *events], how="diagonal"),
    )


def _samples(number: int, leg: Leg) -> pl.DataFrame:
    nth = pl.int_range(pl.len()).over("rank", "step")
    columns = samples_schema(leg.records.schema["sample_id"])
    told = {*leg.records.columns, "attempt", "seq"}
    return (
        leg.records.sort("rank", "step", "slot", "row", "part")
        .with_columns(attempt=pl.lit(str(number)), seq=pl.col("step") * _ROOM + nth)
        .select(pl.col(name).cast(kind) for name, kind in columns.items() if name in told)
    )


def _events(number: int, leg: Leg, *, has_commits: bool) -> pl.DataFrame:
    rows = [
        {"attempt": str(number), "rank": rank, "seq": seq, "kind": kind, "step": step}
        | {"data": json.dumps(data)}
        for rank in _ranks(leg)
        for seq, kind, step, data in _told_by(number, leg, rank, has_commits=has_commits)
    ]
    return pl.DataFrame(rows, schema=events_schema())


def _ranks(leg: Leg) -> Sequence[int]:
    found = leg.records["rank"].unique().sort().to_list()
    return found or range(leg.world_size)


def _told_by(
    number: int, leg: Leg, rank: int, *, has_commits: bool
) -> Iterator[tuple[int, str, int | None, dict[str, Any]]]:
    """Give seq, kind, step and data of the events of one rank."""
    origin = None if leg.after is None else {"attempt": number - 1, "step": leg.after}
    start: dict[str, Any] = {"world_size": leg.world_size, "resumed_from": origin}
    if leg.logged is not None:
        start["logged_ranks"] = sorted(leg.logged)
    yield 0, "start", None, {**start, "fingerprint": dict(leg.fingerprint)}
    for step, ids in leg.skips:
        skip = {"skip": {"ids": list(ids)}, "reason": "planted"}
        yield step * _ROOM - 1, "declare", step, skip
    own = leg.records.filter(pl.col("rank") == rank)
    if "stream" in own.columns:
        own = own.filter(pl.col("stream").is_null())
    for step, count in own.group_by("step").len().sort("step").iter_rows() if has_commits else ():
        kind = "void" if step in leg.void else "commit"
        yield (step + 1) * _ROOM - 9, kind, step, {} if kind == "void" else {"samples": count}
    for step in leg.saves:
        at = (step + leg.late + 1) * _ROOM
        yield at - 7, "checkpoint", step, {"phase": "begin"}
        yield at - 6, "checkpoint", step, {"phase": "complete"}
    if leg.has_end:
        yield (1 << 62), "end", None, {"reason": "done"}
