"""Compares epochs that ended after the resume with a whole one: some faults wait for them."""

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl

from ledger_audit.continuity import declared
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.frames import IS_USED, SEQUENCE
from ledger_audit.continuity.repeats import times
from ledger_audit.model import LaterEpoch


def audit_later_epochs(
    facts: Facts,
    *,
    is_narrow: bool,
    skipped_before: pl.DataFrame | None = None,
    repeats: Mapping[str, int] = MappingProxyType({}),
) -> tuple[LaterEpoch, ...]:
    """
    Compare every epoch that was over after the resume with the first whole one, or with N.

    Where only a window of steps was read, epochs that began before it are left out. What earlier
    resumes skipped is not missed again. `repeats` says how often a source's sample may be used.

    `missing` is null where nothing says how many there should be, or where records that are
    known to be missing, unlogged ranks or declared acts may be why they are.
    """
    if "epoch" not in facts.known.columns:
        return ()
    unopened = pl.concat([facts.known.windows.committed.passes, facts.known.windows.resumed.passes])
    columns = ["generation", "key", "sample_id", "step", "order", "is_void", *SEQUENCE[:2]]
    committed = facts.committed.with_columns(is_void=~IS_USED).select(*columns)
    resumed = facts.resumed.filter(~pl.col("beyond")).with_columns(is_void=~IS_USED)
    lineage = pl.concat([committed, resumed.select(*columns)])
    over = facts.ends.filter("over", pl.col("last_step").is_not_null()).sort("generation")
    if is_narrow:
        over = over.filter(_began_in_view(facts))
    orders = _orders(lineage) if unopened.is_empty() else {}
    found = []
    for row in over.iter_rows(named=True):
        first = _first_whole(facts, row, is_narrow=is_narrow)
        own = lineage.filter(pl.col("generation") == row["generation"])
        base = None if first is None else lineage.filter(pl.col("generation") == first)
        distinct = own["key"].n_unique() + _unopened(unopened, row)
        whole = None
        if base is not None:
            of_first = facts.ends.row(by_predicate=pl.col("generation") == first, named=True)
            whole = base["key"].n_unique() + _unopened(unopened, of_first)
        missing = _missing(facts, distinct, whole)
        repeated = _repeated(facts, own, base, whole, times(repeats, row["source"]))
        if missing and skipped_before is not None:
            missing = max(0, missing - _known_to_be_skipped(skipped_before, row, own))
        found.append(
            LaterEpoch(
                epoch=row["epoch"],
                source=row["source"],
                missing=missing,
                repeated=repeated,
                same_order_as=_same_order(facts, row, orders),
                is_broken=(missing or 0) >= facts.recipe.global_batch or bool(repeated),
            )
        )
    return tuple(found)


def _unopened(passes: pl.DataFrame, row: Mapping[str, object]) -> int:
    """Count the samples of an epoch that are known to have been used, each of them once."""
    is_own = pl.col("source").eq_missing(pl.lit(row["source"], pl.String)) & pl.col(
        "epoch"
    ).eq_missing(pl.lit(row["epoch"], pl.Int32))
    return int(passes.filter(is_own)["n"].sum())


def _began_in_view(facts: Facts) -> pl.Expr:
    """An earlier epoch of the same source is in view: this one's beginning was read, too."""
    seen = pl.concat([facts.committed, facts.resumed.select(facts.committed.columns)])
    seen = seen.filter(~pl.col("beyond"))
    groups = ["source"] if "source" in facts.known.columns else []
    first = seen.group_by(groups or [pl.lit(0)]).agg(pl.col("epoch").min().alias("first"))
    if not groups:
        return pl.col("epoch") > pl.lit(first["first"].item() if first.height else None, pl.Int32)
    began = facts.ends.join(first, on="source", how="left", nulls_equal=True)
    began = began.filter(pl.col("epoch") > pl.col("first"))
    return pl.col("generation").is_in(began["generation"].implode())


