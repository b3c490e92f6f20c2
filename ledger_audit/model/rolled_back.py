"""What the steps held that a failure rolled back, summed over ranks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Used:
    """What all ranks together used for a step."""

    records: int
    digest: int
    """The sum of their digests modulo 2^64, from 0 to 2^64 - 1."""
    voids: int = 0
    """Updates after the checkpoint and up to it that all ranks threw away; -1: it is not known."""


@dataclass(frozen=True)
class RolledBack:
    """The steps of an attempt after a checkpoint, as far as they can be compared with anything."""

    steps: Mapping[int, Used] = field(default_factory=dict)
    """Those that every rank committed, with a digest."""
    world_size: int | None = None
    logged: frozenset[int] | None = None
    """The ranks that write a ledger; null: all."""
    global_batch: int | None = None
    """Sequences of a step, by the fingerprint; null: it does not say."""
    because: str | None = None
    """Why there are no steps; null: there are."""


def global_batch_of(fingerprint: Mapping[str, Any], world_size: int) -> int | None:
    """Tell how many sequences a step holds, by a fingerprint; null: it does not say."""
    if not isinstance(fingerprint, Mapping):  # a file may say anything
        return None
    told = fingerprint.get("global_batch_size")
    if isinstance(told, int):
        return told
    sizes = [fingerprint.get(key) for key in ("micro_batch_size", "accumulation")]
    if not all(isinstance(size, int) for size in sizes):
        return None
    rows, slots = sizes
    return int(rows * slots * world_size)  # type: ignore[operator]  # both are integers
