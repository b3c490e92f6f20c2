"""The trainer's helpers: digests that are the same everywhere, and change where the value does."""

import collections
import hashlib
import math
import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, ROOT
from hypothesis import given
from hypothesis import strategies as st
from running import ledger_audit

from ledger_audit import fingerprint
from ledger_audit.continuity.contract import Contract, Fingerprints
from ledger_audit.continuity.fingerprints import audit_fingerprints, faults, limits
from ledger_audit.continuity.lineage import reconstruct
from ledger_audit.errors import LedgerAuditError, UnreadableError, UsageError
from ledger_audit.fingerprint import (
    file_digest,
    index_files,
    library_versions,
    manifest_digest,
    state_digest,
    worker_states,
)
from ledger_audit.ledger.opening import open_ledger

PAGE = (ROOT / "docs" / "fingerprints.md").read_text()
VECTORS = re.findall(r"^\| `([^`]+)` \| `(sha256:[0-9a-f]{64})` \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("expression", "expected"), VECTORS)
def test_the_vectors_of_the_page(expression: str, expected: str) -> None:
    """Each value has the digest that the page says."""
    assert expected == state_digest(eval(expression, {"np": np, "random": random}))


def test_there_are_vectors() -> None:
    """Of every kind of value, generators included."""
    assert len(VECTORS) >= 16


def as_specified(value: Any) -> bytes:
    """Give the bytes of a value, written from the page and not from the product."""
    if value is None:
        return b"n"
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, int):
        return f"i{value:x};".encode()
    if isinstance(value, float):
        nan = bytes.fromhex("7ff8000000000000")
        return b"d" + (nan if math.isnan(value) else struct.pack(">d", value))
    if isinstance(value, str):
        return f"u{len(value.encode())}:".encode() + value.encode()
    if isinstance(value, bytes):
        return f"b{len(value)}:".encode() + value
    if isinstance(value, list | tuple):
        return b"l" + b"".join(map(as_specified, value)) + b"e"
    if isinstance(value, frozenset):
        return b"s" + b"".join(sorted(map(as_specified, value))) + b"e"
    pairs = sorted((as_specified(key), as_specified(one)) for key, one in value.items())
    return b"m" + b"".join(key + one for key, one in pairs) + b"e"


KEYS = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.tuples(st.text())
STATES = st.recursive(
    KEYS | st.floats(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.frozensets(KEYS),
    max_leaves=20,
)


@given(STATES)
def test_any_state_is_digested_as_specified(state: Any) -> None:
    """Numbers, text, bytes, lists, sets and dictionaries, nested at will."""
    expected = hashlib.sha256(as_specified(state)).hexdigest()

    assert f"sha256:{expected}" == state_digest(state)


@given(st.lists(st.tuples(st.text(), st.integers()), unique_by=lambda pair: pair[0]))
def test_dictionaries_are_blind_to_order(pairs: list[tuple[str, int]]) -> None:
    """Also of other mappings; lists are not."""
    backwards = collections.OrderedDict(reversed(pairs))

    assert state_digest(dict(pairs)) == state_digest(backwards)
    if len(pairs) > 1:
        assert state_digest(pairs) != state_digest(pairs[::-1])


def test_values_of_different_types_are_different() -> None:
    """1, 1.0, True, "1" and their arrays are one thing for Python, and not for a generator."""
    kinds: list[Any] = [
        *(0, 0.0, -0.0, False, None, "", b"", [], {}, set(), [0], [[0]], {0: 0}, {"0": 0}),
        *(np.int32(0), np.int64(0), np.float32(0), np.zeros(1), np.zeros((1, 1))),
        *(np.zeros((0, 1)), np.zeros((1, 0)), np.zeros(1, "int64"), np.zeros(1, "datetime64[s]")),
    ]

    assert len(kinds) == len({state_digest(kind) for kind in kinds})


def test_every_nan_is_one() -> None:
    """Platforms differ in the bits of a NaN that nobody asked for."""
    other = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]

    assert state_digest(math.nan) == state_digest(other)


