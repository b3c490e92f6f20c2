"""The ledger of a plain PyTorch loop, alone or under `torchrun`."""

import os
from collections.abc import Mapping
from typing import Any

import torch

from ledger_audit.integrations.carrying import CarryingLedger
from ledger_audit.integrations.describing import Describe


class TorchLedger(CarryingLedger):
    """
    Records each batch of a loader when the loop gets it, and each step of an optimizer.

    Args:
        root: the ledger's folder.
        loader: the training `DataLoader`; its batches carry ids from now on.
        optimizer: each of its steps is a commit; null: call `commit` yourself.
        accumulation: micro-batches of a step, if it is known before.
        describe: where ids come from; null: a sample's id is its index in the data set.
        fingerprint: what decides the order beside what the loader shows.
        options: of `CarryingLedger` and `LedgerWriter`; `restored=`, `guard=` among them.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        loader: Any,
        *,
        optimizer: torch.optim.Optimizer | None = None,
        accumulation: int | None = None,
        describe: Describe | None = None,
        fingerprint: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        known = dict(fingerprint or {})
        if accumulation is not None:
            known.setdefault("accumulation", accumulation)
        super().__init__(root, describe=describe, fingerprint=known, **options)
        self.carry(loader)
        if optimizer is not None:
            optimizer.register_step_post_hook(lambda *_: self.commit())
