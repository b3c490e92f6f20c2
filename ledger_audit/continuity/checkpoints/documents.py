"""Counts distinct documents, some ranks at a time: each is counted where it is first used."""

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.checkpoints.branch import Leg
from ledger_audit.continuity.checkpoints.walk import Walk
from ledger_audit.continuity.frames import IS_USED

MOST = 1 << 23
"""Rows of a lineage whose documents are in memory at once."""

KEYS = ["rank", "epoch", "source", "sample_id"]
COUNTS = {"edge": pl.Int64(), "rank": pl.Int32(), "epoch": pl.Int32(), "documents": pl.Int64()}


def documents_of(
    archive: Archive, walks: Mapping[str, Walk], branches: Iterable[Sequence[Leg]]
) -> dict[str, pl.DataFrame]:
    """
    Count the documents that each attempt's checkpoints stand on, of its whole lineage.

    Args:
        archive: the ledger.
        walks: by attempt.
        branches: the legs of one checkpoint of each attempt that is asked for.

    Returns:
        Attempt → COUNTS: documents that the lineage first used in the updates up to an edge; those
        of earlier attempts have the edge -1.
    """
    wanted = {legs[-1].attempt.label: legs for legs in branches}
    ranks = sorted({rank for walk in walks.values() for rank in walk.committed["rank"].unique()})
    rows = sum(archive.size(label) for label in walks)
    groups = max(1, min(len(ranks), -(-rows // MOST)))
    found: dict[str, list[pl.DataFrame]] = {label: [] for label in wanted}
    for group in range(groups):
        own = ranks[group::groups]
        first_uses: dict[str, pl.DataFrame] = {}
        for label, legs in wanted.items():
            found[label].append(_counted(archive, walks, legs, own, first_uses))
    return {label: pl.concat(parts) for label, parts in found.items() if parts}


def _counted(
    archive: Archive,
    walks: Mapping[str, Walk],
    legs: Sequence[Leg],
    ranks: Sequence[int],
    first_uses: dict[str, pl.DataFrame],
) -> pl.DataFrame:
    """Count those of some ranks; what was read of an attempt is kept in `first_uses`."""
    own = [leg for leg in legs if leg.attempt.label in walks]
    if len(own) == 1 and walks[own[0].attempt.label].looked_at.is_empty():
        # nothing was used before, and nothing is to be added: only the numbers are needed
        walk = walks[own[0].attempt.label]
        uses = _lazily(archive, walk, ranks).group_by("rank", "epoch", "step").agg(pl.len())
        counts = archive.read(uses).join(_committed(walk), on="step")
        counts = counts.group_by("edge", "rank", "epoch").agg(documents=pl.col("len").sum())
        return counts.select(pl.col(name).cast(dtype) for name, dtype in COUNTS.items())
    parts = [pl.DataFrame(schema={**archive.source.none().select(KEYS).schema, "edge": pl.Int64()})]
    for leg in own:
        label = leg.attempt.label
        if label not in first_uses:
            first_uses[label] = _first_uses(archive, walks[label], ranks)
        uses_of = first_uses[label]
        if leg is not legs[-1]:
            before = uses_of.filter(pl.col("edge") <= leg.last)
            uses_of = before.with_columns(edge=pl.lit(-1, pl.Int64))
        parts.append(uses_of)
    first = pl.concat(parts).group_by(KEYS).agg(pl.col("edge").min())
    numbers = first.group_by("edge", "rank", "epoch").agg(pl.len().alias("documents"))
    return numbers.select(pl.col(name).cast(dtype) for name, dtype in COUNTS.items())


def _committed(walk: Walk) -> pl.DataFrame:
    return walk.steps.filter("committed").select("step", "edge")


def _lazily(archive: Archive, walk: Walk, ranks: Sequence[int]) -> pl.LazyFrame:
    """Ask for the first uses in committed steps of which not every record was read before."""
    odd = [walk.steps.filter(~pl.col("committed"))["step"], walk.looked_at["step"]]
    last = walk.steps.filter("committed")["step"].max()
    until = last if isinstance(last, int) else -1
    return archive.documents(walk.attempt.label, ranks, until, pl.concat(odd).unique())


def _first_uses(archive: Archive, walk: Walk, ranks: Sequence[int]) -> pl.DataFrame:
    """Give each document of some ranks with the edge up to which a committed update used it."""
    seen = walk.looked_at.filter(IS_USED, pl.col("rank").is_in(list(ranks)))
    uses = [archive.read(_lazily(archive, walk, ranks)), seen.select(*KEYS, "step")]
    merged = pl.concat(uses).join(_committed(walk), on="step")
    return merged.group_by(KEYS).agg(pl.col("edge").min())


def at(counts: pl.DataFrame, step: int) -> pl.DataFrame:
    """Add up the documents first used up to a step: rank, epoch, documents."""
    own = counts.filter(pl.col("edge") <= step)
    return own.group_by("rank", "epoch").agg(pl.col("documents").sum())
