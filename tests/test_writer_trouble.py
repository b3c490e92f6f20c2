"""Trouble costs records and never the job, and the ledger says what is missing."""

import errno
import gc
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ledger_audit import LedgerWriter
from ledger_audit.errors import LedgerWriteError
from ledger_audit.ledger import writer as module
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.segment import OpenSegment


def _writer(root: Path, **options: Any) -> LedgerWriter:
    return LedgerWriter(root, **{"rank": 0, "world_size": 1, "attempt": "a", **options})


def _ids(root: Path) -> list[int]:
    ledger = open_ledger([root])
    return [one for label in ledger.attempts for one in ledger.records(label, 0)["sample_id"]]


def _lost(root: Path) -> dict[int | None, int]:
    events = open_ledger([root]).acts().filter(kind="lost").to_dicts()
    return {one["step"]: json.loads(one["data"])["records"] for one in events}


class _Disk:
    """A disk that is full, or out of quota, at will: the n-th write and those after it fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.code = errno.ENOSPC
        self.fits = 0
        write = os.write

        def limited(file: int, data: Any) -> int:
            if not self.is_full:
                return write(file, data)
            if self.fits:
                part, self.fits = self.fits, 0
                return write(file, bytes(data)[:part])  # as much as there is room for
            raise OSError(self.code, os.strerror(self.code))

        monkeypatch.setattr(os, "write", limited)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("fits", [0, 1, 8, 300])
def test_a_full_disk_costs_what_did_not_fit(
    code: int,
    fits: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Half a message is cut off again; what came before and after it is there; the loss is said."""
    disk = _Disk(monkeypatch)
    with caplog.at_level(logging.WARNING, "ledger_audit"), _writer(tmp_path) as ledger:
        ledger.record(1, 0, [1, 2])
        ledger.commit(1)
        disk.is_full, disk.code, disk.fits = True, code, fits
        ledger.record(2, 0, [3, 4, 5])
        ledger.record(2, 1, [6])
        ledger.commit(2)
        disk.is_full = False
        ledger.record(3, 0, [7])
        ledger.commit(3)

    assert [1, 2, 7] == _ids(tmp_path)
    assert {2: 4} == _lost(tmp_path)
    assert () == open_ledger([tmp_path]).unread
    assert 1 == len([one for one in caplog.records if "loses records" in one.message])
    assert [1, 3] == open_ledger([tmp_path]).tries("a", 0)["step"].to_list()


def test_a_strict_writer_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who would rather stop than lose evidence says `strict`."""
    disk = _Disk(monkeypatch)
    ledger = _writer(tmp_path, strict=True)
    disk.is_full = True

    with pytest.raises(OSError, match="No space left"):
        ledger.record(1, 0, [1])


def test_a_real_limit_of_the_kernel(tmp_path: Path) -> None:
    """A file that may not grow: the job runs on, and what fitted is there."""
    code = """
import resource, signal, sys
from ledger_audit import LedgerWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = LedgerWriter(sys.argv[1], rank=0, world_size=1, attempt="a")
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
for step in range(1, 100):
    ledger.record(step, 0, list(range(20)))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ledger.record(100, 0, [7])
