"""Footers that several processes read: the same as one process reads, whatever becomes of them."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from test_index import file_of, many, put, rows

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger import crew, footers, store

FILES = 90


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give a ledger of many files, some of them with other columns."""
    root = many(tmp_path / "ledger", FILES)
    for rank in (3, 40):
        put(rows(rank, sample_id=pa.array([f"s{n}" for n in range(4)])), file_of(root, rank))
    return root


def read(root: Path) -> pa.Table:
    """Read the footers of an attempt."""
    sealed = [one for one in store.in_attempt(root / "attempt=0") if one.is_sealed]
    return footers.read_footers(sealed, np.zeros((len(sealed), 2), np.int64))


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few files be many, whatever the machine has."""
    monkeypatch.setattr(footers, "MANY", 1)
    monkeypatch.setattr(footers, "_AT_ONCE", 8)
    monkeypatch.setattr(crew, "_processors", lambda: 3)


def children() -> set[str]:
    """Give the processes that this one has started and that are there."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


def test_several_processes_read_what_one_reads(root: Path, request: pytest.FixtureRequest) -> None:
    """Every row in its place; none of the files is read here, and no process is left."""
    one, before = read(root), children()
    request.getfixturevalue("crowded")
    monkeypatch = request.getfixturevalue("monkeypatch")
    here: list[str] = []
    monkeypatch.setattr(footers, "told_of_files", here.extend)

    many_told = read(root)

    assert one.equals(many_told)
    assert len(one) == FILES
    assert len({*one["columns"].to_pylist()}) == 2
    assert not here
    assert before == children()


@pytest.mark.usefixtures("crowded")
@pytest.mark.parametrize(
    "serves",
    [
        "import sys; sys.exit(1)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import sys; sys.stdin.readline(); sys.stdout.write('x' * 4)",
        "import sys; sys.stdin.readline(); sys.stdout.write('\\x09' + '\\0' * 7 + 'no Arrow.')",
        "import sys\nfor _ in sys.stdin: sys.stdout.write('\\0' * 8); sys.stdout.flush()",
        "from ledger_audit.ledger import crew; crew.serve(len)",
        "import ledger_audit_that_is_not_there",
    ],
)
def test_what_a_process_fails_at_is_read_here(
    serves: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies at once or in the middle of an answer, is killed, or answers nonsense."""
    whole = read(root)
    before = children()
    monkeypatch.setattr(crew, "_SERVE", serves)

    assert whole.equals(read(root))
    assert before == children()


@pytest.mark.usefixtures("crowded")
def test_a_process_that_is_killed_on_the_way_costs_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files that it had are read here, and those that come are read by the others."""
    whole = read(root)
    real, killed = crew._Worker.read, []

    def read_and_kill(worker: crew._Worker, files: list[str]) -> pa.Table | None:
        if not killed:
            killed.append(children())
            for one in killed[0]:
                os.kill(int(one), signal.SIGKILL)
            time.sleep(0.1)
        return real(worker, files)

    monkeypatch.setattr(crew._Worker, "read", read_and_kill)

    assert whole.equals(read(root))
    assert killed[0]


@pytest.mark.usefixtures("crowded")
def test_a_file_that_cannot_be_read_is_named(root: Path) -> None:
    """The error is the one that is told of few files, and no process is left."""
    file_of(root, 50).write_bytes(b"PAR1 this is none PAR1")
    before = children()

    with pytest.raises(UnreadableError) as told:
        read(root)

    assert str(file_of(root, 50)) in told.value.message
    assert before == children()


@pytest.mark.usefixtures("crowded")
def test_names_of_any_bytes_are_handed_on(tmp_path: Path) -> None:
    """A writer's name may be no text at all."""
    folder = tmp_path / "attempt=0"
    names = [
        f"samples-r{n}-{odd}-000000.parquet" for n, odd in enumerate(["ß漢", "a\nb", "\x85\u2028"])
    ]
    for name in names:
        put(rows(0), folder / name)

    files = [str(folder / name) for name in names]

    assert footers.told_of_files(files).equals(next(crew.shared_out([files, []], lambda _: None)))
