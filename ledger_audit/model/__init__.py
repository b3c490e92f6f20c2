"""The words of the trade, frozen: what is found, how it is judged, and what is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from ledger_audit.model.causes import Cause, Clues
from ledger_audit.model.claims import ClaimPair
from ledger_audit.model.fingerprints import FingerprintFacts
from ledger_audit.model.forbidden import Forbidden
from ledger_audit.model.measured import Coverage as Coverage
from ledger_audit.model.measured import Draws as Draws
from ledger_audit.model.measured import Positions as Positions
from ledger_audit.model.measured import SourceDamage as SourceDamage
from ledger_audit.model.picture import COMMITTED as COMMITTED
from ledger_audit.model.picture import NO_PICTURE as NO_PICTURE
from ledger_audit.model.picture import OrderPlot as OrderPlot
from ledger_audit.model.picture import Picture as Picture
from ledger_audit.model.picture import Strip as Strip
from ledger_audit.model.ranges import Ranges


class Verdict(StrEnum):
    """Whether the resumed run continues the intended data stream."""

    CONTINUOUS = "continuous"
    BROKEN = "broken"
    UNPROVEN = "unproven"

    @classmethod
    def worst(cls, verdicts: "list[Verdict]") -> "Verdict":
        """Merge verdicts: broken beats unproven beats continuous; of nothing, unproven."""
        for verdict in (cls.BROKEN, cls.UNPROVEN, cls.CONTINUOUS):
            if verdict in verdicts:
                return verdict
        return cls.UNPROVEN


class Resumed(StrEnum):
    """
    What happened to a record of the resumed window; the first that fits.

    These add up to the resumed window.
    """

    VOID = "void"
    IN_PLACE = "in-place"
    MOVED = "moved"
    PADDING = "padding"
    REPLAYED = "replayed"
    DUPLICATED = "duplicated"
    REPEAT_UNEXPLAINED = "repeat-unexplained"
    UNEXPECTED = "unexpected"
    FRESH = "fresh"


class Expected(StrEnum):
    """What happened to a record of the reference; these add up to the reference."""

    MATCHED = "matched"
    DECLARED = "declared"
    REPEAT_MISSING = "repeat-missing"
    SKIPPED = "skipped"
    PENDING = "pending"
    UNDECIDED = "undecided"


class Overlay(StrEnum):
    """What is said of records that have an outcome already."""

    MISPLACED = "misplaced"
    OUT_OF_ORDER = "out-of-order"
    FORBIDDEN = "forbidden"


class ClauseName(StrEnum):
    """One part of the contract; each gets a verdict of its own."""

    PROMISE = "promise"
    ORDER = "order"
    PLACEMENT = "placement"
    UNEXPECTED = "unexpected"
    DRIFT = "drift"
    FORBIDDEN = "forbidden"
    RANKS = "ranks"
    FINGERPRINT = "fingerprint"


Order = Literal["step", "relative", "none"]
"""`step`: every record at its step. `relative`: in the reference's order. `none`: any order."""


MEMORY = 2 << 30
"""Bytes for counting, unless more or less is asked for."""


@dataclass(frozen=True)
class Reading:
    """How much of a ledger to read, and how."""

    before: int = 20
    """Steps before the checkpoint."""
    after: int = 20
    """Steps after the checkpoint."""
    full: bool = False
    """Read everything."""
    resume: int | None = None
    """Judge only the n-th resume of the lineage, from 1."""
    stream: str | None = None
    """The stream to audit; null: training."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Our column name → theirs, in foreign logs."""
    trusts_digests: bool = False
    """Of `gate` and `verify`: what commits tell is taken for what was used."""
    memory: int = MEMORY
    """Bytes for counting; what is told does not depend on it."""
    awaited: int | None = None
    """Whole steps that the newest judged resume must have left; null: as many as there are."""
    engine: Any = None
    """What lets all records pass by, an `Engine` of `libraries`; null: this process."""

    def told(self) -> dict[str, Any]:
        """Give the options as the report shows them."""
        return {
            "before": self.before,
            "after": self.after,
            "full": self.full,
            "resume": self.resume,
            "stream": self.stream,
            "columns": dict(self.columns),
            "awaited": self.awaited,
            "trusts_digests": self.trusts_digests,
        }


@dataclass(frozen=True)
class Unread:
    """A part of the ledger that is known to exist and cannot be read."""

    file: str
    attempt: str
    from_step: int | None
    """The first step that may have lost records; null if it cannot be told."""
    to_step: int | None
    """The last such step; null: to the end of the attempt."""
    reason: Literal["torn", "missing"]


@dataclass(frozen=True)
class Amount:
    """How much: lines of the ledger, distinct sample ids, tokens."""

    records: int
    samples: int | None
    """Null where nothing was opened to count them."""
    tokens: int | None
    """Null where no spans are logged."""


@dataclass(frozen=True)
class Finding:
    """A contiguous run of steps with one outcome."""

    code: str
    clause: ClauseName
    ranks: Ranges
    slots: Ranges
    first_step: int
    last_step: int
    amount: Amount
    examples: tuple[str, ...]
    """Up to eight sample ids, in the order of the window."""


