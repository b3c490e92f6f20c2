"""
The contract: what the stream promises, term by term; docs/contract.md tells the same for people.

A file of terms is read by `contract_file`, which checks it against these very classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le, Len

from ledger_audit.model import Expected, Limit, Order, Overlay, Resumed

Promise = Literal["exactly-once", "bounded-replay", "at-least-once", "resampled"]
Text = Annotated[str, Len(1)]
Amount = Annotated[int, Ge(0), Le((1 << 63) - 1)]
Number = Annotated[int, Ge(1), Le((1 << 63) - 1)]

CHECKED: Mapping[str, Any] = {"extra": "forbid", "strict": True}
"""How a file of terms is checked against a class: no unknown key, no number in text."""

FORGIVABLE = (
    Resumed.REPLAYED,
    Resumed.DUPLICATED,
    Resumed.UNEXPECTED,
    Resumed.MOVED,
    Expected.SKIPPED,
    Overlay.MISPLACED,
    Overlay.OUT_OF_ORDER,
    Overlay.FORBIDDEN,
)
"""Outcomes that can break a clause, and that an allowance can forgive."""


@dataclass(frozen=True)
class Bound:
    """The most that one resume may replay; what is null is not bounded."""

    __pydantic_config__: ClassVar = CHECKED

    samples: Amount | None = None
    tokens: Amount | None = None
    steps: Amount | None = None
    """Resumed steps that hold a replayed record."""


@dataclass(frozen=True)
class Allowance:
    """One thing that breaks or blocks nothing, and why."""

    __pydantic_config__: ClassVar = CHECKED

    reason: Text
    finding: Text | None = None
    """An outcome of FORGIVABLE that is forgiven up to `at_most` records a resume."""
    at_most: Amount | None = None
    limit: Text | None = None
    """A limit that blocks nothing."""
    change: Text | None = None
    """A fingerprint key that may change."""


@dataclass(frozen=True)
class IdList:
    """A file of sample ids."""

    __pydantic_config__: ClassVar = CHECKED

    file: Path
    name: Text | None = None
    """For people; null: the file's name."""
    column: Text = "sample_id"
    """The column of ids, where the file has columns."""
    source: Text | None = None
    """The ids are of this source; null: the file's column `source` says, or they are of any."""


@dataclass(frozen=True)
class Ranks:
    """What is promised of ranks."""

    __pydantic_config__: ClassVar = CHECKED

    may_change: bool = True
    sampled: tuple[Amount, ...] | None = None
    """The ranks that write a ledger; what others did is not asked. Null: all."""


@dataclass(frozen=True)
class Fingerprints:
    """What must be as it was before the resume."""

    __pydantic_config__: ClassVar = CHECKED

    must_match: tuple[Text, ...] = ()
    """Keys; `*` is every key that can change the order."""
    restore_first: bool = False
    """The loader's state is restored before its iterator is made, with one fingerprint."""


@dataclass(frozen=True)
class Minimum:
    """Whole steps without which nothing is to be proven."""

    __pydantic_config__: ClassVar = CHECKED

    reference_steps: Number | None = None
    resumed_steps: Number | None = None


@dataclass(frozen=True)
class Contract:
    """What the stream promises; by default each sample exactly once, in the reference's order."""

    __pydantic_config__: ClassVar = CHECKED

    promise: Promise = "exactly-once"
    bounded_replay: Bound | None = None
    order: Order | None = None
    """Null: what the command asks for."""
    placement: Literal["free", "kept"] = "free"
    """`kept`: every record at the rank and slot that the reference has it at."""
    token_overlap: Amount | None = None
    """Tokens that neighbouring spans share by design; null: one where packing changed."""
    shuffle_buffer: Amount = 0
    """Sequences of each rank that a restart may lose."""
    repeats: Mapping[Text, Number] = field(default_factory=dict)
    """Source → uses of a sample in one pass; `*` is every other source."""
    held_out: tuple[Text, ...] = ()
    """Streams whose samples are forbidden in training."""
    forbid: tuple[IdList, ...] = ()
    only: tuple[IdList, ...] = ()
    """Where there are any, every training sample must be in one of them."""
    ranks: Ranks = Ranks()
    fingerprint: Fingerprints = Fingerprints()
    minimum: Minimum = Minimum()
    allow: tuple[Allowance, ...] = ()
    file: str | None = None
    """Where the terms stand; null: they are the defaults and the flags."""

    @property
    def draws_anew(self) -> bool:
        """Samples are drawn with replacement, or shuffled afresh at each restart."""
        return self.promise == "resampled"

    @property
    def forbids(self) -> bool:
        """Some samples must not be trained on."""
        return bool(self.forbid or self.only or self.held_out)

    @property
    def asks_fingerprint(self) -> bool:
        """Something must be as it was before the resume."""
        return bool(self.fingerprint.must_match) or self.fingerprint.restore_first

    @property
    def waived(self) -> Mapping[str, str | None]:
        """Limits that block nothing → why; null: a flag says so."""
        return {one.limit: one.reason or None for one in self.allow if one.limit is not None}

    def told(self) -> dict[str, Any]:
        """Give the contract as the report shows it."""
        told = asdict(self)
        for each in (*told["forbid"], *told["only"]):
            each["file"] = str(each["file"])
        return {**told, "allow_unproven": sorted(self.waived)}

    def of_stream(self, stream: str | None) -> "Contract":
        """Give the contract for a stream: what is forbidden is forbidden in training alone."""
        return self if stream is None else replace(self, forbid=(), only=(), held_out=())

    def with_terms(
        self, *, default: Order, order: Order | None = None, waived: Sequence[str] = ()
    ) -> "Contract":
        """
        Give the same contract as flags change it.

        Args:
            default: the order that the command asks for where nothing else is said.
            order: another order than the contract's, if one is asked for.
            waived: limits that block nothing.
        """
        flags = tuple(Allowance("", limit=one) for one in sorted(waived))
        if self.ranks.sampled is not None:
            flags += (Allowance("only these ranks log", limit="ranks-not-logged"),)
        promised = "none" if self.draws_anew else default
        return replace(self, order=order or self.order or promised, allow=(*flags, *self.allow))

    def waive(self, limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
        """Mark the limits that block nothing; they stay in the report."""
        waived = self.waived
        return tuple(
            replace(one, is_waived=one.code in waived, reason=waived.get(one.code))
            for one in limits
        )


DIFF = Contract(order="relative")
GATE = Contract(order="step")
