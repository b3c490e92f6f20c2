"""
Knows where epochs end, how many repeats a sampler pads there, and whether a stream repeats.

A generation is one epoch of one source where both are in the identity; else the whole window.
"""

from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.frames import IN_MEMORY, IS_USED, SEQUENCE, Side
from ledger_audit.continuity.identity import Keyed

_MOST = 1 << 31
"""More than any count of ranks, sequences or slots: what says more is not believed."""


@dataclass(frozen=True)
class Recipe:
    """How a side deals its stream, measured on its records and as its fingerprints say."""

    ranks: tuple[int, ...]
    """W of each attempt."""
    sequences: tuple[int, ...]
    """b: sequences a rank and slot."""
    slots: tuple[int, ...]
    """A: slots a step."""
    is_distributed_sampler: bool

    @property
    def global_batch(self) -> int:
        """The most sequences that one step holds."""
        return max(self.ranks) * max(self.sequences) * max(self.slots)

    @property
    def units(self) -> frozenset[int]:
        """What a sampler may even an epoch out to: ranks, micro-batches, global batches."""
        units = set(self.ranks)
        if not self.is_distributed_sampler:
            units |= {ranks * b for ranks in self.ranks for b in self.sequences}
            units |= {
                ranks * b * a for ranks in self.ranks for b in self.sequences for a in self.slots
            }
        return frozenset(units)

    def paddings(self, dataset_samples: int) -> frozenset[int]:
        """Give how many repeats a sampler may add at the end of an epoch, 0 left out."""
        return frozenset(-dataset_samples % unit for unit in self.units) - {0}

    def largest_padding(self, dataset_samples: int | None, *, of_rest: bool = False) -> int:
        """
        Give the most repeats that a sampler may add at the end of an epoch.

        `of_rest`: it may even out the rest of an epoch, of any size, that others had begun.
        """
        if dataset_samples is None or of_rest:
            return max(self.units) - 1
        return max(self.paddings(dataset_samples), default=0)


def recipe_of(side: Side) -> Recipe:
    """Measure how a side deals its stream; its fingerprints may only add to what is measured."""
    within = side.within
    per_slot = within.group_by("attempt", "rank", "step", "slot", "try_seq").agg(
        pl.col("row").n_unique().alias("n")  # all else that a sequence shares is the same here
    )
    per_step = within.group_by("attempt", "rank", "step").agg(pl.col("slot").n_unique())
    says = [attempt.fingerprint for attempt in side.attempts]
    return Recipe(
        ranks=_counts([size for attempt in side.attempts for size in attempt.world_sizes]),
        sequences=_counts([per_slot["n"].max(), *(one.get("micro_batch_size") for one in says)]),
        slots=_counts([per_step["slot"].max(), *(one.get("accumulation") for one in says)]),
        is_distributed_sampler=bool(says)
        and all(one.get("sampler") == "DistributedSampler" for one in says),
    )


def _counts(found: list[object]) -> tuple[int, ...]:
    return tuple(
        sorted({value for value in found if isinstance(value, int) and 0 < value < _MOST})
    ) or (1,)


def logged_size(known: Keyed) -> int | None:
    """Give `dataset_samples` as logged; null where it is not, or attempts log different ones."""
    attempts = [attempt for side in known.windows.sides for attempt in side.attempts]
    said = {attempt.fingerprint.get("dataset_samples") for attempt in attempts} - {None}
    newest = known.windows.resumed.attempts[-1].fingerprint.get("dataset_samples")
    return newest if len(said) == 1 and isinstance(newest, int) and newest > 0 else None


def dataset_samples(known: Keyed) -> int | None:
    """
    Give N, the samples of one epoch; null where it is not logged or its unit cannot be told.

    Packed rows and several sources have no single N.
    """
    newest = logged_size(known)
    for side in known.windows.sides:
        sequences = side.records.select(pl.struct(SEQUENCE).n_unique()).item()
        is_packed = sequences < side.records["record"].n_unique()
        if is_packed or ("source" in known.columns and side.records["source"].n_unique() > 1):
            return None
    return newest


