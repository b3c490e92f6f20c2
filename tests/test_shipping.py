"""A writer with a spool: what its root shows is a prefix of what was told, and in the end all."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROOT
from shipwreck import contents, is_prefix, laid_out, seqs, write_attempt

from ledger_audit import LedgerWriter
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.segment import OpenSegment, arrow_schema, metadata_of
from ledger_audit.ledger.shipping.copies import RefusedError
from ledger_audit.ledger.shipping.shipment import Shipment
from ledger_audit.ledger.shipping.source import Source
from ledger_audit.ledger.shipping.waybill import Waybill

HERE = Path(__file__).parent


class Trainer:
    """A process that trains, and the one that ships for it."""

    def __init__(self, place: Path, *, steps: int, options: dict[str, Any], **told: Any) -> None:
        self.spool, self.root = place / "spool", place / "root"
        options = {"attempt": "a", "spool": str(self.spool), "ship_every": 0.2, **options}
        told = {"root": str(self.root), "steps": steps, "options": options, **told}
        self.log = place / "trainer.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "shipped.py"), json.dumps(told)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.writer, self.shipper = self.line()

    def line(self) -> list[Any]:
        """Read the next line that the trainer says; none where it has ended."""
        assert self.process.stdout is not None
        told: list[Any] = json.loads(self.process.stdout.readline() or "[]")
        return told

    def step(self, number: int) -> list[Any]:
        """Wait until a step is committed."""
        while (told := self.line()) and told[0] != number:
            pass
        return told

    @property
    def waybill(self) -> Path:
        """The file that is there until everything has arrived."""
        return self.spool / f".waybill-{self.writer}.json"

    @property
    def target(self) -> Path:
        """The attempt's folder at the root."""
        return self.root / "attempt=a"

    def seqs(self) -> list[int]:
        """List the lines that are at the root."""
        return seqs(self.target)

    def end(self) -> None:
        """Let a trainer that waits go on to its end."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture
def train(tmp_path: Path) -> Iterator[Callable[..., Trainer]]:
    """Start trainers, and leave none of their processes behind."""
    started: list[Trainer] = []

    def start(**told: Any) -> Trainer:
        told.setdefault("options", {})
        started.append(Trainer(tmp_path, **told))
        return started[-1]

    yield start
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()
        for stream in (one.process.stdin, one.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if one.shipper is not None and is_shipper(one.shipper):
            os.kill(one.shipper, signal.SIGKILL)


def is_shipper(pid: int) -> bool:
    """Tell whether a process is there and ships; a dead one that nobody fetched is not."""
    with contextlib.suppress(OSError):
        return b"ledger_audit.ledger.shipping" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def until(fact: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ["call", "half", "full", "1", "2", "3"])
def test_a_shipper_that_dies_anywhere_leaves_a_prefix(kind: str, tmp_path: Path) -> None:
    """Whatever system call it does not live to do, the root shows a prefix, and all in the end."""
    done = subprocess.run(
        [sys.executable, str(HERE / "shipwreck.py"), kind, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr[-3000:])


def test_a_clean_end_has_shipped_everything(tmp_path: Path) -> None:
    """When `close` returns, the root holds the bytes that were written, and the spool nothing."""
    with LedgerWriter(
        tmp_path / "root",
        rank=0,
        world_size=1,
        attempt="a",
        spool=tmp_path / "spool",
        segment_bytes=3000,
    ) as writer:
        for step in range(1, 30):
            writer.record(step, 0, range(4))
            writer.commit(step)

    assert list(range(1 + 29 * 5 + 1)) == seqs(tmp_path / "root" / "attempt=a")
    assert [] == list((tmp_path / "spool").iterdir())
    ledger = open_ledger([tmp_path / "root"])
    assert () == ledger.unread


def test_kept_files_are_the_same_as_their_copies(tmp_path: Path) -> None:
    """With `keep_spool` the spool holds what the root holds, byte by byte."""
    with LedgerWriter(
        tmp_path / "root",
        rank=0,
        world_size=1,
        attempt="a",
        spool=tmp_path / "spool",
        segment_bytes=3000,
        keep_spool=True,
    ) as writer:
        for step in range(1, 30):
            writer.record(step, 0, range(4))
            writer.commit(step)

    assert contents(tmp_path / "spool" / "attempt=a") == contents(tmp_path / "root" / "attempt=a")
    assert ["attempt=a"] == os.listdir(tmp_path / "spool")


def test_the_spool_stays_small_while_the_job_runs(train: Callable[..., Trainer]) -> None:
    """A closed segment leaves the spool as soon as its copy is verified."""
    job = train(steps=60, options={"segment_bytes": 3000}, waits=True)
    job.step(60)
    until(lambda: len(list((job.spool / "attempt=a").iterdir())) == 2)

    assert len(list(job.target.iterdir())) > 10
    until(lambda: len(job.seqs()) == 1 + 60 * 11)


@pytest.mark.parametrize("moment", [0.0, 0.1, 0.3, 0.7])
def test_what_a_killed_writer_told_arrives(train: Callable[..., Trainer], moment: float) -> None:
    """A SIGKILL of the trainer's whole group takes back nothing that `record` returned from."""
    job = train(steps=100_000, options={"segment_bytes": 20_000})
    job.step(3)
    time.sleep(moment)
    os.killpg(job.process.pid, signal.SIGKILL)
    told = 3
    while line := job.line():
        told = line[0]
    until(lambda: not job.waybill.exists())

    assert is_prefix(job.seqs())
    assert len(job.seqs()) >= 1 + told * 11
    assert [] == [path.name for path in job.spool.iterdir() if path.name.startswith("attempt")]


