"""The stream of a list: sample ids in the order in which they are to be used."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from ledger_audit.errors import UsageError
from ledger_audit.stream.pieces import Derived, Leg, Sharding, piece, sharded


def derive(
    ids: pl.DataFrame,
    sharding: Sharding,
    batch: int,
    *,
    path: Path,
    epochs: int = 1,
    first_epoch: int | None = None,
) -> Derived:
    """
    Deal a list of ids.

    Args:
        ids: sample_id, source (null: none), token_start and token_end (null: the whole sample),
            in order; an id may stand there more than once.
        sharding: to how many ranks, in micro-batches of what size.
        batch: entries of a step; the last step of an epoch may have fewer.
        path: what the list was read from.
        epochs: how often it is gone through, in the same order.
        first_epoch: the label of the first; null: they are not labelled.

    Raises:
        UsageError: there are no ids, or the ranks cannot share a batch.
    """
    sharding.slots(batch)
    if ids.is_empty():
        raise UsageError(f"{path}: lists no id", hint="name a list with one id a line")
    recipe = {
        "file": path.name,
        "entries": ids.height,
        "global_batch": batch,
        "micro_batch": sharding.micro_batch,
        "is_strided": sharding.is_strided,
        "epochs": epochs,
        "first_epoch": first_epoch,
    }
    known = {"micro_batch_size": sharding.micro_batch}
    pieces = _pieces(ids, sharding, batch, epochs, first_epoch)
    return Derived("listing", recipe, sharding.world_size, pieces, known)


def _pieces(
    ids: pl.DataFrame, sharding: Sharding, batch: int, epochs: int, first_epoch: int | None
) -> Iterator[pl.DataFrame]:
    steps = -(-ids.height // batch)
    for number in range(epochs):
        leg = Leg(number * steps + 1, 0, batch, ids.height)
        label = None if first_epoch is None else np.int64(first_epoch + number)
        for positions, places in sharded(iter([leg]), sharding):
            own = ids.slice(int(positions[0]), len(positions))
            spans = {name: own[name] for name in ("source", "token_start", "token_end")}
            epoch = {} if label is None else {"epoch": np.full(len(positions), label)}
            place = {"position": positions + number * ids.height}
            yield piece({**places, **spans, **epoch, **place, "sample_id": own["sample_id"]})
