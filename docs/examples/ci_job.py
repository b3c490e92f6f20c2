"""
A short job for a gate: `python ci_job.py --ledger LEDGER --steps 30 [--save FILE] [--die-at 18]`.

It stands for your own trainer: what a gate needs of that is a number of steps, a place for
checkpoints, and a way to be killed at a step.
"""

import argparse
import json
import os
import random
import signal
from pathlib import Path

from ledger_audit import LedgerWriter

SAMPLES, ROWS, SLOTS, EVERY = 96, 4, 2, 5


def options():
    """Read what the gate asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument(
        "--save", type=Path, help="where the checkpoint is; none: never interrupted"
    )
    parser.add_argument("--die-at", type=int, help="kill this process after that step")
    return parser.parse_args()


def samples(first):
    """Give epoch and index of every sample from one place on, each epoch in an order of its own."""
    place = first
    while True:
        epoch = place // SAMPLES
        order = list(range(SAMPLES))
        random.Random(17 + epoch).shuffle(order)
        for index in order[place % SAMPLES :]:
            yield epoch, index
            place += 1


def main():
    """Train, save every few steps, and go on from what was saved."""
    asked = options()
    state = {"step": 0, "consumed": 0, "weight": 0.0, "cursor": None}
    if asked.save is not None and asked.save.exists():
        state = json.loads(asked.save.read_text())
    known = {"seed": 17, "micro_batch_size": ROWS, "accumulation": SLOTS}
    known["dataset_samples"] = SAMPLES
    stream = samples(state["consumed"])
    with LedgerWriter(
        asked.ledger, rank=0, world_size=1, restored=state["cursor"], fingerprint=known
    ) as ledger:
        for step in range(state["step"] + 1, asked.steps + 1):
            for slot in range(SLOTS):
                epochs, ids = zip(*(next(stream) for _ in range(ROWS)), strict=True)
                ledger.record(step, slot, list(ids), epoch=list(epochs))
                state["weight"] += sum(ids) / 1e6
            ledger.commit(step)
            state |= {"step": step, "consumed": state["consumed"] + ROWS * SLOTS}
            if asked.save is not None and step % EVERY == 0:
                claim = {"consumed_samples": state["consumed"], "unit": "records"}
                with ledger.checkpoint(step, claim=claim) as cursor:
                    part = asked.save.with_suffix(".part")
                    part.write_text(json.dumps({**state, "cursor": cursor.told()}))
                    part.replace(asked.save)
            if step == asked.die_at:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
