"""The ledger of a loop whose torch loader carries sample ids to where they are used."""

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist

from ledger_audit import fingerprint as digests
from ledger_audit.errors import UsageError
from ledger_audit.integrations.describing import Describe
from ledger_audit.integrations.reading_ahead import attach
from ledger_audit.integrations.stepping import StepLedger
from ledger_audit.integrations.tagging import Tags, fingerprint_of, tag, untagged
from ledger_audit.ledger.writer import Checkpoint


class CarryingLedger(StepLedger):
    """
    Records batches by the tags that they carry.

    Args:
        root: the ledger's folder.
        describe: where ids come from; null: a sample's id is its index in the data set.
        group: the processes that shard data; null: all. Where others share a rank with one of
            them, one records and the others say `is_peer=True`.
        options: of `StepLedger` and `LedgerWriter`; rank and number of ranks are the group's.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        describe: Describe | None = None,
        group: Any = None,
        **options: Any,
    ) -> None:
        is_alone = not dist.is_initialized()
        place = {
            "rank": 0 if is_alone else dist.get_rank(group),
            "world_size": 1 if is_alone else dist.get_world_size(group),
            "all_reduce": all_reduce,
        }
        super().__init__(root, **{**place, **options})
        self._describe = describe
        self._loader: Any = None
        self._began: dict[int | None, Mapping[str, str] | None] = {}
        """What each worker of the newest iterator went on from."""

    def carry(self, loader: Any) -> Any:
        """
        Let the batches of the training loader carry ids, and note what it shows of its order.

        Returns:
            The same loader.

        Raises:
            UsageError: it is no torch loader, or is iterated already.
        """
        if type(loader).__name__ == "DataLoaderDispatcher":  # of accelerate
            raise UsageError(
                "the main process deals its batches to the others: they cannot carry ids",
                hint="let each process read its own: dispatch_batches=False, in Accelerate's "
                "DataLoaderConfiguration or the Trainer's accelerator_config",
            )
        if self._loader is not loader:
            self._loader = tag(loader, self._describe)
            attach(loader, self)
            self._fingerprint = {**fingerprint_of(loader), **self._fingerprint}
            if _has_state(loader):
                loader.load_state_dict = self._telling(loader.load_state_dict)
        return loader

    def batches(
        self, batches: Iterable[Any] | None = None, *, epoch: int | None = None
    ) -> Iterator[Any]:
        """
        Give batches as they were collated, and record each as it is given.

        Args:
            batches: what is left of the loader's; null: all.
            epoch: pass over the data.

        Raises:
            UsageError: a batch carries no ids.
        """
        found = iter(self._loader if batches is None else batches)
        self.iterator()
        return self._used(found, epoch)

    def _used(self, batches: Iterator[Any], epoch: int | None) -> Iterator[Any]:
        for carried in batches:
            batch, tags = untagged(carried)
            self.use(tags, epoch=epoch)
            yield batch

    def use(self, tags: Tags | None, *, step: int | None = None, **columns: Any) -> None:
        """
        Record the batch that carried these tags.

        Args:
            tags: null: it carried none.
            step: that it contributes to; null: the one after the last commit.
            columns: what else is known of it.

        Raises:
            UsageError: it carried none.
        """
        if tags is None:
            raise UsageError(
                "a batch carries no sample ids: it comes from another loader than the ledger's",
                hint="hand that loader to the ledger, or give its ids to record()",
            )
        if tags.began != self._began.get(tags.worker):
            self._began[tags.worker] = tags.began
            states = {str(tags.worker): dict(tags.began or {})}
            self.iterator(worker=tags.worker, fingerprint={"worker_states": states})
        if tags.dropped:
            self.staged("dropped", list(tags.dropped), worker=tags.worker)
        known = {**tags.columns, "worker": tags.worker, **columns}
        self.record(known.pop("sample_id", []), step=step, **known)

    def begin_checkpoint(self, *, claim: Any = None, **told: Any) -> Checkpoint:
        """Do as `StepLedger.begin_checkpoint` does; a loader with a state claims that by itself."""
        if claim is None and _has_state(self._loader) and _is_begun(self._loader):
            claim = self._loader.state_dict()
        known = {"fingerprint": {"worker_states": states}} if (states := workers_of(claim)) else {}
        return super().begin_checkpoint(claim=claim, **{**known, **told})

    def _telling(self, load: Any) -> Any:
        """Let a loader say that its state is restored."""

        @functools.wraps(load)
        def loaded(state: Any) -> Any:
            found = load(state)
            states = workers_of(state)
            seen = {"worker_states": states} if states else {}
            self.restore(of="loader", claim=state, fingerprint=seen)
            return found

        return loaded


def _has_state(loader: Any) -> bool:
    """Tell whether a loader has a state; one of accelerate's has it if the one inside does."""
    return hasattr(getattr(loader, "base_dataloader", loader), "state_dict")


def _is_begun(loader: Any) -> bool:
    """Tell whether a state can be asked for; torchdata makes an iterator to have one."""
    is_torchdata = hasattr(loader, "_initial_iter_for_state_dict")
    return not is_torchdata or loader._iterator is not None


def all_reduce(values: list[int]) -> list[int]:
    """
    Sum over all processes of the job, as a guard needs it.

    Of all: model-parallel peers of those that record must stop with them.
    """
    if not dist.is_initialized():
        return values
    # gloo sums on the CPU; nccl and its like only where the accelerator is
    backend = str(dist.get_backend())
    is_cpu = "gloo" in backend or "mpi" in backend or not torch.cuda.is_available()
    device = "cpu" if is_cpu else f"cuda:{torch.cuda.current_device()}"
    tensor = torch.tensor(values, dtype=torch.int64, device=device)
    dist.all_reduce(tensor)
    return [int(one) for one in tensor.tolist()]


def workers_of(state: Any) -> dict[str, str]:
    """Digest what torchdata's loader keeps of its workers; empty: it keeps nothing."""
    snapshot = state.get("_snapshot") if isinstance(state, Mapping) else None
    found = snapshot.get("_worker_snapshots") if isinstance(snapshot, Mapping) else None
    try:
        return digests.worker_states(found) if found else {}
    except UsageError:  # a state of a kind that has no digest is left out
        return {}
