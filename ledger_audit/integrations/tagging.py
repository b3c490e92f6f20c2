"""
Carries sample ids from a data set through a torch loader to the point of use.

Each item leaves the data set with what the ledger says of it, in the worker that read it; the batch
made of such items carries the list, and `untagged` takes it off again where the batch is used. The
user's items, collation and batches stay what they were.
"""

import random
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from ledger_audit import fingerprint
from ledger_audit.errors import UsageError

TAGS = "ledger_audit.tags"
"""The key of a batch under which its tags travel."""

_BATCH = "ledger_audit.batch"
"""The key of a batch that is no dictionary itself."""

_KEYS = ("sample_id", "id", "idx", "index")
"""Where an item of a stream may have its id."""

Describe = str | Callable[[Any, Any], Any]
"""
Tells what the ledger says of an item: the item's key that holds its id, or a function of item and
index (null in a stream) that gives its id, a dictionary of columns, or a list of such for spans.
"""


@dataclass(frozen=True)
class Tags:
    """What the ledger says of one batch."""

    columns: Mapping[str, list[Any]]
    """Columns of `LedgerWriter.record`, one value a record."""
    worker: int | None
    """Null: it was read in the process that uses it."""
    began: Mapping[str, str] | None = None
    """Digests of the worker's state before it read its first item; null: there is no worker."""
    dropped: tuple[Any, ...] = ()
    """Ids of items that were read as None: they are in no batch."""


def tag(loader: Any, describe: Describe | None = None) -> Any:
    """
    Let the batches of a loader carry the ids of their samples; the loader is changed in place.

    Args:
        loader: a torch `DataLoader`, or one that stands in for it.
        describe: null: the index of a map-style data set, or the usual keys of a stream's items.

    Returns:
        The same loader.

    Raises:
        UsageError: it is no such loader, or its iterator is there already.
    """
    inner = getattr(loader, "base_dataloader", loader)
    if not all(hasattr(inner, name) for name in ("dataset", "collate_fn", "batch_sampler")):
        raise UsageError(
            f"a {type(loader).__name__} is no torch DataLoader: no ids can be carried through it",
            hint="let the batches hold their ids, and give them to record()",
        )
    if isinstance(inner.dataset, _Tagged):
        return loader
    if getattr(inner, "_iterator", None) is not None:
        raise UsageError(
            "the loader is iterated already: its workers read without the ledger",
            hint="hand the loader to the ledger before the first batch is asked for",
        )
    kind = _Stream if isinstance(inner.dataset, IterableDataset) else _Map
    is_stateful = hasattr(inner.dataset, "state_dict")
    dataset = _STATEFUL[kind] if is_stateful else kind
    # A loader refuses another data set because its samplers would not fit; these fit.
    object.__setattr__(inner, "dataset", dataset(inner.dataset, describe))
    inner.collate_fn = _Collate(inner.collate_fn)
    return loader


def untagged(batch: Any) -> tuple[Any, Tags | None]:
    """Give a batch as it was collated, and its tags; null: it carries none."""
    if not isinstance(batch, MutableMapping) or TAGS not in batch:
        return batch, None
    tags = batch.pop(TAGS)
    return batch.get(_BATCH, batch), tags


def fingerprint_of(loader: Any) -> dict[str, Any]:
    """Tell what decides the order of a torch loader's batches, as far as it can be seen."""
    dataset, sampler = getattr(loader, "dataset", None), getattr(loader, "sampler", None)
    try:
        samples = len(dataset)  # type: ignore[arg-type]  # if it has no length, it says so
    except TypeError:
        samples = None
    known = {
        "micro_batch_size": getattr(loader, "batch_size", None),
        "drop_last": getattr(loader, "drop_last", None),
        "workers": getattr(loader, "num_workers", None),
        "prefetch_factor": getattr(loader, "prefetch_factor", None),
        "dataset_samples": samples,
        "sampler": None if sampler is None else type(sampler).__name__,
        "seed": getattr(sampler, "seed", None),
        "versions": fingerprint.library_versions(),
    }
    return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True)
class _Item:
    """An item of the data set, and what the ledger says of it: a row for each record."""

    item: Any
    rows: Sequence[Mapping[str, Any]]


class _Tagged(Dataset[Any]):
    """Stands in for a data set; whatever else is asked of it or set, it leaves to that."""

    _inner: Any
    _describe: Describe | None
    _began: dict[str, str] | None

    def __init__(self, inner: Any, describe: Describe | None) -> None:
        for name, value in {"_inner": inner, "_describe": describe, "_began": None}.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in ("_inner", "_describe", "_began"):  # while it is unpickled
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def __getstate__(self) -> tuple[Any, Describe | None]:
        return self._inner, self._describe

    def __setstate__(self, state: tuple[Any, Describe | None]) -> None:
        _Tagged.__init__(self, *state)

    def look(self) -> None:
        """Digest the state of this worker, before it reads its first item."""
        if self._began is None:
            object.__setattr__(self, "_began", _state_of(self._inner))


