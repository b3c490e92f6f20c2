"""What the ledger proves that committed updates up to a checkpoint had consumed."""

from dataclasses import dataclass

import polars as pl

TALLY = {
    "rank": pl.Int32(),
    "epoch": pl.Int32(),
    "records": pl.Int64(),
    "sequences": pl.Int64(),
    "documents": pl.Int64(),
    "tokens": pl.Int64(),
    "micro-batches": pl.Int64(),
}
"""One row a rank and pass (epoch null: not logged). `documents` are distinct (source, sample_id)
of the rank in the pass; `tokens` is null where no spans are logged."""


@dataclass(frozen=True)
class Places:
    """The places of the global stream (`position`, in sequences) up to a checkpoint."""

    next: int
    """One more than the largest that a committed update used."""
    holes: tuple[int, ...]
    """The first few places before `next` that nothing explains: not committed, not voided, not
    dropped, not declared."""
    hole_count: int


@dataclass(frozen=True)
class Tally:
    """Amounts at one checkpoint, over the lineage that ends in it."""

    step: int
    """C: steps 1 to C are counted."""
    committed: pl.DataFrame
    """TALLY of committed updates."""
    voided: pl.DataFrame
    """TALLY of what void tries used and no committed update up to C used again: it moved the
    stream on without an update."""
    open: pl.DataFrame
    """TALLY of what was used after C before the state was snapshot: begun accumulation groups."""
    read: int | None = None
    """Records logged with stage `read` before the snapshot; null: none is logged."""
    queued: int | None = None
    dropped: int | None = None
    """Likewise with the stages `queued` and `dropped`."""
    places: Places | None = None
    """Null where positions are not logged throughout."""
    dataset_samples: int | None = None
    workers: int | None = None
    prefetch_factor: int | None = None
    micro_batch_size: int | None = None
    """What the fingerprint says of the loader, to explain a claim that is ahead; null: nothing."""
    unseen: str | None = None
    """Why amounts may be too small (ranks not logged or missing, files torn); null: they are
    whole."""
    committed_before: pl.DataFrame | None = None
    """TALLY of what was committed before the newest attempt of the lineage; null: nothing was
    resumed, or it is not known."""
    world_sizes: tuple[int, ...] = ()
    """Ranks of each attempt of the lineage, oldest first; empty: not known."""
    sources: int = 1
    """Data sets of the committed records; of several, each has passes of its own."""
    drop_last: bool | None = None
    """Whether the rest of a pass is left out, as the fingerprint says; null: it does not."""
