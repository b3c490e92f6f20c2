"""Sealing beside others: it is killed, a trainer writes, auditors read."""

import multiprocessing
import random
import subprocess
import sys
import time
from pathlib import Path

from auditing import age, audited, rows_of, segments_in
from conftest import ROOT
from emitting import emit_ledger
from faults import make
from native import read_lines, write_ledger
from running import ledger_audit
from sealed import RUN, emitted, job

from ledger_audit import LedgerWriter
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.sealing import seal

SPAWN = multiprocessing.get_context("spawn")


def test_a_seal_that_is_killed_anywhere_leaves_the_same_ledger(tmp_path: Path) -> None:
    """Before every change to the disk: what is there reads the same, and the next seal goes on."""
    template = tmp_path / "template"
    lines = [line for line in read_lines(RUN) if line["rank"] < 2]
    emit_ledger([line for line in lines if line["attempt"] == 1], template)
    age(template)
    seal(template, idle=60)
    emit_ledger([line for line in lines if line["attempt"] == 0], template, segment_bytes=6000)
    for table in ("samples", "events"):
        path = sorted(template.glob(f"*/{table}-*.arrows"))[1]
        path.write_bytes(path.read_bytes()[:-9])
    age(template)
    before, rows = audited(template), rows_of(template)
    known: dict[str, bool] = {}

    def reads_the_same(root: Path) -> bool:
        shown = str([name for name in segments_in(root) if "/." not in name])
        if shown not in known:
            known[shown] = audited(root) == before and rows_of(root) == rows
        return known[shown]

    command = [sys.executable, ROOT / "tests" / "killing.py", template, tmp_path / "killed"]

    subprocess.run(command, check=True, cwd=ROOT)

    roots = sorted((tmp_path / "killed").iterdir(), key=lambda path: int(path.name))
    assert len(roots) > 20
    ends = set()
    for root in roots:
        assert reads_the_same(root), root.name
        seal(root, idle=60)
        assert reads_the_same(root), root.name
        assert not list(root.rglob(".*")), root.name
        assert not list(root.rglob("*.arrows")), root.name
        ends.add(len(segments_in(root)))
    assert ends == {4}
    assert len(known) > 10


def train(root: str, seconds: float) -> None:
    """Write as a trainer does, with many small segments, until the time is over."""
    ended = time.monotonic() + seconds
    step = 0
    with LedgerWriter(root, rank=0, world_size=1, attempt="live", segment_bytes=1500) as writer:
        while time.monotonic() < ended:
            step += 1
            writer.record(step, 0, [2 * step, 2 * step + 1])
            writer.commit(step)
            time.sleep(0.001)


def test_a_live_writer_is_not_touched(tmp_path: Path) -> None:
    """Seal after seal without any patience: not one record of a running trainer is lost."""
    root = emitted(tmp_path / "ledger", job(ranks=3), segment_bytes=1000)
    trainer = SPAWN.Process(target=train, args=(str(root), 4.0))
    trainer.start()
    seen: set[str] = set()
    while trainer.is_alive():
        seal(root, idle=0)
        there = {name for name in segments_in(root) if name.startswith("attempt=live/")}
        is_over = not trainer.is_alive()
        assert is_over or seen <= there
        seen |= there
    trainer.join()
    assert trainer.exitcode == 0
    assert len(seen) > 20

    samples, events = open_ledger([root]).everything("live")
    steps = samples["step"].max()
    assert isinstance(steps, int)
    assert sorted(samples["sample_id"]) == list(range(2, 2 * steps + 2))
    assert events.filter(kind="commit").height == steps
    assert set(events["kind"]) == {"start", "commit", "end"}
    before = rows_of(root)
    done = seal(root, idle=0)
    assert rows_of(root) == before
    assert not any(one.live for one in done.attempts)
    assert len(segments_in(root)) == 4


def keep_sealing(root: str, pauses: int) -> None:
    """Merge what was merged into larger and larger files."""
    size = 1000.0
    for _ in range(pauses):
        size *= 1.5
        seal(Path(root), idle=0, most_bytes=int(size))
        time.sleep(0.1)


def test_readers_of_a_ledger_that_is_being_sealed_stay_right(tmp_path: Path) -> None:
    """Files are listed and vanish; every audit says what the first one said."""
    root = tmp_path / "ledger"
    lines = make("several-restarts", 5).run
    emit_ledger([line for line in lines if line["attempt"] != 1], root, segment_bytes=800)
    write_ledger(
        [line for line in lines if line["attempt"] == 1], root, rng=random.Random(1), sealed=False
    )
    age(root)
    before, rows, files = audited(root), rows_of(root), len(segments_in(root))
    sealer = SPAWN.Process(target=keep_sealing, args=(str(root), 25))
    sealer.start()
    looks = 0
    while sealer.is_alive():
        assert audited(root) == before
        assert ledger_audit("show", root).code == 0
        looks += 1
    sealer.join()

    assert sealer.exitcode == 0
    assert looks > 1
    assert len(segments_in(root)) < files / 5
    assert rows_of(root) == rows
