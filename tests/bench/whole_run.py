"""
Times audits of whole runs against DuckDB, Polars, pandas and datacompy, as whole processes.

    python tests/bench/whole_run.py [--records 10 50] [--ids int text] [--rounds 3]
        [--folder DIR] [--memory 2GiB] [--others PYTHON] [--limit]

docs/benchmarks.md says what is compared, and why that is fair. The peak of a process is what the
system counts, mapped pages of files among it, which it could take back; what is its own, anonymous
and shared memory, is looked up in /proc again and again.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path

from whole_data import WholeData
from whole_rivals import MISSING, TOOLS, Asked, answering

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
UNKNOWN = 2
"""Exit code of ours: no such command or option."""

QUESTIONS = {
    "equal": "gate of two equal runs",
    "shuffled": "gate, 1 % of the steps shuffled",
    "clean": "verify, nothing wrong",
    "replays": "verify, 1,000 replays and 1,000 skips",
    "lookup": "look-up of 15,360 ids in the history",
}
MOST = {"pandas": 10, "datacompy": 10, "polars": 50, "floor": 50}
"""Millions of records beyond which a tool is left out, for its memory or its time."""
EXIT_CODES = {"equal": 0, "shuffled": 1, "clean": 0, "replays": 1, "lookup": 0}
SIZES = ("peak", "private")

EVERY = 0.01
"""Seconds between two looks at a child's memory."""
PROBE = 30.0
"""Seconds that it may take to try a way to limit memory."""
_CGROUPS = Path("/sys/fs/cgroup")
_UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True)
class Ended:
    """How a child ended, and what it took."""

    code: int
    output: str
    errors: str
    seconds: float
    busy: float
    """Seconds of all processors, which other load hardly changes."""
    peak: int
    """Bytes; not less than what this script held when the child began."""
    private: int
    """Bytes that were its own at the most, as far as was seen."""
    killed: str = ""
    """Why it was killed; empty: it was not."""


@dataclass(frozen=True)
class Fence:
    """A limit on the memory of a child."""

    how: str
    """For people: what holds it."""
    command: Sequence[str] = ()
    """What goes before the child's command."""
    most: int | None = None
    """Bytes of its own beyond which this script kills it; null: the system does."""
    group: Path | None = None
    """A cgroup to be removed at the end."""


@dataclass
class Task:
    """A process to time, again and again."""

    question: str
    name: str
    command: Sequence[str]
    wanted: Mapping[str, int] | int
    """What it must answer, or its exit code."""
    told: str = ""
    """Why it has no figures; empty: it has."""
    ended: list[Ended] = field(default_factory=list)


def ours(data: WholeData, question: str, memory: str) -> Iterator[tuple[str, list[str]]]:
    """Give our commands that answer a question."""
    control = str(data.ledger("control"))
    limit = ["--memory", memory]
    if question in ("equal", "shuffled"):
        other = "same" if question == "equal" else question
        command = ["gate", control, str(data.ledger(other)), *limit]
        yield "gate", command
        yield "gate --trust-digests", [*command, "--trust-digests"]
    elif question == "lookup":
        yield "diff", ["diff", str(data.ledger("resumed"))]
    else:
        ledger = control if question == "clean" else str(data.ledger("faulty"))
        command = ["verify", ledger, "--samples", str(data.records), *limit]
        yield "verify", command
        yield "verify --trust-digests", [*command, "--trust-digests"]


def asked_of(data: WholeData, question: str, memory: str) -> Asked:
    """Tell the rivals where the records of a question are."""
    left, right = {
        "equal": (data.samples("control"), data.samples("same")),
        "shuffled": (data.samples("control"), data.samples("shuffled")),
        "clean": (data.samples("control"), ""),
        "replays": (data.samples("faulty"), ""),
        "lookup": (data.samples("resumed"), data.samples("resumed", "1")),
    }[question]
    return Asked(left, right, *data.window, memory, str(data.folder / "spill"))


def wanted(data: WholeData, tool: str, question: str) -> Mapping[str, int]:
    """Give what is right."""
    planted, is_shuffled = data.planted, question == "shuffled"
    if tool == "floor":
        return {"read": data.records * (2 if question in ("equal", "shuffled") else 1)}
    if question in ("equal", "shuffled"):
        if tool == "duckdb-digests":
            return {"steps": data.shuffled_steps * is_shuffled}
        return {"one_sided": 2 * planted["moved"] * is_shuffled}
    if question == "lookup":
        return {"found": 0}
    repeated = planted["faults"] if question == "replays" else 0
    return {"repeated": repeated, "distinct": data.records - repeated}