def test_a_killed_shipper_is_followed_by_another(train: Callable[..., Trainer]) -> None:
    """The writer notices at a checkpoint that nobody ships, and starts another."""
    job = train(steps=100_000, checkpoints=True, pause=0.02)
    killed = set()
    for number in (10, 60, 110):
        _, _, shipper = job.step(number)
        killed.add(shipper)
        with contextlib.suppress(ProcessLookupError):
            os.kill(shipper, signal.SIGKILL)
    job.shipper = job.step(160)[2]
    os.kill(job.process.pid, signal.SIGKILL)
    until(lambda: not job.waybill.exists())

    assert 3 == len(killed)
    assert job.shipper not in killed
    assert is_prefix(job.seqs())
    assert len(job.seqs()) > 160 * 11
    assert "ended too early" in job.log.read_text()


def test_a_hanging_root_never_hangs_the_job(train: Callable[..., Trainer]) -> None:
    """No step waits for a shipper that hangs, and `close` waits as long as it may."""
    job = train(steps=300, options={"ship_timeout": 0.5, "segment_bytes": 5000}, checkpoints=True)
    os.kill(job.shipper, signal.SIGSTOP)
    took = [job.line() for _ in range(301)]

    assert max(seconds for _, seconds, _ in took[:-1]) < 5
    assert 0.4 < took[-1][1] < 10
    assert 0 == job.process.wait(10)
    assert "goes on shipping it" in job.log.read_text()
    os.kill(job.shipper, signal.SIGCONT)
    until(lambda: not job.waybill.exists())
    assert is_prefix(job.seqs())
    assert len(job.seqs()) >= 2 + 300 * 12


def test_an_end_without_close_waits_for_nobody(train: Callable[..., Trainer]) -> None:
    """A trainer that just ends is gone at once, and what it told arrives."""
    job = train(steps=20, closes=False)
    os.kill(job.shipper, signal.SIGSTOP)
    job.step(20)

    assert 0 == job.process.wait(5)
    os.kill(job.shipper, signal.SIGCONT)
    until(lambda: not job.waybill.exists())
    assert list(range(1 + 20 * 11)) == job.seqs()
    assert "" == job.log.read_text()


@pytest.mark.parametrize("forks", ["python", "c"])
def test_a_loader_worker_that_lives_on_holds_nothing_up(
    train: Callable[..., Trainer], forks: str
) -> None:
    """The end of the writer is noticed although a forked child has its handles."""
    job = train(steps=20, closes=False, forks=forks, options={"ship_every": 30})
    job.step(20)
    os.kill(job.process.pid, signal.SIGKILL)

    until(lambda: not job.waybill.exists())
    assert list(range(1 + 20 * 11)) == job.seqs()


