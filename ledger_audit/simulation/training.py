"""The training loop of one attempt: use, commit, save; all ranks in one process."""

import json
import os
import signal
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ledger_audit.simulation import checkpoint
from ledger_audit.simulation.checkpoint import RankState
from ledger_audit.simulation.faults import FAULTS, Moment
from ledger_audit.simulation.job import JOB
from ledger_audit.simulation.ledger_of_rank import RankLedger
from ledger_audit.simulation.loader import Batch, Cursor, Loader
from ledger_audit.simulation.restoring import Restored, Resuming


@dataclass(frozen=True)
class Launch:
    """One launch of the job, as its process is told."""

    fault: str
    attempt: str
    ledgers: tuple[str, ...]
    """The folder that each rank writes its ledger to; as many ranks as there are folders."""
    checkpoints: str
    used: str
    """A file to which the job itself writes what it used; the audit never sees it."""
    dies_at: tuple[int, int, int] | None = None
    """Step, slot and rank after whose micro-batch the process kills itself."""

    def told(self) -> str:
        """Give it as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> "Launch":
        """Read it from the command line."""
        told = json.loads(text)
        dies_at = None if told["dies_at"] is None else tuple(told["dies_at"])
        return cls(**{**told, "ledgers": tuple(told["ledgers"]), "dies_at": dies_at})


class Training:
    """One attempt; it goes on from the newest checkpoint, if there is one."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._fault = FAULTS[launch.fault]
        self._ranks = range(len(launch.ledgers))
        self._saved = checkpoint.newest(Path(launch.checkpoints))
        trainer = {"step": 0, "updates": 0} if self._saved is None else self._saved.trainer
        self._step: int = trainer["step"]
        self._saved_step = self._step
        self._updates: int = trainer["updates"]
        self._loaders: list[Loader] = []
        self._ledgers: list[RankLedger] = []
        self._ahead: deque[list[Batch]] = deque()
        self._used = open(launch.used, "ab", buffering=0)  # noqa: SIM115  # open until it ends

    def run(self) -> None:
        """Train to the last step, or to death."""
        self._start()
        for step in range(self._step + 1, JOB.last + 1):
            for slot in range(JOB.slots_on(len(self._ranks))):
                self._use(step, slot)
                if slot == 0 and self._fault.moment is Moment.ACCUMULATING:
                    self._save_if_due()
            self._update(step)
            if self._fault.moment is Moment.COMMITTED:
                self._save_if_due()
            if self._fault.moment is Moment.FETCHED:
                self._fetch()
                self._save_if_due()
        for ledger in self._ledgers:
            ledger.say("end", None, {"reason": "the last step is done"})
            ledger.close()
        self._used.close()

    def _start(self) -> None:
        """Build each rank's loader, and say from what."""
        for rank, root in zip(self._ranks, self._launch.ledgers, strict=True):
            restored = self._restored(rank)
            ledger = RankLedger(Path(root), self._launch.attempt, rank)
            ledger.say("start", None, self._start_data(restored))
            self._ledgers.append(ledger)
            self._loaders.append(Loader(JOB, restored.cursor))

    def _restored(self, rank: int) -> Restored:
        if self._saved is None:
            return Restored(Cursor.at(JOB, 0, rank, len(self._ranks)), None)
        return self._fault.restore(Resuming(JOB, self._saved, rank, len(self._ranks)))

    def _start_data(self, restored: Restored) -> dict[str, Any]:
        data: dict[str, Any] = {
            "world_size": len(self._ranks),
            "resumed_from": None,
            "fingerprint": {
                "seed": restored.cursor.seed,
                "world_size": len(self._ranks),
                "micro_batch_size": JOB.rows,
                "accumulation": JOB.slots_on(len(self._ranks)),
                "dataset_samples": JOB.samples,
                "workers": JOB.workers,
                "prefetch_factor": JOB.prefetch,
            },
        }
        if self._saved is not None:
            trainer = self._saved.trainer
            data["resumed_from"] = {"attempt": trainer["attempt"], "step": trainer["step"]}
        if restored.claim is not None:
            data["restored"] = restored.claim
        return data

    def _use(self, step: int, slot: int) -> None:
        """Let every rank use its micro-batch."""
        batches = self._ahead.popleft() if self._ahead else self._take()
        for rank, batch in zip(self._ranks, batches, strict=True):
            self._ledgers[rank].record(step, slot, batch)
            line = {"step": step, "slot": slot, "rank": rank, **asdict(batch)}
            self._used.write(json.dumps(line).encode() + b"\n")
            if self._launch.dies_at == (step, slot, rank):
                os.kill(os.getpid(), signal.SIGKILL)

    def _take(self) -> list[Batch]:
        return [loader.take() for loader in self._loaders]

    def _fetch(self) -> None:
        """Take the next step's batches from the loaders while the update still runs."""
        for _ in range(JOB.slots_on(len(self._ranks))):
            self._ahead.append(self._take())

    def _update(self, step: int) -> None:
        """Apply the update of a step, or throw it away."""
        is_void = step in self._fault.voids
        samples = JOB.batch // len(self._ranks)
        for ledger in self._ledgers:
            if is_void:
                ledger.say("void", step, {"reason": "overflow"})
            else:
                ledger.say("commit", step, {"samples": samples})
        self._step = step
        self._updates += not is_void

    def _save_if_due(self) -> None:
        """Save a checkpoint of the last finished step, each rank its own loader's position."""
        if self._step % JOB.every or self._step == self._saved_step:
            return
        states = {rank: self._state(rank) for rank in self._ranks}
        for rank, state in states.items():
            self._say_checkpoint("begin", rank, state)
        trainer = {"attempt": self._launch.attempt, "step": self._step, "updates": self._updates}
        written = {
            rank: state for rank, state in states.items() if self._fault.writes(self._step, rank)
        }
        checkpoint.write(Path(self._launch.checkpoints), trainer, written)
        for rank, state in states.items():
            self._say_checkpoint("complete", rank, state)
        self._saved_step = self._step

    def _state(self, rank: int) -> RankState:
        loader = self._loaders[rank]
        cursor = loader.read if self._fault.saves_read else loader.handed_out
        used = cursor.epoch_samples(JOB)
        claim: Mapping[str, Any] = {
            "consumed_samples": cursor.epoch * JOB.samples + used,
            "epoch": cursor.epoch,
            "epoch_samples": used,
            "unit": "records",
        }
        return RankState(cursor, claim)

    def _say_checkpoint(self, phase: str, rank: int, state: RankState) -> None:
        self._ledgers[rank].say("checkpoint", self._step, {"phase": phase, "claim": state.claim})
