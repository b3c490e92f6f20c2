"""What a claim is worth: each of its numbers beside what the ledger proves."""

from dataclasses import dataclass
from typing import Literal

from ledger_audit.model.ranges import Ranges

Agreement = Literal["agrees", "contradicts", "not-compared"]


@dataclass(frozen=True)
class Comparison:
    """One number of a claim, as one or several ranks say it."""

    key: str
    """Where it stands in the state, dotted."""
    ranks: Ranges
    """The ranks for which claimed and found are these."""
    claimed: int
    found: int | None
    """What committed updates had consumed, in the claim's unit; of what was read, the place that
    comes next, or what the ledger logs. Null: it cannot be told."""
    unit: str | None
    agreement: Agreement
    text: str
    """One plain sentence with the arithmetic."""


@dataclass(frozen=True)
class ClaimFacts:
    """All that a checkpoint claims, compared."""

    agreement: Agreement
    """`contradicts` beats `agrees` beats `not-compared`."""
    readers: tuple[str, ...]
    """Whose states they are, for people."""
    comparisons: tuple[Comparison, ...]
    ahead: int | None
    """Sequences of all ranks that a resume from it would skip; negative: replay; null: no number
    of the claim says."""
    text: str
    """One sentence: what it says, what is proven, and what a resume from it would do."""
    notes: tuple[str, ...] = ()
    """What a resume from it needs beside it."""
    silent: Ranges = ()
    """The ranks that take part and whose position nothing tells that was
    compared; none where a number of all ranks agrees."""


@dataclass(frozen=True)
class ClaimPair:
    """Two of the three facts around a resume: the claim saved, the claim restored, the records."""

    pair: Literal["saved-restored", "saved-ledger", "restored-records"]
    agreement: Agreement
    ranks: Ranges
    """The ranks that it is about; none: of all of them, or nobody says it."""
    text: str
    """One plain sentence."""
    ahead: int | None = None
    """Of the saved claim: how many sequences a resume from it would skip; negative: replay."""
    is_borrowed: bool = False
    """A rank says, or restored, what is another rank's."""
