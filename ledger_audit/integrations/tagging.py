"""
Carries sample ids from a data set through a torch loader to the point of use.

Each item leaves the data set with what the ledger says of it, in the worker that read it; the batch
made of such items carries the list, and `untagged` takes it off again where the batch is used. The
user's items, collation and batches stay what they were.
"""

import copy
import random
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from ledger_audit import fingerprint
from ledger_audit.errors import UsageError
from ledger_audit.integrations.describing import Describe, Item, NoIdError, columns_of, rows_of

TAGS = "ledger_audit.tags"
"""The key of a batch under which its tags travel."""

_BATCH = "ledger_audit.batch"
"""The key of a batch that is no dictionary itself."""

_PIPES = ("IterDataPipe", "MapDataPipe")
"""Data sets that the loader's workers deal out among themselves, by looking into them."""

_COPIED = ("__copy__", "__deepcopy__")
"""What a stand-in must not leave to what it stands in for: the copy would be no stand-in."""


@runtime_checkable
class Stateful(Protocol):
    """What torchdata takes for a thing with a state of its own."""

    def state_dict(self) -> Any:
        """Give the state."""

    def load_state_dict(self, state: Any, /) -> None:
        """Take it back."""


@dataclass(frozen=True)
class Tags:
    """What the ledger says of one batch."""

    columns: Mapping[str, Any]
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
    if any(kind.__name__ in _PIPES for kind in type(inner.dataset).__mro__):
        raise UsageError(
            "the loader reads a data pipe, which its workers deal out by looking into it",
            hint="let the batches hold their ids, and give them to record()",
        )
    if getattr(inner, "_initial_iter_for_state_dict", False):
        inner.load_state_dict(inner.state_dict())  # it was made for a state, and gave no batch
    if getattr(inner, "_iterator", None) is not None:
        raise UsageError(
            "the loader is iterated already: its workers read without the ledger",
            hint="hand the loader to the ledger before the first batch is asked for",
        )
    kind = _Stream if isinstance(inner.dataset, IterableDataset) else _Map
    dataset = _STATEFUL[kind] if isinstance(inner.dataset, Stateful) else kind
    is_listed = inner.batch_sampler is not None
    tagged = dataset(inner.dataset, describe=describe, is_listed=is_listed, began=None)
    # A loader refuses another data set because its samplers would not fit; these fit.
    object.__setattr__(inner, "dataset", tagged)
    inner.collate_fn = _Collate(inner.collate_fn)
    return loader


def untagged(batch: Any) -> tuple[Any, Tags | None]:
    """Give a batch as it was collated, and its tags; null: it carries none."""
    if not isinstance(batch, MutableMapping) or TAGS not in batch:
        return batch, None
    tags = batch[TAGS]
    if _BATCH in batch:
        return batch[_BATCH], tags
    plain = copy.copy(batch)  # whoever keeps batches may give this one again
    del plain[TAGS]
    return plain, tags


def fingerprint_of(loader: Any) -> dict[str, Any]:
    """Tell what decides the order of a torch loader's batches, as far as it can be seen."""
    dataset, sampler = getattr(loader, "dataset", None), getattr(loader, "sampler", None)
    try:
        samples = len(dataset)  # type: ignore[arg-type]  # if it has no length, it says so
    except Exception:  # whatever the user's own method raises
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


