"""
Ships in a child that dies at its n-th system call, for every n, and looks at what is left.

Run as a program, because it forks: `shipwreck.py KIND FOLDER`.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from ledger_audit import LedgerWriter
from ledger_audit.ledger.message import messages
from ledger_audit.ledger.shipping.shipment import Shipment
from ledger_audit.ledger.shipping.waybill import Waybill

CALLS = (
    "open",
    "write",
    "fsync",
    "link",
    "unlink",
    "rename",
    "replace",
    "ftruncate",
    "mkdir",
    "rmdir",
    "close",
)
"""What changes something; the child may die before each."""


def seqs(folder: Path) -> list[int]:
    """List the numbers of all sound lines in a folder of an attempt, in their order."""
    found: list[int] = []
    for path in folder.glob("*.arrows") if folder.exists() else ():
        if not path.name.startswith("."):
            schema = None
            for one in messages(pa.py_buffer(path.read_bytes()), is_checked=True):
                if one.message is not None and one.message.type == "schema":
                    schema = pa.ipc.read_schema(one.message)
                elif one.message is not None:
                    found += pa.ipc.read_record_batch(one.message, schema)["seq"].to_pylist()
    return sorted(found)


def write_attempt(root: Path, *, steps: int, segment_bytes: int, rows: int = 3) -> Path:
    """Write a small attempt without a spool, its end torn; give its folder."""
    writer = LedgerWriter(
        root, rank=0, world_size=1, attempt="a", segment_bytes=segment_bytes, segment_seconds=1e9
    )
    for step in range(1, steps + 1):
        for slot in range(2):
            writer.record(step, slot, range(100 * step, 100 * step + rows))
        writer.commit(step)
    writer.close()
    folder = root / "attempt=a"
    for table in ("samples", "events"):
        last = max(folder.glob(f"{table}-*"))
        whole = last.read_bytes()
        last.write_bytes(whole + whole[:100])
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder but hidden ones."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".")
    }


def counted(dies_at: int, *, is_half: bool) -> None:
    """Make this process kill itself at a call; a write may be half done by then."""
    count = 0

    def wrapped(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            if name == "write" or not is_half:
                count += 1
            if count == dies_at:
                if is_half:
                    call(args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return counting

    for name in CALLS:
        setattr(os, name, wrapped(name, getattr(os, name)))


def in_child(act: Callable[[], None]) -> int:
    """Do something in a forked child; give how it ended."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException as problem:
            os.write(2, f"{problem!r}\n".encode())
            os._exit(70)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ship(waybill: Waybill, *, is_over: bool = True) -> None:
    """Ship once, and clear the waybill if that was all."""
    known = os.stat(waybill.path)
    is_first = not waybill.arrived.exists()
    Shipment(waybill, is_first=is_first).ship(is_over=is_over)
    if is_over:
        waybill.clear(known)


