"""The ledger of the Hugging Face Trainer."""

import functools
import math
import os
from collections.abc import Mapping
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ledger_audit.integrations.carrying import CarryingLedger
from ledger_audit.integrations.describing import Describe
from ledger_audit.integrations.tagging import untagged

_STATE = "ledger_audit"
"""Where the cursor is kept among the states of callbacks in trainer_state.json."""


def track(
    trainer: Trainer,
    root: str | os.PathLike[str],
    *,
    describe: Describe | None = None,
    fingerprint: Mapping[str, Any] | None = None,
    **options: Any,
) -> CarryingLedger:
    """
    Let a Trainer write a ledger; call it before `train`.

    Each micro-batch is recorded when `training_step` gets it, the cursor is kept in
    `trainer_state.json` and taken back by `train(resume_from_checkpoint=...)`.

    Args:
        trainer: whose loader, steps and checkpoints are followed.
        root: the ledger's folder.
        describe: where ids come from; null: a sample's id is its index in the data set.
        fingerprint: what decides the order beside what the trainer shows.
        options: of `CarryingLedger` and `LedgerWriter`; `guard=` among them.

    Returns:
        The ledger.
    """
    args = trainer.args
    known = {
        "seed": args.seed if args.data_seed is None else args.data_seed,
        "accumulation": args.gradient_accumulation_steps,
        "micro_batch_size": args.train_batch_size,
        **(fingerprint or {}),
    }
    place = {"rank": args.process_index, "world_size": args.world_size}
    ledger = CarryingLedger(root, describe=describe, fingerprint=known, **{**place, **options})
    tracker = _Tracker(trainer, ledger)
    trainer.add_callback(tracker)
    trainer.training_step = tracker.using(trainer.training_step)
    trainer._save_checkpoint = tracker.saving(trainer._save_checkpoint)
    return ledger


class _Tracker(TrainerCallback):
    """Follows one Trainer."""

    def __init__(self, trainer: Trainer, ledger: CarryingLedger) -> None:
        self._trainer, self._ledger, self._epoch = trainer, ledger, -1

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        train_dataloader: Any = None,
        **_: Any,
    ) -> None:
        """Take the cursor of the loaded checkpoint back, and let the batches carry ids."""
        self._ledger.carry(train_dataloader)
        self._updates = _updates_of(train_dataloader, args.gradient_accumulation_steps)
        cursor = (state.stateful_callbacks or {}).get(_STATE)
        if cursor is not None:
            self._ledger.load_state_dict(cursor)
        if state.global_step:
            self._ledger.restore(of="state", claim=_claim(state))
        self._ledger.committed = state.global_step

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Count the pass as the Trainer does; its `state.epoch` is that of before a resume."""
        counted = self._epoch + 1
        self._epoch = counted if self._updates is None else state.global_step // self._updates
        self._ledger.iterator()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Say how the update ended; the Trainer counts those that were skipped, too."""
        if self._trainer.accelerator.optimizer_step_was_skipped:
            self._ledger.void("the optimizer skipped the step", step=state.global_step)
            self._ledger.committed = state.global_step
        else:
            self._ledger.commit(state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Say that the launch ends by itself."""
        self._ledger.close()

    def using(self, step: Any) -> Any:
        """Record each micro-batch when it is trained on."""

        @functools.wraps(step)
        def used(model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
            batch, tags = untagged(inputs)
            self._ledger.use(tags, step=self._trainer.state.global_step + 1, epoch=self._epoch)
            return step(model, batch, *arguments, **options)

        return used

    def saving(self, save: Any) -> Any:
        """Keep the cursor in each checkpoint."""

        @functools.wraps(save)
        def saved(*arguments: Any, **options: Any) -> Any:
            state = self._trainer.state
            path = os.path.join(self._trainer.args.output_dir, f"checkpoint-{state.global_step}")
            with self._ledger.checkpoint(claim=_claim(state), path=path) as cursor:
                state.stateful_callbacks[_STATE] = cursor
                return save(*arguments, **options)

        return saved


def _claim(state: TrainerState) -> dict[str, Any]:
    """Give what the Trainer computes its position from."""
    names = ("global_step", "epoch", "max_steps", "num_train_epochs", "train_batch_size")
    return {"trainer_state.json": {name: getattr(state, name, None) for name in names}}


def _updates_of(loader: Any, accumulation: int) -> int | None:
    """Count the updates of a pass, as the Trainer does; null: the loader has no length."""
    try:
        return max(1, math.ceil(len(loader) / accumulation))
    except TypeError:
        return None