ledger.close()
print("the job ran on")
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert "the job ran on" in ran.stdout
    steps = open_ledger([tmp_path]).records("a", 0).group_by("step").len().sort("step").to_dicts()
    assert 100 == steps[-1]["step"]
    lost = _lost(tmp_path)
    assert lost
    there = {one["step"]: one["len"] for one in steps}
    assert all(20 == there.get(step, 0) + lost.get(step, 0) for step in range(1, 100))
    assert resource.RLIM_INFINITY is not None


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A file stands where the ledger should be; when it is gone, the losses are told."""
    root = tmp_path / "ledger"
    root.write_text("in the way")
    ledger = _writer(root)
    ledger.record(1, 0, [1, 2])
    ledger.commit(1)
    root.unlink()
    ledger.record(2, 0, [3])
    ledger.close()

    assert [3] == _ids(root)
    assert {1: 2, None: 0} == _lost(root)


def test_a_folder_that_may_not_be_written_to(tmp_path: Path, monkeypatch: Any) -> None:
    """Read-only storage refuses every new file: the job goes on without a ledger."""
    make = os.open

    def refused(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_CREAT and str(path).endswith(".arrows"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return make(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refused)
    with _writer(tmp_path) as ledger:
        ledger.record(1, 0, [1])
        ledger.commit(1)
        with ledger.checkpoint(1):
            pass

    assert [] == list((tmp_path / "attempt=a").iterdir())


@pytest.mark.parametrize("how", ["removed", "moved"])
def test_a_folder_that_vanishes_is_made_again(how: str, tmp_path: Path) -> None:
    """Somebody cleans up under a running job: what was there is told as lost, the rest is kept."""
    root = tmp_path / "ledger"
    ledger = _writer(root)
    ledger.record(1, 0, [1, 2])
    if how == "moved":
        root.rename(tmp_path / "elsewhere")
    else:
        for path in sorted(root.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        root.rmdir()
    ledger.record(1, 1, [3])
    ledger.commit(1)
    ledger.close()

    found = open_ledger([root])
    assert [3] == _ids(root)
    assert {1: 2} == {step: n for step, n in _lost(root).items() if n}
    assert {"missing"} == {one.reason for one in found.unread}
    assert 3 == found.tries("a", 0)["samples"].to_list()[0]


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    """Loader workers inherit the writer: it is shut for them, and its locks are not theirs."""
    ledger = _writer(tmp_path)
    ledger.record(1, 0, [1])
    child = os.fork()
    if child == 0:
        ledger.record(1, 1, [99])
        ledger.commit(1)
        with ledger.checkpoint(1):
            pass
        ledger.close()
        del ledger
        gc.collect()
        os._exit(0)
    assert 0 == os.waitpid(child, 0)[1]
    ledger.record(1, 1, [2])
    ledger.commit(1)
    ledger.close()

    assert [1, 2] == _ids(tmp_path)
    assert [2] == open_ledger([tmp_path]).tries("a", 0)["samples"].to_list()


def test_two_writers_of_one_rank_share_no_file(tmp_path: Path) -> None:
    """A spare takes over while the old one still lives: both are read."""
    one, other = _writer(tmp_path), _writer(tmp_path)
    for step in range(1, 4):
        one.record(step, 0, [step])
        one.commit(step)
    for step in range(4, 7):
        other.record(step, 0, [step])
        other.commit(step)

    names = {path.name for path in (tmp_path / "attempt=a").iterdir()}
    assert 4 == len(names)
    assert [1, 2, 3, 4, 5, 6] == sorted(_ids(tmp_path))


def test_what_is_told_after_the_end_is_lost_and_said(tmp_path: Path) -> None:
    """`close` is final; a strict writer says so loudly."""
    ledger = _writer(tmp_path)
    ledger.record(1, 0, [1])
    ledger.commit(1)
    ledger.close()
    ledger.record(2, 0, [2, 3])
    ledger.close()

    assert [1] == _ids(tmp_path)
    assert {2: 2} == _lost(tmp_path)
    strict = _writer(tmp_path, attempt="b", strict=True)
    strict.close()
    with pytest.raises(LedgerWriteError, match="closed"):
        strict.record(1, 0, [1])


WRONG: list[Callable[[LedgerWriter], None]] = [
    lambda ledger: ledger.record(2, 0, ["text", "ids"]),
    lambda ledger: ledger.record(2, 0, [1, None]),
    lambda ledger: ledger.record(2, 0, [1, 2**70]),
    lambda ledger: ledger.record(2, 0, [1.5, 2.5]),
    lambda ledger: ledger.record(2, 0, [[1], [2]]),
    lambda ledger: ledger.record(2, 0, np.zeros((2, 2), dtype=np.int64)),
    lambda ledger: ledger.record(2, 0, [1, 2], token_start=[1]),
    lambda ledger: ledger.record(2, 0, [1, 2], epoch="first"),
    lambda ledger: ledger.record(2, 2**40, [1, 2]),
    lambda ledger: ledger.record(2, 0, [1, "two"]),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_fits_no_column_is_lost_and_said(
    wrong: Callable[[LedgerWriter], None], tmp_path: Path
) -> None:
    """Another type half-way, nulls, floats, columns of other lengths: the job goes on."""
    with _writer(tmp_path) as ledger:
        ledger.record(1, 0, [1])
        ledger.commit(1)
        wrong(ledger)
        ledger.commit(2)
        ledger.record(3, 0, [3])
        ledger.commit(3)

    assert [1, 3] == _ids(tmp_path)
    assert {2: 2} == _lost(tmp_path)
    told = open_ledger([tmp_path]).tries("a", 0).to_dicts()
    assert [(1, 1), (2, 2), (3, 1)] == [(one["step"], one["samples"]) for one in told]
    assert [True, False, True] == [one["digest"] is not None for one in told]
    strict = _writer(tmp_path / "strict", strict=True)
    strict.record(1, 0, [1])
    with pytest.raises(LedgerWriteError):
        wrong(strict)


def test_a_signal_in_the_middle_waits_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that records, commits and closes while a message is half written comes after it."""
    ledger = _writer(tmp_path)
    write = os.write
    halves = {"left": 1}

    def halved(file: int, data: Any) -> int:
        if not halves["left"]:
            return write(file, data)
        halves["left"] = 0
        done = write(file, bytes(data)[:40])
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0)  # the handler runs here
        return done

    def handler(*_: object) -> None:
        ledger.record(1, 1, [2])
        ledger.commit(1)
        ledger.close("told to stop")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        monkeypatch.setattr(os, "write", halved)
        ledger.record(1, 0, [1])
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert [1, 2] == _ids(tmp_path)
    assert "end" == open_ledger([tmp_path]).acts()["kind"].to_list()[-1]
    assert {} == _lost(tmp_path)


