"""Removing evidence never makes a verdict better, and never makes one broken."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import FALSE_ALARMS, FIXTURES
from faults import FAULTS, make
from native import Line, read_lines
from running import ledger_audit

EXCUSES = {"declare", "lost"}
"""Events that excuse: without them, what they excuse is a fault."""

KEYS_THAT_ARE_READ_AS_ABSENT = {"workers", "sampler", "dataset_samples"}
"""docs/decisions/0007: a ledger without them is read as if there were none to know."""


def without_a_rank(lines: list[Line], rng: random.Random) -> Iterator[tuple[str, list[Line]]]:
    """Lose the whole ledger of a rank, in one attempt and in all."""
    ranks = sorted({line["rank"] for line in lines})
    if len(ranks) < 2:
        return
    rank = rng.choice(ranks)
    yield f"rank {rank}", [line for line in lines if line["rank"] != rank]
    for attempt in sorted({line["attempt"] for line in lines}):
        left = [line for line in lines if (line["attempt"], line["rank"]) != (attempt, rank)]
        if any(line["attempt"] == attempt for line in left):
            yield f"rank {rank} of attempt {attempt}", left


def without_an_event(lines: list[Line], rng: random.Random) -> Iterator[tuple[str, list[Line]]]:
    """Lose one event of each kind."""
    kinds = sorted({line["kind"] for line in lines} - {"sample"} - EXCUSES)
    for kind in kinds:
        place = rng.choice([n for n, line in enumerate(lines) if line["kind"] == kind])
        yield f"{kind} in line {place}", lines[:place] + lines[place + 1 :]


def without_a_key(lines: list[Line], _: random.Random) -> Iterator[tuple[str, list[Line]]]:
    """Lose one key of the fingerprint, in every start event."""
    starts = [line for line in lines if line["kind"] == "start"]
    keys = {key for line in starts for key in (line["data"].get("fingerprint") or {})}
    for key in sorted(keys - KEYS_THAT_ARE_READ_AS_ABSENT):
        left = copy.deepcopy(lines)
        for line in left:
            if line["kind"] == "start":
                (line["data"].get("fingerprint") or {}).pop(key, None)
        yield f"fingerprint key {key}", left


Removal = Callable[[list[Line], random.Random], Iterator[tuple[str, list[Line]]]]
REMOVALS: tuple[Removal, ...] = (without_a_rank, without_an_event, without_a_key)


def write(lines: list[Line], folder: Path) -> Path:
    """Write lines as one JSON Lines file."""
    folder.mkdir(exist_ok=True)
    (folder / "all.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def judged(run: Path, control: Path | None) -> dict[str, Any]:
    """Judge a run by itself, or by a control."""
    command = ("diff", "--full") if control is None else ("gate", control)
    report = ledger_audit(*command, run, "--format", "json").report
    assert isinstance(report, dict)
    return report


def check(lines: list[Line], control: Path | None, tmp_path: Path, seed: int) -> None:
    """Remove one thing after the other, and compare verdicts."""
    rng = random.Random(seed)
    removals: tuple[Removal, ...] = REMOVALS
    before = judged(write(lines, tmp_path / "whole"), control)
    if any("mixed-attempt" in _limits(one) for one in before["resumes"]):
        removals = (without_a_key,)  # without one side of a contradiction, there is none
    for removal in removals:
        for what, left in removal(lines, rng):
            after = judged(write(left, tmp_path / "less"), control)
            verdicts = before["verdict"], after["verdict"]
            assert verdicts not in (("continuous", "broken"), ("unproven", "broken")), what
            if removal is not without_an_event or _windows(before) == _windows(after):
                assert verdicts[1] != "continuous" or verdicts[0] == "continuous", what


def _limits(resume: dict[str, Any]) -> set[str]:
    return {limit["code"] for limit in resume["limits"]}


def _windows(report: dict[str, Any]) -> list[Any]:
    judged = [*report["resumes"], *filter(None, [report.get("stream")])]
    return [(one["windows"], one["reference"], one["to_attempt"]) for one in judged]


@pytest.mark.parametrize(
    "folder",
    [*sorted((FIXTURES / "traps").iterdir()), *FALSE_ALARMS],
    ids=lambda folder: folder.name,
)
def test_less_evidence_never_decides_a_tiny_ledger(folder: Path, tmp_path: Path) -> None:
    """Of each trap and each false alarm, by its control if it has one."""
    control = folder / "control"
    check(read_lines(folder / "run"), control if control.exists() else None, tmp_path, seed=1)


@pytest.mark.parametrize("fault", FAULTS)
def test_less_evidence_never_decides_a_random_job(fault: str, tmp_path: Path) -> None:
    """Of random jobs, planted or clean, by themselves or by their control, in turns."""
    turn = FAULTS.index(fault)
    seed, clean = ((11, False), (12, True))[turn % 2]
    job = make(fault, seed, clean=clean)
    _, control = job.write(tmp_path / "job")
    by = control if turn // 2 % 2 == 0 else None
    check([dict(line) for line in job.run], by, tmp_path, seed)
