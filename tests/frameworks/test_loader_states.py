"""Loaders with a state are restored as without a ledger; what read ahead is counted; sums."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
import torch.distributed as dist
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.data_loader import DataLoaderShard, skip_first_batches
from launching import events, used
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    get_worker_info,
)
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import BatchSampler as StatefulBatchSampler
from torchdata.stateful_dataloader.sampler import RandomSampler as StatefulRandomSampler
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

from ledger_audit.errors import UsageError
from ledger_audit.fingerprint import state_digest
from ledger_audit.integrations.accelerate import AccelerateLedger
from ledger_audit.integrations.carrying import all_reduce
from ledger_audit.integrations.reading_ahead import ReadAhead
from ledger_audit.integrations.torch import TorchLedger
from ledger_audit.ledger.opening import open_ledger

pytestmark = pytest.mark.frameworks

SAMPLES, ROWS = 7, 2
QUIET = pytest.mark.filterwarnings("ignore:'set_vital'")


class Plain(Dataset[Any]):
    """Items that are a dictionary of their index."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        return {"id": index}


class Counting(Plain):
    """Counts what it gave, in a state."""

    def __init__(self) -> None:
        self.given = 0

    def __getitem__(self, index: int) -> Any:
        self.given += 1
        return {"id": index, "given": self.given}

    def state_dict(self) -> Any:
        """Give the state."""
        return {"given": self.given}

    def load_state_dict(self, state: Any) -> None:
        """Take it back."""
        self.given = state["given"]


class HalfStateful(Plain):
    """Has a state that nobody can give back; torchdata does not ask for it."""

    state_dict = None


