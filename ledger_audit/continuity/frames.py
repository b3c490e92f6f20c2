"""
The frames that the steps hand to each other: columns, grain of a row, meaning of null.

SAMPLES   as the archive gives them: the columns of the `samples` table and `writer`.
RECORDS   one used record, sorted by `ORDER`, with
            fate       `commit` or `void`: how its try ended; null: nothing ended it
            try_seq    the `seq` of the event that ended its try; null with `fate`
            tokens     token_end - token_start; null without a span
            order      index in its window from 0
            record     the `order` of the record; the same as `order` unless records were cut
                       into intervals, where the pieces of one record share it
            beyond     read by look-up, outside the window: known, but not judged
            key        identity, equal in all windows where it is the same; from `identity`
STEPS     one step of one attempt that left a record, a commit or a void:
            step, attempt
            committed  its update is in the weights
            voided     every voting rank threw it away
            whole      every logged rank has records and agrees that it was committed or voided
            counted    every rank's commit says how many records it had, and all are there
            missing    records that are known to have existed and are not there
            stray      unvoided records of a step that was not committed
PAIRS     one matched pair: `reference` and `resumed`, both values of `order`
"""

from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from ledger_audit.continuity.lineage import Attempt

ORDER = ("step", "slot", "rank", "row", "seq")
"""The order in which the n-th left over meets the n-th."""

SEQUENCE = ("attempt", "rank", "step", "slot", "row", "try_seq")
"""What the records of one packed sequence share."""

SAMPLE = ("source", "sample_id")
"""What a distinct sample is, whatever its epoch and span."""

IN_MEMORY: Literal["in-memory"] = "in-memory"
"""
What runs the queries over frames: they are in memory already, and most are small. The engine
that streams takes twice as long to set them up, and no less memory for them.
"""

IS_USED = pl.col("fate").ne_missing("void")
"""The try was not thrown away."""


KNOWN = {"step": pl.Int64(), "n": pl.Int64(), "tokens": pl.Int64()}
"""
Records of a step that are not there: how many it used, and of how many tokens (null: it is not
known, or there are no spans).
"""

PASSES = {
    "attempt": pl.String(),
    "first": pl.Int64(),
    "last": pl.Int64(),
    "source": pl.String(),
    "epoch": pl.Int32(),
    "n": pl.Int64(),
}
"""
What records of KNOWN are of: so many samples of one pass that an attempt used between two steps,
each of them once, and none of them anywhere else in the window.
"""


def _nothing_known() -> pl.DataFrame:
    return pl.DataFrame(schema=KNOWN)


def _of_no_pass() -> pl.DataFrame:
    return pl.DataFrame(schema=PASSES)


@dataclass(frozen=True)
class Side:
    """One of the three windows."""

    records: pl.DataFrame
    """RECORDS."""
    steps: pl.DataFrame
    """STEPS, sorted by step."""
    attempts: tuple[Attempt, ...]
    """The attempts that the window runs through, oldest first."""
    torn: tuple[str, ...] = ()
    """Files that cannot be read, or not to their end, and hold committed steps of the window."""
    mismatched: tuple[str, ...] = ()
    """Tries whose records do not have the digest that their commit tells."""
    relaunched: tuple[str, ...] = ()
    """Attempts that are two launches under one label, and what shows it."""
    known: pl.DataFrame = field(default_factory=_nothing_known)
    """KNOWN."""
    passes: pl.DataFrame = field(default_factory=_of_no_pass)
    """PASSES of these; empty where they were not counted by passes."""

    @property
    def within(self) -> pl.DataFrame:
        """The records of the window itself, without what was looked up beyond it."""
        return self.records.filter(~pl.col("beyond"))

    @property
    def used(self) -> pl.DataFrame:
        """The records whose try was not voided, looked-up ones included."""
        return self.records.filter(IS_USED)

    @property
    def missing(self) -> int:
        """Records of the window that are known to have existed and are not there."""
        return int(self.steps["missing"].sum())

    @property
    def unlogged_share(self) -> float:
        """Ranks that do not log, on purpose, for each rank that does."""
        shares = [
            len(one.everyone) / len(one.logged & one.everyone) - 1
            for one in self.attempts
            if one.logged is not None and one.logged & one.everyone
        ]
        return max(shares, default=0.0)

    @property
    def is_incomplete(self) -> bool:
        """Records of the window are known to be missing, how many or not."""
        return self.missing > 0 or bool(self.torn)

    @property
    def is_sampled(self) -> bool:
        """Only some ranks were logged, on purpose."""
        return any(attempt.is_sampled for attempt in self.attempts)


def arranged(records: pl.DataFrame) -> pl.DataFrame:
    """Sort records by ORDER, what was looked up beyond the window last, and number them."""
    return (
        records.lazy()
        .drop("order", "record", strict=False)
        .sort("beyond", *ORDER)
        .with_row_index("order")
        .with_columns(pl.col("order").cast(pl.Int64), record=pl.col("order").cast(pl.Int64))
        .collect(engine=IN_MEMORY)
    )