class _Map(_Tagged):
    """A map-style data set whose items know their index."""

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, index: Any) -> _Item:
        self.look()
        return _Item(item := self._inner[index], _rows(item, index, self._describe))

    def __getitems__(self, indices: Sequence[Any]) -> list[_Item]:
        self.look()
        several = getattr(self._inner, "__getitems__", None)
        items = [self._inner[one] for one in indices] if several is None else several(indices)
        return [
            _Item(item, _rows(item, index, self._describe))
            for item, index in zip(items, indices, strict=True)
        ]


class _Stream(_Tagged, IterableDataset[Any]):
    """An iterable data set whose items know their id."""

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[_Item]:
        self.look()
        items = iter(self._inner)
        kind = _StatefulItems if hasattr(items, "state_dict") else _Items
        return kind(items, self._describe)


class _Items(Iterator[_Item]):
    """The items of a stream."""

    def __init__(self, items: Iterator[Any], describe: Describe | None) -> None:
        self._items, self._describe = items, describe

    def __next__(self) -> _Item:
        return _Item(item := next(self._items), _rows(item, None, self._describe))


class _States:
    """What torchdata asks whether a data set, or its iterator, has a state of its own."""

    def state_dict(self) -> Any:
        """Give the state of what this stands in for."""
        return self._own().state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Give that its state back."""
        self._own().load_state_dict(state)

    def _own(self) -> Any:
        found = vars(self)
        return found["_inner"] if "_inner" in found else found["_items"]


class _StatefulItems(_States, _Items):
    """The items of a stream whose iterator has a state."""


class _StatefulMap(_States, _Map):
    """A map-style data set with a state."""


class _StatefulStream(_States, _Stream):
    """A stream with a state."""


_STATEFUL: Mapping[type[_Tagged], type[_Tagged]] = {_Map: _StatefulMap, _Stream: _StatefulStream}


@dataclass(frozen=True)
class _Collate:
    """Collates items as before, and lets the batch carry what the ledger says of them."""

    collate: Callable[[Any], Any]

    def __call__(self, items: Any) -> Any:
        listed = items if isinstance(items, list) else [items]
        plain = [one.item for one in listed]
        batch = self.collate(plain if isinstance(items, list) else plain[0])
        used = [one for one in listed if one.item is not None]
        info = get_worker_info()
        source = None if info is None else info.dataset
        tags = Tags(
            _columns(used),
            None if info is None else int(info.id),
            source._began if isinstance(source, _Tagged) else None,
            tuple(row["sample_id"] for one in listed if one.item is None for row in one.rows),
        )
        if isinstance(batch, MutableMapping):
            batch[TAGS] = tags
            return batch
        return {_BATCH: batch, TAGS: tags}


def _columns(items: Sequence[_Item]) -> dict[str, list[Any]]:
    rows = [{"row": at, **row} for at, one in enumerate(items) for row in one.rows]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _rows(item: Any, index: Any, describe: Describe | None) -> Sequence[Mapping[str, Any]]:
    """Give the records that an item makes."""
    if callable(describe):
        told = describe(item, index)
    elif describe is not None:
        told = item[describe]
    elif index is not None:
        told = index
    else:
        told = _own_id(item)
    if isinstance(told, Mapping):
        return [told]
    if isinstance(told, list | tuple) and all(isinstance(one, Mapping) for one in told):
        return told
    several = told if isinstance(told, list | tuple) else [told]
    return [{"sample_id": _plain(one)} for one in several]


def _own_id(item: Any) -> Any:
    for name in _KEYS if isinstance(item, Mapping) else ():
        if name in item:
            return item[name]
    raise UsageError(
        f"an item of the stream has no id under any of {', '.join(_KEYS)}",
        hint="say where it is: a key of the item, or a function of the item and None",
    )


def _plain(value: Any) -> Any:
    """Give an id out of a numpy or torch scalar."""
    return value.item() if hasattr(value, "item") else value


def _state_of(dataset: Any) -> dict[str, str]:
    """Digest what a worker goes on from: its generators, and its data set's own state."""
    states: dict[str, Any] = {
        "rng": [random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state()]
    }
    if hasattr(dataset, "state_dict"):
        states["dataset"] = dataset.state_dict()
    found = {}
    for name, state in states.items():
        try:
            found[name] = fingerprint.state_digest(state)
        except UsageError:  # a state of a kind that has no digest is left out
            continue
    return found
