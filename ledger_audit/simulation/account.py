"""
Counts what the ledger of a simulation holds, and checks its steps.

The checks are those that need no sample ids: step numbers, sizes, commits.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.reader import Ledger
from ledger_audit.simulation.process import DEAD, RESUMED


@dataclass(frozen=True)
class Check:
    """One thing that can be seen from step numbers, counts and commits."""

    told: str
    passes: bool


@dataclass(frozen=True)
class Account:
    """The surviving steps: of the dead attempt up to the checkpoint, then of the resumed one."""

    starts: Mapping[str, Mapping[str, Any]]
    """What the lowest rank of each attempt said at its start."""
    died_in: tuple[int, int, int]
    """Step, slot and rank of the last record of the dead attempt."""
    claim: Mapping[str, Any]
    """What the lowest rank said of its position when the loaded checkpoint was saved."""
    records: Mapping[int, int]
    """Records of each surviving step."""
    finished: Mapping[int, Mapping[int, tuple[str, ...]]]
    """Step → rank → how its tries ended: `commit` or `void`."""
    epoch: int
    """The epoch at the checkpoint."""
    epoch_used: int
    """Records of that epoch up to the checkpoint."""
    files: int

    @property
    def checkpoint_step(self) -> int:
        """The step that the loaded checkpoint holds."""
        step: int = self.starts[RESUMED]["resumed_from"]["step"]
        return step

    @property
    def batch(self) -> int:
        """Records of most steps."""
        return Counter(self.records.values()).most_common(1)[0][0]

    @property
    def used(self) -> int:
        """Records up to the checkpoint."""
        return sum(n for step, n in self.records.items() if step <= self.checkpoint_step)

    @property
    def voids(self) -> tuple[int, ...]:
        """Steps that some rank threw away."""
        return tuple(
            step
            for step, ranks in sorted(self.finished.items())
            if any("void" in ends for ends in ranks.values())
        )

    @property
    def silent(self) -> tuple[int, ...]:
        """Ranks of the dead attempt that left nothing."""
        heard = {
            rank
            for step, ranks in self.finished.items()
            if step <= self.checkpoint_step
            for rank in ranks
        }
        return tuple(rank for rank in range(self.world(1)) if rank not in heard)

    def world(self, step: int) -> int:
        """Give how many ranks there are in a step."""
        attempt = DEAD if step <= self.checkpoint_step else RESUMED
        world: int = self.starts[attempt]["world_size"]
        return world


def count(folder: Path) -> Account:
    """Count what a ledger of two attempts holds."""
    ledger = open_ledger([folder])
    acts = [(row, json.loads(row["data"])) for row in ledger.acts().iter_rows(named=True)]
    acts.sort(key=lambda act: (act[0]["rank"], act[0]["seq"]))
    starts: dict[str, Mapping[str, Any]] = {}
    for row, data in acts:
        if row["kind"] == "start":
            starts.setdefault(row["attempt"], data)
    step = starts[RESUMED]["resumed_from"]["step"]
    dead = list(ledger.records(DEAD, 1).iter_rows(named=True))
    epochs = Counter(row["epoch"] for row in dead if row["step"] <= step)
    saved = (
        data["claim"]
        for row, data in acts
        if (row["kind"], row["attempt"], row["step"]) == ("checkpoint", DEAD, step)
    )
    return Account(
        starts=starts,
        died_in=max((row["step"], row["slot"], row["rank"]) for row in dead),
        claim=next(saved),
        records=_records(ledger, step),
        finished=_finished(ledger, step),
        epoch=max(epochs),
        epoch_used=epochs[max(epochs)],
        files=len(ledger.files),
    )


def _records(ledger: Ledger, step: int) -> dict[int, int]:
    found: Counter[int] = Counter()
    for rows in (ledger.records(DEAD, 1, step), ledger.records(RESUMED, step + 1)):
        found.update(rows["step"])
    return dict(sorted(found.items()))


def _finished(ledger: Ledger, step: int) -> dict[int, dict[int, tuple[str, ...]]]:
    found: dict[int, dict[int, tuple[str, ...]]] = {}
    for rows in (ledger.tries(DEAD, 1, step), ledger.tries(RESUMED, step + 1)):
        for row in rows.iter_rows(named=True):
            ranks = found.setdefault(row["step"], {})
            ranks[row["rank"]] = (*ranks.get(row["rank"], ()), row["kind"])
    return dict(sorted(found.items()))


def check_steps(account: Account) -> tuple[Check, ...]:
    """Check what step numbers, counts and commits can tell."""
    return (_check_counter(account), _check_sizes(account), _check_commits(account))


def _check_counter(account: Account) -> Check:
    steps = sorted({*account.records, *account.finished})
    absent = sorted({*range(1, steps[-1] + 1)} - {*steps})
    if absent:
        return Check(f"of steps 1-{steps[-1]}, nothing is there of {ranges(absent)}", passes=False)
    return Check(f"steps {ranges(steps)} follow each other, none is missing", passes=True)


def _check_sizes(account: Account) -> Check:
    sizes = [
        (size, [step for step, _ in group])
        for size, group in groupby(account.records.items(), key=lambda item: item[1])
    ]
    if len(sizes) == 1:
        return Check(f"every step holds {sizes[0][0]} samples", passes=True)
    told = ", ".join(f"{size} samples in steps {ranges(steps)}" for size, steps in sizes)
    return Check(f"steps differ in size: {told}", passes=False)


def _check_commits(account: Account) -> Check:
    wrong: dict[int, set[int]] = {}
    for step, ranks in account.finished.items():
        ends = {rank: ranks.get(rank, ()) for rank in range(account.world(step))}
        end_of_most = Counter(ends.values()).most_common(1)[0][0]
        odd = {rank for rank, end in ends.items() if end != end_of_most or len(end) != 1}
        if odd:
            wrong[step] = odd
    if wrong:
        who = ranges(sorted(set().union(*wrong.values())))
        told = f"not every step is finished once: rank {who} differs in steps {ranges(wrong)}"
        return Check(told, passes=False)
    told = "every rank committed every step exactly once"
    if account.voids:
        told += f", except step {ranges(account.voids)}, which all threw away"
    return Check(told, passes=True)


def ranges(numbers: Iterable[int]) -> str:
    """Tell ascending numbers as ranges: `1-5, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
