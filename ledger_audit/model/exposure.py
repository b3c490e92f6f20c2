"""How often each sample of each pass was used by the updates that the newest weights hold."""

from dataclasses import dataclass
from typing import Any, Literal

from ledger_audit.model import Clause, Limit, Verdict
from ledger_audit.model.ranges import Ranges

SizeFrom = Literal["manifest", "samples", "dataset_samples"]
"""What says how many samples a pass has: `--manifest`, `--samples`, or the fingerprint."""

Fate = Literal["void", "rolled-back", "uncommitted"]
"""Why records changed no weights that are left: their try was thrown away; a failure rolled their
steps back, or the newest weights do not hold their attempt; their step was never committed."""


@dataclass(frozen=True)
class Repeats:
    """Uses of samples beyond the promised number, in a run of steps of one attempt."""

    attempt: str
    first_step: int
    last_step: int
    ranks: Ranges
    records: int
    tokens: int | None
    """Tokens that were used again; null without spans."""
    earlier: tuple[int, int]
    """The first and the last step in which their samples had been used before."""
    kind: Literal["repeated", "unexplained", "padding", "declared"]
    """`unexplained`: another pass, padding, or a fault: nothing tells."""
    examples: tuple[str, ...]
    """The lowest of their sample ids."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of the documents of a pass that were used in parts."""

    again: int
    """Used more than once."""
    between: int
    """Never used, though the same document was used before and behind them."""
    late: int
    """Documents whose first used token is not their first."""


@dataclass(frozen=True)
class Generation:
    """One pass over one source: what was promised once."""

    source: str | None
    epoch: int | None
    first_step: int
    last_step: int
    is_over: bool
    """A later pass over its source began, or all its samples were used. One between two others of
    its source of which no record is there is over, too: its steps are 0."""
    size: int | None
    """Its samples; null where nothing says how many."""
    size_from: SizeFrom | None
    records: int
    samples: int
    """Distinct ones that were used."""
    tokens: int | None
    """Null without spans."""
    spans: Tokens | None
    """Null where no document was used in parts."""
    exposures: tuple[tuple[int, int], ...]
    """Uses, and how many samples had so many."""
    missing: int | None
    """Uses that its samples still lack; null where nothing says how many there are."""
    declared: int
    """Of these, what was left out on purpose."""
    voided: int
    """Of these, samples that void tries used, and no update that is left."""
    dropped: int
    """Of these, what does not fill the last batch of a pass."""
    doubted: int
    """Of these, fewer than one global batch that are not what its end leaves."""
    unlisted: int | None
    """Samples that were used and are not in the manifest; null without one."""
    repeats: tuple[Repeats, ...]
    missing_examples: tuple[str, ...]
    unlisted_examples: tuple[str, ...]
    by_digest: bool
    """It was proven by the digests of its commits alone; no record was read."""

    @property
    def repeated(self) -> int:
        """Uses beyond the promised number that nothing explains."""
        return sum(one.records for one in self.repeats if one.kind == "repeated")

    @property
    def skipped(self) -> int:
        """Uses that are missing, though the pass is over, and that nothing explains."""
        if self.missing is None or not self.is_over:
            return 0
        excused = self.declared + self.voided + self.dropped + self.doubted
        return max(0, self.missing - excused)


@dataclass(frozen=True)
class Holes:
    """Places of the global stream that were passed and never used."""

    count: int
    last: int
    """The last place that was used."""
    ranges: tuple[tuple[int, int], ...]
    """The first few closed ranges."""


@dataclass(frozen=True)
class Share:
    """What one attempt gave to the newest weights of one pass over one source."""

    attempt: str
    source: str | None
    epoch: int | None
    records: int
    tokens: int | None
    share: float
    """Of the records of its attempt, those of this source."""


@dataclass(frozen=True)
class Unused:
    """What was used and changed no weights that are left."""

    attempt: str
    fate: Fate
    source: str | None
    epoch: int | None
    records: int
    samples: int
    tokens: int | None
    never: int
    """Of these samples, those that no update of the newest weights used in this pass."""


@dataclass(frozen=True)
class Survival:
    """The steps of the newest weights that one attempt made."""

    attempt: str
    steps: tuple[int, int] | None
    """First and last; null: none of its work is left."""
    records: int
    tokens: int | None


@dataclass(frozen=True)
class Loss:
    """What one failure took back: work of the newest weights' ancestors, done for nothing."""

    from_attempt: str
    to_attempt: str | None
    """Null: nothing resumed from what it did."""
    checkpoint_step: int
    """The last of its steps that is left, or that it began with."""
    steps: int
    """Steps after the checkpoint of which anything is left."""
    committed_steps: int
    records: int
    samples: int
    tokens: int | None
    seconds: float | None
    """From the update of the checkpoint to the last thing that was logged, on each rank's own
    clock, the median over ranks; null where no times are logged."""
    used_again: int
    """Of these samples, those that the newest weights have used since."""


@dataclass(frozen=True)
class Exposure:
    """All that `verify` found."""

    inputs: dict[str, Any]
    options: dict[str, Any]
    verdict: Verdict
    clauses: tuple[Clause, ...]
    generations: tuple[Generation, ...]
    limits: tuple[Limit, ...]
    contract: dict[str, Any]
    holes: Holes | None = None
    """Null where places are not logged, or every pass is over."""
    shares: tuple[Share, ...] = ()
    unused: tuple[Unused, ...] = ()
    survival: tuple[Survival, ...] = ()
    losses: tuple[Loss, ...] = ()
    """These four, and the holes, only records tell: none where digests were enough."""
