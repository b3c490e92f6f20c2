"""Jobs whose ranks are threads, each with its own writer, and whose sums break and never hang."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ledger_audit import LedgerWriter
from ledger_audit.errors import DivergedError

SIZE = 8
"""Sequences of a global batch."""
SAVED = 3
"""The step at which every rank takes a checkpoint."""
PATIENCE = 8.0
"""Seconds after which a sum that not all ranks take part in breaks."""

LOST: Sequence[Any] = (0.5,) * SIZE
"""Ids that no writer takes."""


@dataclass(frozen=True)
class Act:
    """What all ranks do together: they use samples for a step, then commit or void it."""

    kind: str
    step: int
    ids: Sequence[Any]


@dataclass(frozen=True)
class Launched:
    """What became of one launch, process by process."""

    ends: tuple[str, ...]
    """`done`, `stopped at STEP`, or the name of what went wrong."""
    told: tuple[str, ...]
    """What the guard said to those that it stopped."""
    calls: tuple[int, ...]
    """Sums that each took part in."""
    cursors: Mapping[int, Any]


class _Killed(Exception):  # noqa: N818  # nothing went wrong here: somebody pulled the plug
    pass


class _Sums:
    """An all-reduce between threads."""

    def __init__(self, processes: int) -> None:
        self._barrier = threading.Barrier(processes, timeout=PATIENCE)
        self._given: dict[int, list[int]] = {}
        self.calls = [0] * processes

    def of(self, process: int) -> Callable[[list[int]], list[int]]:
        """Give what one process calls."""

        def reduce(values: list[int]) -> list[int]:
            assert all(abs(value) < 1 << 63 for value in values), "it does not fit into 64 bits"
            self.calls[process] += 1
            self._given[process] = values
            self._barrier.wait()
            found = [sum(column) for column in zip(*self._given.values(), strict=True)]
            self._barrier.wait()
            return found

        return reduce


def batch(number: int, size: int = SIZE) -> list[int]:
    """Give the ids of the n-th global batch of the stream."""
    return list(range(size * number, size * (number + 1)))


def play(script: str, size: int = SIZE) -> list[Act]:
    """Read acts: `c4/5` commits step 4 with the fifth global batch, `v4/4` voids it."""
    kinds = {"c": "commit", "v": "void"}
    told = [(one[0], *map(int, one[1:].split("/"))) for one in script.split()]
    return [Act(kinds[kind], step, batch(number, size)) for kind, step, number in told]


def run(first: int, last: int, *, moved: int | None = None, size: int = SIZE) -> list[Act]:
    """Commit steps in a row; from step `moved` on, each has the next one's samples."""
    ahead = last + 1 if moved is None else moved
    steps = range(first, last + 1)
    return [Act("commit", step, batch(step + (step >= ahead), size)) for step in steps]


def launch(
    root: Path,
    label: str,
    acts: Sequence[Act] | Callable[[int], Sequence[Act]],
    *,
    world: int = 2,
    restored: Any = None,
    each: Callable[[int], dict[str, Any]] = lambda _: {},
    processes: int | None = None,
) -> Launched:
    """
    Run one attempt, and kill it at its end.

    Args:
        root: of the ledger.
        label: of the attempt.
        acts: of all ranks, or what gives those of a process.
        world: ranks that shard data.
        restored: the cursor that all ranks load.
        each: the options of a process's writer that are its own.
        processes: of the job; null: one for each rank.
    """
    count = world if processes is None else processes
    sums = _Sums(count)
    ends, told = ["hangs"] * count, [""] * count
    cursors: dict[int, Any] = {}

    def process(number: int) -> None:
        options = {
            "rank": number,
            "world_size": world,
            "attempt": label,
            "restored": restored,
            "fingerprint": {"global_batch_size": SIZE},
            "guard": "stop",
            "all_reduce": sums.of(number),
            **each(number),
        }
        at = 0
        try:
            with suppress(_Killed), LedgerWriter(root, **options) as ledger:
                for act in acts(number) if callable(acts) else acts:
                    at = act.step
                    _do(act, ledger, cursors, number)
                raise _Killed
            ends[number] = "done"
        except DivergedError as problem:
            ends[number], told[number] = f"stopped at {at}", str(problem)
        except Exception as problem:
            ends[number] = f"{type(problem).__name__} at {at}: {problem}"

    threads = [threading.Thread(target=process, args=(number,)) for number in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(4 * PATIENCE)
    return Launched(tuple(ends), tuple(told), tuple(sums.calls), cursors)


def _do(act: Act, ledger: LedgerWriter, cursors: dict[int, Any], process: int) -> None:
    if act.kind == "membership":
        ledger.membership(act.step, act.ids)
        return
    if act.kind == "declare":
        ledger.declare(act.step, skip={"ids": list(act.ids)}, reason="spoilt")
        return
    ledger.record(act.step, 0, list(act.ids[ledger.rank :: ledger.world_size]))
    if act.kind == "void":
        ledger.void(act.step)
        return
    ledger.commit(act.step)
    if act.step == SAVED:
        saving = ledger.begin_checkpoint(act.step)
        saving.complete()
        saving.wait()
        cursors[process] = saving.cursor


class Drawn:
    """A job that dies, its resume, and what is wrong with either, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        rng = self._rng = random.Random(seed)
        self.before, self.now = rng.choice([1, 2, 4]), rng.choice([1, 2, 4])
        self.last = rng.randint(4, 8)
        self.moved = rng.choice([None, *range(4, self.last + 1)])
        self.fault = rng.choice(["", "", "gone", "torn", "void", "void dead", "lost", "cursor"])
        self.at, self.victim = rng.randint(4, self.last), rng.randrange(4)

    def dead(self, rank: int) -> list[Act]:
        """Give what the attempt did that died."""
        return self._spoilt(run(1, self.last), rank, self.fault == "void dead", self.before)

    def resumed(self, rank: int) -> list[Act]:
        """Give what a rank does after it; who gets which sample of a step is drawn anew."""
        acts = run(4, self.last + 2, moved=self.moved)
        dealt = [replace(act, ids=random.Random(act.step).sample(act.ids, SIZE)) for act in acts]
        return self._spoilt(dealt, rank, self.fault in ("void", "lost"), self.now)

    def _spoilt(self, acts: list[Act], rank: int, is_here: bool, world: int) -> list[Act]:
        is_victim = rank == self.victim % world or (self.fault != "lost" and self.victim > 1)
        if not (is_here and is_victim):
            return acts
        void = {"ids": LOST} if self.fault == "lost" else {"kind": "void"}
        return [replace(act, **void) if act.step == self.at else act for act in acts]

    def damage(self, root: Path) -> None:
        """Lose a file of the dead attempt, or cut one."""
        path = self._rng.choice(sorted(root.glob("attempt=a/events-*")))
        if self.fault == "gone":
            path.unlink()
        elif self.fault == "torn":
            path.write_bytes(path.read_bytes()[: self._rng.randrange(path.stat().st_size)])

    @property
    def is_whole(self) -> bool:
        """Nothing keeps the guard from seeing every step."""
        return not self.fault or (self.fault == "cursor" and self.now == 1)
