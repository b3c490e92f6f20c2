"""Ids travel from any data set through any loader, which gives what it gives without a ledger."""

import itertools
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from launching import events, used
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    get_worker_info,
)
from torch.utils.data.datapipes.iter import IterableWrapper
from torchdata.stateful_dataloader import StatefulDataLoader
from transformers import BatchEncoding

from ledger_audit.errors import UsageError
from ledger_audit.integrations.tagging import tag, untagged
from ledger_audit.integrations.torch import TorchLedger
from ledger_audit.ledger.opening import open_ledger

pytestmark = pytest.mark.frameworks

SAMPLES, ROWS, MARK = 11, 3, 1000
"""Samples are MARK and their index, so that ids can be told from what else is in a batch."""


class Marks(Dataset[Any]):
    """Items of one tensor; `wrap` is what they are wrapped in."""

    def __init__(self, wrap: Callable[[int], Any] = torch.tensor) -> None:
        self.wrap = wrap

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: Any) -> Any:
        return self.wrap([MARK + one for one in index] if isinstance(index, list) else MARK + index)


class Several(Marks):
    """Gives several items at once, wrapped together."""

    def __getitems__(self, indices: Sequence[int]) -> Any:
        return self[indices]


class Keeping(Marks):
    """Gives the dictionaries that it keeps."""

    def __init__(self) -> None:
        self.kept = {MARK + at: {"mark": torch.tensor([MARK + at])} for at in range(SAMPLES)}
        super().__init__(self.kept.get)


class Stubborn(OrderedDict[str, Any]):
    """Lets nobody take a key out."""

    def __delitem__(self, key: str) -> None:
        raise TypeError("no key can be taken out")

    pop = __delitem__  # type: ignore[assignment]


@dataclass
class Batch:
    marks: torch.Tensor


class Mapped:
    """A collation with an attribute that may be changed while training goes on."""

    scale = 1

    def __call__(self, items: Any) -> Any:
        """Collate."""
        return {"mark": torch.stack(items), "scale": self.scale}


def _doc(mark: int) -> Any:
    return {"doc": f"doc-{mark}", "at": torch.tensor(mark), "id": np.int64(mark), "n": 4}


def _noisy(mark: int) -> Any:
    return torch.tensor(mark), torch.rand(1), np.random.rand(1)


def _holed(mark: int) -> Any:
    return torch.tensor(mark) if mark % 3 else None


def _kept(items: Any) -> Any:
    left = [one for one in items if one is not None]
    return torch.stack(left) if left else None


def _same(item: Any) -> Any:
    return item


COLLATED: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda items: (torch.stack(items), 1),
    "dict": lambda items: {"mark": torch.stack(items)},
    "dataclass": lambda items: Batch(torch.stack(items)),
    "BatchEncoding": lambda items: BatchEncoding({"mark": torch.stack(items)}),
    "OrderedDict": lambda items: OrderedDict(mark=torch.stack(items)),
    "a dictionary of its own rules": lambda items: Stubborn(mark=torch.stack(items)),
    "a callable object": Mapped(),
}
SOURCES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "items": (Marks, {}),
    "shuffled": (Marks, {"shuffle": True, "drop_last": True}),
    "dictionaries": (lambda: Marks(_doc), {}),
    "drawn": (lambda: Marks(_noisy), {"shuffle": True}),
    "no batches": (Marks, {"batch_size": None}),
    "kept dictionaries": (Keeping, {"batch_size": None, "collate_fn": _same}),
    "kept batches": (Keeping, {"batch_size": 1, "collate_fn": itemgetter(0)}),
    "several": (lambda: Several(lambda marks: [torch.tensor(one) for one in marks]), {}),
    "a batch": (lambda: Several(torch.tensor), {"collate_fn": _same}),
    "a tuple": (lambda: Several(tuple), {"collate_fn": _same}),
    "subset": (lambda: Subset(Marks(), range(SAMPLES)), {}),
    "concatenated": (
        lambda: ConcatDataset([Subset(Marks(), range(4)), Subset(Marks(), range(4, SAMPLES))]),
        {},
    ),
    "tensors": (lambda: TensorDataset(torch.arange(MARK, MARK + SAMPLES)), {}),
    "a list": (lambda: list(range(MARK, MARK + SAMPLES)), {}),
    "holes": (lambda: Marks(_holed), {"collate_fn": _kept}),
    "only holes": (lambda: Marks(_holed), {"collate_fn": _kept, "batch_size": 1}),
    "pinned": (Marks, {"pin_memory": True}),
    "datasets": (lambda: datasets.Dataset.from_dict({"mark": [*range(MARK, MARK + SAMPLES)]}), {}),
    **{f"collated to {name}": (Marks, {"collate_fn": one}) for name, one in COLLATED.items()},
}


