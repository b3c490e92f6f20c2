"""
Times what the torch integration costs a training loop, beside the same loop without it.

    python tests/bench/integration_cost.py [--rounds 40] [--batches 20]

docs/benchmarks.md says what is compared, and why that is fair.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from operator import sub, truediv
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

BARE, LEDGER, AHEAD = WAYS = ("bare", "with a ledger", "with a ledger and ReadAhead")
WIDTH, ROWS, SLOTS, WORKERS, PREFETCH = 512, 64, 2, 2, 4
PAUSE = {8: 0.003, 512: 0.012}
"""Rows → seconds that a micro-batch without a model waits, in which its workers get ahead."""

RANKS = 2
OPENING, EXCHANGED = 3, 10
"""Sums with which a guard begins, and the integers that it sums for each step."""

GUARDED, PLAIN = "guarded commit", "unguarded commit"
SUM = f"bare all_reduce of {EXCHANGED} int64"


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
        drawn: Any = BatchSampler(RandomSampler(data), rows, drop_last=True)
        drawn = ReadAhead(drawn) if way == AHEAD else drawn
        loader = DataLoader(
            data, batch_sampler=drawn, num_workers=WORKERS, prefetch_factor=PREFETCH
        )
        layer = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
        layers = layer * (3 if pause is None else 0)  # one layer, applied three times
        self.model = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.ledger = None
        if way != BARE:
            self.ledger = TorchLedger(
                folder, loader, optimizer=self.optimizer, attempt="a", strict=True
            )
        self.batches = iter(loader) if self.ledger is None else self.ledger.batches(epoch=0)
        self.rounds, self.nexts, self.steps = (list[float]() for _ in range(3))

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

    def close(self, count: int) -> None:
        """
        End the loop and its workers.

        Raises:
            AssertionError: the ledger does not hold every row of so many micro-batches.
        """
        from ledger_audit.ledger.opening import open_ledger  # noqa: PLC0415  # a guard loads Polars

        del self.batches
        if self.ledger is not None:
            self.ledger.close()
            records, events, *_ = open_ledger([self.folder]).everything("a")
            found = records["stage"].null_count(), events.filter(kind="commit").height
            assert found == (count * self.rows, count // SLOTS)


def loops(folder: Path, rows: int, rounds: int, batches: int, pause: float | None) -> list[Loop]:
    """Run the loops of all ways in turn, round by round, each time another one first."""
    count = batches * (rounds + 1)
    found = [Loop(way, folder / way, rows, count, pause) for way in WAYS]
    for turn in range(rounds + 1):
        for at in range(len(found)):
            found[(turn + at) % len(found)].run(batches)
        if turn == 0:
            for loop in found:
                for timed in (loop.rounds, loop.nexts, loop.steps):
                    timed.clear()  # all was warming up
    for loop in found:
        loop.close(count)
    return found


def opened(folder: Path, attempt: str, **options: Any) -> LedgerWriter:
    """Begin an attempt of this rank."""
    place = {"rank": dist.get_rank(), "world_size": RANKS, "attempt": attempt}
    return LedgerWriter(folder / "ledger", **place, strict=True, **options)


def use(writer: LedgerWriter, step: int) -> None:
    """Record what this rank uses for a step."""
    for slot in range(SLOTS):
        first = ((step * SLOTS + slot) * RANKS + writer.rank) * ROWS
        writer.record(step, slot, list(range(first, first + ROWS)))


def redo(acts: dict[str, Callable[[int], Any]], step: int) -> dict[str, float]:
    """Time what is done for a step, one act after the other, each begun by all ranks at once."""
    took = {}
    for at in range(len(acts)):
        name = list(acts)[(step + at) % len(acts)]
        dist.barrier()
        began = time.perf_counter()
        acts[name](step)
        took[name] = time.perf_counter() - began
    return took


def play(rank: int, folder: Path, rounds: int, steps: int) -> None:
    """Play one rank: resume the same dead attempt again and again, with a guard and without."""
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=RANKS)
    dead = opened(folder, "dead")
    with dead.checkpoint(0) as cursor:
        pass
    for step in range(1, steps + 1):
        use(dead, step)
        dead.commit(step)
    lengths: list[int] = []
    total = torch.zeros(EXCHANGED, dtype=torch.int64)

    def counted(values: list[int]) -> Any:
        lengths.append(len(values))
        return all_reduce(values)

    took: list[dict[str, float]] = []
    for turn in range(rounds):
        dist.barrier()
        guarded = opened(folder, f"g{turn}", restored=cursor, guard="stop", all_reduce=counted)
        plain = opened(folder, f"p{turn}", restored=cursor)
        acts = {GUARDED: guarded.commit, PLAIN: plain.commit, SUM: lambda _: dist.all_reduce(total)}
        for step in range(1, steps + 1):
            use(guarded, step)
            use(plain, step)
            took.append(redo(acts, step))
        guarded.close()
        plain.close()
    assert (rounds * (OPENING + steps), EXCHANGED) == (len(lengths), lengths[-1])
    (folder / f"{rank}.json").write_text(json.dumps(took))
    dist.destroy_process_group()


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def tell_loops(folder: Path, rounds: int, batches: int) -> None:
    """Print what a micro-batch takes where a model is trained."""
    say("| loop | median ms a micro-batch | least ms | ratio to bare | files of samples |")
    say("|---|---|---|---|---|")
    found = loops(folder, ROWS, rounds, batches, None)
    for loop in found:
        middle, least = (1e3 * pick(loop.rounds) for pick in (statistics.median, min))
        files = len(list(loop.folder.rglob("samples-*"))) or ""
        ratio = statistics.median(map(truediv, loop.rounds, found[0].rounds))
        say(f"| {loop.way} | {middle:.2f} | {least:.2f} | {ratio:.3f} | {files} |")


def tell_step_path(folder: Path, rounds: int, batches: int) -> None:
    """Print what the main process spends on batches and updates where nothing is waited for."""
    say("\n| rows | loop | µs next(batches) | µs optimizer.step() | µs added to a micro-batch |")
    say("|---|---|---|---|---|")
    for rows, pause in PAUSE.items():
        found = loops(folder / str(rows), rows, rounds, batches, pause)
        for loop in found:
            asked, stepped = (1e6 * statistics.median(one) for one in (loop.nexts, loop.steps))
            pairs = (loop.nexts, found[0].nexts), (loop.steps, found[0].steps)  # of one round
            more = [1e6 * statistics.median(map(sub, *pair)) for pair in pairs]
            added = more[0] + more[1] / SLOTS
            say(f"| {rows} | {loop.way} | {asked:.0f} | {stepped:.0f} | {added:.0f} |")


def tell_guard(folder: Path, rounds: int, steps: int) -> None:
    """Print what a commit takes while two ranks redo what was rolled back."""
    folder.mkdir()
    mp.spawn(play, (folder, rounds, steps), nprocs=RANKS)
    ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]
    later = [one for took in ranks for at, one in enumerate(took) if at % steps]
    middles = {name: 1e6 * statistics.median(one[name] for one in later) for name in later[0]}
    say("\n| two ranks | median µs | ratio to all_reduce |")
    say("|---|---|---|")
    for name in (GUARDED, PLAIN, SUM):
        say(f"| {name} | {middles[name]:.0f} | {middles[name] / middles[SUM]:.2f} |")
    first = 1e3 * ranks[0][0][GUARDED]
    say(f"\nthe first guarded commit loads Polars and reads {steps} steps: {first:.0f} ms")


def main() -> None:
    """Print all three tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--batches", type=int, default=20, help="micro-batches a round, even")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        for tell in (tell_loops, tell_step_path, tell_guard):
            tell(Path(scratch) / tell.__name__, options.rounds, options.batches)


if __name__ == "__main__":
    main()
