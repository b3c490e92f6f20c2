"""What is measured of a resume beside its outcomes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Draws:
    """Samples that were drawn anew, measured against chance."""

    records: int
    """Resumed records."""
    repeats: int
    """Those of a sample that a committed update had used."""
    expected_repeats: float | None
    """How many chance repeats; null where the size of the data set is not logged."""
    deviation: float | None
    """The standard deviation of that number; null likewise."""
    missed: int | None
    """Samples that nothing has used yet; null likewise."""
    expected_missed: float | None
    reproduces: str | None
    """The attempt whose first draws these are, step by step; null: none."""
    may_reproduce: str | None
    """Likewise, where they are too few to tell it from chance."""
    repeats_within: int
    """Resumed records of a sample that an earlier one of them had used."""
    most_within: float | None
    """How many chance gives at most; null where the size of the data set is not logged."""


@dataclass(frozen=True)
class SourceDamage:
    """What a resume did to one data set of a blend, in records."""

    source: str | None
    """Null: records without one."""
    resumed: int
    """Records of the resumed window."""
    replayed: int
    skipped: int


@dataclass(frozen=True)
class Positions:
    """The second line of evidence, in places of the global stream (sequences)."""

    expected: int | None
    """One more than the largest committed position; null without a committed record."""
    first: int | None
    shift: int | None
    repeated: int
    holes: int | None
    """Null where ranks are not logged: a hole may be theirs."""
    drift: int
    """Positions that held another sample before."""
    lost: int = 0
    """Records known to be missing that may have been in the holes."""


@dataclass(frozen=True)
class Coverage:
    """How many lanes of the reference prove anything."""

    lanes: int
    lanes_proven: int
