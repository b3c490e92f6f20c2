"""
Knows what the weights of a loaded checkpoint really hold, where its label is behind them.

The order of writing decides: an update that was committed before the state was snapshot is in it.
"""

from dataclasses import replace

import polars as pl

from ledger_audit.continuity.classify import Classified
from ledger_audit.continuity.windows import Source
from ledger_audit.printable import counted

MOST_AHEAD = 64
"""Updates that a snapshot may hold beyond its label; more is not looked for."""


def held_by(source: Source, index: int) -> int:
    """
    Give the last update that the checkpoint loaded by an attempt of the lineage holds.

    It is the label's step, unless every rank that tells when it began to save had committed
    later ones by then.
    """
    before, after = source.lineage.chain[index - 1], source.lineage.chain[index]
    step = after.resumed_at or 0
    if "kind" not in source.acts.columns:
        return step
    phase = pl.col("data").str.json_path_match("$.phase")
    begins = (
        source.acts.filter(attempt=before.label, kind="checkpoint", step=step)
        .filter(phase == "begin")
        .group_by("rank")
        .agg(begun=pl.col("seq").max())
    )
    if begins.is_empty():
        return step
    commits = source.tries(before.label, step + 1, step + MOST_AHEAD).filter(kind="commit")
    held = (
        begins.join(commits, on="rank", how="left")
        .group_by("rank")
        .agg(pl.col("step").filter(pl.col("seq") < pl.col("begun")).max().fill_null(step))
    )
    least = held["step"].min()
    return least if isinstance(least, int) else step


def going_on(source: Source, index: int, held: int) -> Source:
    """Let a resumed attempt go on after what its checkpoint holds, where its records do."""
    chain = source.lineage.chain
    first = chain[index].first_step
    if first is None or first != held + 1:
        return source
    known = (*chain[:index], replace(chain[index], resumed_at=held), *chain[index + 1 :])
    return replace(source, lineage=replace(source.lineage, chain=known))


def trained_again(classified: Classified, label: int, held: int) -> str | None:
    """Say how much of what the weights hold beyond their label was used again; null: nothing."""
    rows = classified.resumed.filter(pl.col("ref_step") <= held)
    records = rows["record"].n_unique()
    if not records:
        return None
    updates = f"update {held}" if held == label + 1 else f"updates {label + 1} to {held}"
    return (
        f"{counted(records, 'record')} of {updates} again: the checkpoint labelled {label} was "
        "taken after them"
    )
