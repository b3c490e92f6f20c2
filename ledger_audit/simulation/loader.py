"""The loader of one rank: workers read ahead of what it hands out, so it has two positions."""

from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import Any

from ledger_audit.simulation.job import Job


@dataclass(frozen=True)
class Batch:
    """One micro-batch of one rank."""

    epoch: int
    ids: tuple[int, ...]
    worker: int


@dataclass(frozen=True)
class Cursor:
    """Where a loader stands, and all that it needs to go on from there."""

    seed: int
    epoch: int
    order_epoch: int
    """The epoch that the sampler was told; the order is drawn from it."""
    start: int
    """Samples of this epoch's order that were used before it was dealt to these ranks."""
    share: int
    """Which part of the deal is this rank's."""
    shares: int
    taken: tuple[int, ...]
    """Micro-batches of this epoch, by worker."""
    turn: int
    """The worker whose micro-batch comes next."""
    passed_over: tuple[int, ...]
    """Micro-batches that every later epoch leaves out, by worker."""

    @classmethod
    def at(
        cls, job: Job, epoch: int, rank: int, ranks: int, *, start: int = 0, batches: int = 0
    ) -> "Cursor":
        """Deal an epoch, less its first `start` samples, and pass over a rank's first batches."""
        taken = tuple(len(range(worker, batches, job.workers)) for worker in range(job.workers))
        none = (0,) * job.workers
        turn = batches % job.workers
        return cls(job.seed, epoch, epoch, start, rank, ranks, taken, turn, none)

    @classmethod
    def told(cls, state: dict[str, Any]) -> "Cursor":
        """Read it back from a checkpoint."""
        by_worker = {key: tuple(state[key]) for key in ("taken", "passed_over")}
        return cls(**{**state, **by_worker})

    def state(self) -> dict[str, Any]:
        """Give it as a checkpoint keeps it."""
        return asdict(self)

    def epoch_samples(self, job: Job) -> int:
        """Count the samples of the epoch that all ranks together had, if all stand like this."""
        return self.start + sum(self.taken) * job.rows * self.shares

    def next_epoch(self) -> "Cursor":
        """Begin the next epoch: the sampler is told of it and draws another order."""
        return replace(
            self,
            epoch=self.epoch + 1,
            order_epoch=self.epoch + 1,
            start=0,
            taken=self.passed_over,
            turn=sum(self.passed_over) % len(self.passed_over),
        )


class Loader:
    """Hands out micro-batches, worker by worker in turn, and lets each worker read ahead."""

    def __init__(self, job: Job, cursor: Cursor) -> None:
        self._job = job
        self._cursor = cursor
        self._begin(cursor)

    @property
    def handed_out(self) -> Cursor:
        """Where it stands by what it handed out."""
        return self._cursor

    @property
    def read(self) -> Cursor:
        """Where its workers stand by what they read."""
        return replace(self._cursor, taken=tuple(self._read))

    def take(self) -> Batch:
        """Hand out the next micro-batch, and let the workers go on reading."""
        while not any(self._queues):
            self._begin(self._cursor.next_epoch())
        workers = len(self._queues)
        turns = ((self._cursor.turn + ahead) % workers for ahead in range(workers))
        worker = next(turn for turn in turns if self._queues[turn])
        batch = self._queues[worker].popleft()
        taken = list(self._cursor.taken)
        taken[worker] += 1
        self._cursor = replace(self._cursor, taken=tuple(taken), turn=(worker + 1) % workers)
        self._read_ahead()
        return batch

    def _begin(self, cursor: Cursor) -> None:
        self._cursor = cursor
        order = self._job.order(cursor.seed, cursor.order_epoch)
        ids = order[cursor.start :][cursor.share :: cursor.shares]
        rows = self._job.rows
        self._batches = [tuple(ids[at : at + rows]) for at in range(0, len(ids), rows)]
        self._read = list(cursor.taken)
        self._queues: list[deque[Batch]] = [deque() for _ in cursor.taken]
        self._read_ahead()

    def _read_ahead(self) -> None:
        """Let each worker, whose every n-th batch is its own, fill its queue."""
        workers = len(self._queues)
        for worker, queue in enumerate(self._queues):
            own = self._batches[worker::workers]
            while len(queue) < self._job.prefetch and self._read[worker] < len(own):
                queue.append(Batch(self._cursor.epoch, own[self._read[worker]], worker))
                self._read[worker] += 1
