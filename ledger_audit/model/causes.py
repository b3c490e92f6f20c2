"""Why a stream did not continue: the small facts that tell, and the causes named from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Confidence = Literal["proven", "likely", "possible"]
"""`proven`: nothing else leaves these records. `likely`: the arithmetic fits, by chance seldom.
`possible`: it fits as others do."""

Steps = tuple[tuple[int, int], ...]
"""Step and sequences, in the order of steps."""


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
    """What causes are named from, of one resume; amounts in sequences."""

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
    by_rank: Mapping[int, int]
    """Rank → its shift: skipped less replayed; 0 is left out. What is used again only after the
    reference ends is left out, too: the end of a pass may repeat what pads it."""
    replayed: int
    """Likewise."""
    mixed_ranks: int
    """Ranks that both skipped and replayed, likewise."""
    used_by: Mapping[int, tuple[int, int]]
    """Rank → sequences and records that it had used, as far as it was read."""
    shifted_records: Mapping[int, int]
    """`by_rank` in records."""
    distinct: int
    """Used before the checkpoint, what comes twice counted once."""
    is_led: bool
    """Of every rank that is shifted, what is wrong comes first and in a row."""
    by_worker: Mapping[tuple[int, int], tuple[int, int]]
    """Rank and loader worker that read something due or resumed → its shift, and how much of it is
    wrong in any way; empty: not every record names its worker."""
    lanes: Mapping[int, int]
    """Resumed rank → the one other rank whose records it goes on with."""
    order_of: int | None
    """The pass whose order the first resumed records follow, at this place; null: none."""
    skipped_slots: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Step → the slots of which everything is skipped."""
    is_repacked: bool = False
    """Documents go on, and their spans do not."""
    begins_at: int | None = None
    """Distinct sequences that were used before those with which the resume begins, all of which it
    uses once more; null: they are no stretch of what was committed."""
    is_scattered: bool = False
    """The first resumed records are no stretch of the order in which they should come."""
    jumps_on: bool = False
    """After what is used again, the stream skips some of the same pass."""
    is_open: bool = False
    """The last thing seen of the resumed stream is used again: more may be."""
    is_packed: bool = False
    """Sequences hold several records."""
    by_position: int | None = None
    """Places from the next one to the first resumed one, where the first steps' positions are one
    stretch; null: they are not, or none are logged."""
    skips_first: bool = False
    """Of every rank that skips something, what was due first is skipped."""
    shift: int | None = None
    """Sequences that are skipped less those that are used again; null: there are both."""
    skip_runs: int = 0
    """Stretches of the reference that are skipped."""
    holed_documents: int = 0
    """Documents of which some tokens are skipped and others are used."""
    reread: tuple[int, int] = (0, 0)
    """Documents that the checkpoint cut and of which the used part is used again, and its tokens;
    0 where anything else is used again."""
    unsharded: tuple[int, int] = (0, 0)
    """Samples that several ranks used before the failure, of how many; 0 where ranks share no more
    than padding."""
    size: int | None = None
    """Samples of a pass; null: not known."""
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
