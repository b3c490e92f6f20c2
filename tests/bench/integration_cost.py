"""
Times what the torch integration costs a training loop, beside the same loop without it.

    python tests/bench/integration_cost.py [--rounds 20] [--batches 60]

docs/benchmarks.md says what is compared, and why that is fair.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from ledger_audit import LedgerWriter
from ledger_audit.integrations.carrying import all_reduce
from ledger_audit.integrations.reading_ahead import ReadAhead
from ledger_audit.integrations.torch import TorchLedger
from ledger_audit.ledger.opening import open_ledger

BARE, LEDGER, AHEAD = WAYS = ("bare", "with a ledger", "with a ledger and ReadAhead")
WIDTH, ROWS, SLOTS, WORKERS, PREFETCH = 512, 64, 2, 2, 4
PAUSE = {8: 0.003, 512: 0.012}
"""Rows → seconds that a micro-batch without a model waits, in which its workers get ahead."""

RANKS = 2
OPENING = 3
"""Sums with which a guard begins, before it compares its first step."""

GUARDED, PLAIN, SUM = "guarded commit", "unguarded commit", "bare all_reduce"


class Rows(Dataset[Any]):
    """A map-style data set that knows nothing of ledgers, and costs next to nothing to read."""

    def __init__(self, count: int) -> None:
        self.count, self.table = count, torch.randn(1024, WIDTH)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.table[index % 1024]


class Loop:
    """One loop of one way: it goes on where its last round ended, and its loader runs ahead."""

    def __init__(self, way: str, folder: Path, rows: int, most: int, pause: float | None) -> None:
        self.way, self.folder, self.rows, self.pause = way, folder, rows, pause
        data = Rows(rows * (most + 2 * WORKERS * PREFETCH))
        sampler: Any = BatchSampler(RandomSampler(data), rows, drop_last=True)
        sampler = ReadAhead(sampler) if way == AHEAD else sampler
        loader = DataLoader(
            data, batch_sampler=sampler, num_workers=WORKERS, prefetch_factor=PREFETCH
        )
        layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()] * (3 if pause is None else 0)
        self.model = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.ledger = None
        if way != BARE:
            self.ledger = TorchLedger(
                folder, loader, optimizer=self.optimizer, accumulation=SLOTS, attempt="a"
            )
        self.batches = iter(loader) if self.ledger is None else self.ledger.batches(epoch=0)
        self.rounds: list[float] = []
        self.nexts: list[float] = []
        self.steps: list[float] = []

    def run(self, count: int) -> None:
        """Train on so many micro-batches; keep the time of one, of next() and of step()."""
        began = time.perf_counter()
        for slot in range(count):
            asked = time.perf_counter()
            batch = next(self.batches)
            self.nexts.append(time.perf_counter() - asked)
            self.model(batch).square().mean().backward()
            if self.pause is not None:
                time.sleep(self.pause)
            if slot % SLOTS == SLOTS - 1:
                ready = time.perf_counter()
                self.optimizer.step()
                self.steps.append(time.perf_counter() - ready)
                self.optimizer.zero_grad()
        self.rounds.append((time.perf_counter() - began) / count)

    def forget(self) -> None:
        """Drop what was timed while all was warming up."""
        for timed in (self.rounds, self.nexts, self.steps):
            timed.clear()

    def close(self, count: int) -> None:
        """
        End the loop and its workers.

        Raises:
            AssertionError: the ledger does not hold every row of so many micro-batches.
        """
        del self.batches
        if self.ledger is not None:
            self.ledger.close()
            records, events, *_ = open_ledger([self.folder]).everything("a")
            assert records["stage"].null_count() == count * self.rows
            assert events.filter(kind="commit").height == count // SLOTS


def loops(folder: Path, rows: int, rounds: int, batches: int, pause: float | None) -> list[Loop]:
    """Run the loops of all ways in turn, round by round, each time another one first."""
    count = batches * (rounds + 1)
    found = [Loop(way, folder / way, rows, count, pause) for way in WAYS]
    for turn in range(rounds + 1):
        for at in range(len(found)):
            found[(turn + at) % len(found)].run(batches)
        if turn == 0:
            for loop in found:
                loop.forget()
    for loop in found:
        loop.close(count)
    return found


def guarded(rank: int, folder: Path, rounds: int, steps: int) -> None:
    """Play one rank: resume the same dead attempt again and again, with a guard and without."""
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=RANKS)
    lengths: list[int] = []
    reduce = all_reduce()

    def counted(values: list[int]) -> Sequence[int]:
        lengths.append(len(values))
        return reduce(values)

    def opened(attempt: str, **options: Any) -> LedgerWriter:
        place = {"rank": rank, "world_size": RANKS, "attempt": attempt, "strict": True}
        return LedgerWriter(folder / "ledger", **place, **options)

    def use(writer: LedgerWriter, step: int) -> None:
        for slot in range(SLOTS):
            first = ((step * SLOTS + slot) * RANKS + rank) * ROWS
            writer.record(step, slot, list(range(first, first + ROWS)))

    dead = opened("dead")
    with dead.checkpoint(0) as cursor:
        pass
    for step in range(1, steps + 1):
        use(dead, step)
        dead.commit(step)
    took: dict[str, list[float]] = {name: [] for name in (GUARDED, PLAIN, SUM, "opening")}
    for turn in range(rounds):
        dist.barrier()
        writers = [
            opened(f"g{turn}", restored=cursor, guard="stop", all_reduce=counted),
            opened(f"p{turn}", restored=cursor),
        ]
        for step in range(1, steps + 1):
            for writer in writers:
                use(writer, step)
            numbers = torch.zeros(lengths[-1] if lengths else 1, dtype=torch.int64)
            acts: list[tuple[str, Callable[[], Any]]] = [
                (GUARDED, lambda s=step: writers[0].commit(s)),
                (PLAIN, lambda s=step: writers[1].commit(s)),
                (SUM, lambda n=numbers: dist.all_reduce(n)),
            ]
            for at in range(len(acts)):
                name, act = acts[(step + at) % len(acts)]
                dist.barrier()
                began = time.perf_counter()
                act()
                lasted = time.perf_counter() - began
                if step > 1:
                    took[name].append(lasted)
                elif name == GUARDED:
                    took["opening"].append(lasted)
        for writer in writers:
            writer.close()
    assert len(lengths) == rounds * (OPENING + steps), "not every step was compared"
    (folder / f"{rank}.json").write_text(json.dumps({"took": took, "numbers": lengths[-1]}))
    dist.destroy_process_group()


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _ratio(loop: Loop, bare: Loop) -> float:
    """Give the median of the ratios to the bare loop, each within one round."""
    return statistics.median(a / b for a, b in zip(loop.rounds, bare.rounds, strict=True))


def tell_loops(folder: Path, rounds: int, batches: int) -> None:
    """Print what a micro-batch takes where a model is trained."""
    say("| loop | median ms a micro-batch | least ms | ratio to bare |")
    say("|---|---|---|---|")
    found = loops(folder / "trained", ROWS, rounds, batches, None)
    for loop in found:
        middle, least = (1e3 * pick(loop.rounds) for pick in (statistics.median, min))
        say(f"| {loop.way} | {middle:.2f} | {least:.2f} | {_ratio(loop, found[0]):.3f} |")


def tell_step_path(folder: Path, rounds: int, batches: int) -> None:
    """Print what the main process spends on batches and updates where nothing is waited for."""
    say("\n| rows | loop | µs next(batches) | µs optimizer.step() | µs added to a micro-batch |")
    say("|---|---|---|---|---|")
    for rows, pause in PAUSE.items():
        bare: tuple[float, ...] | None = None
        for loop in loops(folder / str(rows), rows, rounds, batches, pause):
            asked, stepped = (1e6 * statistics.median(one) for one in (loop.nexts, loop.steps))
            bare = bare or (asked, stepped)
            added = asked - bare[0] + (stepped - bare[1]) / SLOTS
            say(f"| {rows} | {loop.way} | {asked:.0f} | {stepped:.0f} | {added:.0f} |")


def tell_guard(folder: Path, rounds: int, steps: int) -> None:
    """Print what a commit takes while two ranks redo what was rolled back."""
    folder.mkdir()
    mp.spawn(guarded, (folder, rounds, steps), nprocs=RANKS)
    ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]
    took = {
        name: [one for rank in ranks for one in rank["took"][name]] for name in ranks[0]["took"]
    }
    middles = {name: 1e6 * statistics.median(took[name]) for name in (GUARDED, PLAIN, SUM)}
    say("\n| two ranks | median µs | ratio to all_reduce |")
    say("|---|---|---|")
    for name, middle in middles.items():
        what = f"{name} of {ranks[0]['numbers']} int64" if name == SUM else name
        say(f"| {what} | {middle:.0f} | {middle / middles[SUM]:.2f} |")
    first, *later = ranks[0]["took"]["opening"]
    again = f", {1e3 * statistics.median(later):.0f} ms in a process that did before" * bool(later)
    say(f"\nthe first guarded commit reads {steps} steps: {1e3 * first:.0f} ms{again}")


def main() -> None:
    """Print all three tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--batches", type=int, default=60, help="micro-batches a round, even")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        for tell in (tell_loops, tell_step_path, tell_guard):
            tell(Path(scratch) / tell.__name__, options.rounds, options.batches)


if __name__ == "__main__":
    main()