def test_arrays_count_by_type_shape_and_content() -> None:
    """Not by byte order, memory layout, the width of text, or what lies between fields."""
    ours = np.arange(6, dtype="<i4").reshape(2, 3)

    assert state_digest(ours) == state_digest(ours.astype(">i4"))
    assert state_digest(ours) == state_digest(np.asfortranarray(ours))
    assert state_digest(ours) == state_digest(np.repeat(ours, 2, axis=0)[::2])
    assert state_digest(ours) != state_digest(ours.reshape(3, 2))
    assert state_digest(ours) != state_digest(ours.astype("<i8"))
    assert state_digest(np.array(["a"], "<U1")) == state_digest(np.array(["a"], "<U9"))
    assert state_digest(np.array([[1, "a"]], object)) == state_digest([[1, "a"]])
    packed = np.zeros(2, np.dtype([("x", "i1"), ("y", "f8")]))
    spread = np.frombuffer(bytes(range(1, 33)), np.dtype([("x", "i1"), ("y", "f8")], align=True))
    spread = spread.copy()
    spread["x"], spread["y"] = packed["x"], packed["y"]
    assert state_digest(packed) == state_digest(spread)


class Tensor:
    """Holds an array as torch's tensors do: on some device, with a graph behind it."""

    def __init__(self, array: Any, dtype: str = "torch.int64") -> None:
        self._array, self.dtype = array, dtype

    def detach(self) -> "Tensor":
        """Leave the graph."""
        return self

    def cpu(self) -> "Tensor":
        """Leave the device."""
        return self

    def numpy(self) -> Any:
        """Give the array, where numpy has its type."""
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._array


def test_a_tensor_counts_as_its_array_and_an_object_as_its_state() -> None:
    """Without importing torch: whatever gives an array, or a state, is asked for it."""

    class Loader:
        def state_dict(self) -> Any:
            return {"order": Tensor(np.arange(3)), "rng": random.Random(3)}

    class Generator:
        def get_state(self) -> Any:
            return Tensor(np.arange(4, dtype="uint8"))

    expected = {"order": np.arange(3), "rng": random.Random(3).getstate()}
    assert state_digest(expected) == state_digest(Loader())
    assert state_digest(np.arange(4, dtype="uint8")) == state_digest(Generator())
    legacy = np.random.RandomState(3)
    assert state_digest(legacy.get_state()) == state_digest(legacy)
    modern = np.random.default_rng(3)
    assert state_digest(modern.bit_generator.state) == state_digest(modern)


def test_a_generator_that_went_on_has_another_digest() -> None:
    """One draw is enough."""
    for generator in (random.Random(1), np.random.default_rng(1), np.random.RandomState(1)):
        before = state_digest(generator)
        generator.random()
        assert before != state_digest(generator)


@pytest.mark.parametrize(
    ("state", "where"),
    [
        ({"a": [1, object()]}, r"^state\['a'\]\[1\]: a builtins.object "),
        ({"sampler": {"path": Path("x")}}, r"^state\['sampler'\]\['path'\]: a pathlib\.\w+ "),
        ({(1, object()): 1}, "^a key of state"),
        ([Tensor(None, "torch.bfloat16")], r"^state\[0\]: a \S+Tensor of torch.bfloat16 "),
        (np.zeros(1, np.longdouble), "^state: a numpy.ndarray of "),
        (np.ma.masked_array([1, 2], [False, True]), "MaskedArray"),
        (random.Random, "^state: a builtins.type "),
        ({1 + 2j}, "complex"),
        ({"\x1b[2J": {1: object()}}, r"^state\['\\x1b\[2J'\]\[1\]"),
    ],
)
def test_what_cannot_be_digested_is_named(state: Any, where: str) -> None:
    """With its place in the state and its type: never its address, never a pickle."""
    with pytest.raises(UsageError, match=where) as told:
        state_digest(state)

    assert " at 0x" not in str(told.value)
    assert told.value.hint


