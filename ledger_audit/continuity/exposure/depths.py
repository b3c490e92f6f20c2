"""Follows how often each token of a document was used, record by record in the stream's order."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

_FOUND = {
    "again": pl.Int64(),
    "first_use": pl.Int64(),
    "latest": pl.Int64(),
}
"""Tokens of a record that had been used as often as promised (null: it has no number of tokens),
and the first and the last step in which any of them was used before."""


def used_again(
    rows: pl.DataFrame, sample: Sequence[str], overlap: int, whole: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """
    Find the records whose tokens had been used as often as promised.

    Args:
        rows: records with `turn` (their place in the stream), `step`, `start`, `end`, and `most`,
            the uses that are promised.
        sample: the columns that tell documents apart.
        overlap: tokens at each end of a span that its neighbours may share.
        whole: the `end` of a record without a span: it reaches as far as any of its document.

    Returns:
        These records with `again`, `first_use` and `latest`; and each document with `depth`, the
        most uses that a token of it has.
    """
    ordered = rows.sort(*sample, "turn")
    document = ordered.select(pl.struct(sample).rle_id()).to_series().to_numpy()
    starts = np.flatnonzero(np.diff(document, prepend=-1)) if len(document) else np.array([], int)
    ends = [*starts[1:].tolist(), ordered.height] if len(starts) else []
    columns = {name: ordered[name].to_numpy() for name in ("start", "end", "step", "most")}
    found, depths = [], []
    for first, last in zip(starts.tolist(), ends, strict=True):
        own = {name: values[first:last] for name, values in columns.items()}
        again, depth = _of_document(own, overlap, whole)
        found += [(first + place, *told) for place, *told in again]
        depths.append((first, depth))
    chosen = pl.DataFrame(found, schema={"place": pl.Int64(), **_FOUND}, orient="row")
    told = ordered.drop("first_use", strict=False)[chosen["place"]]
    deepest = pl.DataFrame(depths, schema={"place": pl.Int64(), "depth": pl.Int64()}, orient="row")
    return (
        pl.concat([told, chosen.select(list(_FOUND))], how="horizontal"),
        pl.concat(
            [ordered[deepest["place"]].select(sample), deepest.select("depth")], how="horizontal"
        ),
    )


def _of_document(
    own: dict[str, Any], overlap: int, whole: int
) -> tuple[list[tuple[int, int | None, int, int]], int]:
    """Follow one document through its records: those used again, and the deepest use."""
    start, is_whole = own["start"], own["end"] == whole
    known = own["end"][~is_whole].max(initial=int(start.max()) + 1)
    stop = np.where(is_whole, known, own["end"])
    edges = np.unique(np.concatenate([start, stop]))
    lengths = np.diff(edges)
    low, high = np.searchsorted(edges, start), np.searchsorted(edges, stop)
    uses = np.zeros(len(lengths), np.int64)
    first, latest = uses.copy(), uses.copy()
    found: list[tuple[int, int | None, int, int]] = []
    for place, (one, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        deep = np.flatnonzero(uses[one:end] >= own["most"][place]) + one
        if len(deep) and _is_more(edges, deep, int(start[place]), int(stop[place]), overlap):
            tokens = None if is_whole[place] else int(lengths[deep].sum())
            found.append((place, tokens, int(first[deep].min()), int(latest[deep].max())))
        fresh = uses[one:end] == 0
        first[one:end][fresh] = own["step"][place]
        latest[one:end] = own["step"][place]
        uses[one:end] += 1
    return found, int(uses.max(initial=0))


def _is_more(edges: Any, deep: Any, start: int, stop: int, overlap: int) -> bool:
    """Tell whether more of a span was used before than its neighbours may share at its ends."""
    if stop - start <= 2 * overlap:
        return bool((edges[deep + 1] - edges[deep]).sum() > overlap)
    inner = np.minimum(edges[deep + 1], stop - overlap) - np.maximum(edges[deep], start + overlap)
    return bool((inner > 0).any())