def test_an_exception_in_the_middle_leaves_no_half_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control-C inside a write: it is raised, the file is sound, and no number comes twice."""
    ledger = _writer(tmp_path)
    ledger.record(1, 0, [1])
    write = os.write

    def interrupted(file: int, data: Any) -> int:
        write(file, bytes(data)[:40])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.record(1, 1, [2])
    ledger.record(1, 2, [3])
    ledger.commit(1)
    ledger.close()

    rows = open_ledger([tmp_path]).records("a", 0)
    assert [1, 3] == rows["sample_id"].to_list()
    assert 2 == rows["seq"].n_unique()
    assert () == open_ledger([tmp_path]).unread
    assert [3] == open_ledger([tmp_path]).tries("a", 0)["samples"].to_list()  # 2 is missed


def test_a_tail_that_cannot_be_cut_off_ends_its_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing follows half a message: the next record begins another segment."""
    disk = _Disk(monkeypatch)
    ledger = _writer(tmp_path)
    ledger.record(1, 0, [1])
    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", _no_truncation)
        disk.is_full, disk.fits = True, 40
        ledger.record(1, 1, [2])
        disk.is_full = False
    ledger.record(1, 2, [3])
    ledger.close()

    assert [1, 3] == _ids(tmp_path)
    assert ["torn"] == [one.reason for one in open_ledger([tmp_path]).unread]


def _no_truncation(*_: object) -> None:
    raise OSError(errno.EIO, "no")


def test_an_interpreter_that_just_ends(tmp_path: Path) -> None:
    """Exit without `close`: everything is there, nothing says that the launch ended by itself."""
    code = (
        "import sys; from ledger_audit import LedgerWriter\n"
        "ledger = LedgerWriter(sys.argv[1], rank=0, world_size=1, attempt='a')\n"
        "ledger.record(1, 0, [1, 2]); ledger.commit(1)\n"
        "saving = ledger.begin_checkpoint(1)\n"
        "sys.exit(3)"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)

    assert 3 == ran.returncode
    assert [1, 2] == _ids(tmp_path)
    assert ["start", "checkpoint"] == open_ledger([tmp_path]).acts()["kind"].to_list()