def test_a_root_that_vanishes_is_waited_for(train: Callable[..., Trainer]) -> None:
    """A root that was there and is not is never made anew; when it comes back, shipping goes on."""
    job = train(steps=60, pause=0.02, waits=True, checkpoints=True)
    job.step(10)
    until(lambda: len(job.seqs()) > 50)
    away = job.root.with_name("away")
    job.root.rename(away)
    job.step(60)
    until(lambda: "the root has gone" in (job.spool / f"shipper-{job.writer}.log").read_text())
    assert not job.root.exists()
    away.rename(job.root)
    job.end()
    job.process.wait(30)
    until(lambda: not job.waybill.exists())

    assert list(range(1 + 60 * 13 + 1)) == job.seqs()
    assert "again" in (job.spool / f"shipper-{job.writer}.log").read_text()


def test_a_root_that_cannot_be_made_is_said_in_the_log_of_the_job(
    train: Callable[..., Trainer], tmp_path: Path
) -> None:
    """What is wrong with the root reaches the trainer's log, once, and costs no record."""
    (tmp_path / "root").write_text("a file")
    job = train(steps=40, checkpoints=True, pause=0.05, waits=True, options={"ship_timeout": 3})
    job.step(40)
    until(lambda: "cannot ship to" in job.log.read_text())
    (tmp_path / "root").unlink()
    job.end()
    until(lambda: not job.waybill.exists())

    assert 1 == job.log.read_text().count("cannot ship to")
    assert list(range(1 + 40 * 13 + 1)) == job.seqs()


def test_a_strangers_file_is_never_written_over(train: Callable[..., Trainer]) -> None:
    """Where a copy would stand stands something else: it stays, and nothing later is shipped."""
    job = train(steps=20, waits=True, options={"ship_timeout": 1})
    name = f"samples-{job.writer}-000000.arrows"
    job.target.mkdir(parents=True, exist_ok=True)
    (job.target / name).write_bytes(b"a stranger's")
    job.step(20)
    until(lambda: "holds other records" in (job.spool / f"shipper-{job.writer}.log").read_text())
    job.end()
    job.process.wait(30)

    assert b"a stranger's" == (job.target / name).read_bytes()
    assert [0] == seqs(job.target)
    assert job.waybill.exists()
    assert list(range(1 + 20 * 11 + 1)) == seqs(job.spool / "attempt=a")
    (job.target / name).unlink()
    until(lambda: not job.waybill.exists())
    assert list(range(1 + 20 * 11 + 1)) == job.seqs()


def test_what_a_dead_node_left_is_shipped_by_the_next_writer(
    train: Callable[..., Trainer], tmp_path: Path
) -> None:
    """Files of a writer that died with its shipper arrive when another uses the same spool."""
    job = train(steps=30, options={"ship_every": 30})
    os.kill(job.shipper, signal.SIGSTOP)
    job.step(30)
    os.kill(job.shipper, signal.SIGKILL)
    os.killpg(job.process.pid, signal.SIGKILL)
    assert [] == job.seqs()
    job.process.wait()
    with LedgerWriter(
        tmp_path / "root",
        rank=0,
        world_size=1,
        attempt="b",
        resumed_from=("a", 3),
        spool=job.spool,
        ship_every=0.1,
    ):
        until(lambda: not job.waybill.exists())

    assert is_prefix(job.seqs())
    assert len(job.seqs()) >= 1 + 30 * 11


