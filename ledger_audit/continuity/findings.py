"""Condenses the outcomes of millions of records into dozens of findings, with examples."""

from collections.abc import Iterable

import polars as pl

from ledger_audit.continuity.frames import SAMPLE
from ledger_audit.model import Amount, ClauseName, Finding
from ledger_audit.model.ranges import Ranges, closed_ranges

MAX_RUNS = 20
MAX_EXAMPLES = 8


def amount(rows: pl.DataFrame) -> Amount:
    """Measure rows: lines of the ledger, distinct samples, tokens (null without spans)."""
    tokens = rows["tokens"]
    return Amount(
        records=rows["record"].n_unique(),
        samples=rows.select(pl.struct(SAMPLE).n_unique()).item(),
        tokens=None if tokens.null_count() == tokens.len() and tokens.len() else int(tokens.sum()),
    )


def outcome_amounts(
    rows: pl.DataFrame, outcomes: Iterable[str], *, spans: bool
) -> dict[str, Amount]:
    """
    Measure every outcome, zero included.

    A record counts as what the worst of its pieces is; tokens count as what they are.

    Args:
        rows: classified RECORDS.
        outcomes: every outcome that a record can have.
        spans: whether spans are logged; without them tokens are null.
    """
    by_worst = rows.group_by("worst").agg(
        pl.col("record").n_unique(), pl.struct(SAMPLE).n_unique().alias("samples")
    )
    by_outcome = rows.group_by("outcome").agg(pl.col("tokens").sum())
    counts = {worst: (records, samples) for worst, records, samples in by_worst.iter_rows()}
    tokens = dict(by_outcome.iter_rows())
    return {
        outcome: Amount(
            *counts.get(outcome, (0, 0)), int(tokens.get(outcome, 0)) if spans else None
        )
        for outcome in outcomes
    }


def runs(rows: pl.DataFrame, code: str, clause: ClauseName) -> list[Finding]:
    """
    Give one finding for each contiguous run of steps among rows of one outcome.

    After MAX_RUNS - 1 runs, the rest is one finding from its first to its last step.
    """
    if rows.is_empty():
        return []
    steps = rows["step"].unique().sort()
    starts = steps.filter((steps.diff() > 1).fill_null(value=True)).head(MAX_RUNS)
    run = starts.search_sorted(rows["step"], side="right")
    parts = rows.with_columns(run=run).sort("order").partition_by("run", maintain_order=True)
    findings = [
        Finding(
            code=code,
            clause=clause,
            ranks=ranges(part["rank"]),
            slots=ranges(part["slot"]),
            first_step=_bound(part["step"].min()),
            last_step=_bound(part["step"].max()),
            amount=amount(part),
            examples=tuple(
                str(one) for one in part["sample_id"].unique(maintain_order=True).head(MAX_EXAMPLES)
            ),
        )
        for part in parts
    ]
    return sorted(findings, key=lambda finding: finding.first_step)


def _bound(step: object) -> int:
    assert isinstance(step, int)
    return step


def ranges(values: pl.Series) -> Ranges:
    """Give the closed ranges that cover exactly the distinct values; nulls have no place."""
    return closed_ranges(values.drop_nulls().unique().to_list())
