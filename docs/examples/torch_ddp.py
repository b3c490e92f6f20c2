"""Trains with torchrun: `torchrun --standalone --nproc-per-node 4 torch_ddp.py FOLDER`."""

import itertools
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from ledger_audit.integrations.torch import TorchLedger

FOLDER = Path(sys.argv[1])
SAMPLES, ROWS, SLOTS, EPOCHS, EVERY = 123, 2, 2, 2, 5


class Squares(Dataset):
    """A data set that knows nothing of ledgers."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.tensor([float(index), index / SAMPLES]), torch.tensor([index % 7.0])


def main():
    """Train, save every few steps, and go on from what was saved last."""
    dist.init_process_group()
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    dataset = Squares()
    sampler = DistributedSampler(dataset, shuffle=True, seed=17)
    loader = DataLoader(dataset, ROWS, sampler=sampler, num_workers=2, prefetch_factor=4)

    state = {"step": 0, "epoch": 0, "batches": 0, "ledger": None}
    saved = FOLDER / "checkpoint.pt"
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    ledger = TorchLedger(
        FOLDER / "ledger",
        loader,
        optimizer=optimizer,
        accumulation=SLOTS,
        restored=state["ledger"],
        guard="stop",
    )
    step = state["step"]
    for epoch in range(state["epoch"], EPOCHS):
        sampler.set_epoch(epoch)
        used = state["batches"] if epoch == state["epoch"] else 0
        left = itertools.islice(loader, used, None)
        for batch, (inputs, targets) in enumerate(ledger.batches(left, epoch=epoch), used + 1):
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            if batch % SLOTS and batch < len(loader):
                continue
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % EVERY == 0:
                position = {"step": step, "epoch": epoch, "batches": batch}
                claim = {"epoch": epoch, "rank_epoch_samples": batch * ROWS, "unit": "records"}
                with ledger.checkpoint(claim=claim, path=saved) as cursor:
                    if rank == 0:
                        weights = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                        torch.save({**weights, **position, "ledger": cursor}, FOLDER / "partial")
                        (FOLDER / "partial").replace(saved)
                    dist.barrier()
    ledger.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
