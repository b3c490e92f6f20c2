"""What is asked of a ledger to judge its checkpoints; reading is handed in as functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from ledger_audit.continuity.windows import Source
from ledger_audit.model.checkpoints import Probed

Probe = Callable[[str], Probed]
"""A path, as the ledger has it → what lies there."""


@dataclass(frozen=True)
class Archive:
    """One ledger: its source, and sums over it that keep no record in memory."""

    source: Source
    stretches: Callable[[str, int, int], Sequence[tuple[int, int]]]
    """Attempt, first, last step → stretches of them whose sums fit into memory together."""
    usage: Callable[[str, int, int | None, int | None], pl.DataFrame]
    """
    Attempt, first step, last step (null: open), `seq` before which (null: all) → rank, step,
    slot, epoch, n, sequences, spans, tokens, placed, seq_low, seq_high, is_odd: what each
    micro-batch used.
    """
    records: Callable[[str, pl.Series], pl.DataFrame]
    """Attempt, steps → SAMPLES of these steps."""
    tokens: Callable[[str, int, int], pl.DataFrame]
    """Attempt, first, last step → rank, seq, tokens: what each commit says that its try held."""
    places: Callable[[str, int, int, pl.Series], pl.DataFrame]
    """Attempt, first, last step, steps to leave out → step, start, stop: half-open ranges."""
    documents: Callable[[str, Sequence[int], int, pl.Series], pl.LazyFrame]
    """
    Attempt, ranks, last step, steps to leave out → rank, epoch, source, sample_id, step (the first
    that used it), not read yet.
    """
    read: Callable[[pl.LazyFrame], pl.DataFrame]
    """Reads what was not read yet."""
    size: Callable[[str], int]
    """Attempt → rows that it left."""
    staged: Callable[[str, pl.DataFrame], pl.DataFrame]
    """
    Attempt, cuts (rank, seq) → rank, stage, seq, n: unused records before each cut; with a null
    `seq` all of them.
    """
    dropped: Callable[[str], pl.Series]
    """Attempt → the positions that were dropped."""
    sources: Callable[[str], frozenset[str | None]]
    """Attempt → the data sets of its records; null: some have none."""
    stages: frozenset[str] = frozenset()
    """The stages other than `used` that the ledger has records of."""
    put_away: Mapping[str, int] = field(default_factory=dict)
    """Attempt → records that its writers did not keep, on purpose."""