def with_generations(known: Keyed) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Give the records of committed, reference and resumed with the column `generation`."""
    frames = [side.records for side in known.windows.sides]
    by = [name for name in ("source", "epoch") if name in known.columns]
    if "epoch" not in by:
        plain = [frame.with_columns(generation=pl.lit(0, pl.Int64)) for frame in frames]
        return plain[0], plain[1], plain[2]
    codes = (
        pl.concat([frame.lazy().select(by) for frame in frames])
        .unique()
        .sort(by)
        .collect(engine=IN_MEMORY)
    )
    if codes.height == 1:
        whole = [frame.with_columns(generation=pl.lit(0, pl.Int64)) for frame in frames]
        return whole[0], whole[1], whole[2]
    codes = codes.with_row_index("generation").with_columns(pl.col("generation").cast(pl.Int64))
    coded = [
        frame.join(codes, on=by, how="left", nulls_equal=True, maintain_order="left")
        for frame in frames
    ]
    return coded[0], coded[1], coded[2]


def with_repeats(rows: pl.DataFrame, committed: pl.DataFrame) -> pl.DataFrame:
    """
    Say of each record whether its sample had been used.

    Returns:
        `rows` with `consumed` (by a committed update at or before the checkpoint),
        `used_before` (by an earlier record of these rows whose try was not voided) and
        `used_beside` (another record of its step has the same sample).
    """
    consumed = pl.col("key").is_in(committed.filter(IS_USED)["key"].unique().implode())
    if rows["key"].n_unique() == rows.height:
        no = pl.lit(value=False)
        return rows.with_columns(consumed=consumed, used_before=no, used_beside=no)
    first = rows.filter(IS_USED).group_by("key").agg(pl.col("order").min().alias("first_use"))
    return (
        rows.join(first, on="key", how="left", maintain_order="left")
        .with_columns(
            consumed=consumed,
            used_before=(pl.col("order") > pl.col("first_use")).fill_null(value=False),
            used_beside=IS_USED.sum().over("key", "step") > 1,
        )
        .drop("first_use")
    )


def ends_of(
    rows: pl.DataFrame,
    committed: pl.DataFrame,
    others: pl.DataFrame,
    *,
    unopened: tuple[pl.DataFrame, pl.DataFrame],
    by: tuple[str, ...],
    size: int | None,
    left_out: int,
    largest_padding: int,
) -> pl.DataFrame:
    """
    Say of each generation whether it is over in a window, and where it ends there.

    Args:
        rows: RECORDS of the window, with generations and repeats.
        committed: RECORDS of the committed window, with generations.
        others: further RECORDS whose generations are asked for.
        unopened: PASSES of the committed window, and of this one.
        by: `epoch`, or `source` and `epoch`: what makes a generation; without `epoch` there is
            one, of all records, and never over.
        size: N, or null.
        left_out: samples that were deliberately skipped: an epoch is over without them.
        largest_padding: the most sequences that a sampler repeats at its end; 0 without N.

    Returns:
        generation, over, last_step (null if the window has no record of it), ends_from (the first
        step of its end), tail_repeats (sequences in its end that repeat, unvoided), distinct (keys
        used, committed ones included), before (those used before the attempt in which it ends).
    """
    used = rows.filter(IS_USED, ~pl.col("beyond"))
    every = (rows.lazy(), committed.lazy(), others.lazy())
    table = pl.concat([frame.select("generation", "source", "epoch") for frame in every])
    table = table.unique("generation")
    by_epoch = "epoch" in by
    of = table.select("generation", *by).collect()
    unopened_of = _unopened(used, *unopened, of, list(by) if by_epoch else [])
    for counts in (_distinct(used, committed), _tails(used, largest_padding), unopened_of):
        table = table.join(counts, on="generation", how="left")
    counted = ("distinct", "before", "tail_repeats", "more", "more_before")
    table = table.with_columns(pl.col(counted).fill_null(0)).with_columns(
        distinct=pl.col("distinct") + pl.col("more"),
        before=pl.col("before") + pl.col("more_before"),
    )
    over = pl.lit(value=False)
    if by_epoch and size is not None:
        over |= pl.col("distinct") + left_out >= size
    if by_epoch and "source" in by:
        newest = used.lazy().group_by("source").agg(pl.col("epoch").max().alias("newest"))
        table = table.join(newest, on="source", how="left", nulls_equal=True)
        over |= (pl.col("newest") > pl.col("epoch")).fill_null(value=False)
    elif by_epoch:
        latest = pl.lit(used["epoch"].max(), pl.Int32)
        over |= (latest > pl.col("epoch")).fill_null(value=False)
    columns = ("last_step", "ends_from", "tail_repeats", "distinct", "before")
    return (
        table.with_columns(over=over)
        .select("generation", "source", "epoch", "over", *columns)
        .collect(engine=IN_MEMORY)
    )


def _distinct(used: pl.DataFrame, committed: pl.DataFrame) -> pl.LazyFrame:
    """Count, by generation, all distinct keys, and those used before its last attempt."""
    consumed = committed.lazy().filter(IS_USED)
    ours = used.lazy()
    is_before = pl.lit(value=False)
    if used["attempt"].n_unique() > 1:
        last = ours.sort("step").group_by("generation").agg(ends_in=pl.col("attempt").last())
        ours = ours.join(last, on="generation")
        is_before = pl.col("attempt") != pl.col("ends_in")
    later = ours.select("generation", "key", is_before=is_before)
    return (
        pl.concat([consumed.select("generation", "key", is_before=pl.lit(value=True)), later])
        .group_by("generation")
        .agg(
            pl.col("key").n_unique().cast(pl.Int64).alias("distinct"),
            pl.col("key").filter("is_before").n_unique().cast(pl.Int64).alias("before"),
        )
    )


def _unopened(
    used: pl.DataFrame,
    committed: pl.DataFrame,
    own: pl.DataFrame,
    generations: pl.DataFrame,
    by: list[str],
) -> pl.LazyFrame:
    """
    Count, by generation, the samples of which no record was opened: generation, more, more_before.

    Args:
        used: RECORDS that were used.
        committed: PASSES of the committed window.
        own: PASSES of this window.
        generations: generation and the columns of `by`.
        by: what makes a generation; empty: there is one.
    """
    ends_in = used.sort("step").group_by("generation").agg(ends_in=pl.col("attempt").last())
    every = pl.concat([committed.with_columns(is_before=True), own.with_columns(is_before=False)])
    if by:
        every = every.join(generations, on=by, nulls_equal=True)
    else:
        every = every.with_columns(generation=pl.lit(0, pl.Int64))
    is_before = pl.col("is_before") | (pl.col("attempt") != pl.col("ends_in"))
    return (
        every.lazy()
        .join(ends_in.lazy(), on="generation", how="left")
        .group_by("generation")
        .agg(
            more=pl.col("n").sum(),
            more_before=pl.col("n").filter(is_before.fill_null(value=False)).sum(),
        )
    )


def _tails(used: pl.DataFrame, largest_padding: int) -> pl.LazyFrame:
    """
    Give, by generation, where it ends in the window, and how many sequences repeat there.

    It ends in its last step; or before, if what follows only repeats and padding could be that
    large: a last step that is smaller than the padding cannot hold it all.
    """
    repeats = pl.col("consumed") | pl.col("used_before")
    if not used.select(repeats.any()).item():
        step = pl.col("step").max()
        none = pl.lit(0, pl.Int64)
        ends = used.lazy().group_by("generation")
        return ends.agg(
            step.alias("last_step"), step.alias("ends_from"), none.alias("tail_repeats")
        )
    steps = (
        used.lazy()
        .group_by("generation", "step")
        .agg(
            pl.struct(SEQUENCE).n_unique().cast(pl.Int64).alias("n"),
            pl.struct(SEQUENCE).filter(repeats).n_unique().cast(pl.Int64).alias("again"),
        )
        .sort("generation", "step", descending=True)
        .with_columns(
            so_far=pl.col("again").cum_sum().over("generation"),
            only_repeats=(pl.col("n") == pl.col("again"))
            .shift(1, fill_value=True)
            .cum_min()
            .over("generation"),
            is_last=pl.int_range(pl.len()).over("generation") == 0,
        )
    )
    ending = steps.filter(
        pl.col("is_last") | (pl.col("only_repeats") & (pl.col("so_far") <= largest_padding))
    )
    return ending.group_by("generation").agg(
        pl.col("step").max().alias("last_step"),
        pl.col("step").min().alias("ends_from"),
        pl.col("again").sum().alias("tail_repeats"),
    )


def repeats_by_design(
    committed: pl.DataFrame,
    reference: pl.DataFrame,
    *,
    finished: int,
    largest_padding: int,
    reference_padding: int,
) -> bool:
    """
    Tell whether the stream repeated before the resume, more than its padding explains.

    The reference counts with the committed window: what it repeats, the resume did not cause.
    Repeats in the last step that it shows of a generation do not, if they may be padding.

    Args:
        committed: RECORDS of the committed window, keyed.
        reference: RECORDS of the reference with repeats.
        finished: generations that were over in either.
        largest_padding: the most repeats that a sampler adds to one generation; 0 where the
            size of an epoch is not logged.
        reference_padding: the most that it may add, whether or not the size is logged.
    """
    used = committed.filter(IS_USED, ~pl.col("beyond"))
    repeats = used.height - used["key"].n_unique()
    repeats += reference.filter(
        IS_USED,
        ~pl.col("beyond"),
        ~(pl.col("at_last") & (pl.col("tail_repeats") <= reference_padding)),
        pl.col("consumed") | pl.col("used_before"),
    ).height
    return repeats > finished * largest_padding
