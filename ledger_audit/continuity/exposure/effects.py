"""
Lists the net effect on each sample that was not plainly used as often as promised.

These are the samples that came again, those whose work was lost or thrown away, and where there is
a list, those of it that never came, and what was used and is not in it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.exposure.counting import Counted
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.continuity.exposure.promised import Promised, listed_of
from ledger_audit.continuity.exposure.repeats import SAMPLE, promised_uses
from ledger_audit.continuity.exposure.strangers import strangers
from ledger_audit.continuity.exposure.wasted import Rows, wasted_of
from ledger_audit.continuity.repeats import times
from ledger_audit.model.exposure import Fate, Generation

FATES: tuple[Fate, ...] = ("void", "uncommitted", "rolled-back")

_LOST = [fate.replace("-", "_") for fate in FATES]

EFFECTS = {
    "source": pl.String(),
    "epoch": pl.Int32(),
    "promised": pl.Int64(),
    "uses": pl.Int64(),
    **dict.fromkeys(_LOST, pl.List(pl.String())),
    "is_listed": pl.Boolean(),
    "effect": pl.String(),
}
"""
A sample in a pass, with `sample_id`: how often it may be used and was, in the newest weights (of a
document in parts, the most that any of its tokens was); the attempts whose records of it changed no
weights that are left, by fate; whether a list holds it (null: there is none); and what that comes
to: `again`, `fewer`, `never`, or `none` where it was used as often as promised.
"""


@dataclass(frozen=True)
class Run:
    """A whole run that was counted and judged."""

    library: Library
    counted: Counted
    promised: Promised
    repeats: Mapping[str, int]
    """Source → uses of a sample that are promised in one pass."""
    generations: Sequence[Generation]
    """Of those that are over, what is listed and came too seldom is told."""


def effects_of(run: Run, several: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """
    List the samples, each once, some at a time and in no order.

    Args:
        run: what they are samples of.
        several: those of several records, each once, with `uses` and `promised`.

    Returns:
        EFFECTS, with `sample_id`.
    """
    lost, unlisted = _lost(run), _unlisted(run)
    rest = pl.concat([lost.select(SAMPLE), unlisted, _lacking(run)]).unique()
    for samples in several:
        yield _told(run, samples, lost, unlisted)
        rest = rest.join(samples, on=SAMPLE, how="anti", nulls_equal=True)
    # what has no several records was used once, or never
    used = run.counted.seen.among(rest).with_columns(uses=pl.lit(1, pl.Int64))
    rest = rest.join(used, on=SAMPLE, how="left", nulls_equal=True).with_columns(
        pl.col("uses").fill_null(0), promised=promised_uses(rest, run.repeats)
    )
    yield _told(run, rest, lost, unlisted)


def _told(
    run: Run, samples: pl.DataFrame, lost: pl.DataFrame, unlisted: pl.DataFrame
) -> pl.DataFrame:
    """Say what some samples come to, and leave out those that were plainly used."""
    has_list = run.promised.manifest is not None
    marked = unlisted.with_columns(is_listed=pl.lit(value=False))
    rows = samples.join(lost, on=SAMPLE, how="left", nulls_equal=True).join(
        marked, on=SAMPLE, how="left", nulls_equal=True
    )
    is_plain = (
        pl.all_horizontal(pl.col(_LOST).list.len().fill_null(0) == 0)
        & (pl.col("uses") == pl.col("promised"))
        & pl.col("is_listed").is_null()
    )
    effect = (
        pl.when(pl.col("uses") == 0)
        .then(pl.lit("never"))
        .when(pl.col("uses") > pl.col("promised"))
        .then(pl.lit("again"))
        .when(pl.col("uses") < pl.col("promised"))
        .then(pl.lit("fewer"))
        .otherwise(pl.lit("none"))
    )
    listed = pl.col("is_listed").fill_null(value=True) if has_list else pl.lit(None, pl.Boolean)
    return (
        rows.filter(~is_plain)
        .with_columns(pl.col(_LOST).fill_null([]), is_listed=listed, effect=effect)
        .select("source", "epoch", "sample_id", *list(EFFECTS)[2:])
    )


def _lost(run: Run) -> pl.DataFrame:
    """Give the samples whose records changed no weights, with their attempts by fate."""
    rows = Rows(run.library)
    said = {"attempt": pl.lit("", pl.String), "fate": pl.lit("", pl.String)}
    parts = [rows.nothing[1].with_columns(**said)]
    parts += [
        one.ids.with_columns(attempt=pl.lit(one.attempt), fate=pl.lit(one.fate)).select(
            parts[0].columns
        )
        for one in wasted_of(run.library, run.counted, rows)
    ]
    by_fate = [
        pl.col("attempt").filter(pl.col("fate") == fate).unique().sort().alias(name)
        for fate, name in zip(FATES, _LOST, strict=True)
    ]
    return pl.concat(parts).group_by(SAMPLE).agg(by_fate)


def _lacking(run: Run) -> pl.DataFrame:
    """Give the listed samples of passes that are over, without those that were used enough."""
    found = [Rows(run.library).nothing[1]]
    for one in run.generations:
        listed = listed_of(run.promised, one.source)
        if listed is None or not one.is_over:
            continue
        samples = _of(one, listed)
        used = run.counted.seen.among(samples)
        is_enough = times(run.repeats, one.source) == 1
        lacking = samples.join(used, on=SAMPLE, how="anti", nulls_equal=True)
        found.append(lacking if is_enough else samples)
    return pl.concat(found)


def _unlisted(run: Run) -> pl.DataFrame:
    """Give the samples that were used and are in no list."""
    found = [Rows(run.library).nothing[1]]
    for one in run.generations:
        listed = listed_of(run.promised, one.source)
        if listed is not None and one.unlisted:
            of = one.source, one.epoch
            ids = strangers(run.library, run.counted, of, listed, one.unlisted)
            found.append(_of(one, ids))
    return pl.concat(found)


def _of(one: Generation, ids: pl.Series) -> pl.DataFrame:
    return (
        ids.alias("sample_id")
        .to_frame()
        .select(
            pl.lit(one.source, pl.String).alias("source"),
            pl.lit(one.epoch, pl.Int32).alias("epoch"),
            "sample_id",
        )
    )
