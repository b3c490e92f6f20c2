"""What decided the order of the stream, before a resume and after it."""

from dataclasses import dataclass
from typing import Any, Literal

from ledger_audit.model.ranges import Ranges

CanChange = Literal["yes", "no", "unknown"]

LoggedBy = Literal["both", "before", "after", "neither"]

RestoreOrder = Literal[
    "restored-first",
    "iterator-before-restore",
    "record-before-restore",
    "restore-missing",
    "nothing-logged",
    "no-iterator",
    "no-record",
    "several-launches",
]
"""How `restore` and `iterator` stand to the first record of a rank."""

FAULTY_ORDERS = frozenset({"iterator-before-restore", "record-before-restore"})
"""Orders that show that something was read before the old position was known."""

DATA_LIBRARIES = (
    "torch",
    "torchdata",
    "numpy",
    "accelerate",
    "ai2-olmo-core",
    "datasets",
    "grain",
    "jax",
    "lightning",
    "litdata",
    "megatron-core",
    "mosaicml-streaming",
    "pytorch-lightning",
    "tensorflow",
    "transformers",
    "webdataset",
)
"""Libraries that shuffle, deal or pack samples: another version may do it otherwise."""


@dataclass(frozen=True)
class Change:
    """A key of the fingerprint that is not the same before the resume and after it."""

    key: str
    """Dotted: `versions.torch`; `*` is all keys, where one side logs none."""
    before: Any
    """As it was logged; what is long is cut around the first difference. Null: not logged."""
    after: Any
    logged: LoggedBy
    is_compared: bool
    """False: the two sides do not tell whether it changed."""
    can_change_order: CanChange
    because: str
    """One plain sentence: why it can, or why it is not compared."""
    allowed: str | None = None
    """Why the contract lets it change; null: the contract does not say that it may."""
    must_match: bool = False
    """The contract wants it as it was."""
    ranks: Ranges = ()
    """The ranks on which it was seen; empty: nothing tells ranks apart."""
    count: int = 1
    """How many keys under `key` it stands for."""


@dataclass(frozen=True)
class Restoring:
    """How some ranks of a resumed attempt began."""

    order: RestoreOrder
    ranks: Ranges
    text: str
    """One plain sentence."""
    fingerprint: Literal["one", "differs", "not-logged"]
    """Whether start, restore and iterator saw one fingerprint; `not-logged`: restore or iterator
    do not tell theirs."""
    differing: tuple[str, ...] = ()
    """Dotted keys that they saw differently."""

    @property
    def is_faulty(self) -> bool:
        """Something may have been read before the old position was known."""
        return self.order in FAULTY_ORDERS

    @property
    def is_proven(self) -> bool:
        """The state was restored first, with one fingerprint."""
        return self.order == "restored-first" and self.fingerprint == "one"


@dataclass(frozen=True)
class RankDifference:
    """A key that ranks of one attempt log differently, though it is one for the whole job."""

    key: str
    values: tuple[tuple[Ranges, Any], ...]
    """Ranks and what they say, the most ranks first; only the first few."""
    count: int
    """How many different values there are."""


@dataclass(frozen=True)
class FingerprintFacts:
    """All that fingerprints tell of one resume."""

    changes: tuple[Change, ...]
    restoring: tuple[Restoring, ...]
    differences: tuple[tuple[str, RankDifference], ...]
    """Attempt and key, of the attempt before the resume and of the resumed one."""
    unlogged: tuple[str, ...]
    """Keys that must match and that the two sides do not both log."""
    fell_silent: tuple[tuple[str, Ranges], ...] = ()
    """Keys that must match, with the ranks that logged them before the resume and not after it."""
