"""What was consumed at a checkpoint, what is left, and who is to use it."""

from dataclasses import dataclass
from typing import Any, Literal

Span = tuple[int, int]


@dataclass(frozen=True)
class Amounts:
    """An amount of records."""

    records: int
    samples: int | None
    """Distinct ones; null where parts of samples were used, or not all were compared."""
    tokens: int | None
    """Null without spans."""
    digest: int
    """The sum of the hashes of the records, as a signed 64-bit integer."""


@dataclass(frozen=True)
class InFlight:
    """What was on its way when the job died: used or read, and in no weights of the checkpoint."""

    attempt: str
    steps: int
    """Steps after the checkpoint of which anything is left."""
    committed_steps: int
    records: int
    """Used in these steps."""
    stages: tuple[tuple[str, int], ...]
    """Stage and records that had been read or queued, and not used, at the checkpoint."""


@dataclass(frozen=True)
class Pass:
    """One generation: consumed and planned."""

    source: str | None
    epoch: int | None
    consumed: int
    """Records of committed updates up to the checkpoint."""
    matched: int
    """Of these, those that are in the reference."""
    expected: int
    """Records of the reference."""
    planned: int
    forbidden: int
    """Records of the reference that are left out because they are forbidden."""
    matched_digest: int
    ranges: tuple[Span, ...]
    """The first consumed stretches, half-open, of `Cursor.unit`."""
    n_ranges: int
    """How many there are in all."""
    holes: int
    """Records of the reference before its last consumed one that were not consumed."""


@dataclass(frozen=True)
class Cursor:
    """The authoritative cursor at a checkpoint."""

    checkpoint_step: int
    attempt: str
    consumed: Amounts
    unit: Literal["position", "order"]
    """What ranges count: positions of the reference, or its records in their order, from 0."""
    before_reference: int
    """Records consumed in steps before the reference begins."""
    unmatched: int
    """Consumed records that the reference does not hold, or not so often."""
    unmatched_examples: tuple[str, ...]
    halved: int
    """Records of the reference of which a part was consumed."""
    in_flight: InFlight


@dataclass(frozen=True)
class Deal:
    """How the rest of the stream is dealt."""

    world_size: int
    micro_batch: int
    accumulation: int
    """Slots of a full step; where batches of the reference grow, of the first."""
    first_step: int
    last_step: int
    """Smaller than the first: nothing is left."""
    records: int
    sequences: int
    digest: int
    reference_batch: int
    """Sequences of a full step of the reference."""
    differs_from: int | None
    """The first step that does not hold the samples of a step of the reference; null: all do."""
    differs_because: str | None
    ragged: tuple[tuple[int, int, int], ...]
    """The first ragged steps: step, sequences, and ranks that have fewer than others."""
    n_ragged: int


@dataclass(frozen=True)
class Replay:
    """What is used again so that the plan begins with a whole batch."""

    allowed: int
    records: int
    digest: int
    needed: int
    """Records that would have to be used again; more than allowed: none are."""


@dataclass(frozen=True)
class PlanLimit:
    """Something that keeps a plan from being the whole rest of the stream."""

    code: str
    text: str


@dataclass(frozen=True)
class Plan:
    """All that was planned."""

    inputs: dict[str, Any]
    options: dict[str, Any]
    extent: Literal["reference", "rolled-back"]
    through_step: int
    """The last step of the reference."""
    cursor: Cursor
    passes: tuple[Pass, ...]
    deal: Deal
    replay: Replay
    forbidden: Amounts
    limits: tuple[PlanLimit, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Check:
    """Whether consumed and planned samples make up the stream, each once."""

    inputs: dict[str, Any]
    verdict: Literal["continuous", "broken", "unproven"]
    because: tuple[str, ...]
    consumed: Amounts
    planned: Amounts
    expected: Amounts
    missing: int
    """Records of the reference that are neither consumed nor planned nor left out on purpose."""
    missing_examples: tuple[str, ...]
    surplus: int
    """Planned records beyond what was left, and beyond the replay that the plan states."""
