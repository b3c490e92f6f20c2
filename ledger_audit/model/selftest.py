"""What planting faults into a copy of a ledger showed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger_audit.model import Verdict
from ledger_audit.model.causes import Cause


class Shown(StrEnum):
    """Whether a planted fault was found, and named."""

    FIRST = "first"
    """Broken, and its cause is named first."""
    BESIDE = "beside"
    """Broken; its cause is named with others that fit the same records as well."""
    OTHER = "other"
    """Broken, and another cause is named, or none."""
    MISSED = "missed"
    """The verdict is `continuous`."""
    UNPROVEN = "unproven"
    """The ledger lacks what would decide."""
    NOT_PLANTED = "not-planted"
    """The ledger cannot show such a fault."""


@dataclass(frozen=True)
class Trial:
    """One fault that was planted, or could not be."""

    fault: str
    """The cause that should be named."""
    shown: Shown
    verdict: Verdict | None
    """Null: it was not planted."""
    causes: tuple[Cause, ...] = ()
    lacks: tuple[str, ...] = ()
    """What the ledger lacks, so that it is not shown, or not proven."""


@dataclass(frozen=True)
class Untouched:
    """How the copy without a fault was judged."""

    verdict: Verdict
    causes: tuple[Cause, ...]
    because: tuple[str, ...]
    """Of each clause that is broken: what breaks it."""
    lacks: tuple[str, ...]
    """What would settle what blocks a proof."""


@dataclass(frozen=True)
class Selftest:
    """Every fault, planted into a copy of one ledger."""

    inputs: Mapping[str, Any]
    options: Mapping[str, Any]
    attempt: str
    """The attempt that the copy was cut from."""
    steps: int
    """Of the copy."""
    records: int
    """Of the copy."""
    untouched: Untouched
    trials: tuple[Trial, ...]

    @property
    def verdict(self) -> Verdict:
        """
        Say whether faults of this ledger would be found.

        Broken: a fault was missed or had a wrong name, or the untouched copy was called broken.
        Unproven: the log does not suffice to prove even the untouched copy, so sums are guesses, or
        no fault could be planted.
        """
        shown = {one.shown for one in self.trials}
        is_proven = self.untouched.verdict != Verdict.UNPROVEN
        if Shown.MISSED in shown or (Shown.OTHER in shown and is_proven):
            return Verdict.BROKEN
        if shown == {Shown.NOT_PLANTED} and self.untouched.verdict == Verdict.CONTINUOUS:
            return Verdict.UNPROVEN
        return self.untouched.verdict
