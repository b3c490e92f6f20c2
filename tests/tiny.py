"""Tiny ledgers, a line a sample: who used what, attempt by attempt and step by step."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Line = dict[str, Any]
Steps = Mapping[int, Sequence[Sequence[Any]]]
"""Step → for each rank the samples that it used, one a row; a mapping gives more columns."""


def attempt(
    label: int,
    steps: Steps,
    *,
    after: tuple[int, int] | None = None,
    void: Sequence[int] = (),
    uncommitted: Sequence[int] = (),
    world_size: int | None = None,
    stream: str | None = None,
    **start: Any,
) -> list[Line]:
    """
    Give the lines of one attempt, rank by rank.

    Args:
        label: of the attempt.
        steps: what it used.
        after: the attempt and step that it resumed from; null: a first launch.
        void: steps whose update was thrown away.
        uncommitted: steps that end with neither a commit nor a void.
        world_size: ranks; null: as many as the first step has.
        stream: null: training.
        start: more of the start event.
    """
    ranks = max((len(by_rank) for by_rank in steps.values()), default=world_size or 1)
    origin = None if after is None else {"attempt": after[0], "step": after[1]}
    known = {"world_size": world_size or ranks, "resumed_from": origin, **start}
    lines: list[Line] = []
    for rank in range(ranks):
        lines.append({"kind": "start", "rank": rank, "data": known})
        for step, by_rank in steps.items():
            for row, sample in enumerate(by_rank[rank] if rank < len(by_rank) else ()):
                told = sample if isinstance(sample, Mapping) else {"sample_id": sample}
                place = {"rank": rank, "step": step, "slot": 0, "row": row}
                lines.append({"kind": "sample", **place, "stream": stream, **told})
            end = "void" if step in void else "commit"
            if step not in uncommitted and stream is None:
                lines.append({"kind": end, "rank": rank, "step": step, "data": {}})
    return [{"attempt": label, **line} for line in lines]


def dealt(
    first: int, last: int, *, ranks: int = 2, rows: int = 2, at: int | None = None
) -> dict[int, list[list[int]]]:
    """
    Deal samples 0, 1, 2, ... in order to the steps from `first` to `last`.

    Args:
        first: the first step.
        last: the last one.
        ranks: ranks that the stream is dealt to.
        rows: samples of each in a step.
        at: the sample that the first step begins with; null: as if step 1 began with 0.
    """
    batch = ranks * rows
    start = (first - 1) * batch if at is None else at
    return {
        step: [
            [start + (step - first) * batch + rank * rows + row for row in range(rows)]
            for rank in range(ranks)
        ]
        for step in range(first, last + 1)
    }


def write(folder: Path, *parts: Sequence[Line]) -> Path:
    """Write attempts, and whatever lines there are, as one JSON Lines file."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line for part in parts for line in part]
    (folder / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
