"""Plays lines of the JSON Lines dialect through the trainer's own writer."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from native import Line

from ledger_audit import LedgerWriter

_OPTIONAL = ("row", "token_start", "token_end", "source", "epoch", "position", "worker", "stage")


def emit_ledger(
    lines: Iterable[Line],
    root: Path,
    *,
    segment_bytes: int = 1 << 20,
    retain: int | None = None,
    run_id: str = "test",
) -> Path:
    """Write a ledger as the ranks of a job would, each with a writer that then dies."""
    by_rank: dict[tuple[str, int], list[Line]] = {}
    for line in lines:
        by_rank.setdefault((str(line["attempt"]), line["rank"]), []).append(line)
    for (attempt, rank), own in by_rank.items():
        start = next((line["data"] for line in own if line["kind"] == "start"), {})
        origin = start.get("resumed_from")
        writer = LedgerWriter(
            root,
            rank=rank,
            world_size=start.get("world_size") or 1,
            attempt=attempt,
            run_id=run_id,
            resumed_from=None if origin is None else (str(origin["attempt"]), origin["step"]),
            fingerprint=start.get("fingerprint"),
            logged_ranks=start.get("logged_ranks"),
            segment_bytes=segment_bytes,
            retain=retain,
            strict=True,
        )
        _play(own, writer)
    return root


def _play(lines: list[Line], writer: LedgerWriter) -> None:
    batch: list[Line] = []
    begun = {
        line.get("step")
        for line in lines
        if line["kind"] == "checkpoint" and (line.get("data") or {}).get("phase") == "begin"
    }
    for line in lines:
        place = [line.get(name) for name in ("step", "slot", "stream")]
        if batch and (line["kind"] != "sample" or place != _place(batch[0])):
            _record(batch, writer)
            batch = []
        if line["kind"] == "sample":
            batch.append(line)
        elif line["kind"] == "checkpoint" and line.get("step") not in begun:
            # a trainer that tells only when it is whole: the writer itself would say `begin`, too
            writer._say("checkpoint", line.get("step"), line.get("data") or {})
        else:
            _say(line, line.get("data") or {}, writer)
    if batch:
        _record(batch, writer)
    if not any(line["kind"] == "end" for line in lines):
        writer.__exit__(KeyboardInterrupt, None, None)  # nothing says that it ends


def _place(line: Line) -> list[Any]:
    return [line.get(name) for name in ("step", "slot", "stream")]


def _record(batch: list[Line], writer: LedgerWriter) -> None:
    first = batch[0]
    columns = {
        name: [line.get(name) for line in batch]
        for name in _OPTIONAL
        if any(line.get(name) is not None for line in batch)
    }
    ids = [line["sample_id"] for line in batch]
    place = first.get("step"), first.get("slot")
    writer.record(*place, ids, stream=first.get("stream"), **columns)


def _say(line: Line, data: dict[str, Any], writer: LedgerWriter) -> None:
    kind, step = line["kind"], line.get("step")
    if kind == "commit":
        writer.commit(step)
    elif kind == "void":
        writer.void(step, data.get("reason"))
    elif kind == "checkpoint" and data.get("phase") == "begin":
        told = {name: data.get(name) for name in ("claim", "fingerprint", "path")}
        saving = writer.begin_checkpoint(step, **told)
        saving.complete()
        saving.wait()
    elif kind == "restore":
        writer.restore(**data)
    elif kind == "iterator":
        writer.iterator(**data)
    elif kind == "declare":
        writer.declare(step, **data)
    elif kind == "membership":
        writer.membership(step, data["ranks"])
    elif kind == "end":
        writer.close(data.get("reason", "done"))
