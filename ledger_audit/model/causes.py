"""Why a stream did not continue: the small facts that tell, and the causes named from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Confidence = Literal["proven", "likely", "possible"]
"""`proven`: nothing else leaves these records. `likely`: the arithmetic fits, by chance seldom.
`possible`: it fits as others do."""

Steps = tuple[tuple[int, int], ...]
"""Step and records, in the order of steps."""


@dataclass(frozen=True)
class Deal:
    """How a stream is dealt to ranks."""

    ranks: int
    rows: int
    """Sequences a rank and slot."""
    slots: int
    """Accumulation slots a step."""


@dataclass(frozen=True)
class Clues:
    """What causes are named from, of one resume; amounts in records."""

    before: Steps
    """Used by each committed step up to the checkpoint, as far as it was read."""
    ahead: Steps
    """Used by each step of the reference."""
    now: Steps
    """Used by each resumed step."""
    of_pass: int | None
    """Used in the pass of the checkpoint; null: no epoch is logged."""
    passes: tuple[int | None, int | None]
    """Epochs of the last committed and of the first resumed records."""
    is_pass_read: bool
    """An earlier pass was read, too, so all of this one was."""
    is_pass_over: bool
    """All samples of that pass were used at the checkpoint."""
    deal: Deal
    deal_now: Deal
    by_worker: Mapping[tuple[int, int], int]
    """Rank and loader worker that read something due or resumed → its shift: skipped less
    replayed; empty: not every record names its worker."""
    lanes: Mapping[int, int]
    """Resumed rank → the one other rank whose records it goes on with."""
    order_of: int | None
    """The pass whose order the first resumed records follow, at this place; null: none."""
    skipped_slots: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Step → the slots of which everything is skipped."""
    is_repacked: bool = False
    """Documents go on, and their spans do not."""
    begins_at: int | None = None
    """Records that were used before those which the first resumed step holds once more; null: it
    is no stretch of what was committed."""
    skip_runs: int = 0
    """Stretches of the reference that are skipped."""
    holed_documents: int = 0
    """Documents of which some tokens are skipped and others are used."""
    is_unsharded: bool = False
    """Ranks used the same samples in the same steps before the failure."""
    reached: int | None = None
    """The place after the last that was used; null: no positions are logged."""


@dataclass(frozen=True)
class Alternative:
    """Another cause that fits as well, and the fact that would decide."""

    code: str
    decided_by: str


@dataclass(frozen=True)
class Cause:
    """A hypothesis of why a stream did not continue."""

    code: str
    title: str
    confidence: Confidence
    evidence: str
    """The arithmetic, in one sentence."""
    remedy: str
    alternatives: tuple[Alternative, ...] = ()
    is_older: bool = False
    """It was there before the failure, and is not blamed on the resume."""
