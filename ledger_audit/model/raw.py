"""The records themselves, as `show` lays them out: unjudged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class RawRecord:
    """One line of the ledger; null is what was not logged."""

    sample_id: str
    span: tuple[int, int] | None
    """Tokens [start, end); null: the whole sample."""
    source: str | None
    epoch: int | None
    position: int | None


@dataclass(frozen=True)
class RawTry:
    """What one rank recorded for one step between two of its commits or voids."""

    attempt: str
    part: str
    """What became of the work: `committed`, `rolled back`, `resumed`, ..."""
    step: int
    rank: int
    fate: str | None
    """`commit` or `void`; null: neither; `unknown`: the ledger has no commits."""
    slots: Mapping[int, tuple[RawRecord, ...]]


@dataclass(frozen=True)
class RawWindow:
    """A stretch of the ledger as it is, unjudged."""

    checkpoint_step: int | None
    """Null where no resume is shown."""
    tries: Iterable[RawTry]
    """In the order of parts, steps and ranks; read as they are asked for."""
