"""Trains with the Hugging Face Trainer: `torchrun --nproc-per-node 2 trainer.py FOLDER`."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from ledger_audit.integrations.transformers import track

FOLDER = Path(sys.argv[1])
SAMPLES, ROWS, SLOTS, EPOCHS, EVERY = 123, 4, 2, 2, 5


class Squares(Dataset):
    """A data set that knows nothing of ledgers."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return {"x": torch.tensor([float(index), 1.0]), "labels": torch.tensor([index % 7.0])}


class Line(torch.nn.Module):
    """A model that takes what the data set gives, and nothing else."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 1)

    def forward(self, x, labels):
        """Give the loss."""
        return {"loss": torch.nn.functional.mse_loss(self.linear(x), labels)}


def main():
    """Train, and go on from the last checkpoint."""
    arguments = TrainingArguments(
        output_dir=str(FOLDER / "checkpoints"),
        per_device_train_batch_size=ROWS,
        gradient_accumulation_steps=SLOTS,
        num_train_epochs=EPOCHS,
        learning_rate=1e-5,
        save_steps=EVERY,
        dataloader_num_workers=2,
        dataloader_prefetch_factor=4,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(model=Line(), args=arguments, train_dataset=Squares())
    track(trainer, FOLDER / "ledger", guard="stop")

    folder = Path(arguments.output_dir)
    saved = get_last_checkpoint(str(folder)) if folder.exists() else None
    trainer.train(resume_from_checkpoint=saved)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