def _made(name: str, workers: int, **more: Any) -> Any:
    torch.manual_seed(0)
    np.random.seed(0)
    source, options = SOURCES[name]
    drawing = {"generator": torch.Generator().manual_seed(5), "num_workers": workers}
    known = {"batch_size": ROWS, **drawing, **options, **more}
    return DataLoader(source(), **known)


def _marks(batch: Any) -> list[int]:
    """Give the indices of the samples in a batch, whatever it is."""
    return [int(one) - MARK for one in dict.fromkeys(re.findall(r"\b10[01]\d\b", repr(batch)))]


def _ids(root: Path) -> list[list[Any]]:
    return [batch["sample_id"].to_list() for batch in used(root, "a").get(0, [])]


def _dropped(root: Path) -> list[Any]:
    return open_ledger([root]).everything("a")[0].filter(stage="dropped")["sample_id"].to_list()


def _ledger(root: Path, loader: Any, **options: Any) -> TorchLedger:
    return TorchLedger(root, loader, **{"attempt": "a", "strict": True, **options})


def _run(ledger: TorchLedger, batches: Any = None) -> list[Any]:
    found = []
    for batch in ledger.batches(batches):
        found.append(batch)
        ledger.commit()
    return found


@pytest.mark.filterwarnings("ignore:.*pin_memory.*")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", SOURCES)
def test_batches_are_what_they_were_and_ids_are_recorded(
    name: str, workers: int, tmp_path: Path
) -> None:
    """Over two passes: types, values, order; each batch's ids are those in it."""
    bare = _made(name, workers)
    before = [(type(batch), repr(batch)) for _ in range(2) for batch in bare]
    with _ledger(tmp_path, _made(name, workers)) as ledger:
        found = [batch for _ in range(2) for batch in _run(ledger)]

    assert before == [(type(batch), repr(batch)) for batch in found]
    assert [marks for batch in found if (marks := _marks(batch))] == _ids(tmp_path)


@pytest.mark.parametrize("sampler", ["sampler", "batch_sampler"])
def test_a_list_of_indices_is_a_batch(sampler: str, tmp_path: Path) -> None:
    """Whether the loader collates it or the data set does, each index is a row of its own."""
    batches = BatchSampler(range(SAMPLES), ROWS, drop_last=False)
    size = {"batch_size": None} if sampler == "sampler" else {}
    with _ledger(tmp_path, DataLoader(Marks(), **{sampler: batches}, **size)) as ledger:
        found = _run(ledger)

    assert [_marks(batch) for batch in found] == _ids(tmp_path)
    assert [0, 1, 2] == used(tmp_path, "a")[0][0]["row"].to_list()


@pytest.mark.parametrize("describe", [None, "id", lambda item, _: item["id"]])
def test_an_item_that_is_none_is_dropped(describe: Any, tmp_path: Path) -> None:
    """Its id is told where it can be known; the job goes on where it cannot."""
    items = [{"id": 7}, None, {"id": 9}]
    loader = DataLoader(items, 3, collate_fn=lambda some: [*filter(None, some)])
    with _ledger(tmp_path, loader, describe=describe) as ledger:
        found = _run(ledger)

    assert [[{"id": 7}, {"id": 9}]] == found
    assert [[0, 2] if describe is None else [7, 9]] == _ids(tmp_path)
    assert ([1] if describe is None else []) == _dropped(tmp_path)


