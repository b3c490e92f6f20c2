"""
Trains on several ranks, and follows a plan after a failure: `plan_job.py FOLDER RANKS [PLAN STEP]`.

Without a plan it deals the samples of one epoch in order. Ranks are forked: torch is loaded once.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from ledger_audit import LedgerWriter
from ledger_audit.integrations.plan import PlanSampler, steps

SAMPLES, ROWS, SLOTS = 75, 2, 2
"""Of four ranks, 16 samples make a step: the epoch's last one has eleven."""
DIES = (2, 4, 1)
"""The rank that is killed, in which step, after which slot."""

Work = Iterator[tuple[int, list[tuple[int, list[int]]]]]
"""Step → slot and samples of this rank's micro-batches."""


class Indices(Dataset[torch.Tensor]):
    """Samples that are their index."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index), 1.0])


def first_launch(rank: int, ranks: int) -> Work:
    """Deal the epoch as a trainer without a plan does."""
    unit = ROWS * ranks
    for step in range(1, -(-SAMPLES // (unit * SLOTS)) + 1):
        own = []
        for slot in range(SLOTS):
            begin = ((step - 1) * SLOTS + slot) * unit + rank * ROWS
            ids = list(range(begin, min(begin + ROWS, SAMPLES)))
            own += [(slot, ids)] if ids else []
        yield step, own


def planned(plan: str, rank: int) -> Work:
    """Take the steps of a plan; the samples themselves come through a `DataLoader`."""
    sampler = PlanSampler(plan, rank)
    batches = iter(DataLoader(Indices(), batch_sampler=sampler))
    for step, own in steps(plan, rank):
        yield step, [(one.slot, next(batches)[:, 0].long().tolist()) for one in own]


def update(model: torch.nn.Module) -> None:
    """Apply the sum of all ranks' gradients; an optimizer's imports would take a rank seconds."""
    for parameter in model.parameters():
        if parameter.grad is None:  # no sample of a ragged step is this rank's
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        with torch.no_grad():
            parameter.sub_(1e-6 * parameter.grad)
        parameter.grad = None


def train(rank: int, ranks: int, folder: Path, plan: str | None, resumed_at: int) -> None:
    """Train as one rank; the first launch dies in the middle of a step."""
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting-{ranks}-{resumed_at}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    model = torch.nn.Linear(2, 1)
    work = first_launch(rank, ranks) if plan is None else planned(plan, rank)
    ledger = LedgerWriter(
        folder / "ledger",
        attempt="first" if plan is None else "second",
        rank=rank,
        world_size=ranks,
        resumed_from=None if plan is None else ("first", resumed_at),
        fingerprint={"dataset_samples": SAMPLES, "drop_last": False},
    )
    for step, own in work:
        for slot, ids in own:
            ledger.record(step, slot, ids, epoch=0)
            inputs = torch.stack([Indices()[one] for one in ids])
            model(inputs).mean().backward()
            if plan is None and (rank, step, slot) == DIES:
                os.kill(os.getpid(), signal.SIGKILL)
        update(model)
        ledger.commit(step)
    ledger.close()
    dist.destroy_process_group()


def main(ranks: int, *told: object) -> int:
    """Launch all ranks; where one dies, the others are killed, as a launcher does."""
    fork = multiprocessing.get_context("fork")
    running = [fork.Process(target=train, args=(rank, ranks, *told)) for rank in range(ranks)]
    for one in running:
        one.start()
    while any(one.is_alive() for one in running):
        if any(one.exitcode for one in running):
            for one in running:
                one.kill()
        time.sleep(0.05)
    return max(abs(one.exitcode or 0) for one in running)


if __name__ == "__main__":
    given = sys.argv[3:]
    plan, step = (given[0], int(given[1])) if given else (None, 0)
    sys.exit(main(int(sys.argv[2]), Path(sys.argv[1]), plan, step))