def test_a_spool_that_is_the_root_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is copied onto itself, nor removed as having arrived."""
    with LedgerWriter(tmp_path, rank=0, world_size=1, attempt="a", spool=tmp_path) as writer:
        writer.record(1, 0, [1, 2, 3])

    assert list(range(5)) == seqs(tmp_path / "attempt=a")
    assert "spool and root are one folder" in caplog.text


def shipment_of(tmp_path: Path, **sizes: int) -> tuple[Waybill, Shipment, dict[str, bytes]]:
    """Lay out a spool and what ships it."""
    template = write_attempt(tmp_path / "template", **sizes)
    whole = contents(template)
    writer = next(iter(whole)).removeprefix("events-").removesuffix("-000000.arrows")
    waybill = laid_out(tmp_path / "run", template, writer)
    return waybill, Shipment(waybill, is_first=True), whole


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\xff" * 40, b"LACS"], ids=["0", "1", "text"])
def test_what_a_storage_crash_put_behind_a_copy_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    """Bytes behind the last sound message of a copy are no records, and make room for some."""
    waybill, shipment, whole = shipment_of(tmp_path, steps=6, segment_bytes=100_000)
    name = next(name for name in whole if name.startswith("samples"))
    shipment.ship(is_over=False)
    shipment.forget()
    short = (waybill.target / name).read_bytes()
    (waybill.target / name).write_bytes(short[:-100] + tail)
    Shipment(waybill, is_first=False).ship(is_over=True)

    assert whole == contents(waybill.target)


def test_other_records_in_a_copy_are_refused(tmp_path: Path) -> None:
    """A copy that holds a sound message which was never written is left as it is."""
    waybill, shipment, whole = shipment_of(tmp_path, steps=6, segment_bytes=100_000)
    name = next(name for name in whole if name.startswith("samples"))
    shipment.ship(is_over=False)
    shipment.forget()
    path = waybill.target / name
    other = path.read_bytes()[:2000] + whole[name][-900:]
    damaged = bytearray(whole[name])
    damaged[len(damaged) // 2] ^= 1
    for wrong in (bytes(damaged), other[: len(other) // 8 * 8]):
        path.write_bytes(wrong)
        with pytest.raises(RefusedError, match="holds other records"):
            Shipment(waybill, is_first=False).ship(is_over=True)
        assert wrong == path.read_bytes()
    assert (waybill.source / name).exists()


def test_what_was_sealed_meanwhile_is_not_shipped_behind_the_seal(tmp_path: Path) -> None:
    """A copy that a merged file stands for is not made again: its records would not count."""
    waybill, shipment, whole = shipment_of(tmp_path, steps=6, segment_bytes=100_000)
    name = next(name for name in whole if name.startswith("samples"))
    shipment.ship(is_over=False)
    table = pa.table({"seq": [1]}).replace_schema_metadata({"replaces": json.dumps([name])})
    pq.write_table(table, waybill.target / f"samples-{'m' * 8}-000000.parquet")
    (waybill.target / name).unlink()
    for each in (shipment, Shipment(waybill, is_first=False)):
        with pytest.raises(RefusedError, match="was sealed into"):
            each.ship(is_over=True)

    assert not (waybill.target / name).exists()
    assert (waybill.source / name).exists()


def test_a_pipe_in_the_place_of_a_copy_does_not_hang(tmp_path: Path) -> None:
    """What is no file is refused, and not waited for."""
    waybill, shipment, whole = shipment_of(tmp_path, steps=2, segment_bytes=100_000)
    waybill.target.mkdir(parents=True)
    os.mkfifo(waybill.target / next(iter(whole)))

    with pytest.raises(RefusedError, match="is no file"):
        shipment.ship(is_over=True)


def opened(folder: Path) -> OpenSegment:
    """Begin a segment of events."""
    metadata = metadata_of("r0", run_id="run", host="host")
    return OpenSegment(folder / "events-r0-000000.arrows", arrow_schema("events"), metadata)


def line(seq: int) -> dict[str, list[Any]]:
    """Give one event."""
    return {"attempt": ["a"], "rank": [0], "seq": [seq], "kind": ["commit"]}


def test_half_a_message_that_is_cut_off_again_was_never_shipped(tmp_path: Path) -> None:
    """A writer may cut off what it failed to write, and write something else there."""
    waybill = Waybill(tmp_path / "spool", tmp_path / "root", "attempt=a", "r0", keeps=True)
    waybill.source.mkdir(parents=True)
    segment, shipment = opened(waybill.source), Shipment(waybill, is_first=True)
    for seq in range(20):
        segment.append(line(seq))
        with segment.path.open("ab") as file:
            file.write(segment.path.read_bytes()[-100 - seq :][: 50 + seq])
        shipment.ship(is_over=False)
        assert list(range(seq + 1)) == seqs(waybill.target)
        os.truncate(segment.path, segment.size)
    shipment.ship(is_over=True)
    segment.close()

    assert contents(waybill.source) == contents(waybill.target)


@pytest.mark.parametrize("stays", [False, True], ids=["mended", "stays"])
def test_unsound_bytes_between_messages_are_looked_at_twice(tmp_path: Path, stays: bool) -> None:
    """What was read while it changed is not taken for damage; what stays damaged is copied so."""
    segment = opened(tmp_path)
    ends = []
    for seq in range(3):
        segment.append(line(seq))
        ends.append(segment.size)
    segment.close()
    whole = segment.path.read_bytes()
    damaged = whole[: ends[0]] + b"\xff" * (ends[1] - ends[0]) + whole[ends[1] :]
    segment.path.write_bytes(damaged)
    source = Source(segment.path, 0)
    found = []
    while (extent := source.head(is_closed=False)) is not None:
        found.append((extent.start, extent.end, extent.seq))
        source.take()
        segment.path.write_bytes(damaged if stays else whole)
    source.close()

    middle = [] if stays else [(ends[0], ends[1], 1)]
    assert [(0, ends[0], 0), *middle, (ends[stays is False], ends[2], 2)] == found


def test_dropped_segments_are_dropped_at_the_root(tmp_path: Path) -> None:
    """`retain` lets go of old samples where they were shipped to, too."""
    kept = []
    with LedgerWriter(
        tmp_path / "root",
        rank=0,
        world_size=1,
        attempt="a",
        spool=tmp_path / "spool",
        ship_every=0.1,
        segment_bytes=3000,
        retain=2,
    ) as writer:
        for step in range(1, 101):
            writer.record(step, 0, range(4))
            writer.commit(step)
            if step % 20 == 0:
                checkpoint = writer.begin_checkpoint(step)
                checkpoint.complete()
                checkpoint.wait()
                kept.append(step)
        until(lambda: len(seqs(tmp_path / "root" / "attempt=a")) < 100 * 4)

    frames = open_ledger([tmp_path / "root"])
    assert () == frames.unread
    assert [] == list((tmp_path / "spool").iterdir())


def test_a_copy_holds_the_lock_while_it_grows(tmp_path: Path) -> None:
    """Whoever asks whether a copy still grows finds it locked, and free when it is whole."""
    waybill, shipment, _ = shipment_of(tmp_path, steps=6, segment_bytes=1500)
    free = []
    for is_over in (False, True):
        shipment.ship(is_over=is_over)
        free.append(0)
        for path in sorted(waybill.target.iterdir()):
            with path.open("rb") as file, contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                free[-1] += 1

    assert [len(list(waybill.target.iterdir())) - 2, len(list(waybill.target.iterdir()))] == free


def test_a_silent_writers_copies_look_alive(tmp_path: Path) -> None:
    """Where storage has no locks, the time of a copy tells that it may still grow."""
    waybill, shipment, _ = shipment_of(tmp_path, steps=6, segment_bytes=100_000)
    shipment.ship(is_over=False)
    for path in waybill.target.iterdir():
        os.utime(path, (0, 0))
    shipment.ship(is_over=False)

    assert min(path.stat().st_mtime for path in waybill.target.iterdir()) > time.time() - 60
    shipment.forget()


def test_what_is_told_after_the_end_is_shipped_too(tmp_path: Path) -> None:
    """A record after the end is lost, and the event that says so still reaches the root."""
    writer = LedgerWriter(
        tmp_path / "root", rank=0, world_size=1, attempt="a", spool=tmp_path / "spool"
    )
    writer.record(1, 0, [1])
    writer.begin_checkpoint(1)
    writer.close()
    writer.record(2, 0, [2])

    until(lambda: len(seqs(tmp_path / "root" / "attempt=a")) == 5)
    until(lambda: [] == list((tmp_path / "spool").iterdir()))


def test_a_spool_reads_as_a_ledger(train: Callable[..., Trainer]) -> None:
    """What has not arrived can be audited where it is, log and waybill beside it."""
    job = train(steps=20, options={"ship_every": 30}, closes=False)
    os.kill(job.shipper, signal.SIGSTOP)
    job.step(20)
    job.process.wait(10)

    assert () == open_ledger([job.spool]).unread
    os.kill(job.shipper, signal.SIGKILL)


def test_the_shipper_is_light() -> None:
    """The process that ships loads no engine."""
    code = "import sys; import ledger_audit.ledger.shipping.__main__; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()

    assert not {"polars", "rich", "click", "pyarrow.parquet"} & set(loaded)


def test_a_child_of_the_trainer_ships_nothing(tmp_path: Path) -> None:
    """A forked child may close its copy of the writer: its parent's shipping goes on."""
    with LedgerWriter(
        tmp_path / "root", rank=0, world_size=1, attempt="a", spool=tmp_path / "spool"
    ) as writer:
        writer.record(1, 0, [1])
        child = os.fork()
        if child == 0:
            writer.close()
            os._exit(0)
        os.waitpid(child, 0)
        writer.record(1, 1, [2])

    assert list(range(4)) == seqs(tmp_path / "root" / "attempt=a")
    shutil.rmtree(tmp_path / "spool")
