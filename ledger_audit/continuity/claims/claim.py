"""What a trainer says its data position is, read from whatever state its framework saves."""

from dataclasses import dataclass
from typing import Literal

Unit = Literal["records", "sequences", "documents", "tokens", "micro-batches", "steps", "elements"]
"""`elements`: what the loader's last stage hands out; a sample, a chunk or a batch, not told."""


@dataclass(frozen=True)
class Count:
    """One number of a claim that says how far the stream is."""

    key: str
    """Where it stands in the state, dotted: `dataset.num_samples_yielded`."""
    value: int
    of: Literal["all", "rank"]
    """Whose use it counts: of all ranks, or of the one that says it."""
    since: Literal["run", "epoch"]
    """Since when: the run's first step, or the beginning of the claim's pass."""
    unit: Unit | None
    """Null: the state does not say; compared only where all units give one number."""
    stage: Literal["consumed", "read", "queued"] = "consumed"
    batch: int | None = None
    """It counts whole batches of so many sequences, a short one in full; null: real amounts."""
    may_restart: bool = False
    """It may have begun anew at a resume, so that less than was found proves nothing."""


@dataclass(frozen=True)
class Claim:
    """One state, read: never trusted, always compared, in its own unit or not at all."""

    reader: str
    """Who writes such states, for people; `unknown` where no reader knows the shape."""
    counts: tuple[Count, ...] = ()
    epoch: int | None = None
    """The pass that it is in, as the state numbers it."""
    first_epoch: int | None = None
    """How the state numbers the first pass: 0 or 1; null: as the ledger's column `epoch` does."""
    slot: int | None = None
    """The accumulation slot that comes next; null: not said, or a step begins."""
    seed: int | None = None
    workers: int | None = None
    """Loader workers of the rank."""
    world_size: int | None = None
    silence: str | None = None
    """Why it says no position that could be compared; null: it says one."""
    notes: tuple[str, ...] = ()
    """What a resume from it needs beside it, in plain words."""
    end_note: str | None = None
    """The same, if it stands at the end of its pass; null: nothing more."""
