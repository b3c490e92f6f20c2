"""Notes what looks wrong with the ids themselves, before the failure too: no fault of a resume."""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from ledger_audit.continuity import epochs
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.continuity.limit_codes import limit
from ledger_audit.model import Limit
from ledger_audit.printable import counted, quoted

FEW = 0.1
"""A share of ids that are outside by mistake; more, and ids are no indices of the data set."""
FEWEST = 4
"""Ids of which nothing is concluded."""
MOST_SOURCES = 4
"""Sources that are named one by one."""


def suspicions(facts: Facts) -> list[Limit]:
    """List what should be looked at, though it blocks nothing."""
    found = []
    ids = pl.concat([side.records["sample_id"] for side in facts.known.windows.sides])
    if ids.dtype.is_integer() and (ids < 0).any():
        found.append(limit("negative-ids", "some sample ids are negative"))
    found += _outside(ids, epochs.logged_size(facts.known))
    if _ids_seem_shared(facts):
        text = "one sample id has whole samples of different lengths within an epoch"
        found.append(limit("ids-unique-per-shard-suspected", text))
    if _comes_again(facts):
        text = "the stream comes again in one pass, sample by sample in the same order"
        found.append(limit("source-repeated", text))
    if twice := [*_listed_twice(facts)]:
        told = ", ".join(quoted(one) for one in twice[:MOST_SOURCES])
        more = f" and {len(twice) - MOST_SOURCES} more" if len(twice) > MOST_SOURCES else ""
        text = f"source {told}{more} comes again in one pass, sample by sample in the same order"
        found.append(limit("source-repeated", text))
    return found


def _outside(ids: pl.Series, size: int | None) -> Iterator[Limit]:
    """Find a few ids that are no index of a data set whose other ids are."""
    if size is None or not ids.dtype.is_integer():
        return
    distinct = ids.unique()
    outside = distinct.filter(distinct >= size)
    smallest = outside.min()
    is_few = outside.len() <= max(1, FEW * distinct.len()) and distinct.len() > FEWEST
    if isinstance(smallest, int) and is_few:
        text = f"sample id {smallest} is beyond the {counted(size, 'sample')} of the data set"
        if outside.len() > 1:
            text += f", and so are {outside.len() - 1:,} more"
        yield replace(limit("id-outside-dataset", text), ids=(str(smallest),))


def _ids_seem_shared(facts: Facts) -> bool:
    """An id begins at token 0 more than once in an epoch, and ends elsewhere."""
    if "token_start" not in facts.known.columns:
        return False
    starts = facts.committed.filter(IS_USED, pl.col("token_start") == 0)
    ends = starts.group_by("generation", "source", "sample_id").agg(pl.col("token_end").n_unique())
    return bool((ends["token_end"] > 1).any())


def _listed_twice(facts: Facts) -> Iterator[str]:
    """Name the sources whose samples all come twice or more in a pass, each time in one order."""
    if "source" not in facts.known.columns or not facts.repeats_by_design:
        return
    columns = ["source", "generation", "key", "step", "order"]
    resumed = facts.resumed.filter(IS_USED, ~pl.col("beyond")).select(columns)
    used = pl.concat([facts.committed.filter(IS_USED).select(columns), resumed])
    used = used.sort("step", "order", maintain_order=True).with_columns(
        nth=pl.int_range(pl.len()).over("key")
    )
    for (source, _), rows in used.group_by("source", "generation", maintain_order=True):
        if source is not None and _is_alike(rows, least=2):
            yield str(source)


def _comes_again(facts: Facts) -> bool:
    """Tell whether a pass without sources runs over all its samples, and then again."""
    columns = facts.known.columns
    if not facts.repeats_by_design or "source" in columns or "epoch" not in columns:
        return False
    used = pl.concat(
        [
            rows.filter(IS_USED, ~pl.col("beyond")).select("generation", "key", "step", "order")
            for rows in (facts.committed, facts.resumed)
        ]
    ).sort("step", "order", maintain_order=True)
    for (_,), rows in used.group_by("generation", maintain_order=True):
        numbered = rows.with_columns(nth=pl.int_range(pl.len()).over("key"))
        if numbered["nth"].is_sorted() and _is_alike(numbered, least=FEWEST):
            return True
    return False


def _is_alike(rows: pl.DataFrame, least: int) -> bool:
    """Tell whether most of what comes first comes a second time (`nth`), in the same order."""
    first, again = (rows.filter(nth=n)["key"] for n in (0, 1))
    is_most = again.len() >= least and 2 * again.len() >= first.len()
    return is_most and first.head(again.len()).equals(again)
