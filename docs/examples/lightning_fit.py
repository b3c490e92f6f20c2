"""Trains with Lightning: `torchrun --nproc-per-node 2 lightning_fit.py FOLDER`."""

import os
import sys
from pathlib import Path

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import Dataset
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

from ledger_audit.integrations.lightning import LedgerCallback

FOLDER = Path(sys.argv[1])
SAMPLES, ROWS, SLOTS, EPOCHS, EVERY, RANKS = 123, 4, 2, 2, 5, 2


class Squares(Dataset):
    """A data set that knows nothing of ledgers."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.tensor([float(index), 1.0]), torch.tensor([index % 7.0])


class Line(lightning.LightningModule):
    """A model that takes what the data set gives, and nothing else."""

    def __init__(self, sampler):
        super().__init__()
        self.linear, self.sampler = torch.nn.Linear(2, 1), sampler

    def on_load_checkpoint(self, checkpoint):
        """Tell the sampler its epoch: Lightning does so when it has made the iterator."""
        self.sampler.set_epoch(checkpoint["epoch"])

    def training_step(self, batch, _):
        """Give the loss."""
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.linear(inputs), targets)

    def configure_optimizers(self):
        """Give the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=1e-5)


def main():
    """Train, and go on from the last checkpoint."""
    lightning.seed_everything(0, verbose=False)
    dataset = Squares()
    rank = int(os.environ["RANK"])
    sampler = StatefulDistributedSampler(dataset, RANKS, rank, shuffle=True, seed=17)
    loader = StatefulDataLoader(dataset, ROWS, sampler=sampler, num_workers=2, prefetch_factor=4)
    ledger = LedgerCallback(FOLDER / "ledger", guard="stop")
    saving = ModelCheckpoint(FOLDER / "checkpoints", every_n_train_steps=EVERY, save_top_k=-1)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=RANKS,
        strategy="ddp",
        max_epochs=EPOCHS,
        accumulate_grad_batches=SLOTS,
        callbacks=[ledger, saving],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    checkpoints = (FOLDER / "checkpoints").glob("*.ckpt")
    saved = max(checkpoints, key=lambda one: one.stat().st_mtime, default=None)
    trainer.fit(Line(sampler), ledger.carry(loader), ckpt_path=saved)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
