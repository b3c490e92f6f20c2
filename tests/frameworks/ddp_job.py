"""
Trains on several ranks, resumes in the way of its fault: `ddp_job.py FOLDER FAULT GUARD`.

The model's inputs begin with the index of the sample. FAULT is one of FAULTS; a first launch knows
none of them.
"""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler

from ledger_audit.integrations.reading_ahead import ReadAhead
from ledger_audit.integrations.torch import TorchLedger

FAULTS = (
    "right",
    "iterator-restarted",
    "epoch-not-set",
    "prefetched-position",
    "half-copied",
    "half-right",
)
SAMPLES, ROWS, EPOCHS, EVERY = 123, 2, 2, 5
PER_STEP = 16
"""Samples of a step, however many ranks there are."""


class Indices(Dataset[Any]):
    """Samples that are their index."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index), 1.0])


class Counting(Sampler[int]):
    """The usual sampler that can be resumed: it knows how many indices it handed out."""

    def __init__(self, inner: DistributedSampler[Any]) -> None:
        self.inner, self.position, self.start = inner, 0, 0

    def __iter__(self) -> Iterator[int]:
        self.position, self.start = self.start, 0
        for index in itertools.islice(iter(self.inner), self.position, None):
            self.position += 1
            yield index

    def __len__(self) -> int:
        return len(self.inner)


def main(folder: Path, fault: str, guard: str) -> None:
    """Train, save every few steps, and go on from what was saved last."""
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    slots = PER_STEP // (ROWS * ranks)
    saved = folder / f"checkpoint-{rank}.pt"
    state = {"step": 0, "epoch": 0, "batches": 0, "ranks": ranks, "position": 0, "ledger": None}
    if saved.exists():
        state = torch.load(saved)
    else:
        fault = "right"
    is_late = rank >= ranks // 2
    lane = rank - ranks // 2 if fault == "half-copied" and is_late else rank

    data = Indices()
    dealt = DistributedSampler(data, ranks, lane, shuffle=True, seed=17)
    sampler = Counting(dealt)
    batched = ReadAhead(torch.utils.data.BatchSampler(sampler, ROWS, drop_last=False))
    loader = DataLoader(data, batch_sampler=batched, num_workers=2, prefetch_factor=4)
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    known = {"micro_batch_size": ROWS, "seed": 17, "sampler": "DistributedSampler"}
    ledger = TorchLedger(
        folder / "ledger",
        loader,
        optimizer=optimizer,
        accumulation=slots,
        restored=state["ledger"],
        fingerprint=known,
        guard=guard,
    )
    restarts = fault == "iterator-restarted" or (fault == "half-right" and is_late)
    step = state["step"]
    for epoch in range(state["epoch"], EPOCHS):
        if fault != "epoch-not-set":
            dealt.set_epoch(epoch)
        used = state["batches"] * state["ranks"] // ranks
        used = used if epoch == state["epoch"] and not restarts else 0
        if fault == "prefetched-position" and epoch == state["epoch"]:
            sampler.start = state["position"]
            batches = iter(loader)
        else:
            batches = itertools.islice(loader, used, None)
        for batch, inputs in enumerate(ledger.batches(batches, epoch=epoch), used + 1):
            model(inputs).mean().backward()
            if batch % slots and batch < len(loader):
                continue
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % EVERY == 0:
                position = {"step": step, "epoch": epoch, "batches": batch, "ranks": ranks}
                claim = {"epoch": epoch, "rank_epoch_samples": batch * ROWS, "unit": "records"}
                with ledger.checkpoint(claim=claim, path=saved) as cursor:
                    told = {**position, "position": sampler.position, "ledger": cursor}
                    torch.save(told, folder / f"partial-{rank}")
                    (folder / f"partial-{rank}").replace(saved)
                    dist.barrier()
    ledger.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
