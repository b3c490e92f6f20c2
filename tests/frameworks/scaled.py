"""Trains with a gradient scaler whose third update overflows: `scaled.py KIND FOLDER`."""

import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

KIND, FOLDER = sys.argv[1], Path(sys.argv[2])
INPUTS = torch.arange(20.0).reshape(10, 2)
OVERFLOWS = 2
"""The batch whose loss is infinite, from 0."""


def loss_of(model: Any, batch: Any, number: int) -> Any:
    """Give a loss, or one that no scale can save."""
    return model(batch[0]).mean() * (float("inf") if number == OVERFLOWS else 1.0)


def by_hand() -> None:
    """Say by oneself what the scaler did, as the documents tell."""
    from ledger_audit.integrations.torch import TorchLedger

    loader = DataLoader(TensorDataset(INPUTS), 2)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with TorchLedger(FOLDER, loader, optimizer=optimizer) as ledger:
        for number, batch in enumerate(ledger.batches()):
            scaler.scale(loss_of(model, batch, number)).backward()
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            if scaler.get_scale() < before:
                ledger.void("overflow")


def by_lightning() -> None:
    """Leave it to the callback."""
    import lightning
    from lightning.pytorch.plugins import MixedPrecision

    from ledger_audit.integrations.lightning import LedgerCallback

    class Line(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(2, 1)

        def training_step(self, batch: Any, number: int) -> Any:
            return loss_of(self.linear, batch, number)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-4)

    ledger = LedgerCallback(FOLDER)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=1,
        callbacks=[ledger],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        plugins=[MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=8.0))],
    )
    trainer.fit(Line(), ledger.carry(DataLoader(TensorDataset(INPUTS), 2)))


if __name__ == "__main__":
    {"by_hand": by_hand, "by_lightning": by_lightning}[KIND]()
