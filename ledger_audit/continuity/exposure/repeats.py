"""
Looks at the records of samples that may have been used more than once, and says which are repeats.

A sample without spans is used again by every record of a pass beyond the promised number; a span,
by every record of which more tokens than neighbours may share had been used so often.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.exposure.counting import Counted, again, found
from ledger_audit.continuity.exposure.depths import used_again
from ledger_audit.continuity.exposure.library import PASS, Library
from ledger_audit.continuity.findings import MAX_EXAMPLES
from ledger_audit.continuity.repeats import times

BYTES = 1 << 10
"""Memory for each record that is looked at."""
FEWEST = 1 << 16
"""Records that are looked at at once, at least."""

SAMPLE = [*PASS, "sample_id"]
END = (1 << 63) - 1
"""Where a whole sample ends."""

ORDER = ["place", "step", "slot", "rank", "row", "seq"]

EXTRA = {
    "source": pl.String(),
    "epoch": pl.Int32(),
    "place": pl.Int64(),
    "attempt": pl.String(),
    "step": pl.Int64(),
    "records": pl.Int64(),
    "tokens": pl.Int64(),
    "ranks": pl.List(pl.Int32()),
    "earliest": pl.Int64(),
    "latest": pl.Int64(),
}
"""
Repeats of one pass in one step, with `examples`, the lowest of their ids; `earliest` and `latest`:
steps of the uses before them.
"""

USES = {
    "source": pl.String(),
    "epoch": pl.Int32(),
    "uses": pl.Int64(),
    "samples": pl.Int64(),
}
"""
How many samples of several records have so many uses; of a document in parts, the most that any
of its tokens has.
"""

SEVERAL = {
    "source": pl.String(),
    "epoch": pl.Int32(),
    "samples": pl.Int64(),
    "records": pl.Int64(),
    "inner": pl.Int64(),
}
"""Samples of several records, these records, and those of them that begin inside a document."""

TOKENS = {
    "source": pl.String(),
    "epoch": pl.Int32(),
    "again": pl.Int64(),
    "between": pl.Int64(),
    "late": pl.Int64(),
}
"""Of documents used in parts: tokens used again, tokens between parts, those begun late."""


@dataclass(frozen=True)
class Again:
    """What was used more than once."""

    extra: pl.DataFrame
    """EXTRA."""
    uses: pl.DataFrame
    """USES."""
    several: pl.DataFrame
    """SEVERAL."""
    tokens: pl.DataFrame
    """TOKENS."""


def nothing(id_type: pl.DataType) -> Again:
    """Give that nothing was."""
    return Again(
        pl.DataFrame(schema={**EXTRA, "examples": pl.List(id_type)}),
        pl.DataFrame(schema=USES),
        pl.DataFrame(schema=SEVERAL),
        pl.DataFrame(schema=TOKENS),
    )


def several_of(
    library: Library,
    counted: Counted,
    repeats: Mapping[str, int],
    overlap: int,
    memory: int,
) -> Iterator[pl.DataFrame]:
    """
    Give the samples of several records, each once: SAMPLE, `uses` and `promised`.

    Uses of a document in parts are the most that any of its tokens has. Arguments as of
    `repeats_of`.
    """
    for rows in _suspected(library, counted, repeats, memory):
        yield _uses(rows, overlap).join(
            rows.select(*SAMPLE, promised="most").unique(), on=SAMPLE, nulls_equal=True
        )


def repeats_of(
    library: Library,
    counted: Counted,
    repeats: Mapping[str, int],
    overlap: int,
    memory: int,
) -> Again:
    """
    Find what was used more often than promised.

    Args:
        library: the ledger.
        counted: what the newest weights used.
        repeats: source → uses of a sample that are promised in one pass.
        overlap: tokens that neighbouring spans share by design.
        memory: bytes that may be used.
    """
    parts = [_part(rows, overlap) for rows in _suspected(library, counted, repeats, memory)]
    return together(nothing(library.id_type), parts)


def _suspected(
    library: Library, counted: Counted, repeats: Mapping[str, int], memory: int
) -> Iterator[pl.DataFrame]:
    """Give all records of the samples that have several, some samples at a time."""
    if counted.seen.is_clean(counted.records):
        return
    seen = again(library, counted)
    for where in seen.suspects(counted.records, max(FEWEST, memory // BYTES)):
        yield _several(found(library, counted, where), repeats)


def together(none: Again, parts: Iterable[Again]) -> Again:
    """Add up what was found of different samples, and nothing."""
    every = [none, *parts]
    extra, uses, several, tokens = (
        pl.concat([getattr(part, name) for part in every])
        for name in ("extra", "uses", "several", "tokens")
    )
    uses = uses.group_by(*PASS, "uses").agg(pl.col("samples").sum())
    return Again(
        _together(extra),
        uses.sort(*PASS, "uses"),
        several.group_by(PASS).agg(pl.col("samples", "records", "inner").sum()),
        tokens.group_by(PASS).agg(pl.col("again", "between", "late").sum()),
    )


def _several(rows: pl.DataFrame, repeats: Mapping[str, int]) -> pl.DataFrame:
    """Keep the records of samples that have several, in the order of the run."""
    rows = rows.filter(pl.len().over(SAMPLE) > 1).sort(*ORDER)
    rows = rows.with_columns(
        start=pl.col("token_start").fill_null(0),
        end=pl.col("token_end").fill_null(END),
        has_span=pl.col("token_start").is_not_null() & pl.col("token_end").is_not_null(),
        nth=pl.int_range(pl.len()).over(SAMPLE),
        turn=pl.int_range(pl.len(), dtype=pl.Int64),
        first_use=pl.col("step").first().over(SAMPLE),
    )
    return rows.with_columns(
        most=promised_uses(rows, repeats), in_parts=pl.col("has_span").any().over(SAMPLE)
    )


def _uses(rows: pl.DataFrame, overlap: int) -> pl.DataFrame:
    """Count the uses of each sample: SAMPLE, uses."""
    return pl.concat([_times(rows), _spans(rows.filter("in_parts"), overlap)[1]])


def _times(rows: pl.DataFrame) -> pl.DataFrame:
    """Count the uses of each whole sample: SAMPLE, uses."""
    whole = rows.filter(~pl.col("in_parts"))
    return whole.group_by(SAMPLE).agg(pl.len().cast(pl.Int64).alias("uses"))


def _part(rows: pl.DataFrame, overlap: int) -> Again:
    """Look at all records of some samples."""
    several = rows.group_by(PASS).agg(
        samples=pl.col("sample_id").n_unique(),
        records=pl.len(),
        inner=(pl.col("start") > 0).sum(),
    )
    whole = rows.filter(~pl.col("in_parts"))
    extra = whole.filter(pl.col("nth") >= pl.col("most")).with_columns(
        latest=pl.col("first_use"), again=pl.lit(None, pl.Int64)
    )
    parted, uses, tokens = _spans(rows.filter("in_parts"), overlap)
    uses = pl.concat([_times(rows), uses])
    counts = uses.group_by(*PASS, "uses").agg(pl.len().cast(pl.Int64).alias("samples"))
    return Again(
        _by_step(pl.concat([extra.select(_FOUND), parted.select(_FOUND)])),
        counts.select(list(USES)),
        several.select(pl.col(name).cast(dtype) for name, dtype in SEVERAL.items()),
        tokens,
    )


_FOUND = [*SAMPLE, "place", "attempt", "step", "rank", "turn", "first_use", "latest", "again"]


def promised_uses(rows: pl.DataFrame, repeats: Mapping[str, int]) -> pl.Expr:
    """Say how often each sample may be used in one pass."""
    sources = rows["source"].unique().to_list()
    named = {source: times(repeats, source) for source in sources if source is not None}
    most = pl.lit(times(repeats, None), pl.Int64)
    if not named:
        return most
    told = pl.col("source").replace_strict(named, default=None, return_dtype=pl.Int64)
    return pl.coalesce(told, most)


def _spans(rows: pl.DataFrame, overlap: int) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Give the spans that were used before, the uses of their documents, and TOKENS."""
    ordered = rows.sort(*SAMPLE, "start", "end", "turn").with_columns(
        reach=pl.col("end").cum_max().shift(1).over(SAMPLE)
    )
    shared = pl.min_horizontal("end", "reach") - pl.col("start")
    is_first = pl.col("reach").is_null()  # the smaller of an end and nothing is the end
    ordered = ordered.with_columns(
        is_shared=(~is_first & (shared > overlap)),
        hole=(pl.col("start") - pl.col("reach")).clip(0).fill_null(0),
    )
    documents = ordered.group_by(SAMPLE).agg(
        between=pl.col("hole").sum(),
        late=pl.col("start").min() > 0,
        is_shared=pl.col("is_shared").any(),
    )
    doubted = documents.filter("is_shared").select(SAMPLE)
    found, deepest = used_again(
        rows.join(doubted, on=SAMPLE, how="semi", nulls_equal=True), SAMPLE, overlap, END
    )
    uses = documents.join(deepest, on=SAMPLE, how="left", nulls_equal=True)
    again = found.group_by(PASS).agg(pl.col("again").sum())
    tokens = documents.group_by(PASS).agg(pl.col("between", "late").sum())
    tokens = tokens.join(again, on=PASS, how="left", nulls_equal=True)
    tokens = tokens.with_columns(pl.col("again").fill_null(0))
    return (
        found,
        uses.select(*SAMPLE, uses=pl.col("depth").fill_null(1).cast(pl.Int64)),
        tokens.select(pl.col(name).cast(dtype) for name, dtype in TOKENS.items()),
    )


def _by_step(rows: pl.DataFrame) -> pl.DataFrame:
    """Add up repeats by pass and step: EXTRA."""
    return (
        rows.sort("turn")
        .group_by(*PASS, "place", "attempt", "step", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("records"),
            pl.col("again").sum().alias("tokens"),
            pl.col("rank").unique().alias("ranks"),
            pl.col("first_use").min().alias("earliest"),
            pl.col("latest").max(),
            pl.col("sample_id").unique().sort().head(MAX_EXAMPLES).alias("examples"),
        )
        .select(*(pl.col(name).cast(dtype) for name, dtype in EXTRA.items()), "examples")
    )


def _together(extra: pl.DataFrame) -> pl.DataFrame:
    """Put together what different looks found in one step."""
    return (
        extra.group_by(*PASS, "place", "attempt", "step")
        .agg(
            pl.col("records", "tokens").sum(),
            pl.col("ranks").explode().unique().sort(),
            pl.col("earliest").min(),
            pl.col("latest").max(),
            pl.col("examples").explode().unique().sort().head(MAX_EXAMPLES),
        )
        .select(*EXTRA, "examples")
        .sort(*PASS, "place", "step")
    )
