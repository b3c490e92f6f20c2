"""What every checkpoint of a ledger is worth: whole or not, and what a resume from it would do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ledger_audit.model.claims import Agreement, ClaimFacts
from ledger_audit.model.ranges import Ranges


@dataclass(frozen=True)
class Wholeness:
    """Whether every rank that writes a part of a checkpoint has written it."""

    is_whole: bool | None
    """Null: a rank that writes one leaves no ledger."""
    writers: Ranges
    is_assumed: bool
    """The ledger does not say who writes: it is told from who wrote."""
    unfinished: Ranges
    """Ranks that began and did not complete."""
    silent: Ranges
    """Writers that said nothing of it."""
    unsynced: Ranges
    """Ranks whose ledger was not safe on storage when they completed."""
    text: str


@dataclass(frozen=True)
class Label:
    """The step that a checkpoint is named by, beside what its weights hold."""

    state: Literal["agrees", "behind", "ahead", "unknown"]
    """`behind`: updates after the step are in the weights; `ahead`: the step's own is not."""
    text: str


@dataclass(frozen=True)
class Ladder:
    """How far the stream was at the snapshot, in sequences of all ranks; null: unknown."""

    read: int | None
    queued: int | None
    used: int | None
    committed: int | None


@dataclass(frozen=True)
class Digest:
    """The sum of the digests of all commits up to a checkpoint."""

    value: str | None
    """A signed 64-bit integer in text; null: a commit up to it has none, or is missing."""
    cursor: Agreement
    """Whether the cursors that it holds have the sums of their ranks' commits."""
    text: str


@dataclass(frozen=True)
class Fingerprint:
    """What decided the order of the stream, as the job saw it at a checkpoint."""

    value: Mapping[str, Any]
    changes: tuple[tuple[str, Any, Any], ...]
    """Keys that differ from the start of the attempt: key, then, now."""


@dataclass(frozen=True)
class Probed:
    """What lies at a path that a checkpoint names."""

    path: str
    """As the ledger has it."""
    loadable: bool | None
    """False: something is missing or empty; null: it was not, or could not be, looked at."""
    is_tried: bool
    """False: it is not on a file system of this machine."""
    kind: str | None
    """Whose layout it has; null: nothing is there, or nothing that is known."""
    files: int | None = None
    bytes: int | None = None
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint of one attempt."""

    attempt: str
    step: int
    nth: int
    """Which save of this step it was, from 1."""
    in_lineage: bool
    """What it holds is in the newest weights."""
    loaded_by: tuple[str, ...]
    """Attempts that resumed from this step of the attempt."""
    wholeness: Wholeness
    label: Label
    ladder: Ladder
    claim: ClaimFacts | None
    """Null: no rank saved a claim with it."""
    unseen: str | None
    """Why the ledger's own amounts may be too small; null: they are whole."""
    digest: Digest
    fingerprint: Fingerprint
    paths: tuple[str, ...]
    probed: tuple[Probed, ...] | None
    """Null: nothing was probed."""
    resumable: Literal["yes", "no", "unknown"]
    """With coherent model and data position."""
    because: tuple[str, ...]
    """Why not, or what leaves it open; of `yes`, what it rests on."""

    @property
    def agreement(self) -> Agreement:
        """Whether what it says of itself fits the ledger."""
        if self.label.state in ("behind", "ahead") or self.digest.cursor == "contradicts":
            return "contradicts"
        return "not-compared" if self.claim is None else self.claim.agreement

    @property
    def ahead(self) -> int | None:
        """Sequences of all ranks that a resume from it would skip; negative: replay."""
        is_placed = self.label.state not in ("behind", "ahead")
        return self.claim.ahead if self.claim is not None and is_placed else None


@dataclass(frozen=True)
class Checkpoints:
    """Every checkpoint of a ledger, or of one attempt."""

    inputs: Mapping[str, Any]
    options: Mapping[str, Any]
    found: tuple[Checkpoint, ...]
    """Newest first."""
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def newest_whole(self) -> Checkpoint | None:
        """The newest checkpoint that is whole on all its writers."""
        return next((one for one in self.found if one.wholeness.is_whole), None)

    @property
    def choice(self) -> Checkpoint | None:
        """The newest checkpoint that one can resume from."""
        return next((one for one in self.found if one.resumable == "yes"), None)

    @property
    def agreement(self) -> Agreement:
        """What is said of the newest whole checkpoint; without one, nothing is compared."""
        newest = self.newest_whole
        return "not-compared" if newest is None else newest.agreement
