"""What the ledger proves that committed updates up to a checkpoint had consumed."""

from dataclasses import dataclass, field, replace

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
    """One more than the largest that a committed or void update used."""
    holes: tuple[int, ...]
    """The first few places before `next` that nothing explains: not committed, not voided, not
    dropped, not declared."""
    hole_count: int
    next_after_dropped: int | None = None
    """Where the run of places ends that begins at `next` and was left out on purpose: a cursor
    that has passed some of them leads to the same sample. Null: there is no such run."""
    used: pl.DataFrame | None = field(default=None, compare=False)
    """`start`, `stop`: half-open ranges of the places that committed updates used, no place in
    two of them; null: not known."""

    @property
    def last_next(self) -> int:
        """The last place from which the stream goes on without a skip."""
        return max(self.next, self.next_after_dropped or self.next)

    def is_next(self, place: int) -> bool:
        """Whether a stream that goes on there neither replays nor skips, holes aside."""
        return self.next <= place <= self.last_next

    def has_hole_before(self, place: int) -> bool:
        """Whether a place before this one may be a hole."""
        return self.hole_count > 0 and min(self.holes, default=0) < place

    def used_from(self, place: int) -> int | None:
        """Count the places from this one on that committed updates used; null: not known."""
        if self.used is None:
            return None
        start = pl.max_horizontal("start", pl.lit(place))
        return int(self.used.select((pl.col("stop") - start).clip(0).sum()).item())

    def after_committed(self) -> "Places":
        """Give the same up to the last place that a committed update used."""
        if self.used is None:
            return self
        last = self.used["stop"].max()
        following = min(self.next, last) if isinstance(last, int) else 0
        holes = tuple(one for one in self.holes if one < following)
        # only the first few are named: of more, those that are not may lie before it, too
        is_named = len(self.holes) == self.hole_count
        count = len(holes) if is_named or len(holes) < len(self.holes) else self.hole_count
        after = self.next_after_dropped if following == self.next else None
        return Places(following, holes, count, after, self.used)


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
    """Likewise with the stages `queued` and `dropped`; of what was dropped, only what the newest
    attempt logs counts."""
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
    voided_all: pl.DataFrame | None = None
    """TALLY of all that void tries used up to C, what was used again included: without epochs
    that may have been in the next pass. Null: nothing was used again."""
    voided_last: pl.DataFrame | None = None
    """TALLY of the part of `voided` that was used after the last committed step: a resume may use
    it again or pass it over. Null: there is none, or it is not known."""

    def passed_back(self) -> "Tally | None":
        """Give the same if void updates at the end are used again; null: there are none."""
        last = self.voided_last
        if last is None or last.is_empty():
            return None
        return replace(
            self,
            voided=_without(self.voided, last),
            voided_all=None if self.voided_all is None else _without(self.voided_all, last),
            voided_last=None,
            places=None if self.places is None else self.places.after_committed(),
        )


def _without(whole: pl.DataFrame, part: pl.DataFrame) -> pl.DataFrame:
    """Take a part of a TALLY away, and the rows of which nothing is left."""
    keys = ["rank", "epoch"]
    names = [name for name in TALLY if name not in keys]
    left = whole.join(part, on=keys, how="left", nulls_equal=True, suffix="_part")
    is_met = pl.col("records_part").is_not_null()
    rest = [
        pl.when(is_met).then((pl.col(name) - pl.col(f"{name}_part")).clip(0)).otherwise(name)
        for name in names
    ]
    amounts = [one.alias(name) for one, name in zip(rest, names, strict=True)]
    return left.select(*keys, *amounts).filter(pl.col("records") > 0)
