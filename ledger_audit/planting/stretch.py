"""
Cuts a stretch of steps out of a ledger, as a stream that faults can be planted into.

It begins a job of its own: steps count from 1 and positions from 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from ledger_audit.continuity.frames import IS_USED, Side
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.windows import Source, attempt_window
from ledger_audit.errors import UsageError

PLACE = ("rank", "step", "slot", "row")
"""Where a sequence was used."""

FEWEST = 6
"""Steps that a job needs so that it can be killed and resumed."""

CONTENT = (
    "sample_id",
    "token_start",
    "token_end",
    "source",
    "epoch",
    "position",
    "worker",
)
"""What a record says beside its place."""


@dataclass(frozen=True)
class Stretch:
    """Whole committed steps of one attempt, each after the one before it."""

    attempt: Attempt
    records: pl.DataFrame
    """PLACE and CONTENT; `n`: the sequence's place in its rank's lane from 0; `part`: the record's
    place in its sequence."""
    has_commits: bool
    """The ledger says which updates were applied."""
    dies_at: float = 0.8
    """The share of its steps, or of those of its first pass, after which the job dies."""

    @property
    def steps(self) -> int:
        """How many there are."""
        return int(self.records["step"].n_unique())

    @cached_property
    def sequences(self) -> pl.DataFrame:
        """Each sequence once: PLACE, `n`, and what its first record says."""
        return self.records.filter(pl.col("part") == 0)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that left records."""
        return tuple(self.sequences["rank"].unique().sort().to_list())

    @cached_property
    def slots(self) -> int:
        """Accumulation slots of a step."""
        return int(self.sequences.group_by("step").agg(pl.col("slot").n_unique())["slot"].max())  # type: ignore[arg-type]

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """What the attempt said of its recipe."""
        return self.attempt.fingerprint

    def has(self, column: str) -> bool:
        """Tell whether every record has a value in a column."""
        return self.records[column].null_count() == 0

    def used(self, step: int) -> dict[int, int]:
        """Count the sequences that each rank had used up to a step."""
        counts = self.sequences.filter(pl.col("step") <= step).group_by("rank").len()
        return dict.fromkeys(self.ranks, 0) | dict(counts.iter_rows())

    @cached_property
    def micro_batch(self) -> int:
        """Sequences of a rank in a slot."""
        return int(self.sequences.group_by("rank", "step", "slot").len()["len"].max())  # type: ignore[arg-type]

    @cached_property
    def passes(self) -> tuple[int, ...]:
        """The passes over the data that it holds, in their order; none where none is logged."""
        if not self.has("epoch"):
            return ()
        return tuple(self.sequences.sort("step")["epoch"].unique(maintain_order=True).to_list())


def cut(source: Source, most_steps: int) -> Stretch:
    """
    Take whole committed steps of the longest attempt, from its first one on.

    Raises:
        UsageError: too few steps are committed in a row.
    """
    chain = [one for one in source.lineage.chain if one.first_step is not None]
    longest = max(chain, key=_length, default=None)
    if longest is None or longest.first_step is None:
        raise UsageError("the ledger holds no record", hint="point at a ledger with records")
    window = attempt_window(source, longest, longest.first_step, longest.first_step + most_steps)
    found = _longest_run(window, most_steps)
    if found is None or found[1] - found[0] + 1 < FEWEST:
        raise UsageError(
            f"attempt {longest.label} has fewer than {FEWEST} whole committed steps in a row",
            hint=f"faults are planted into a job of {FEWEST} steps or more",
        )
    rows = window.records.filter(IS_USED, pl.col("step").is_between(*found))
    if longest.resumed_at is not None:
        rows = _without_half_a_pass(rows)
    if rows["step"].n_unique() < FEWEST:
        raise UsageError(
            f"attempt {longest.label} has fewer than {FEWEST} steps of one pass",
            hint=f"faults are planted into a job of {FEWEST} steps or more",
        )
    first = rows["step"].min()
    assert isinstance(first, int)
    return Stretch(longest, _numbered(rows, first), source.has_commits)


def _length(attempt: Attempt) -> int:
    return (attempt.last_step or 0) - (attempt.first_step or 0)


def _longest_run(window: Side, most_steps: int) -> tuple[int, int] | None:
    """Give the first and last of the most steps in a row that were committed, each once."""
    steps = window.steps.filter(
        pl.col("committed"), ~pl.col("voided"), pl.col("whole"), pl.col("missing") == 0
    )["step"]
    voided = window.records.filter(~IS_USED)["step"].unique().to_list()
    best: tuple[int, int] | None = None
    run: tuple[int, int] | None = None
    for step in steps.unique().sort().to_list():
        if step in voided:
            run = None
            continue
        run = (step, step) if run is None or step != run[1] + 1 else (run[0], step)
        if run[1] - run[0] < most_steps and (best is None or run[1] - run[0] > best[1] - best[0]):
            best = run
    return best


def _without_half_a_pass(rows: pl.DataFrame) -> pl.DataFrame:
    """
    Keep the rest of the pass in which an attempt was resumed, or what comes after it.

    Together they would be a pass that misses its beginning.
    """
    of_step = rows.group_by("step").agg(pl.col("epoch").min().alias("low"), pl.col("epoch").max())
    first = rows["epoch"].min()
    if first is None or first == rows["epoch"].max():
        return rows
    steps = [
        of_step.filter(pl.col("epoch") == first)["step"],
        of_step.filter(pl.col("low") > first)["step"],
    ]
    return rows.filter(pl.col("step").is_in(max(steps, key=len).implode()))


def _numbered(rows: pl.DataFrame, first: int) -> pl.DataFrame:
    """Let steps begin with 1 and positions with 0, and count the sequences of each lane."""
    rows = rows.select(*PLACE, *CONTENT, "seq").sort("rank", "step", "slot", "row", "seq")
    return rows.with_columns(
        pl.col("step") - first + 1,
        pl.col("position") - pl.col("position").min(),
        n=pl.struct("step", "slot", "row").rle_id().over("rank").cast(pl.Int64),
    ).with_columns(
        pl.col("n") - pl.col("n").min().over("rank"),
        part=pl.int_range(pl.len()).over("rank", "n"),
    )
