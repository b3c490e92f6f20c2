"""Trains without any framework: `python plain_loop.py FOLDER`."""

import json
import random
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ledger_audit.integrations.loop import LoopLedger

FOLDER = Path(sys.argv[1])
SAMPLES, ROWS, SLOTS, EPOCHS, EVERY = 123, 4, 2, 2, 5
WORKERS, PREFETCH = 2, 4


def read(indices):
    """Read one batch; a data set that has no ids gives the index of each sample."""
    return {"sample_id": indices, "inputs": [index / SAMPLES for index in indices]}


def loaded(epoch, first):
    """Give an epoch's batches from one on; two workers read four batches ahead."""
    order = list(range(SAMPLES))
    random.Random(17 + epoch).shuffle(order)
    batches = [order[at : at + ROWS] for at in range(0, SAMPLES, ROWS)][first:]
    with ThreadPoolExecutor(WORKERS) as workers:
        waiting = deque()
        for batch in batches:
            waiting.append(workers.submit(read, batch))
            if len(waiting) > PREFETCH:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def forward(weight, batch):
    """Give the error of the model: y = 2 x is to be learned."""
    return [(weight - 2.0) * value for value in batch["inputs"]]


def main():
    """Train, save every few steps, and go on from what was saved last."""
    state = {"weight": 0.0, "step": 0, "epoch": 0, "batches": 0, "ledger": None}
    saved = FOLDER / "checkpoint.json"
    if saved.exists():
        state = json.loads(saved.read_text())
    known = {"seed": 17, "micro_batch_size": ROWS, "accumulation": SLOTS, "workers": WORKERS}
    known |= {"dataset_samples": SAMPLES, "prefetch_factor": PREFETCH}
    weight, step, gradient = state["weight"], state["step"], 0.0

    ledger = LoopLedger(
        FOLDER / "ledger", restored=state["ledger"], fingerprint=known, guard="stop"
    )
    for epoch in range(state["epoch"], EPOCHS):
        used = state["batches"] if epoch == state["epoch"] else 0
        last = -(-SAMPLES // ROWS)
        batches = ledger.batches(loaded(epoch, used), epoch=epoch)
        for number, batch in enumerate(batches, used + 1):
            gradient += sum(forward(weight, batch)) / ROWS
            if number % SLOTS and number < last:
                continue
            weight, gradient, step = weight - 0.1 * gradient, 0.0, step + 1
            ledger.commit()
            if step % EVERY == 0:
                claim = {"epoch": epoch, "epoch_samples": number * ROWS, "unit": "records"}
                with ledger.checkpoint(claim=claim, path=saved) as cursor:
                    position = {"step": step, "epoch": epoch, "batches": number}
                    told = json.dumps({"weight": weight, **position, "ledger": cursor})
                    (FOLDER / "partial").write_text(told)
                    (FOLDER / "partial").replace(saved)
    ledger.close()


if __name__ == "__main__":
    main()
