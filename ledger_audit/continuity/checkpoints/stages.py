"""Counts what an attempt had read, queued and dropped when a state was snapshot."""

from collections.abc import Mapping

import polars as pl

from ledger_audit.continuity.checkpoints.archive import Archive

STAGES = ("read", "queued", "dropped")


def staged(archive: Archive, label: str, snapshots: pl.DataFrame) -> dict[int, Mapping[str, int]]:
    """
    Count unused records before each snapshot of an attempt, of all ranks.

    Args:
        archive: the ledger.
        label: the attempt.
        snapshots: SNAPSHOTS of its checkpoints.

    Returns:
        Checkpoint → stage → records. A stage that it logs nothing of is not there, nor is one
        that a rank without a snapshot logs: how much of that came before is not known. Nothing
        is there where records were put away on purpose.
    """
    stages = archive.stages.intersection(STAGES)
    if not stages or snapshots.is_empty() or label in archive.put_away:
        return {}
    counts = archive.staged(label, snapshots.select("rank", "seq"))
    found: dict[int, Mapping[str, int]] = {}
    for (place,), own in snapshots.partition_by("checkpoint", as_dict=True).items():
        before = own.select("rank", "seq").join(counts, on=["rank", "seq"])
        of_stage = {}
        for stage in sorted(stages):
            logging = counts.filter(pl.col("stage") == stage, pl.col("seq").is_null())
            if logging.height and logging["rank"].is_in(own["rank"].implode()).all():
                of_stage[stage] = int(before.filter(stage=stage)["n"].sum())
        found[int(str(place))] = of_stage
    return found
