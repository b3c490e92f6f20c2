"""Says how many samples a pass should have, as far as the user or the job says it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ledger_audit.continuity.lineage import Attempt
from ledger_audit.errors import UsageError
from ledger_audit.model.exposure import SizeFrom
from ledger_audit.printable import quoted


@dataclass(frozen=True)
class Promised:
    """What a pass should hold, as far as the user says it."""

    samples: Mapping[str | None, int]
    """Source → samples of one pass; null: of the only source."""
    manifest: pl.DataFrame | None
    """sample_id, source (null: any): all samples of a pass, each once; null: there is no list."""
    trusts_digests: bool = False
    """What commits tell is not compared with the records, and proves whole passes without them."""


def check_sources(promised: Promised, rows: Sequence[Mapping[str, Any]]) -> None:
    """
    Refuse a number of samples that would be said of nothing.

    Args:
        promised: by the user.
        rows: the passes, with their `source`.

    Raises:
        UsageError: the number is of a source that the ledger has not, or of no source where it has
            several.
    """
    sources = {row["source"] for row in rows}
    for source in promised.samples:
        if source in sources or (source is None and len(sources) < 2):
            continue
        named = ", ".join(sorted(quoted(one) for one in sources if one is not None))
        what = "it names no source" if source is None else f"no record is of {quoted(source)}"
        raise UsageError(
            f"--samples: {what}",
            hint=f"write SOURCE=N for {named}" if named else "write N alone: there are no sources",
        )


def listed_of(promised: Promised, source: str | None) -> pl.Series | None:
    """Give the ids that the manifest lists for a source; null: there is no manifest."""
    if promised.manifest is None:
        return None
    name = pl.lit(source, pl.String)
    own = promised.manifest.filter(pl.col("source").is_null() | (pl.col("source") == name))
    return own["sample_id"].unique()


def logged_size(chain: Iterable[Attempt]) -> int | None:
    """Give `dataset_samples` as logged; null where it is not, or attempts log different ones."""
    told = {one.fingerprint.get("dataset_samples") for one in chain} - {None}
    size = told.pop() if len(told) == 1 else None
    return size if type(size) is int and size > 0 else None


def size_of(
    promised: Promised,
    source: str | None,
    listed: pl.Series | None,
    *,
    only: bool,
    logged: int | None,
) -> tuple[int | None, SizeFrom | None]:
    """
    Say how many samples a pass has, and what says so.

    Args:
        promised: by the user.
        source: of the pass.
        listed: the ids that a manifest has for it.
        only: there is no other source.
        logged: by the job, of all sources together.
    """
    if listed is not None:
        return len(listed), "manifest"
    said = promised.samples.get(source)
    said = promised.samples.get(None) if said is None and only else said
    if said is not None:
        return said, "samples"
    return (logged, "dataset_samples") if only and logged is not None else (None, None)