@dataclass(frozen=True)
class Limit:
    """What cannot be known from this ledger."""

    code: str
    blocks: tuple[ClauseName, ...]
    """The clauses that are unproven because of it; none: a note."""
    text: str
    settled_by: str
    is_waived: bool = False
    """The user lets it block nothing."""
    reason: str | None = None
    """Why the contract lets it; null where it does not, or a flag does."""
    ids: tuple[str, ...] = ()
    """The sample ids that `text` names, each where its digits or letters first stand in it."""


@dataclass(frozen=True)
class Clause:
    """One part of the contract, judged."""

    clause: str
    verdict: Verdict
    because: str


@dataclass(frozen=True)
class Shift:
    """Where the resumed stream starts minus where it should; negative: it went back."""

    records: int | None
    """Skipped minus replayed; null where something is out of order, where both occur, or where
    no reference step is whole."""
    tokens: int | None
    positions: int | None
    by_rank: dict[int, int]
    """Skipped minus replayed of each rank that has either."""
    is_lower_bound: bool
    """The shift reaches past the reference."""


@dataclass(frozen=True)
class LaterEpoch:
    """An epoch that was over after the resume."""

    epoch: int | None
    source: str | None
    missing: int | None
    """Samples; null where there is nothing to compare with."""
    repeated: int | None
    """Uses beyond what padding, or the first whole epoch, explains; null likewise."""
    same_order_as: int | None
    """An earlier epoch with exactly the same order."""
    is_broken: bool
    """It misses a global batch or more, or repeats beyond its padding."""


@dataclass(frozen=True)
class Resume:
    """One resume, judged: the windows, what happened to their records, and what cannot be known."""

    from_attempt: str | None
    to_attempt: str
    checkpoint_step: int
    verdict: Verdict
    through_step: int | None
    """The last resumed step that the reference or the positions cover; null if none is."""
    clauses: tuple[Clause, ...]
    reference_kind: str
    reference_through: int | None
    identity: tuple[str, ...]
    windows: dict[str, int]
    coverage: Coverage
    resumed: dict[Resumed, Amount]
    expected: dict[Expected, Amount]
    overlays: dict[Overlay, Amount | None]
    shift: Shift
    positions: Positions | None
    later_epochs: tuple[LaterEpoch, ...]
    findings: tuple[Finding, ...]
    limits: tuple[Limit, ...]
    fingerprints: FingerprintFacts | None
    """What decided the order before and after; null: of a whole stream."""
    by_source: tuple[SourceDamage, ...] = ()
    """Only where several data sets are logged."""
    claims: tuple[ClaimPair, ...] = ()
    """The claim saved, the claim restored and the first records, compared pairwise."""
    picture: Picture = NO_PICTURE
    plot: OrderPlot | None = None
    """Null: nothing was used."""
    first_place: int | None = None
    """Where the first resumed records stand, in records from what should have come next:
    negative: they were consumed before; null: it cannot be told."""
    draws: Draws | None = None
    """Only where the contract lets samples be drawn anew."""
    read_steps: tuple[int, int] | None = None
    """First and last step of the window that was read; null: everything was."""
    first_divergence: int | None = None
    """Only of a whole stream: the first step that differs from the control."""
    clues: Clues | None = None
    """What causes are named from; not told."""
    causes: tuple[Cause, ...] = ()
    """Why it did not continue, the surest first; none of a resume that is right."""


@dataclass(frozen=True)
class AttemptFacts:
    """One attempt as the report lists it."""

    attempt: str
    parent: str | None
    resumed_at: int | None
    in_lineage: bool
    first_step: int | None
    last_step: int | None
    world_size: int | None
    has_end: bool


@dataclass(frozen=True)
class Decision:
    """What to do now."""

    action: Literal["keep-running", "go-back", "find-evidence"]
    text: str
    replayed: Amount
    skipped: Amount
    epoch_share: float | None
    """Damaged samples over the samples of an epoch; null where its size is not logged."""
    safe_checkpoint: tuple[str, int] | None
    """Attempt and step of the newest checkpoint whose data position is not in doubt."""


@dataclass(frozen=True)
class Piece:
    """One kind of evidence, as the newest attempt logs it."""

    kind: Literal["ranks", "event", "column", "key"]
    name: str
    presence: Literal["there", "partly", "absent"]
    ranks: Ranges
    """The ranks that lack it; of what no rank has of its own, none."""
    blocks: tuple[ClauseName, ...]
    """The clauses that could not be proven, and that it would settle or help to settle."""
    purpose: str
    """What it is for, in plain words."""


@dataclass(frozen=True)
class Report:
    """All that any reporter needs to know."""

    command: str
    inputs: dict[str, Any]
    options: dict[str, Any]
    verdict: Verdict
    clauses: tuple[Clause, ...]
    resumes: tuple[Resume, ...]
    """Oldest first."""
    lineage: tuple[AttemptFacts, ...]
    decision: Decision
    contract: dict[str, Any]
    stream: Resume | None = None
    """Only of `gate`: the whole surviving stream against the control."""
    forbidden: Forbidden | None = None
    """What was found of what the contract forbids; null: it forbids nothing."""
    evidence: tuple[Piece, ...] = ()
    """Only of `preflight`: what the newest attempt logs."""
