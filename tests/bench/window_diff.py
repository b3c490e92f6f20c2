"""
Times the window audit against a bare Polars scan of the same windows, as whole processes.

    python tests/bench/window_diff.py [--records 50_000_000] [--rounds 7] [--keep DIR]

docs/benchmarks.md says what is compared, and why that is fair.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from long_ledger import LongLedger

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
REACH = 20
"""Steps before and after the checkpoint; what `diff` reads by default."""

BARE = "bare scan of the three windows"
PLANTED = {"matched": "continuous", "fresh": "continuous", "replayed": "broken"}
MOST_REPLAYED = 6_000_000
"""A replay that was found makes `diff` read everything: a large ledger would not fit memory."""


@dataclass(frozen=True)
class Task:
    """A process to time."""

    name: str
    command: Sequence[str]
    verdict: str | None = None
    """What it must say."""
    seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)


def tasks(long: LongLedger, short: LongLedger) -> Iterator[Task]:
    """List what is timed, side by side."""
    python = sys.executable
    yield Task("python, nothing else", [python, "-c", "pass"])
    yield Task("python with polars imported", [python, "-c", "import polars"])
    for ledger, size in ((long, ""), (short, ", a tenth of the ledger")):
        place = [str(ledger.folder("matched")), str(ledger.resumes["matched"].checkpoint)]
        scan = [python, str(HERE / "bare_scan.py"), *place, str(REACH)]
        yield Task(f"{BARE}{size}", [*scan, "samples"])
        yield Task(f"the same, and their events{size}", [*scan, "samples", "events"])
        for variant, what in (
            ("matched", "diff, nothing to look up"),
            ("fresh", "diff, 15,360 ids to look up"),
            ("replayed", "diff, replays found: reads everything"),
        ):
            if variant != "replayed" or ledger.records <= MOST_REPLAYED:
                audit = [python, "-m", "ledger_audit", "diff", str(ledger.folder(variant))]
                told = PLANTED[variant]
                yield Task(f"{what}{size}", [*audit, "--format", "json"], told)


def run(task: Task, *, counts: bool) -> None:
    """
    Run a process to its end, and note its time and its peak of memory.

    A child begins with the memory of this script: a smaller peak cannot be seen.
    """
    # what is installed has its bytecode already
    kept = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as told:
        began = time.perf_counter()
        actions = [(os.POSIX_SPAWN_DUP2, told.fileno(), 1)]
        child = os.posix_spawn(task.command[0], list(task.command), kept, file_actions=actions)
        _, status, used = os.wait4(child, 0)
        seconds = time.perf_counter() - began
        told.seek(0)
        text = told.read()
    if task.verdict is not None:
        found = json.loads(text)["verdict"]
        if found != task.verdict:
            raise SystemExit(f"{task.name}: {found}, but {task.verdict} was planted")
    elif os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{task.name}: failed")
    if counts:
        task.seconds.append(seconds)
        task.megabytes.append(used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6)


def table(timed: Sequence[Task]) -> str:
    """Lay the figures out as a table of Markdown."""
    bare: Mapping[str, Task] = {one.name: one for one in timed}
    base = bare[BARE]
    lines = [
        "| process | median s | least s | median / bare | least / bare | peak MB | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in timed:
        middle, least = statistics.median(one.seconds), min(one.seconds)
        ratio = middle / statistics.median(base.seconds), least / min(base.seconds)
        lines.append(
            f"| {one.name} | {middle:.2f} | {least:.2f} | {ratio[0]:.2f} | {ratio[1]:.2f} | "
            f"{max(one.megabytes):.0f} | {one.verdict or ''} |"
        )
    return "\n".join(lines)


@contextmanager
def folder(keep: Path | None) -> Iterator[Path]:
    """Give the folder for the ledgers; it is removed at the end unless it is to be kept."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def main() -> None:
    """Write the ledgers, time everything in turns, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--records", type=int, default=50_000_000, help="of attempt 0")
    parser.add_argument("--rounds", type=int, default=7, help="of all processes in turn")
    parser.add_argument("--keep", type=Path, help="write the ledgers here, or find them here")
    chosen = parser.parse_args()
    os.chdir(PROJECT)
    with folder(chosen.keep) as root:
        ledgers = [LongLedger(root / str(size), size) for size in _sizes(chosen.records)]
        for ledger in ledgers:
            if not ledger.root.exists():
                sys.stderr.write(f"writing {ledger.records:,} records\n")
                ledger.write()
        timed = list(tasks(*ledgers))
        for number in range(chosen.rounds + 1):
            for task in timed:
                run(task, counts=number > 0)  # the first round warms the cache
        sys.stdout.write(f"{chosen.records:,} records, {chosen.rounds} rounds\n\n")
        sys.stdout.write(table(timed) + "\n")


def _sizes(records: int) -> tuple[int, int]:
    return records, records // 10


if __name__ == "__main__":
    main()
