"""Whatever `record` returned from, a SIGKILL cannot take back; and nothing else is ever read."""

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from crashing import ROWS, SLOTS, STEPS

from ledger_audit import LedgerWriter
from ledger_audit.ledger.message import messages
from ledger_audit.ledger.opening import open_ledger

CRASHING = Path(__file__).parent / "crashing.py"


def _crash(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, CRASHING, *map(str, arguments)], check=True)


def _check(root: Path) -> str:
    """Compare what is read with what had returned; give the last thing that had."""
    path = root / "acks"
    acks = path.read_text().splitlines() if path.exists() else []
    recorded = [int(one.split()[1]) for one in acks if one.startswith("record")]
    committed = [int(one.split()[1]) for one in acks if one.startswith("commit")]
    if not (root / "ledger").exists() or not list((root / "ledger").glob("attempt=*")):
        assert acks == []
        return ""
    ledger = open_ledger([root / "ledger"])
    if not ledger.attempts:
        assert acks == []
        return ""
    rows = ledger.records("a", 0).sort("seq")
    ids = rows["sample_id"].to_list()
    returned = [first + n for first in recorded for n in range(ROWS)]
    first = SLOTS * ROWS
    assert ids[: len(returned)] == returned
    assert ids == list(range(first, first + len(ids)))  # in order, each once, nothing made up
    assert len(ids) - len(returned) in (0, ROWS)  # one micro-batch may be there and not returned
    tries = ledger.tries("a", 0)
    assert tries["step"].to_list()[: len(committed)] == committed
    assert len(tries) - len(committed) in (0, 1)
    assert rows["seq"].n_unique() == len(ids)
    return acks[-1] if acks else ""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Three hundred writers, killed wherever they were."""
    _crash("random", tmp_path, "300", "7")

    last = [_check(root) for root in sorted(tmp_path.iterdir())]
    assert 300 == len(last)
    assert 20 < len(set(last))


@pytest.mark.parametrize("mode", ["calls", "halves"])
def test_killed_between_every_two_system_calls(mode: str, tmp_path: Path) -> None:
    """In `record`, `commit`, a checkpoint, the roll of a segment, and in half a write."""
    _crash(mode, tmp_path)

    roots = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    last = [_check(root) for root in roots]
    assert 60 < len(roots)
    assert f"checkpoint {STEPS}" == last[-1]
    assert 2 < len(list((roots[-1] / "ledger" / "attempt=a").glob("samples-*")))


def test_killed_on_a_disk_that_fills_up(tmp_path: Path) -> None:
    """Every fourth write breaks off: what is read is sound, and what is missing is known."""
    _crash("full", tmp_path)

    lost = 0
    for root in tmp_path.iterdir():
        if not list((root / "ledger").glob("attempt=*")):
            continue
        ledger = open_ledger([root / "ledger"])
        if not ledger.attempts:
            continue
        rows = ledger.records("a", 0).sort("seq")
        ids = rows["sample_id"].to_list()
        assert ids == sorted(set(ids))
        assert set(ids) <= set(range(SLOTS * ROWS, (STEPS + 1) * SLOTS * ROWS))
        assert all(len(ids) % ROWS == 0 for _ in ids)  # whole micro-batches
        told = ledger.tries("a", 0)
        assert {SLOTS * ROWS} >= set(told["samples"])  # used, there or not
        lost += ledger.acts().filter(kind="lost").height
    assert lost > 0


def _small(root: Path) -> Path:
    with LedgerWriter(root, rank=0, world_size=1, attempt="a", strict=True) as ledger:
        for step in range(1, 4):
            ledger.record(step, 0, [step, 10 + step])
            ledger.commit(step)
    return next((root / "attempt=a").glob("samples-*"))


def _ends(path: Path, tmp_path: Path) -> dict[int, list[int]]:
    """Give for each size at which a message ends the ids up to there."""
    data = path.read_bytes()
    ends: dict[int, list[int]] = {}
    for size in range(len(data) + 1):
        if size % 8 == 0:
            path.write_bytes(data[:size])
            ids = open_ledger([tmp_path]).records("a", 0)["sample_id"].to_list()
            if not ends or ids != list(ends.values())[-1]:
                ends[size] = ids
    path.write_bytes(data)
    return ends


def test_a_last_file_that_is_cut_at_any_byte(tmp_path: Path) -> None:
    """Everything before the cut is read, and the reader knows that it is torn."""
    path = _small(tmp_path / "ledger")
    data = path.read_bytes()
    ends = _ends(path, tmp_path / "ledger")
    assert [[], [1, 11], [1, 11, 2, 12], [1, 11, 2, 12, 3, 13]] == list(ends.values())
    borders = {one.end for one in messages(pa.py_buffer(data), is_checked=True)}
    for size in range(len(data)):
        path.write_bytes(data[:size])
        ledger = open_ledger([tmp_path / "ledger"])
        whole = [ids for end, ids in ends.items() if end <= size][-1]
        assert whole == ledger.records("a", 0)["sample_id"].to_list(), size
        assert (size in borders) == (ledger.unread == ()), size


def test_a_last_file_that_is_filled_with_zeros(tmp_path: Path) -> None:
    """From every 64th byte on: everything before is read, and the rest is known to be lost."""
    path = _small(tmp_path / "ledger")
    data = path.read_bytes()
    ends = _ends(path, tmp_path / "ledger")
    for start in range(0, len(data), 64):
        damaged = data[:start] + bytes(len(data) - start)
        path.write_bytes(damaged)
        ledger = open_ledger([tmp_path / "ledger"])
        whole = [ids for end, ids in ends.items() if end <= start][-1]
        assert whole == ledger.records("a", 0)["sample_id"].to_list()[: len(whole)]
        assert damaged == data or ledger.unread != ()


def test_a_copy_in_another_place_is_read_once(tmp_path: Path) -> None:
    """A spool and its root hold the same file at different lengths: the longer one counts."""
    path = _small(tmp_path / "spool")
    shutil.copytree(tmp_path / "spool", tmp_path / "root")
    copy = tmp_path / "root" / "attempt=a" / path.name
    copy.write_bytes(path.read_bytes()[: path.stat().st_size // 2 // 8 * 8])

    for roots in (["spool", "root"], ["root", "spool"]):
        ledger = open_ledger([tmp_path / root for root in roots])
        assert [1, 11, 2, 12, 3, 13] == ledger.records("a", 0)["sample_id"].to_list()
