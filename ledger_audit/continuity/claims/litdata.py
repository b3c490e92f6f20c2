"""
The state of LitData's StreamingDataLoader, or of its data set alone.

It counts batches by their nominal size, so a short one counts in full. After a resume with other
ranks, workers or batches the rank's own count begins anew, and only that of all ranks goes on.
"""

from dataclasses import replace

from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.values import Numbers, State, natural, number, within

READER = "LitData"
YIELDED = "num_samples_yielded"


def read(state: State) -> Claim | None:
    """Read a loader's or a data set's state, or give null: it is neither."""
    if YIELDED not in state or "current_epoch" not in state:
        return None
    if "latest_worker_idx" in state:
        return _read("dataset.", within(state, "dataset"), state)
    return _read("", state, state) if "num_workers" in state else None


def _read(path: str, dataset: State, loader: State) -> Claim:
    if not isinstance(loader[YIELDED], int):
        return Claim(READER, silence="it counts several data sets apart: they are not compared")
    numbers = Numbers()
    if dataset.get("resume_mode") != "elastic":
        numbers += number(YIELDED, loader[YIELDED], "rank", "epoch", "sequences")
    in_pass = dataset.get("sample_in_epoch")
    numbers += number(f"{path}sample_in_epoch", in_pass, "all", "epoch", "sequences")
    batch = natural(dataset.get("batch_size"))
    return Claim(
        READER,
        tuple(replace(one, batch=batch) for one in numbers.counts),
        epoch=natural(loader["current_epoch"]),
        first_epoch=1,
        seed=natural(dataset.get("seed")),
        workers=natural(dataset.get("num_workers")),
        world_size=natural(dataset.get("world_size")),
        notes=(*numbers.notes, "ranks and workers must stay: with others the order is another"),
    )
