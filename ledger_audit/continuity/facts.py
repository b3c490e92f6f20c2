"""
Collects the small facts that outcomes are decided from, so that each outcome is one branch.

What was consumed, what repeats, how far the reference covers, where each lane's frontier stands.
"""

from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity import declared, epochs
from ledger_audit.continuity.frames import IN_MEMORY, IS_USED, SEQUENCE
from ledger_audit.continuity.identity import Keyed
from ledger_audit.continuity.windows import whole_through

_SEVERAL = 1 << 62  # more than any ledger holds: records are missing, nobody knows how many


@dataclass(frozen=True)
class Facts:
    """What is known before any record is judged."""

    known: Keyed
    committed: pl.DataFrame
    """RECORDS with `generation`."""
    reference: pl.DataFrame
    """RECORDS with `generation`, `consumed`, `used_before`, `tail` (a repeat in the last step of
    a generation that is over), and the partner `resumed`, `resumed_step` (null: unmatched)."""
    resumed: pl.DataFrame
    """The same with the partner `ref`, `ref_step`, `ref_rank`, `ref_slot`; and `in_reference`,
    `covered`, `pass_known` (its generation is known), `short_before` (records are known to be
    missing at or before its step)."""
    ends: pl.DataFrame
    """Generations in the resumed window."""
    size: int | None
    """N."""
    recipe: epochs.Recipe
    reference_recipe: epochs.Recipe
    is_redealt: bool
    """The resumed attempt deals its stream otherwise than the one before it."""
    whole_through: int | None
    """The last step up to which the reference is whole."""
    coverage: pl.DataFrame
    """Resumed steps: step, covered, used (sequences that moved the stream on, through it)."""
    missing: int
    """Records of the resumed window that are known to be missing."""
    repeats_by_design: bool
    has_positions: bool
    """All records of the committed, if any, and of the resumed window have positions that were
    not deliberately started anew."""
    positions_give_places: bool
    """The same of the reference and the resumed window."""


def gather(known: Keyed, pairs: pl.DataFrame) -> Facts:
    """Collect the facts of one resume from its keyed windows and the matched pairs."""
    size = epochs.dataset_samples(known)
    recipe = epochs.recipe_of(known.windows.resumed)
    reference_recipe = epochs.recipe_of(known.windows.reference)
    committed, reference, resumed = epochs.with_generations(known)
    reference = epochs.with_repeats(reference, committed)
    resumed = epochs.with_repeats(resumed, committed)
    passes = [side.passes for side in known.windows.sides]
    frames = committed, reference
    resumed_ends = _ends(known, resumed, *frames, (passes[0], passes[2]), recipe, size)
    frames, unopened = (committed, resumed), (passes[0], passes[1])
    reference_ends = _ends(known, reference, *frames, unopened, reference_recipe, size)
    reference = _with_partners(_with_tail(reference, reference_ends), resumed, pairs)
    resumed = _with_reference(_with_tail(resumed, resumed_ends), reference, pairs)
    through = whole_through(known.windows.reference, known.windows.checkpoint_step)
    coverage = _coverage(known, reference, resumed, through)
    finished = pl.concat([reference_ends, resumed_ends]).filter("over")["generation"].n_unique()
    return Facts(
        known=known,
        committed=committed,
        reference=reference,
        resumed=_with_reach(known, resumed, reference, coverage),
        ends=resumed_ends,
        size=size,
        recipe=recipe,
        reference_recipe=reference_recipe,
        is_redealt=len(recipe.ranks) > 1
        or (
            known.windows.committed.within.height > 0
            and epochs.recipe_of(known.windows.committed) != recipe
        ),
        whole_through=through,
        coverage=coverage,
        missing=_SEVERAL if known.windows.resumed.torn else known.windows.resumed.missing,
        repeats_by_design=epochs.repeats_by_design(
            committed,
            reference,
            finished=finished,
            largest_padding=0 if size is None else reference_recipe.largest_padding(size),
            reference_padding=reference_recipe.largest_padding(size),
        ),
        has_positions=_has_positions(known, [committed, resumed]),
        positions_give_places=_has_positions(known, [reference, resumed]),
    )


def _ends(
    known: Keyed,
    rows: pl.DataFrame,
    committed: pl.DataFrame,
    others: pl.DataFrame,
    unopened: tuple[pl.DataFrame, pl.DataFrame],
    recipe: epochs.Recipe,
    size: int | None,
) -> pl.DataFrame:
    return epochs.ends_of(
        rows,
        committed,
        others,
        unopened=unopened,
        by=tuple(name for name in ("source", "epoch") if name in known.columns),
        size=size,
        largest_padding=0 if size is None else recipe.largest_padding(size),
        left_out=declared.left_out(known.windows.resumed.attempts, known.windows.checkpoint_step),
    )


def _with_reach(
    known: Keyed,
    resumed: pl.DataFrame,
    reference: pl.DataFrame,
    coverage: pl.DataFrame,
) -> pl.DataFrame:
    """Say of each resumed record how far the reference, and its generation, are known."""
    size = epochs.logged_size(known)  # of all sources: what fits into it is within one pass
    fits = (pl.col("uses_through") <= size) if size is not None else pl.lit(value=False)
    reach = coverage.drop("used")
    return resumed.join(reach, on="step", how="left", maintain_order="left").with_columns(
        in_reference=pl.col("key").is_in(reference["key"].unique().implode()),
        pass_known=pl.lit("epoch" in known.columns) | fits,
        covered=pl.col("covered").fill_null(value=False),
    )


