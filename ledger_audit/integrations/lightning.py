"""The ledger of a Lightning Trainer."""

import functools
import os
from collections.abc import Mapping
from typing import Any

from lightning.pytorch.callbacks import Callback

from ledger_audit.integrations.carrying import CarryingLedger
from ledger_audit.integrations.describing import Describe
from ledger_audit.integrations.tagging import Tags, fingerprint_of, tag, untagged

_STATE = "ledger_audit"
"""Where the cursor is kept in a checkpoint."""


class LedgerCallback(Callback):
    """
    Records each micro-batch when it is trained on, each update, and each checkpoint.

    The cursor is kept in the checkpoint and taken back by `fit(ckpt_path=...)`.

    Args:
        root: the ledger's folder.
        describe: where ids come from; null: a sample's id is its index in the data set.
        fingerprint: what decides the order beside what the loader shows.
        options: of `CarryingLedger` and `LedgerWriter`; `guard=` among them.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        describe: Describe | None = None,
        fingerprint: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._root, self._describe, self._options = root, describe, options
        self._fingerprint = dict(fingerprint or {})
        self._tags: Tags | None = None
        self._updates, self._scale = 0, 0.0
        self.ledger: CarryingLedger
        """There once `fit` has begun."""

    def carry(self, loader: Any) -> Any:
        """
        Let the batches of the training loader carry ids; hand what is given to `fit`.

        Raises:
            UsageError: it is no torch loader, or is iterated already.
        """
        self._fingerprint = {**fingerprint_of(loader), **self._fingerprint}
        return tag(loader, self._describe)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Open the ledger, and take the ids off the batches before anybody else sees them."""
        if stage != "fit":
            return
        known = {"accumulation": trainer.accumulate_grad_batches, **self._fingerprint}
        place = {"rank": trainer.global_rank, "world_size": trainer.world_size}
        self.ledger = CarryingLedger(self._root, fingerprint=known, **{**place, **self._options})
        for owner in (pl_module, trainer.datamodule):
            if owner is not None:
                owner.on_before_batch_transfer = self._taking_off(owner.on_before_batch_transfer)
        trainer.save_checkpoint = self.ledger.completing(trainer.save_checkpoint)

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Take the cursor back."""
        if _STATE in checkpoint:
            self.ledger.load_state_dict(checkpoint[_STATE])
        self.ledger.restore(of="loops", claim=_claim(checkpoint))

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Keep the cursor, and claim what Lightning says its position is."""
        saving = self.ledger.begin_checkpoint(claim=_claim(checkpoint))
        checkpoint[_STATE] = saving.cursor.told()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Go on from the step of a checkpoint that has no cursor."""
        self._updates = trainer.global_step
        self.ledger.committed = self.ledger.committed or trainer.global_step

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Say that a pass begins."""
        self.ledger.iterator()

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Record the micro-batch."""
        self._scale = _scale_of(trainer)
        tags, self._tags = self._tags, None
        self.ledger.use(tags, epoch=trainer.current_epoch)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Say how the update ended; Lightning counts those that were skipped, too."""
        if trainer.global_step == self._updates:
            return
        self._updates = trainer.global_step  # with several optimizers, more than one a batch
        if _scale_of(trainer) < self._scale:
            self.ledger.void("the gradient scaler skipped the step")
            self.ledger.committed += 1
        else:
            self.ledger.commit()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Say that the launch ends by itself."""
        self.ledger.close()

    def _taking_off(self, hook: Any) -> Any:
        @functools.wraps(hook)
        def before(batch: Any, dataloader_idx: int) -> Any:
            plain, tags = untagged(batch)
            self._tags = tags or self._tags
            return hook(plain, dataloader_idx)

        return before


def _scale_of(trainer: Any) -> float:
    """Give the scale of gradients, which falls when a step is skipped; 0: there is no scaler."""
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    return 0.0 if scaler is None else float(scaler.get_scale())


def _claim(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Give what Lightning says its position is: its progress, and the state of its loaders."""
    return {
        name: checkpoint[name] for name in ("epoch", "global_step", "loops") if name in checkpoint
    }
