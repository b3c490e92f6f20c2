"""How a loader is brought back from a checkpoint: rightly, and in the ways that jobs got wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ledger_audit.simulation.checkpoint import Checkpoint, RankState
from ledger_audit.simulation.job import Job
from ledger_audit.simulation.loader import Cursor


@dataclass(frozen=True)
class Resuming:
    """What a rank knows when it builds its loader after a restart."""

    job: Job
    checkpoint: Checkpoint
    rank: int
    ranks: int

    @property
    def step(self) -> int:
        """The step that the checkpoint holds."""
        step: int = self.checkpoint.trainer["step"]
        return step


@dataclass(frozen=True)
class Restored:
    """Where the loader goes on, and the claim that it was told, if any."""

    cursor: Cursor
    claim: Mapping[str, Any] | None


Restore = Callable[[Resuming], Restored]


def _from(state: RankState, **changes: Any) -> Restored:
    return Restored(replace(state.cursor, **changes), state.claim)


def own_state(now: Resuming) -> Restored:
    """Load what this rank saved: right, as long as the number of ranks is the same."""
    return _from(now.checkpoint.rank(now.rank))


def dealt_anew(now: Resuming) -> Restored:
    """Deal what nobody has used of the epoch to the ranks that there are now: right."""
    saved = now.checkpoint.rank(0)
    used = saved.cursor.epoch_samples(now.job)
    epoch = saved.cursor.epoch
    return Restored(Cursor.at(now.job, epoch, now.rank, now.ranks, start=used), saved.claim)


def epoch_begun_again(now: Resuming) -> Restored:
    """Build a new loader for the epoch that the step number gives, and load nothing into it."""
    epoch, _ = now.job.epoch_at(now.step)
    return Restored(Cursor.at(now.job, epoch, now.rank, now.ranks), None)


def as_many_batches_as_steps(now: Resuming) -> Restored:
    """Pass over one batch for each step of the epoch, where a step takes one for each slot."""
    epoch, used = now.job.epoch_at(now.step)
    steps = used // now.job.batch
    cursor = Cursor.at(now.job, epoch, now.rank, now.ranks, batches=steps)
    return Restored(cursor, now.checkpoint.rank(now.rank).claim)


def as_many_samples_as_updates(now: Resuming) -> Restored:
    """Count what was used by the updates that changed the weights, and so forget void steps."""
    updates: int = now.checkpoint.trainer["updates"]
    epoch, used = now.job.epoch_at(updates)
    cursor = Cursor.at(now.job, epoch, now.rank, now.ranks, start=used)
    return Restored(cursor, now.checkpoint.rank(now.rank).claim)


def offset_kept(now: Resuming) -> Restored:
    """Let the part that is passed over stay in the sampler for every later epoch."""
    saved = now.checkpoint.rank(now.rank)
    return _from(saved, passed_over=saved.cursor.taken)


def order_of_first_epoch(now: Resuming) -> Restored:
    """Build a new sampler and never tell it the epoch."""
    return _from(now.checkpoint.rank(now.rank), order_epoch=0)


def another_seed(now: Resuming) -> Restored:
    """Draw the order from a seed that each restart changes."""
    saved = now.checkpoint.rank(now.rank)
    return _from(saved, seed=saved.cursor.seed + 1)


def newest_own_file(now: Resuming) -> Restored:
    """Load the newest file that this rank finds, whatever checkpoint it belongs to."""
    return _from(now.checkpoint.newest_of_rank(now.rank))


def state_of_rank_0(now: Resuming) -> Restored:
    """Load what rank 0 saved, its share of the samples included."""
    return _from(now.checkpoint.rank(0))


def state_of_the_host(now: Resuming) -> Restored:
    """Load what lies on the host's disk, where the hosts were numbered in another order."""
    return _from(now.checkpoint.rank(now.ranks - 1 - now.rank))


def last_worker_only(now: Resuming) -> Restored:
    """Restore the worker that delivered last; the others begin their share of the epoch again."""
    saved = now.checkpoint.rank(now.rank)
    taken = saved.cursor.taken
    last = (saved.cursor.turn - 1) % len(taken)
    kept = tuple(n if worker == last else 0 for worker, n in enumerate(taken))
    return _from(saved, taken=kept)


def turn_of_worker_0(now: Resuming) -> Restored:
    """Restore every worker, and begin with the first one instead of the one whose turn it was."""
    return _from(now.checkpoint.rank(now.rank), turn=0)
