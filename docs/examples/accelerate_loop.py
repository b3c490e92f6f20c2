"""Trains with Accelerate: `torchrun --standalone --nproc-per-node 2 accelerate_loop.py FOLDER`."""

import json
import sys
from pathlib import Path

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader, Dataset

from ledger_audit.integrations.accelerate import AccelerateLedger

FOLDER = Path(sys.argv[1])
SAMPLES, ROWS, SLOTS, EPOCHS, EVERY = 123, 4, 2, 2, 5


class Squares(Dataset):
    """A data set that knows nothing of ledgers."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return {"x": torch.tensor([float(index), 1.0]), "y": torch.tensor([index % 7.0])}


def main():
    """Train, save every few steps, and go on from what was saved last."""
    torch.manual_seed(0)
    # without a seedable sampler no resume can draw the order of its epoch again
    seeded = DataLoaderConfiguration(use_seedable_sampler=True, data_seed=17)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=SLOTS, dataloader_config=seeded)
    loader = DataLoader(Squares(), ROWS, shuffle=True, num_workers=2, prefetch_factor=4)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    state = {"step": 0, "epoch": 0, "batches": 0}

    def claim():
        samples = state["batches"] * ROWS
        return {"epoch": state["epoch"], "rank_epoch_samples": samples, "unit": "records"}

    ledger = AccelerateLedger(
        FOLDER / "ledger", accelerator, loader, optimizer, claim=claim, guard="stop"
    )
    latest = FOLDER / "latest.json"
    if latest.exists():
        state = json.loads(latest.read_text())
        accelerator.load_state(state["folder"])
    step, first, passed = state["step"], state["epoch"], state["batches"]
    for epoch in range(first, EPOCHS):
        used = passed if epoch == first else 0
        left = accelerator.skip_first_batches(loader, used)
        left.set_epoch(epoch)
        for number, batch in enumerate(ledger.batches(left, epoch=epoch), used + 1):
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(batch["x"]), batch["y"])
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            if not accelerator.sync_gradients:
                continue
            step += 1
            if step % EVERY == 0:
                folder = str(FOLDER / f"step-{step}")
                state |= {"step": step, "epoch": epoch, "batches": number, "folder": folder}
                accelerator.save_state(folder)
                accelerator.wait_for_everyone()
                if accelerator.is_main_process:
                    (FOLDER / "partial").write_text(json.dumps(state))
                    (FOLDER / "partial").replace(latest)
    ledger.close()
    accelerator.end_training()


if __name__ == "__main__":
    main()