def test_a_block_that_fails_says_no_end(tmp_path: Path) -> None:
    """The next launch resumes it: it did not end by itself."""

    def train() -> None:
        with _writer(tmp_path) as ledger:
            ledger.record(1, 0, [1])
            raise RuntimeError("loss is NaN")

    with pytest.raises(RuntimeError, match="NaN"):
        train()

    assert ["start"] == open_ledger([tmp_path]).acts()["kind"].to_list()


def test_a_clock_that_jumps_changes_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Order is by `seq`, age by a clock that cannot jump; parents order attempts."""
    times = iter([10**18, 5, 10**18 + 1, 7, *range(100, 200)])
    monkeypatch.setattr(time, "time_ns", lambda: next(times))
    with _writer(tmp_path, segment_seconds=3600) as ledger:
        for step in range(1, 4):
            ledger.record(step, 0, [step])
            ledger.commit(step)

    assert [1, 2, 3] == _ids(tmp_path)
    assert 1 == len(list((tmp_path / "attempt=a").glob("samples-*")))


def test_threads_take_turns(tmp_path: Path) -> None:
    """Two threads record at once: each micro-batch is whole, no number comes twice."""
    ledger = _writer(tmp_path)

    def work(first: int) -> None:
        for number in range(100):
            ledger.record(1, number, [first + number] * 3)

    threads = [threading.Thread(target=work, args=(first,)) for first in (1000, 2000)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    ledger.commit(1)
    ledger.close()

    rows = open_ledger([tmp_path]).everything("a")[0].sort("seq")
    ids = rows["sample_id"].to_list()
    assert 600 == rows["seq"].n_unique() == len(ids)
    assert all(ids[at] == ids[at + 1] == ids[at + 2] for at in range(0, 600, 3))


def test_a_buffer_that_is_filled_anew_does_not_change_the_digest(tmp_path: Path) -> None:
    """Loaders reuse their arrays before the commit: what is hashed is what was recorded."""
    ids = np.array([1, 2, 3])
    with _writer(tmp_path, strict=True) as ledger:
        ledger.record(1, 0, ids)
        ids[:] = 9
        ledger.commit(1)
    with _writer(tmp_path / "other", strict=True) as ledger:
        ledger.record(1, 0, [1, 2, 3])
        ledger.commit(1)

    one, other = (open_ledger([root]).tries("a", 0) for root in (tmp_path, tmp_path / "other"))
    assert [1, 2, 3] == _ids(tmp_path)
    assert one["digest"].to_list() == other["digest"].to_list()


def test_a_checkpoint_that_cannot_be_synced_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`complete` with `synced` false: the ledger may lack what the checkpoint holds."""

    def failing(_: int) -> None:
        raise OSError(errno.EIO, "no")

    with _writer(tmp_path, strict=True) as ledger:
        ledger.record(1, 0, [1])
        monkeypatch.setattr(os, "fsync", failing)
        before = set(os.listdir("/proc/self/fd"))
        saving = ledger.begin_checkpoint(1)
        saving.complete()
        assert saving.wait(10)
        assert before == set(os.listdir("/proc/self/fd"))

    told = open_ledger([tmp_path]).acts().filter(kind="checkpoint")["data"].to_list()
    assert [False] == [one["synced"] for one in map(json.loads, told) if "synced" in one]


def test_closing_does_not_wait_for_a_hung_disk_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that hangs holds neither the steps nor the end."""
    hung = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda _: hung.wait(30))
    monkeypatch.setattr(module, "MOST_SETTLING", 0.2)
    ledger = _writer(tmp_path)
    began = time.monotonic()
    ledger.begin_checkpoint(0).complete()
    for step in range(1, 20):
        ledger.record(step, 0, [step])
        ledger.commit(step)
    ledger.close()
    took = time.monotonic() - began
    hung.set()

    assert took < 5
    assert list(range(1, 20)) == _ids(tmp_path)


def test_an_open_segment_is_never_written_over(tmp_path: Path) -> None:
    """A name that is there already is somebody's evidence."""
    path = tmp_path / "samples-r0-000000.arrows"
    path.write_text("evidence")

    with pytest.raises(FileExistsError):
        OpenSegment(path, pa.schema([("rank", pa.int32())]), {})
    assert "evidence" == path.read_text()