def tasks(data: WholeData, chosen: argparse.Namespace) -> Iterator[Task]:
    """List what is timed for one kind of data, side by side."""
    for question in chosen.questions:
        if "ours" in chosen.tools:
            for name, command in ours(data, question, chosen.memory):
                audit = [sys.executable, "-m", "ledger_audit", *command]
                yield Task(question, name, audit, EXIT_CODES[question])
        for tool in TOOLS:
            fits = chosen.all or data.asked <= MOST.get(tool, 10**6) * 1_000_000
            if tool not in chosen.tools or not fits or answering(tool, question) is None:
                continue
            asked = json.dumps(asdict(asked_of(data, question, chosen.memory)))
            script = [_python(tool, chosen.others), str(HERE / "whole_rivals.py")]
            script += [tool, question, asked]
            yield Task(question, tool, script, wanted(data, tool, question))


def _python(tool: str, others: str | None) -> str:
    """Choose who runs a tool: this Python, unless only the other one may have it."""
    module = {"floor": "polars", "duckdb-digests": "duckdb"}.get(tool, tool)
    return sys.executable if others is None or find_spec(module) else others


def time_once(task: Task, fence: Fence | None, cap: int) -> None:
    """Run a task, check what it says and note what it took; what fails is not run again."""
    ended = run(task.command, fence=fence, cap=cap)
    is_ours = isinstance(task.wanted, int)
    if ended.killed:
        task.told = ended.killed
    elif ended.code == (UNKNOWN if is_ours else MISSING):
        task.told = "not there yet" if is_ours else "not installed"
    elif is_ours and ended.code != task.wanted:
        task.told = f"exit code {ended.code}, not {task.wanted}: {_last(ended)}"
    elif not is_ours and ended.code:
        task.told = f"failed with exit code {ended.code}: {_last(ended)}"
    elif not is_ours and json.loads(ended.output) != task.wanted:
        task.told = f"wrong: {ended.output.strip()}, not {json.dumps(task.wanted)}"
    else:
        task.ended.append(ended)


def _last(ended: Ended) -> str:
    lines = (ended.errors.strip() or ended.output.strip()).splitlines()
    problems = [line for line in lines if "error" in line.lower()] or lines
    return problems[-1][:100] if problems else ""


def table(timed: Sequence[Task]) -> str:
    """Lay the figures of one kind of data out as a table of Markdown."""
    lines = [
        "| question | process | median s | least | / floor | / DuckDB | CPU s | peak MB | own MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    medians = {
        (one.question, one.name): statistics.median(each.seconds for each in one.ended)
        for one in timed
        if one.ended
    }
    for one in timed:
        middle = medians.get((one.question, one.name))
        head = f"| {QUESTIONS[one.question]} | {one.name} |"
        if one.told or middle is None:
            lines.append(f"{head} {one.told} | | | | | | |")
            continue
        bases = [medians.get((one.question, tool)) for tool in ("floor", "duckdb")]
        ratios = ["" if base is None else f"{middle / base:.2f}" for base in bases]
        figures = [f"{middle:.2f}", f"{min(each.seconds for each in one.ended):.2f}", *ratios]
        figures.append(f"{statistics.median(each.busy for each in one.ended):.2f}")
        figures += [f"{max(getattr(each, size) for each in one.ended) / 1e6:.0f}" for size in SIZES]
        lines.append(f"{head} {' | '.join(figures)} |")
    return "\n".join(lines)


def measure(data: WholeData, chosen: argparse.Namespace, fence: Fence | None) -> None:
    """Time everything in turns on the ledgers of one size and one type of ids."""
    timed, began = list(tasks(data, chosen)), os.getloadavg()[0]
    for path in sorted(data.root.rglob("*.parquet")):  # all begin with a warm cache
        path.read_bytes()
    for number in range(chosen.rounds):
        for task in timed:
            if not task.told:
                time_once(task, fence, chosen.cap << 30)
                took = task.told or f"{task.ended[-1].seconds:.2f} s, {task.ended[-1].busy:.2f} CPU"
                sys.stderr.write(f"round {number + 1}: {task.question}, {task.name}: {took}\n")
    sys.stdout.write(
        f"\n{data.records:,} records, {data.ids} ids, {chosen.rounds} rounds, "
        f"memory {chosen.memory}, load {began:.1f} before and {os.getloadavg()[0]:.1f} after\n\n"
        f"{table(timed)}\n"
    )
    sys.stdout.flush()


def run(command: Sequence[str], *, fence: Fence | None, cap: int) -> Ended:
    """
    Run a process to its end.

    Args:
        command: the program and its arguments.
        fence: a limit that it must keep; null: none.
        cap: bytes of its own beyond which it is killed in any case, for the machine's sake.
    """
    most = cap if fence is None or fence.most is None else min(cap, fence.most)
    before = () if fence is None else fence.command
    # what is installed has its bytecode already
    kept = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        actions = [(os.POSIX_SPAWN_DUP2, output.fileno(), 1)]
        actions += [(os.POSIX_SPAWN_DUP2, errors.fileno(), 2)]
        whole = [*before, *command]
        began = time.perf_counter()
        child = os.posix_spawnp(whole[0], whole, kept, file_actions=actions)
        private, killed = 0, ""
        while True:
            found, status, used = os.wait4(child, os.WNOHANG)
            if found:
                break
            private = max(private, _own(child))
            if private > most and not killed:
                killed = f"killed: {private / 1e6:.0f} MB of its own, {most / 1e6:.0f} allowed"
                os.kill(child, signal.SIGKILL)
            time.sleep(EVERY)
        seconds = time.perf_counter() - began
        told = []
        for file in (output, errors):
            file.seek(0)
            told.append(file.read().decode("utf-8", "replace"))
    code = os.waitstatus_to_exitcode(status)
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL) and not killed:
        killed = "killed: by the system, most likely for its memory"
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    busy = used.ru_utime + used.ru_stime
    return Ended(code, told[0], told[1], seconds, busy, peak, private, killed)


