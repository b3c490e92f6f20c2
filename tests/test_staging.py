"""A ledger gets attempts whole or not at all, and none over one that is there."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from conftest import FIXTURES, ROOT
from running import ledger_audit

OLMO = FIXTURES / "foreign" / "olmo-data-indices"
RUN = FIXTURES / "zoo" / "torch-ddp-partial-accum" / "run"
HEAD = "rank,step,slot,sample_id\n"


def test_an_attempt_is_never_overwritten(tmp_path: Path) -> None:
    """An attempt that is there stays as it is, however its folder's name is escaped."""
    ledger = tmp_path / "ledger"
    (tmp_path / "log.csv").write_text(f"{HEAD}0,1,0,5\n")
    assert 0 == ledger_audit("convert", RUN, "-o", ledger).code
    (ledger / "attempt=a%20b").mkdir()
    before = {path: path.stat().st_mtime_ns for path in ledger.rglob("*")}

    for arguments in ((RUN,), (tmp_path / "log.csv",), (tmp_path / "log.csv", "--attempt", "a b")):
        ran = ledger_audit("convert", *arguments, "-o", ledger)
        assert 2 == ran.code
        assert "already, and nothing is overwritten" in ran.err
        assert "" == ran.out

    assert before == {path: path.stat().st_mtime_ns for path in ledger.rglob("*")}
    assert {"ledger", "log.csv"} == {path.name for path in tmp_path.iterdir()}


def test_a_target_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    """Attempts are put beside attempts, not into a folder of something else."""
    (tmp_path / "file").write_text("")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("")
    (tmp_path / "new").mkdir()
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "log.csv").write_text(f"{HEAD}0,1,0,5\n")

    for name in ("file", "notes", "log", "no/such/folder"):
        ran = ledger_audit("convert", tmp_path / "log", "-o", tmp_path / name)
        assert 2 == ran.code
        assert str(tmp_path / name) in ran.err
    assert 0 == ledger_audit("convert", tmp_path / "log", "-o", tmp_path / "new").code
    assert 3 == ledger_audit("diff", tmp_path / "new").code


def test_names_that_are_no_text_are_read_and_not_written(tmp_path: Path) -> None:
    """A file's name is bytes: one that is no UTF-8 is shown escaped, on either side."""
    log = tmp_path / os.fsdecode(b"log\xff.csv")
    log.write_text(f"{HEAD}0,1,0,5\n0,2")

    good = ledger_audit("convert", tmp_path / "*", "-o", tmp_path / "ledger")
    bad = ledger_audit("convert", log, "-o", tmp_path / os.fsdecode(b"l\xff"))

    assert (0, 2) == (good.code, bad.code)
    assert "log\\udcff.csv" in good.out
    assert "the name is no UTF-8" in bad.err


def converting(log: Path, ledger: Path, before: str) -> list[str]:
    """Give the command that converts a log in a process of its own."""
    program = f"{before}; exec {sys.executable} -m ledger_audit convert {log} -o {ledger}"
    return ["bash", "-c", program]


def long_log(path: Path) -> Path:
    """Write a log that takes a moment."""
    lines = (f"{rank},{step},0,{7 * step}\n" for step in range(1, 100_000) for rank in (0, 1, 2))
    path.write_text(HEAD + "".join(lines))
    return path


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """What could not be written whole is not there, and the message says why."""
    log = long_log(tmp_path / "log.csv")

    ran = subprocess.run(
        converting(log, tmp_path / "ledger", "ulimit -f 2"),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert 2 == ran.returncode
    assert "File too large" in ran.stderr
    assert {"log.csv"} == {path.name for path in tmp_path.iterdir()}


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C while files are written ends with 130 and leaves the ledger as it was."""
    log = long_log(tmp_path / "log.csv")
    ledger = tmp_path / "ledger"
    assert 0 == ledger_audit("convert", OLMO / "before", "-o", ledger, "--attempt", "9").code
    before = sorted(ledger.rglob("*"))
    process = subprocess.Popen(
        converting(log, ledger, "trap - INT"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    while process.poll() is None and not list(tmp_path.glob(".ledger.*")):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)

    assert b"Traceback" not in err
    assert {"ledger", "log.csv"} == {path.name for path in tmp_path.iterdir()}
    assert 130 == process.returncode
    assert before == sorted(ledger.rglob("*"))