class Deep(IterableDataset[Any]):
    """A stream that its workers share out."""

    def __init__(self, key: str = "id") -> None:
        self.key, self.first = key, 0

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for at in range(self.first + first, SAMPLES, step):
            yield {self.key: at, "x": torch.tensor([MARK + at])}


def _from_two(_: int) -> None:
    get_worker_info().dataset.first = 2


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("size", [None, 2])
@pytest.mark.parametrize("key", ["id", "idx", "sample_id", "url"])
def test_a_stream_tells_ids_by_its_items(
    key: str, size: int | None, workers: int, tmp_path: Path
) -> None:
    """Under a usual key, or under that which `describe` names; also where workers share it out."""
    options = {"num_workers": workers, "worker_init_fn": _from_two}
    before = [_marks(batch) for batch in DataLoader(Deep(key), size, **options)]
    loader = DataLoader(Deep(key), size, **options)
    with _ledger(tmp_path, loader, describe=key if key == "url" else None) as ledger:
        found = [_marks(batch) for batch in _run(ledger)]

    assert before == found == _ids(tmp_path)
    assert [*range(2 if workers else 0, SAMPLES)] == sorted(itertools.chain(*found))


@pytest.mark.parametrize(("source", "method"), [(Marks, "spawn"), (Marks, "fork"), (Deep, "spawn")])
def test_persistent_workers_carry_ids_in_each_pass(
    source: Any, method: str, tmp_path: Path
) -> None:
    """The stand-ins survive pickling; the state that a worker began with is told once."""
    options = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": method}
    loader = DataLoader(source(), ROWS, **options)
    with _ledger(tmp_path, loader) as ledger:
        found = [_marks(batch) for _ in range(2) for batch in _run(ledger)]
    told = [one["worker"] for one in events(tmp_path, "a", "iterator") if "worker" in one]

    assert found == _ids(tmp_path)
    assert [*range(SAMPLES)] == sorted(itertools.chain(*found[: len(found) // 2]))
    assert [0, 1] == told


@pytest.mark.parametrize("skipped", [0, 2])
def test_each_iterator_tells_the_states_of_its_workers_once(skipped: int, tmp_path: Path) -> None:
    """And with the first batch that is used, whichever that is; the column names the worker."""
    loader = DataLoader(Marks(), 1, num_workers=2)
    with _ledger(tmp_path, loader) as ledger:
        for _ in range(2):
            _run(ledger, itertools.islice(loader, skipped, None))
    told = events(tmp_path, "a", "iterator")
    states = [one["fingerprint"]["worker_states"] for one in told if "worker" in one]
    workers = [batch["worker"].to_list() for batch in used(tmp_path, "a")[0]]

    assert [None, 0, 1] * 2 == [one.get("worker") for one in told]
    assert 4 == len({one[name]["rng"] for one in states for name in one})
    assert [[at % 2] for at in range(skipped, SAMPLES)] * 2 == workers


SPANS = [{"sample_id": 1, "token_start": 0, "token_end": 2}, {"sample_id": 2, "token_start": 2}]


@pytest.mark.parametrize(
    ("describe", "expected"),
    [
        ("doc", {"sample_id": ["doc-1000", "doc-1001"], "row": [0, 1]}),
        ("at", {"sample_id": [1000, 1001], "row": [0, 1]}),
        ("id", {"sample_id": [1000, 1001], "row": [0, 1]}),
        (lambda _, index: index * 10, {"sample_id": [0, 10], "row": [0, 1]}),
        (lambda _, index: torch.tensor([index, 7]), {"sample_id": [0, 7, 1, 7]}),
        (
            lambda item, _: {"sample_id": item["at"], "source": "web", "token_end": item["n"]},
            {"sample_id": [1000, 1001], "source": ["web"] * 2, "token_end": [4, 4]},
        ),
        (lambda *_: SPANS, {"sample_id": [1, 2, 1, 2], "row": [0, 0, 1, 1]}),
        (lambda _, index: [] if index else 5, {"sample_id": [5], "row": [0]}),
    ],
)
def test_describe_tells_ids_columns_and_spans(describe: Any, expected: Any, tmp_path: Path) -> None:
    """By key or function; scalars of numpy and torch are numbers; spans share their row."""
    loader = DataLoader(Subset(Marks(_doc), [0, 1]), 2, collate_fn=_same)
    with _ledger(tmp_path, loader, describe=describe) as ledger:
        _run(ledger)
    (rows,) = used(tmp_path, "a")[0]

    assert expected == {name: rows[name].to_list() for name in expected}


@pytest.mark.parametrize(
    ("source", "describe", "workers"),
    [
        (Marks, "id", 0),
        (lambda: Marks(_doc), "url", 0),
        (lambda: Deep("url"), None, 0),
        (lambda: Deep("url"), None, 1),
        (Marks, lambda *_: None, 0),
        (Marks, lambda *_: {"source": "web"}, 0),
        (Marks, lambda *_: {"sample_id": 1, "colour": "red"}, 0),
        (lambda: Several(lambda marks: marks[1:]), None, 0),
    ],
)
def test_a_missing_id_is_a_usage_error_that_names_the_remedy(
    source: Any, describe: Any, workers: int, tmp_path: Path
) -> None:
    """Also where a worker finds it: what torch raises again is made of the message alone."""
    ledger = _ledger(tmp_path, DataLoader(source(), ROWS, num_workers=workers), describe=describe)

    with pytest.raises(UsageError, match="describe= takes"):
        _run(ledger)


def test_an_error_of_the_collation_is_the_users(tmp_path: Path) -> None:
    """It is raised as it was."""
    with pytest.raises(ZeroDivisionError):
        _run(_ledger(tmp_path, DataLoader(Marks(), collate_fn=lambda _: 1 // 0)))


def test_what_is_asked_of_a_tagged_loader_is_the_users() -> None:
    """Its data set gives items and takes attributes; its collation may be used elsewhere."""
    data, collation = Keeping(), Mapped()
    loader = tag(DataLoader(data, ROWS, collate_fn=collation))
    loader.dataset.note, loader.collate_fn.scale = "kept", 3
    del loader.dataset.note

    assert loader is tag(loader)
    assert data[4] is loader.dataset[4] is data.kept[MARK + 4]
    assert (SAMPLES, False) == (len(loader.dataset), hasattr(data, "note"))
    assert 3 == collation.scale == loader.collate_fn([torch.tensor(1)])["scale"]
    assert not hasattr(loader.dataset, "state_dict")


def test_batches_may_be_kept_and_used_again(tmp_path: Path) -> None:
    """`itertools.cycle` gives a batch a second time; what the data set keeps holds no tags."""
    data = Keeping()
    loader = DataLoader(data, batch_size=None, collate_fn=_same)
    with _ledger(tmp_path, loader) as ledger:
        _run(ledger, itertools.islice(itertools.cycle(loader), 2 * SAMPLES))

    assert [[at] for at in range(SAMPLES)] * 2 == _ids(tmp_path)
    assert [["mark"]] * SAMPLES == [[*one] for one in data.kept.values()]


def _begun(make: Any, **options: Any) -> Any:
    list(loader := make(Marks(), **options))
    return loader


@pytest.mark.filterwarnings("ignore:'set_vital'")
@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: _begun(DataLoader, num_workers=1, persistent_workers=True), "iterated already"),
        (lambda: _begun(StatefulDataLoader), "iterated already"),
        (lambda: [1, 2], "is no torch DataLoader"),
        (lambda: DataLoader(IterableWrapper([1, 2])), "data pipe"),
    ],
)
def test_what_cannot_carry_ids_is_refused(make: Any, match: str, tmp_path: Path) -> None:
    """A loader whose workers read already, a list, and a pipe that workers look into."""
    with pytest.raises(UsageError, match=match):
        _ledger(tmp_path, make())


def test_a_batch_of_another_loader_is_refused(tmp_path: Path) -> None:
    """It has no tags."""
    with pytest.raises(UsageError, match="another loader"):
        _run(_ledger(tmp_path, DataLoader(Marks())), DataLoader(Marks()))

    assert ({}, None) == untagged({})
