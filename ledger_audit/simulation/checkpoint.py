"""Checkpoints on disk: one folder each, one JSON file for the trainer and one for each rank."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger_audit.simulation.loader import Cursor

TRAINER = "trainer.json"


@dataclass(frozen=True)
class RankState:
    """What one rank saved: where its loader stands, and what the trainer says of that."""

    cursor: Cursor
    claim: Mapping[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is whole on disk."""

    folder: Path

    @property
    def trainer(self) -> dict[str, Any]:
        """The trainer's state: `attempt`, `step`, `updates` (steps that changed the weights)."""
        state: dict[str, Any] = json.loads((self.folder / TRAINER).read_text())
        return state

    def rank(self, rank: int) -> RankState:
        """Give what a rank saved in it."""
        return _read_rank(self.folder / _rank_file(rank))

    def newest_of_rank(self, rank: int) -> RankState:
        """Give the newest that a rank saved, in this checkpoint or in one before it."""
        files = sorted(self.folder.parent.glob(f"step-*/{_rank_file(rank)}"))
        return _read_rank(files[-1])


def newest(folder: Path) -> Checkpoint | None:
    """Find the newest checkpoint; one that was never finished does not count."""
    found = sorted(folder.glob("step-*"))
    return Checkpoint(found[-1]) if found else None


def write(folder: Path, trainer: Mapping[str, Any], ranks: Mapping[int, RankState]) -> Path:
    """Write a checkpoint; it gets its name when all of it is there."""
    whole = folder / f"step-{trainer['step']:06d}"
    part = folder / f".{whole.name}.part"
    part.mkdir(parents=True)
    for rank, state in ranks.items():
        told = {"cursor": state.cursor.state(), "claim": state.claim}
        (part / _rank_file(rank)).write_text(json.dumps(told, indent=1) + "\n")
    (part / TRAINER).write_text(json.dumps(trainer, indent=1) + "\n")
    part.rename(whole)
    return whole


def _rank_file(rank: int) -> str:
    return f"loader-rank-{rank}.json"


def _read_rank(path: Path) -> RankState:
    state = json.loads(path.read_text())
    return RankState(Cursor.told(state["cursor"]), state["claim"])