class _StandIn:
    """Stands in for something; whatever else is asked of it or set, it leaves to that."""

    _tagged_inner: Any

    def __init__(self, inner: Any, **own: Any) -> None:
        for name, value in {"inner": inner, **own}.items():
            object.__setattr__(self, f"_tagged_{name}", value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_tagged_") or name in _COPIED:  # the former while it is unpickled
            raise AttributeError(name)
        return getattr(self._tagged_inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._tagged_inner, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._tagged_inner, name)


class _Tagged(_StandIn, Dataset[Any]):
    """Stands in for a data set."""

    _tagged_describe: Describe | None
    _tagged_is_listed: bool
    """A list of indices is a batch to collate, and no index of an item."""
    _tagged_began: dict[str, str] | None

    def __bool__(self) -> bool:
        return bool(self._tagged_inner)

    def __len__(self) -> int:
        return len(self._tagged_inner)

    def __getstate__(self) -> dict[str, Any]:
        names = ("inner", "describe", "is_listed")
        return {name: getattr(self, f"_tagged_{name}") for name in names}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        _StandIn.__init__(self, **state, began=None)

    def _tagged_look(self) -> None:
        """Digest the state of this worker, before it reads its first item."""
        if self._tagged_began is None and get_worker_info() is not None:
            object.__setattr__(self, "_tagged_began", _state_of(self._tagged_inner))

    def _tagged_item(self, item: Any, index: Any) -> "Item":
        return Item(item, rows_of(item, index, self._tagged_describe))


class _Map(_Tagged):
    """A map-style data set whose items know their index."""

    def __getitem__(self, index: Any) -> Any:
        if self._tagged_is_listed:  # a loader that collates asks for several, so this is the user
            return self._tagged_inner[index]
        self._tagged_look()
        return self._tagged_item(self._tagged_inner[index], index)

    def __getitems__(self, indices: Sequence[Any]) -> Any:
        self._tagged_look()
        several = getattr(self._tagged_inner, "__getitems__", None)
        items = several(indices) if several else [self._tagged_inner[one] for one in indices]
        if type(items) not in (list, tuple):  # a batch already
            return self._tagged_item(items, indices)
        known: Sequence[Any] = indices
        if len(items) != len(indices):  # it leaves some out: they are told by themselves
            if self._tagged_describe is None:
                raise NoIdError(f"__getitems__ gives {len(items)} items for {len(indices)} indices")
            known = [None] * len(items)
        return type(items)(map(self._tagged_item, items, known))


class _Stream(_Tagged, IterableDataset[Any]):
    """An iterable data set whose items know their id."""

    def __iter__(self) -> Iterator[Item]:
        self._tagged_look()
        items = iter(self._tagged_inner)
        if items is self._tagged_inner:  # torchdata asks such a data set for one state, not two
            return self
        kind = _StatefulItems if isinstance(items, Stateful) else _Items
        return kind(items, describe=self._tagged_describe)

    def __next__(self) -> Item:
        return self._tagged_item(next(self._tagged_inner), None)


class _Items(_StandIn, Iterator[Item]):
    """The items of a stream."""

    _tagged_describe: Describe | None

    def __next__(self) -> Item:
        return Item(item := next(self._tagged_inner), rows_of(item, None, self._tagged_describe))


class _States:
    """What torchdata asks whether a data set, or its iterator, has a state of its own."""

    _tagged_inner: Any

    def state_dict(self) -> Any:
        """Give the state of what this stands in for."""
        return self._tagged_inner.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Give that its state back."""
        self._tagged_inner.load_state_dict(state)


class _StatefulItems(_States, _Items):
    """The items of a stream whose iterator has a state."""


class _StatefulMap(_States, _Map):
    """A map-style data set with a state."""


class _StatefulStream(_States, _Stream):
    """A stream with a state."""


_STATEFUL: Mapping[type[_Tagged], type[_Tagged]] = {_Map: _StatefulMap, _Stream: _StatefulStream}


class _Collate(_StandIn):
    """Collates items as before; the batch then carries what the ledger says of them."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _Collate, (self._tagged_inner,)

    def __call__(self, items: Any) -> Any:
        is_whole = isinstance(items, Item)
        listed = [items] if is_whole else items
        if not (isinstance(listed, list | tuple) and all(isinstance(one, Item) for one in listed)):
            return self._tagged_inner(items)  # of another loader that has the same collation
        plain = [one.item for one in listed]
        batch = self._tagged_inner(plain[0] if is_whole else type(items)(plain))
        used = [one for one in listed if one.item is not None]
        info = get_worker_info()
        source = None if info is None else info.dataset
        tags = Tags(
            columns_of(used, is_whole=is_whole),
            None if info is None else int(info.id),
            source._tagged_began if isinstance(source, _Tagged) else None,
            tuple(row["sample_id"] for one in listed if one.item is None for row in one.rows),
        )
        # other dictionaries have rules of their own for keys, or how to take one out
        if type(batch) in (dict, OrderedDict, defaultdict) or isinstance(batch, UserDict):
            carrying = copy.copy(batch)  # it may be an item that the data set keeps
            carrying[TAGS] = tags
            return carrying
        return {_BATCH: batch, TAGS: tags}


def _state_of(dataset: Any) -> dict[str, str]:
    """Digest what a worker goes on from: its generators, and its data set's own state."""
    states: dict[str, Any] = {
        "rng": [random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state()]
    }
    if isinstance(dataset, Stateful):
        states["dataset"] = dataset
    found = {}
    for name, state in states.items():
        try:
            found[name] = fingerprint.state_digest(state)
        except Exception:  # a state of a kind that has no digest, or is not there yet
            continue
    return found
