"""
Times `verify` of a whole run in one process, in pieces, and on Spark, as whole processes.

    python tests/bench/engines.py --folder DIR [--records 10 50] [--ids int text] [--buckets 4]
        [--questions clean replays] [--workers 2] [--tools local buckets spark] [--rounds 1]

The ledgers are those of whole_run.py, which writes them where they are not there. Pieces are made
one after another; seconds and processor time of all are added. Of the cluster, the processor time
of its daemons and executors counts. Every report must be the bytes of the one process.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from whole_data import WholeData
from whole_run import EXIT_CODES, PROJECT, QUESTIONS, Ended, run

sys.path.insert(0, str(Path(__file__).parent.parent / "spark"))

CAP = 12 << 30
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Took:
    """What a way took, all of its processes together."""

    seconds: float
    busy: float
    """Seconds of all processors."""
    peak: int
    """Bytes of the largest process that was started here; executors of Spark are none of them."""
    report: str
    note: str = ""


def audit(*arguments: str | Path, wanted: int = 0) -> Ended:
    """Run the program; whatever does not end as it should ends the measurement."""
    command = [sys.executable, "-m", "ledger_audit", *map(str, arguments)]
    ended = run(command, fence=None, cap=CAP)
    if ended.code != wanted or ended.killed:
        raise SystemExit(f"{' '.join(command)}: {ended.code}, not {wanted}: {ended.errors[-2000:]}")
    return ended


def local(ledger: Path, asked: list[str], wanted: int) -> Took:
    """Verify in one process."""
    ended = audit("verify", ledger, *asked, "--format", "json", wanted=wanted)
    return Took(ended.seconds, ended.busy, ended.peak, ended.output)


def buckets(ledger: Path, asked: list[str], wanted: int, of: int) -> Took:
    """Count in pieces, one after another, and merge them."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / str(number) for number in range(1, of + 1)]
        ended = [
            audit("verify", ledger, *asked, "--bucket", f"{number}/{of}", "-o", path)
            for number, path in enumerate(paths, 1)
        ]
        size = sum(path.stat().st_size for path in paths)
        longest = max(one.seconds for one in ended)
        ended.append(audit("merge", *paths, "--format", "json", wanted=wanted))
    note = f"longest piece {longest:.1f} s, merge {ended[-1].seconds:.1f} s, "
    return Took(
        sum(one.seconds for one in ended),
        sum(one.busy for one in ended),
        max(one.peak for one in ended),
        ended[-1].output,
        note + f"pieces {size / 1e6:.1f} MB",
    )


@contextmanager
def cluster(workers: int) -> Iterator[Callable[[Path, list[str], int], Took]]:
    """Run a standalone cluster, and give what verifies on it."""
    from standalone import SETTINGS, standalone  # noqa: PLC0415  # it needs Spark

    with (
        tempfile.TemporaryDirectory() as folder,
        standalone(
            Path(folder) / "cluster",
            workers,
            {
                **SETTINGS,
                "spark.cores.max": str(workers),
                "spark.executor.memory": "2g",
                "spark.driver.memory": "2g",
            },
        ) as found,
    ):

        def verify(ledger: Path, asked: list[str], wanted: int) -> Took:
            before = sum(map(_busy, found.daemons))
            on = ["--engine", "spark", "--master", found.url]
            ended = audit("verify", ledger, *asked, *on, "--format", "json", wanted=wanted)
            busy = ended.busy + sum(map(_busy, found.daemons)) - before
            return Took(ended.seconds, busy, ended.peak, ended.output)

        yield verify


def _busy(process: int) -> float:
    """Give the seconds of a process and of those that it has waited for."""
    told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, told[11:15])) / _TICKS


def measure(data: WholeData, chosen: argparse.Namespace) -> None:
    """Print a table of one kind of data."""
    began = os.getloadavg()[0]
    lines = ["| question | process | s | CPU s | peak MB | |", "|---|---|---|---|---|---|"]
    for question in chosen.questions:
        ledger = data.ledger("control" if question == "clean" else "faulty")
        asked, wanted = ["--samples", str(data.records)], EXIT_CODES[question]
        first: str | None = None
        for name, way in chosen.ways:
            took = [way(ledger, asked, wanted) for _ in range(chosen.rounds)]
            first = took[0].report if first is None else first
            if any(one.report != first for one in took):
                raise SystemExit(f"{question}, {name}: another report")
            middle = [
                f"{statistics.median(one.seconds for one in took):.1f}",
                f"{statistics.median(one.busy for one in took):.1f}",
                f"{max(one.peak for one in took) / 1e6:.0f}",
            ]
            lines.append(
                f"| {QUESTIONS[question]} | {name} | {' | '.join(middle)} | {took[0].note} |"
            )
            sys.stderr.write(f"{lines[-1]}\n")
    table = "\n".join(lines)
    sys.stdout.write(
        f"\n{data.records:,} records, {data.ids} ids, {chosen.rounds} rounds, "
        f"load {began:.1f} before and {os.getloadavg()[0]:.1f} after\n\n{table}\n"
    )
    sys.stdout.flush()


def main() -> None:
    """Write the ledgers where they are not there, and print a table for each of them."""
    chosen = options()
    os.chdir(PROJECT)
    known: dict[str, Callable[[Path, list[str], int], Took]] = {
        "local": local,
        "buckets": lambda *asked: buckets(*asked, of=chosen.buckets),
    }
    names = {"local": "verify", "buckets": f"{chosen.buckets} buckets in turn, and merge"}
    chosen.ways = [(names[tool], known[tool]) for tool in chosen.tools if tool in known]
    if "spark" in chosen.tools:
        with cluster(chosen.workers) as verify:
            chosen.ways.append((f"Spark, {chosen.workers} workers of one core", verify))
            every(chosen)
    else:
        every(chosen)


def every(chosen: argparse.Namespace) -> None:
    """Measure all kinds of data."""
    for millions in chosen.records:
        for ids in chosen.ids:
            data = WholeData(chosen.folder.resolve(), int(millions * 1_000_000), ids)
            script = [sys.executable, str(Path(__file__).parent / "whole_data.py")]
            subprocess.run([*script, str(data.folder), str(data.asked), data.ids], check=True)
            measure(data, chosen)


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    add = parser.add_argument
    add("--folder", type=Path, required=True, help="write the ledgers here, or find them here")
    add("--records", type=float, nargs="+", default=[10], help="millions in a ledger")
    add("--ids", nargs="+", choices=["int", "text"], default=["int", "text"])
    add("--questions", nargs="+", choices=["clean", "replays"], default=["clean", "replays"])
    add("--tools", nargs="+", default=["local", "buckets", "spark"])
    add("--buckets", type=int, default=4)
    add("--workers", type=int, default=2)
    add("--rounds", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
