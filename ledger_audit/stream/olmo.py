"""
The stream of OLMo-core: its file of global indices, raw numbers without a header.

A global batch holds neighbours in the file; every W-th of it is a rank's. An instance is a window
of a token file: files in order, each with as many whole windows as it holds.
Source: the files that OLMo-core 3.0 writes, `global_indices…_dataset_size{N}_epoch{E}_seed{S}_v1`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from ledger_audit.errors import UnreadableError, UsageError
from ledger_audit.stream.pieces import Derived, Integers, Leg, Sharding, piece, sharded

_NAME = re.compile(r"global_indices.*_dataset_size(?P<size>\d+)(_epoch(?P<epoch>\d+))?(_seed\d+)?")


@dataclass(frozen=True)
class Tokens:
    """The token files of a data set, cut into windows."""

    files: Sequence[Path]
    sequence_length: int
    """Tokens of a window."""
    width: int
    """Bytes of a token."""

    def windows(self) -> Integers:
        """
        Count the windows of each file.

        Raises:
            UnreadableError: a file is not there.
        """
        found = []
        for file in self.files:
            if not file.is_file():
                raise UnreadableError(
                    f"{file}: is not there", hint="name the token files in the run's own order"
                )
            found.append(file.stat().st_size // self.width // self.sequence_length)
        return np.array(found, dtype=np.int64)


def derive(
    indices: Sequence[Path], sharding: Sharding, batch: int, *, tokens: Tokens | None = None
) -> Derived:
    """
    Work out the stream of some epochs.

    Args:
        indices: the files of global indices, one for each epoch, in the order of the epochs.
        sharding: to how many ranks, in micro-batches of what size.
        batch: instances of a step; what fills none at the end of an epoch is not trained on.
        tokens: the token files; null: ids are numbers of instances, as `data-indices` has them.

    Raises:
        UnreadableError: a file is missing, cut, or is no file of global indices.
        UsageError: the ranks cannot share a batch, or the token files are others.
    """
    sharding = Sharding(sharding.world_size, sharding.micro_batch, is_strided=True)
    sharding.slots(batch)
    epochs = [_Indices.open(path) for path in indices]
    windows = None if tokens is None else tokens.windows()
    for one in epochs:
        if len(one.order) < batch:
            raise UsageError(
                f"{one.path}: {len(one.order):,} instances fill no global batch of {batch:,}",
                hint="give the instances, not the tokens, of a global batch",
            )
        if windows is not None and int(windows.sum()) != len(one.order):
            raise UsageError(
                f"the token files have {int(windows.sum()):,} windows, and {one.path} is of "
                f"{len(one.order):,}",
                hint="name all token files in the run's order, their token size, and its sequence "
                "length",
            )
    recipe = {
        "files": [one.path.name for one in epochs],
        "global_batch": batch,
        "micro_batch": sharding.micro_batch,
        "sequence_length": None if tokens is None else tokens.sequence_length,
    }
    known = {"dataset_samples": len(epochs[0].order), "micro_batch_size": sharding.micro_batch}
    pieces = _pieces(epochs, sharding, batch, tokens, windows)
    return Derived("olmo", recipe, sharding.world_size, pieces, known)


@dataclass(frozen=True)
class _Indices:
    """The order of one epoch."""

    path: Path
    order: Integers
    epoch: int | None
    """Null: the data is not shuffled, and every epoch is alike."""

    @staticmethod
    def open(path: Path) -> "_Indices":
        """Map a file into memory; its name tells how many numbers it must hold."""
        named = _NAME.match(path.name)
        if named is None:
            raise UnreadableError(
                f"{path}: is no file of global indices by its name",
                hint="name global_indices…_dataset_size{N}_epoch{E}_seed{S}_v1.npy in the work "
                "folder of the run",
            )
        size = int(named["size"])
        try:
            order = np.memmap(path, dtype="<u4", mode="r")
        except (OSError, ValueError) as problem:
            raise UnreadableError(
                f"{path}: cannot be read: {problem}", hint="copy it again from the run"
            ) from problem
        if len(order) != size or (size and int(order.max()) >= size):
            raise UnreadableError(
                f"{path}: is not {size:,} numbers below {size:,}, as its name says",
                hint="it is cut or was changed: copy it again from the run",
            )
        return _Indices(path, order, None if named["epoch"] is None else int(named["epoch"]))


def _pieces(
    epochs: Sequence[_Indices],
    sharding: Sharding,
    batch: int,
    tokens: Tokens | None,
    windows: Integers | None,
) -> Iterator[pl.DataFrame]:
    step, before = 1, 0
    for number, one in enumerate(epochs, 1):
        steps = len(one.order) // batch
        leg = Leg(step, 0, batch, steps * batch)
        epoch = number if one.epoch is None else one.epoch
        for positions, places in sharded(iter([leg]), sharding):
            numbers = np.asarray(one.order[positions], dtype=np.int64)
            named = _named(numbers, tokens, windows)
            yield piece(
                {
                    **places,
                    **named,
                    "epoch": np.full(len(numbers), epoch),
                    "position": positions + before,
                }
            )
        step, before = step + steps, before + steps * batch


def _named(
    numbers: Integers, tokens: Tokens | None, windows: Integers | None
) -> dict[str, pl.Series | Integers]:
    """Give id and span of instances: file and window, or the number alone."""
    if tokens is None or windows is None:
        return {"sample_id": numbers}
    begins = np.cumsum(windows) - windows
    file = np.searchsorted(begins + windows, numbers, side="right")
    start = (numbers - begins[file]) * tokens.sequence_length
    names = pl.Series([one.name for one in tokens.files], dtype=pl.String)
    return {
        "sample_id": names.gather(pl.Series(file)),
        "token_start": start,
        "token_end": start + tokens.sequence_length,
    }
