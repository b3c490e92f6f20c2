"""The ledger of a loop that Hugging Face Accelerate prepares."""

import functools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ledger_audit.integrations.carrying import CarryingLedger
from ledger_audit.integrations.describing import Describe


class AccelerateLedger(CarryingLedger):
    """
    Records batches as the loop gets them, updates as the optimizer makes them, and checkpoints.

    `save_state` puts the cursor of each process into the checkpoint's folder, `load_state` takes it
    back.

    Args:
        root: the ledger's folder.
        accelerator: the `Accelerator`.
        loader: the training loader, as `prepare` gave it.
        optimizer: likewise.
        claim: says, when a state is saved, what the loop takes its position to be; null: only a
            loader with a state of its own claims something.
        describe: where ids come from; null: a sample's id is its index in the data set.
        fingerprint: what decides the order beside what the loader shows.
        options: of `CarryingLedger` and `LedgerWriter`; `guard=` among them.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        accelerator: Any,
        loader: Any,
        optimizer: Any,
        *,
        claim: Callable[[], Any] | None = None,
        describe: Describe | None = None,
        fingerprint: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        known = {"accumulation": accelerator.gradient_accumulation_steps, **(fingerprint or {})}
        super().__init__(root, describe=describe, fingerprint=known, **options)
        self.carry(loader)
        self._accelerator, self._claim = accelerator, claim
        optimizer.step = self._stepping(optimizer)
        accelerator.save_state = self.completing(accelerator.save_state)
        accelerator.register_save_state_pre_hook(self._save)
        accelerator.register_load_state_pre_hook(self._load)

    def _stepping(self, optimizer: Any) -> Any:
        step = optimizer.step

        @functools.wraps(step)
        def stepped(*arguments: Any, **options: Any) -> Any:
            found = step(*arguments, **options)
            if self._accelerator.sync_gradients:
                if optimizer.step_was_skipped:
                    self.void("the optimizer skipped the step")
                else:
                    self.commit()
            return found

        return stepped

    def _save(self, models: Any, weights: Any, folder: str) -> None:
        claim = None if self._claim is None else self._claim()
        saving = self.begin_checkpoint(claim=claim, path=folder)
        told = json.dumps(saving.cursor.told())
        (Path(folder) / self._name(self._accelerator.process_index)).write_text(told)

    def _load(self, models: Any, folder: str) -> None:
        for rank in (self._accelerator.process_index, 0):  # another world has no file of its own
            file = Path(folder) / self._name(rank)
            if file.exists():
                self.load_state_dict(json.loads(file.read_text()))
                return

    @staticmethod
    def _name(rank: int) -> str:
        return f"ledger_audit_{rank}.json"