def _own(process: int) -> int:
    """Give the bytes that a process has for itself; pages of files, which can go, do not count."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # it is gone, or there is no /proc
        return 0
    sizes = [line.split() for line in lines if line.startswith(("RssAnon:", "RssShmem:"))]
    return sum(int(size[1]) << 10 for size in sizes)


def fenced(memory: str) -> Fence:
    """Choose the hardest limit that can be had here: the system's, or else this script's."""
    most = _bytes(memory)
    limits = ["-p", f"MemoryMax={most}", "-p", "MemorySwapMax=0"]
    scopes = [["systemd-run", *user, "--scope", "-q", *limits] for user in ([], ["--user"])]
    for command in scopes:
        if shutil.which("systemd-run") and Path("/run/systemd/system").exists() and _works(command):
            return Fence("a scope of systemd, pages of files included", command)
    group = _CGROUPS / f"whole-run-{os.getpid()}"
    try:
        if "memory" in (_CGROUPS / "cgroup.subtree_control").read_text().split():
            group.mkdir()
            (group / "memory.max").write_text(str(most))
            (group / "memory.swap.max").write_text("0")
            enter = f'echo $$ > {group}/cgroup.procs && exec "$@"'
            command = ["sh", "-c", enter, "sh"]
            if _works(command):
                return Fence(f"the cgroup {group}, pages of files included", command, group=group)
            group.rmdir()
    except OSError:
        pass  # no version 2, or not ours to change
    return Fence(
        f"RssAnon + RssShmem, looked at every {EVERY * 1000:.0f} ms and killed beyond it "
        "(neither systemd-run nor a cgroup v2 can be had here)",
        most=most,
    )


def _works(command: Sequence[str]) -> bool:
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=PROBE)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


def _bytes(memory: str) -> int:
    """Read a size such as 2GiB."""
    number, unit = memory[:-3], memory[-3:]
    if unit not in _UNITS:
        raise SystemExit(f"{memory}: give it in MiB or GiB, as 2GiB")
    return int(float(number) * _UNITS[unit])


def main() -> None:
    """Write the ledgers where they are not there, and print a table for each of them."""
    chosen = options()
    os.chdir(PROJECT)
    root = chosen.folder or Path(tempfile.mkdtemp(prefix="whole-"))
    fence = None
    if chosen.limit:
        chosen.tools = ["ours"]
        fence = fenced(chosen.memory)
        sys.stdout.write(f"limit {chosen.memory}: {fence.how}\n")
    try:
        for millions in chosen.records:
            for ids in chosen.ids:
                data = WholeData(root.resolve(), int(millions * 1_000_000), ids)
                script = [sys.executable, str(HERE / "whole_data.py"), str(data.folder)]
                # in a process of its own: a child is told to have needed what its parent did
                subprocess.run([*script, str(data.asked), data.ids], check=True)
                measure(data, chosen, fence)
    finally:
        if fence is not None and fence.group is not None:
            fence.group.rmdir()
        shutil.rmtree(root / "spill", ignore_errors=True)
        if chosen.folder is None:
            shutil.rmtree(root, ignore_errors=True)


def options() -> argparse.Namespace:
    """Read the command line."""
    every = ["ours", *TOOLS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    add = parser.add_argument
    add("--records", type=float, nargs="+", default=[10, 50], help="millions in a ledger")
    add("--ids", nargs="+", choices=["int", "text"], default=["int", "text"])
    add("--questions", nargs="+", choices=list(QUESTIONS), default=list(QUESTIONS))
    add("--tools", nargs="+", choices=every, default=every)
    add("--rounds", type=int, default=3, help="of all processes in turn")
    add("--folder", type=Path, help="write the ledgers here, or find them here")
    add("--memory", default="2GiB", help="for our commands, and DuckDB's memory_limit")
    add("--others", help="the Python that has the tools that this one does not have")
    add("--cap", type=int, default=12, help="GiB of its own at which any process is killed")
    add("--all", action="store_true", help="leave no tool out, however many records")
    add("--limit", action="store_true", help="ours only, and killed beyond --memory")
    return parser.parse_args()


if __name__ == "__main__":
    main()