class Late(Plain):
    """Has its state in attributes."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.state_dict = lambda: {"kept": [*self.kept]}
        self.load_state_dict = lambda state: self.kept.extend(state["kept"])

    def __getitem__(self, index: int) -> Any:
        self.kept.append(index)
        return {"id": index, "kept": len(self.kept)}


class Stream(IterableDataset[Any]):
    """A stream that workers share out, without a state."""

    at = count = 0

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        begin, self.at = self.at, 0
        for index in range(start + begin * step, SAMPLES, step):
            begin = self.count = begin + 1
            yield {"id": index}


class StatefulStream(Stream):
    """A stream whose data set has the state."""

    def state_dict(self) -> Any:
        """Give the state."""
        return {"count": self.count}

    def load_state_dict(self, state: Any) -> None:
        """Take it back."""
        self.at = self.count = state["count"]


class Cursor:
    """An iterator with a state."""

    def __init__(self) -> None:
        info = get_worker_info()
        self.at, self.step = (0, 1) if info is None else (info.id, info.num_workers)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.at >= SAMPLES:
            raise StopIteration
        self.at += self.step
        return {"id": self.at - self.step}

    def state_dict(self) -> Any:
        """Give the state."""
        return {"at": self.at}

    def load_state_dict(self, state: Any) -> None:
        """Take it back; a second time it would not fit."""
        self.at = state["at"]


class Iterating(IterableDataset[Any]):
    """A stream whose iterators have the state."""

    def __iter__(self) -> Iterator[Any]:
        return Cursor()


class Itself(Cursor, IterableDataset[Any]):
    """A stream that is its own iterator; torchdata asks it for one state, not for two."""

    loads = 0

    def __init__(self) -> None:
        self.at, self.step = 0, 1

    def __iter__(self) -> Iterator[Any]:
        Cursor.__init__(self)
        return self

    def load_state_dict(self, state: Any) -> None:
        """Count how often the state is given back."""
        self.loads += 1
        super().load_state_dict(state)

    def __next__(self) -> Any:
        return {**super().__next__(), "loads": self.loads}


def _datasets() -> Any:
    return datasets.Dataset.from_dict({"id": [*range(SAMPLES)]}).to_iterable_dataset(2)


def _drawn() -> Any:
    return torch.Generator().manual_seed(3)


def _random(data: Any) -> Any:
    return StatefulRandomSampler(data, generator=_drawn())


SIZE = {"batch_size": ROWS}
LOADERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "a map": (Plain, lambda _: {**SIZE, "shuffle": True, "generator": _drawn()}),
    "a map in order": (Plain, lambda _: SIZE),
    "a map with a state": (Counting, lambda _: {**SIZE, "shuffle": True, "generator": _drawn()}),
    "a map with half a state": (HalfStateful, lambda _: SIZE),
    "a map with a state of its own": (Late, lambda _: SIZE),
    "a stream": (Stream, lambda _: SIZE),
    "a stream with a state": (StatefulStream, lambda _: SIZE),
    "an iterator with a state": (Iterating, lambda _: SIZE),
    "no batches": (Iterating, lambda _: {"batch_size": None}),
    "a stream that is its iterator": (Itself, lambda _: SIZE),
    "datasets": (_datasets, lambda _: SIZE),
    "ReadAhead on batches": (
        Plain,
        lambda data: {"batch_sampler": ReadAhead(StatefulBatchSampler(_random(data), ROWS, False))},
    ),
    "ReadAhead on a random sampler": (
        Plain,
        lambda data: {**SIZE, "sampler": ReadAhead(_random(data))},
    ),
    "ReadAhead on a sampler with a state": (
        Plain,
        lambda data: {**SIZE, "sampler": ReadAhead(StatefulDistributedSampler(data, 1, 0, seed=2))},
    ),
}


def _made(name: str, workers: int) -> Any:
    source, options = LOADERS[name]
    told = options(data := source())
    return StatefulDataLoader(data, num_workers=workers, collate_fn=_same, **told)


def _bare(name: str, workers: int) -> Any:
    """Make the loader with nothing of the ledger in it."""
    loader = _made(name, workers)
    for one in (loader, loader.batch_sampler):
        for of in ("sampler", "batch_sampler"):
            if isinstance(inner := getattr(one, of, None), ReadAhead):
                object.__setattr__(one, of, inner.sampler)
    return loader


def _same(items: Any) -> Any:
    return items


def _ledger(root: Path, loader: Any, **options: Any) -> TorchLedger:
    return TorchLedger(root, loader, **{"attempt": "a", "strict": True, **options})


def _ids(root: Path) -> list[list[Any]]:
    return [batch["sample_id"].to_list() for batch in used(root, "a").get(0, [])]


def _listed(batch: Any) -> list[int]:
    return [one["id"] for one in (batch if isinstance(batch, list) else [batch])]


def _read(root: Path, stage: str = "read") -> list[int]:
    rows = open_ledger([root]).everything("a")[0].filter(stage=stage)
    return rows.sort("seq")["sample_id"].to_list()


@QUIET
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", LOADERS)
def test_states_and_restores_are_those_of_the_bare_loader(
    name: str, workers: int, tmp_path: Path
) -> None:
    """At every batch; from each state the rest is the same, and is recorded."""
    torch.manual_seed(0)
    bare = _bare(name, workers)
    expected = [(batch, bare.state_dict()) for batch in bare]
    torch.manual_seed(0)
    loader = _made(name, workers)
    with _ledger(tmp_path / "whole", loader) as ledger:
        found = [(batch, loader.state_dict()) for batch in ledger.batches()]

    assert [batch for batch, _ in expected] == [batch for batch, _ in found]
    assert [_listed(batch) for batch, _ in found] == _ids(tmp_path / "whole")
    for at, ((_, before), (_, state)) in enumerate(zip(expected, found, strict=True)):
        assert state_digest(before) == state_digest(state)
        if workers and at % 2:
            continue
        (bare := _bare(name, workers)).load_state_dict(before)
        resumed = _made(name, workers)
        with _ledger(tmp_path / f"from-{at}", resumed) as ledger:
            resumed.load_state_dict(state)
            rest = [*ledger.batches()]
        assert [*bare] == rest
        assert [_listed(batch) for batch in rest] == _ids(tmp_path / f"from-{at}")


@QUIET
def test_a_restored_loader_says_so_in_order(tmp_path: Path) -> None:
    """Its restore says more than the cursor's; a checkpoint claims its state, if it has one."""
    first = _made("a map with a state", 0)
    with _ledger(tmp_path / "one", first) as ledger:
        with ledger.checkpoint():
            pass
        batches = ledger.batches()
        next(batches)
        ledger.commit()
        with ledger.checkpoint() as cursor:
            torch.save({"ledger": cursor, "loader": first.state_dict()}, tmp_path / "saved")
    saved = torch.load(tmp_path / "saved", weights_only=True)
    loader = _made("a map with a state", 0)
    with _ledger(tmp_path / "two", loader, restored=saved["ledger"]) as ledger:
        loader.load_state_dict(saved["loader"])
        next(ledger.batches())
    begun = [one for one in events(tmp_path / "one", "a", "checkpoint") if one["phase"] == "begin"]
    label = next(iter(open_ledger([tmp_path / "two"]).attempts))
    told = [
        *events(tmp_path / "two", label, "restore"),
        *events(tmp_path / "two", label, "iterator"),
    ]

    assert [False, True] == ["claim" in one for one in begun]
    assert ["loader", None] == [one.get("of") for one in told]
    assert [1, 2] == [one["seq"] - told[0]["seq"] + 1 for one in told]