def _has_positions(known: Keyed, frames: list[pl.DataFrame]) -> bool:
    windows = known.windows
    if declared.resets_positions(windows.resumed.attempts, windows.checkpoint_step):
        return False
    positions = pl.concat([frame["position"] for frame in frames])
    return windows.resumed.records.height > 0 and positions.null_count() == 0


def _with_tail(rows: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    last = ends.select("generation", "tail_repeats", "over", "distinct", "before", end="ends_from")
    return (
        rows.lazy()
        .join(last.lazy(), on="generation", how="left", maintain_order="left")
        .with_columns(at_last=(pl.col("step") >= pl.col("end")).fill_null(value=False))
        .with_columns(at_end=pl.col("at_last") & pl.col("over"))
        .with_columns(tail=pl.col("at_end") & (pl.col("consumed") | pl.col("used_before")))
        .drop("over", "end")
        .collect(engine=IN_MEMORY)
    )


def _with_partners(
    reference: pl.DataFrame, resumed: pl.DataFrame, pairs: pl.DataFrame
) -> pl.DataFrame:
    steps = resumed.lazy().select(resumed="order", resumed_step="step")
    partners = pairs.lazy().join(steps, on="resumed").rename({"reference": "order"})
    joined = reference.lazy().join(partners, on="order", how="left", maintain_order="left")
    return joined.collect(engine=IN_MEMORY)


def _with_reference(
    resumed: pl.DataFrame, reference: pl.DataFrame, pairs: pl.DataFrame
) -> pl.DataFrame:
    places = reference.lazy().select(
        ref="order",
        ref_step="step",
        ref_rank="rank",
        ref_slot="slot",
        ref_beyond="beyond",
        ref_fate="fate",
    )
    partners = pairs.lazy().select(ref="reference", order="resumed").join(places, on="ref")
    joined = resumed.lazy().join(partners, on="order", how="left", maintain_order="left")
    return joined.collect(engine=IN_MEMORY)


def _coverage(
    known: Keyed, reference: pl.DataFrame, resumed: pl.DataFrame, through: int | None
) -> pl.DataFrame:
    """
    Say of each resumed step whether the reference covers it.

    Amounts are sequences, not step numbers: used through the step, known to be missing there,
    and declared to be left out, against those of the reference through its last whole step.

    Returns:
        step, covered, short_before, used (sequences through the step, with what is missing and
        declared), uses_through (records since the run began, whatever became of them, with
        the share of ranks that are not logged).
    """
    windows = known.windows
    whole = reference.filter(pl.col("step") <= (-1 if through is None else through))
    budget = -1
    if through is not None:
        unopened = windows.reference.known.filter(pl.col("step") <= through)
        budget = int(sequences(whole)["n"].sum()) + int(unopened["n"].sum())
    excused = reference.filter(
        pl.col("resumed").is_null(), declared.named(windows.resumed.attempts, windows)
    ).height
    steps = windows.resumed.steps.lazy().select("step", "missing")
    steps = steps.join(sequences(resumed).lazy(), on="step", how="full", coalesce=True)
    uses = (
        resumed.lazy()
        .filter(~pl.col("beyond"))
        .group_by("step")
        .agg(pl.col("record").n_unique().cast(pl.Int64).alias("uses"))
    )
    unread = windows.resumed.known.lazy().select("step", known="n")
    steps = steps.join(uses, on="step", how="left").join(unread, on="step", how="left")
    steps = steps.sort("step")
    steps = steps.with_columns(pl.col("missing", "n", "uses", "known").fill_null(0))
    uses_so_far = (pl.col("uses") + pl.col("known")).cum_sum()
    so_far = pl.col("missing").cum_sum()
    unseen = max(windows.committed.unlogged_share, windows.resumed.unlogged_share)
    committed = windows.committed
    before = committed.records["record"].n_unique() + committed.missing + committed.known["n"].sum()
    used = (pl.col("n") + pl.col("known")).cum_sum() + so_far + excused
    return steps.select(
        "step",
        covered=pl.lit(through is not None) & (used <= int(budget)),
        used=used,
        short_before=(so_far > 0)
        | pl.lit(windows.reference.missing > 0)
        | pl.lit(bool(windows.reference.torn or windows.resumed.torn)),
        uses_through=(uses_so_far + so_far + before) * (1 + unseen),
    ).collect(engine=IN_MEMORY)


def sequences(rows: pl.DataFrame) -> pl.DataFrame:
    """
    Count the sequences of each step that moved the stream on: step, n.

    Left out are repeats in the last step of a generation that is over, and void tries whose
    samples were tried again.
    """
    within = rows.lazy().filter(~pl.col("beyond"))
    if (~rows.select(IS_USED).to_series()).any():
        used = rows.filter(~pl.col("beyond"), IS_USED)["key"].unique()
        within = within.filter(IS_USED | ~pl.col("key").is_in(used.implode()))
    return (
        within.filter(~pl.col("tail"))
        .group_by("step")
        .agg(pl.struct(SEQUENCE).n_unique().cast(pl.Int64).alias("n"))
        .collect(engine=IN_MEMORY)
    )