def _first_whole(facts: Facts, row: dict[str, object], *, is_narrow: bool) -> int | None:
    """Find the first epoch of the same source that is over, before or after the resume."""
    table = facts.ends.filter(
        "over",
        pl.col("epoch") < pl.lit(row["epoch"]),
        pl.col("source").eq_missing(pl.lit(row["source"], pl.String))
        if "source" in facts.known.columns
        else pl.lit(value=True),
    )
    if is_narrow:
        table = table.filter(_began_in_view(facts))
    present = facts.ends.filter(pl.col("distinct") > 0)["generation"]
    whole = table.filter(pl.col("generation").is_in(present.implode()))["generation"].min()
    return whole if isinstance(whole, int) else None


def _known_to_be_skipped(skipped: pl.DataFrame, row: dict[str, object], own: pl.DataFrame) -> int:
    """Count the samples of an epoch that an earlier resume skipped and nothing made up for."""
    of_epoch = skipped.filter(
        pl.col("epoch").eq_missing(pl.lit(row["epoch"], pl.Int32)),
        pl.col("source").eq_missing(pl.lit(row["source"], pl.String)),
    )
    return of_epoch.unique().join(own, on="sample_id", how="anti").height


def _is_excused(facts: Facts) -> bool:
    windows = facts.known.windows
    return (
        facts.missing > 0
        or windows.committed.missing > 0
        or bool(windows.committed.torn)
        or windows.committed.is_sampled
        or windows.resumed.is_sampled
        or bool(declared.acts(windows.resumed.attempts, windows.checkpoint_step))
    )


def _missing(facts: Facts, distinct: int, whole: int | None) -> int | None:
    wanted = facts.size if whole is None else whole
    if wanted is None or _is_excused(facts):
        return None
    return max(0, wanted - distinct)


def _repeated(
    facts: Facts, own: pl.DataFrame, base: pl.DataFrame | None, whole: int | None, most: int
) -> int | None:
    """
    Count repeats beyond what padding, or the first whole epoch, explains.

    Uses of a sample up to `most` are declared: no repeats. `whole`: samples of that epoch.
    """
    if base is None and facts.size is None:
        return None
    used = own.filter(~pl.col("is_void"))
    repeats = used.height - used["key"].n_unique()
    if most > 1:
        uses = used.group_by("key").agg(pl.len())["len"]
        repeats = int((uses.cast(pl.Int64) - most).clip(0).sum())
    size = facts.size if base is None else whole
    allowed = facts.recipe.largest_padding(size, of_rest=facts.is_redealt)
    if base is not None:
        before = base.filter(~pl.col("is_void"))
        repeated = before.height - before["key"].n_unique()
        if repeated > allowed:  # by design: what is dropped at an epoch's end may differ
            allowed = repeated + facts.recipe.global_batch
    elif facts.repeats_by_design:
        return None
    return max(0, repeats - allowed)


def _orders(lineage: pl.DataFrame) -> dict[int, list[object]]:
    """Give the samples of each generation in the order of steps."""
    rows = lineage.filter(~pl.col("is_void")).sort("step", "order")
    grouped = rows.group_by("generation", maintain_order=True).agg("sample_id")
    return {row["generation"]: row["sample_id"] for row in grouped.iter_rows(named=True)}


def _same_order(
    facts: Facts, row: dict[str, object], orders: dict[int, list[object]]
) -> int | None:
    """Name an earlier epoch of the same source with exactly this one's order."""
    own = row["generation"]
    assert isinstance(own, int)
    if len(orders.get(own, [])) < 2:
        return None
    earlier = facts.ends.filter(
        pl.col("source").eq_missing(pl.lit(row["source"], pl.String))
        if "source" in facts.known.columns
        else pl.lit(value=True),
        pl.col("epoch") < pl.lit(row["epoch"]),
    ).sort("epoch")
    for generation, epoch in earlier.select("generation", "epoch").iter_rows():
        if orders.get(generation) == orders[own]:
            assert isinstance(epoch, int)
            return epoch
    return None