def laid_out(folder: Path, template: Path, writer: str) -> Waybill:
    """Lay a copy of a spool beside an empty root."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder / "spool" / template.name)
    waybill = Waybill(folder / "spool", folder / "root", template.name, writer, keeps=False)
    os.close(waybill.place())
    return waybill


def is_prefix(found: list[int]) -> bool:
    """Tell whether lines are the first ones, each once."""
    return found == list(range(len(found)))


def every_call(folder: Path, *, is_half: bool) -> int:
    """Die at every call once, look, and ship the rest; give how many calls there are."""
    template = write_attempt(folder / "template", steps=3, segment_bytes=1500)
    whole = contents(template)
    writer = next(iter(whole)).removeprefix("events-").removesuffix("-000000.arrows")
    for dies_at in range(1, 10_000):
        waybill = laid_out(folder / "run", template, writer)

        def sink(at: int = dies_at, way: Waybill = waybill) -> None:
            counted(at, is_half=is_half)
            ship(way)

        status = in_child(sink)
        assert status in (0, -signal.SIGKILL), (dies_at, status)
        assert is_prefix(seqs(waybill.target)), (dies_at, seqs(waybill.target))
        if waybill.target.exists():
            for name, data in contents(waybill.target).items():
                assert whole[name].startswith(data), (dies_at, name)
        if waybill.path.exists():
            assert in_child(lambda way=waybill: ship(way)) == 0, dies_at  # type: ignore[misc]
        assert whole == contents(waybill.target), dies_at
        hidden = {path.name for path in waybill.target.iterdir()} - whole.keys()
        assert set() == hidden, (dies_at, hidden)
        assert not waybill.source.exists() or not list(waybill.source.iterdir()), dies_at
        if status == 0:
            return dies_at - 1
    raise AssertionError("it never ended")


def grown(whole: dict[str, bytes], until: int) -> dict[str, bytes]:
    """Give what a spool held when its writer had told so many lines, and half of the next."""
    told: dict[str, bytes] = {}
    for name, data in whole.items():
        schema, end, is_cut = None, 0, False
        for one in messages(pa.py_buffer(data), is_checked=True):
            if one.message is None:
                is_cut = until >= 10_000
                continue
            if one.message.type == "schema":
                schema, begun = pa.ipc.read_schema(one.message), one.end
                continue
            seq = pa.ipc.read_record_batch(one.message, schema)["seq"][0].as_py()
            if seq > until:
                end += (one.end - one.start) // 2 if end and seq < until + 5 else 0
                break
            end = one.end
        if end:
            told[name] = data if is_cut else data[: max(end, begun)]
    return told


def at_random(folder: Path, seed: int) -> int:
    """Die at random calls while the spool grows; give how many times that was."""
    rng = random.Random(seed)
    template = write_attempt(folder / "template", steps=12, segment_bytes=2500)
    whole = contents(template)
    writer = next(iter(whole)).removeprefix("events-").removesuffix("-000000.arrows")
    waybill = laid_out(folder / "run", template, writer)
    shutil.rmtree(waybill.source)
    waybill.source.mkdir()
    deaths, until, gone = 0, 0, set[str]()
    while waybill.path.exists():
        until += rng.randrange(12)
        is_over = until > len(seqs(template))
        there = grown(whole, 10_000 if is_over else until)
        for name, data in there.items():
            if (waybill.source / name).exists() or name not in gone:
                (waybill.source / name).write_bytes(data)

        def sink(way: Waybill = waybill, over: bool = is_over) -> None:
            if rng.random() < 0.7:
                counted(rng.randrange(1, 60), is_half=rng.random() < 0.3)
            ship(way, is_over=over)

        rng.random()
        status = in_child(sink)
        deaths += status != 0
        assert status in (0, -signal.SIGKILL), (seed, until, status)
        gone |= {name for name in there if not (waybill.source / name).exists()}
        assert is_prefix(seqs(waybill.target)), (seed, until, seqs(waybill.target))
    assert whole == contents(waybill.target), seed
    return deaths


def when_full(folder: Path) -> int:
    """Let the root take ever more bytes before it is full; give how many times it was."""
    template = write_attempt(folder / "template", steps=6, segment_bytes=2500)
    whole = contents(template)
    writer = next(iter(whole)).removeprefix("events-").removesuffix("-000000.arrows")
    waybill = laid_out(folder / "run", template, writer)
    write, fulls, room = os.write, 0, 0

    def short(file: int, data: Any) -> int:
        nonlocal room
        if not os.readlink(f"/proc/self/fd/{file}").startswith(str(waybill.root)):
            return write(file, data)
        if room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(file, bytes(data)[:room])
        room -= done
        return done

    os.write = short  # type: ignore[assignment]
    shipment = Shipment(waybill, is_first=True)
    while True:
        room = 97 * fulls
        try:
            shipment.ship(is_over=True)
        except OSError as problem:
            if problem.errno != errno.ENOSPC:
                raise
            fulls += 1
            if waybill.target.exists():
                assert is_prefix(seqs(waybill.target)), seqs(waybill.target)
                for name, data in contents(waybill.target).items():
                    found = list(messages(pa.py_buffer(data), is_checked=True))
                    is_sound = all(one.message is not None for one in found)
                    assert is_sound or data == whole[name], (name, "is torn")
            assert fulls < 1000
            continue
        assert whole == contents(waybill.target)
        return fulls


if __name__ == "__main__":
    kind, place = sys.argv[1], Path(sys.argv[2])
    if kind == "call":
        assert every_call(place, is_half=False) > 50
    elif kind == "half":
        assert every_call(place, is_half=True) > 5
    elif kind == "full":
        assert when_full(place) > 3
    else:
        at_random(place, int(kind))