@QUIET
@pytest.mark.parametrize("workers", [0, 2])
def test_a_checkpoint_before_the_first_batch_changes_nothing(workers: int, tmp_path: Path) -> None:
    """To ask torchdata for a state would draw random numbers for an iterator."""
    loader = _made("a map", workers)
    before = torch.get_rng_state()
    with _ledger(tmp_path, loader) as ledger, ledger.checkpoint():
        pass

    assert before.equal(torch.get_rng_state())
    assert loader._iterator is None


def _batched(sampler: Any) -> Any:
    return BatchSampler(sampler, ROWS, drop_last=False)


AHEAD: dict[str, Callable[[], Any]] = {
    "sampler": lambda: {**SIZE, "sampler": ReadAhead(SequentialSampler(range(SAMPLES)))},
    "arrays": lambda: {**SIZE, "sampler": ReadAhead(torch.arange(SAMPLES))},
    "batches": lambda: {"batch_sampler": ReadAhead(_batched(RandomSampler(range(SAMPLES))))},
    "nested": lambda: {"batch_sampler": _batched(ReadAhead(RandomSampler(range(SAMPLES))))},
    "dealt": lambda: {
        "batch_sampler": _batched(ReadAhead(DistributedSampler(range(SAMPLES), 1, 0, seed=4)))
    },
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", AHEAD)
def test_read_ahead_records_what_the_sampler_hands_out(
    name: str, workers: int, tmp_path: Path
) -> None:
    """In its order, and so far ahead of the use as workers prefetch."""
    loader = DataLoader(Plain(), num_workers=workers, collate_fn=_same, **AHEAD[name]())
    with _ledger(tmp_path, loader) as ledger:
        batches = ledger.batches()
        first = _listed(next(batches))
        ahead = len(_read(tmp_path))
        rest = [one for batch in batches for one in _listed(batch)]

    assert [*first, *rest] == _read(tmp_path) == [*itertools.chain(*_ids(tmp_path))]
    assert (SAMPLES if workers else ROWS) == ahead


def test_read_ahead_stands_in_for_its_sampler(tmp_path: Path) -> None:
    """Length, epoch and whatever else are the sampler's; its stage may be another."""
    sampler = ReadAhead(DistributedSampler(range(SAMPLES), 1, 0, seed=4), stage="queued")
    sampler.set_epoch(5)
    with _ledger(tmp_path, DataLoader(Plain(), collate_fn=_same, sampler=sampler)) as ledger:
        found = [_listed(batch)[0] for batch in ledger.batches()]

    assert (SAMPLES, 5, 4) == (len(sampler), sampler.sampler.epoch, sampler.seed)
    assert found == _read(tmp_path, "queued")
    assert not hasattr(sampler, "state_dict")


def test_read_ahead_without_a_ledger_is_refused() -> None:
    """It does not know where to record."""
    with pytest.raises(UsageError, match="belongs to no ledger"):
        next(iter(ReadAhead([1, 2])))


def test_a_sum_over_one_process_is_its_own() -> None:
    """Without a process group there is but this one."""
    assert dist.is_initialized() is False
    assert [2**62, -1] == all_reduce([2**62, -1])


@QUIET
@pytest.mark.parametrize("skipped", [0, 2])
@pytest.mark.parametrize("is_stateful", [False, True])
def test_accelerates_loaders_carry_ids(skipped: int, is_stateful: bool, tmp_path: Path) -> None:
    """They fetch one batch ahead, may be made anew to skip, and ask torchdata for a state."""
    config = DataLoaderConfiguration(use_stateful_dataloader=is_stateful)
    accelerator = Accelerator(cpu=True, dataloader_config=config)
    loader = accelerator.prepare(DataLoader(Plain(), 1, collate_fn=_same))
    with _ledger(tmp_path, loader) as ledger:
        left = skip_first_batches(loader, skipped) if skipped else None
        found = [_listed(batch) for batch in ledger.batches(left)]

    assert DataLoaderShard is type(loader)
    assert [[at] for at in range(skipped, SAMPLES)] == found == _ids(tmp_path)


def test_accelerates_dispatcher_is_refused(tmp_path: Path) -> None:
    """The main process deals its batches."""
    config = DataLoaderConfiguration(dispatch_batches=True)
    accelerator = Accelerator(cpu=True, dataloader_config=config)
    loader = accelerator.prepare(DataLoader(Stream(), 2))

    with pytest.raises(UsageError, match="cannot carry ids"):
        AccelerateLedger(tmp_path, accelerator, loader, None)