def test_a_state_that_holds_itself_is_refused() -> None:
    """With an end, and not with the end of the stack."""
    state: list[Any] = []
    state.append(state)
    with pytest.raises(UsageError, match="holds itself"):
        state_digest({"a": state})


def test_digests_are_the_same_in_every_process() -> None:
    """Whatever seed the process hashes its text by."""
    code = (
        "from ledger_audit.fingerprint import state_digest as d;"
        "print(d({'a', 'b', 'c', 'd', 'e'}), d({k: k for k in 'abcdefgh'}))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }

    assert 1 == len(told)


def test_a_manifest_is_digested_in_its_order() -> None:
    """From any iterable; a dictionary by its items; nothing at all is no manifest."""
    entries = [("web-000.bin", 17), ("books-000.bin", 4)]

    assert state_digest(entries) == manifest_digest(entries)
    assert manifest_digest(entries) == manifest_digest(dict(entries))
    assert manifest_digest(entries) == manifest_digest(iter(entries))
    assert manifest_digest(entries) != manifest_digest(entries[::-1])
    with pytest.raises(UsageError, match="no entries"):
        manifest_digest(iter([]))
    with pytest.raises(UsageError, match="one text"):
        manifest_digest("web-000.bin")
    with pytest.raises(UsageError, match=r"^entries\[1\]\[0\]: "):
        manifest_digest([("a", 1), (object(), 2)])


def test_real_index_files_have_the_digests_that_sha256sum_gives() -> None:
    """Megatron's index of a run and of its longer successor; all of their names differ."""
    folders = [FIXTURES / "index-files" / name for name in ("before", "after")]
    before, after = (index_files(folder.iterdir()) for folder in folders)

    for path in folders[0].iterdir():
        assert f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" == before[path.name]
    assert {"toy_text_document.idx"} == before.keys() & after.keys()
    assert before["toy_text_document.idx"] == after["toy_text_document.idx"]
    assert sorted(before) == [*before]


def test_files_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    """By as many folders as it takes, so that a name does not change when the root does."""
    for root in ("here", "there"):
        for place in ("a/x/doc.idx", "a/y/doc.idx", "b/x/doc.idx", "b/shuffle.npy", "doc.npy"):
            file = tmp_path / root / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(place)
    here, there = (
        index_files([one for one in (tmp_path / root).rglob("*") if one.is_file()])
        for root in ("here", "there")
    )

    assert here == there
    assert ["a/x/doc.idx", "b/x/doc.idx", "doc.npy", "shuffle.npy", "y/doc.idx"] == [*here]
    file = tmp_path / "here" / "doc.npy"
    assert ["doc.npy"] == [*index_files([file, str(file), file.parent / "a" / ".." / "doc.npy"])]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, a folder, a pipe that would wait for ever; and paths that are none."""
    os.mkfifo(tmp_path / "pipe")
    for path, problem in (
        (tmp_path / "no.idx", "No such file"),
        (tmp_path, "no regular file"),
        (tmp_path / "pipe", "no regular file"),
    ):
        with pytest.raises(UnreadableError, match=problem) as told:
            index_files([path])
        assert str(path) in str(told.value)
    with pytest.raises(UsageError, match="no paths"):
        index_files(tmp_path.glob("*.npy"))
    with pytest.raises(UsageError, match="one path"):
        index_files(tmp_path)  # type: ignore[arg-type]
    with pytest.raises(LedgerAuditError):
        file_digest("\0")


def test_worker_states_are_told_by_worker() -> None:
    """A list from 0, or by their names; two of one name are refused."""
    states = [{"next": 4, "rng": random.Random(0)}, {"next": 5, "rng": random.Random(1)}]
    found = worker_states(states)

    assert {"0": state_digest(states[0]), "1": state_digest(states[1])} == found
    assert found == worker_states(dict(enumerate(states)))
    assert {"worker_0"} == worker_states({"worker_0": states[0]}).keys()
    assert {} == worker_states([])
    with pytest.raises(UsageError, match="two workers are named 1"):
        worker_states({1: {}, "1": {}})
    with pytest.raises(UsageError, match=r"^states\[1\]\['pool'\]"):
        worker_states([{}, {"pool": object()}])


def test_versions_are_those_that_are_installed() -> None:
    """Without names: what is known to touch the order; a name that is not there is an error."""
    known = library_versions()

    assert np.__version__ == known["numpy"]
    assert {"python", "numpy"} <= known.keys()
    assert "click" not in known
    assert {"NumPy": np.__version__} == library_versions("NumPy")
    with pytest.raises(UsageError, match="no-such-library is not installed"):
        library_versions("no-such-library")
    with pytest.raises(UsageError, match="not installed"):
        library_versions("")


def test_importing_the_helpers_is_light() -> None:
    """No engine, no Arrow, not even numpy: a trainer has its own."""
    code = "import sys; from ledger_audit import fingerprint; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()

    assert "ledger_audit.fingerprint" in loaded
    assert not {"polars", "pyarrow", "rich", "click", "numpy"} & {*loaded}


class Loader:
    """Deals samples to two workers in turns, and knows how far each of them is."""

    def __init__(self) -> None:
        self._workers = [{"next": 0}, {"next": 1}]
        self._turn = 0

    def __iter__(self) -> Iterator[list[int]]:
        """Give micro-batches of one sample, without end."""
        while True:
            worker = self._workers[self._turn % 2]
            self._turn += 1
            worker["next"] += 2
            yield [worker["next"] - 2]

    def state_dict(self) -> dict[str, Any]:
        """Give what a checkpoint must hold."""
        return {"turn": self._turn, "workers": [dict(worker) for worker in self._workers]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self._turn, self._workers = state["turn"], [dict(worker) for worker in state["workers"]]


def test_the_loop_of_the_page_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run twice, it logs all that a strict contract asks for; a lost worker state is found."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "shuffle.npy").write_bytes(b"1234")
    loop = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    state: dict[str, Any] = {"step": 0}
    names = {"rank": 0, "world": 1, "every": 2, "manifest": ["a", "b"], "save": state.update}

    exec(loop, {**names, "state": state, "last": 5, "loader": Loader()})
    exec(loop, {**names, "state": dict(state), "last": 7, "loader": Loader()})
    keys = ("seed", "dataset", "index_files", "micro_batch_size", "versions", "worker_states")
    contract = Contract(fingerprint=Fingerprints(must_match=keys, restore_first=True))

    assert ((), ()) == _judged(Path("runs/llama/ledger"), contract)
    assert 0 == ledger_audit("diff", "runs/llama/ledger").code

    class Forgetful(Loader):
        def load_state_dict(self, state: dict[str, Any]) -> None:
            super().load_state_dict({**state, "workers": [state["workers"][0], {"next": 1}]})

    exec(loop, {**names, "state": dict(state), "last": 9, "loader": Forgetful()})
    broken, left = _judged(Path("runs/llama/ledger"), contract)
    assert [True] == [one.startswith("worker_states.1 was ") for one in broken]
    assert () == left


def _judged(root: Path, contract: Contract) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    ledger = open_ledger([root])
    acts = ledger.acts()
    before, after = reconstruct(acts, ledger.extents()).chain[-2:]
    first = ledger.records(after.label, 0).select("attempt", "rank", "seq")
    facts = audit_fingerprints(acts, first, before, after, contract)
    return faults(facts, contract), limits(facts, contract)


def test_the_module_says_what_it_offers() -> None:
    """The page names each helper as a trainer calls it."""
    for name in (
        "manifest_digest",
        "index_files",
        "file_digest",
        "state_digest",
        "worker_states",
        "library_versions",
    ):
        assert callable(getattr(fingerprint, name))
        assert f"`fingerprint.{name}(" in PAGE
