"""
Counts which cause is named first for faults in random jobs: `cause_matrix.py [JOBS] [--write]`.

World sizes, slots, rows, workers, passes, logged columns and the length of the rolled-back window
are drawn. Faults are planted twice over: by the program's own selftest into random clean jobs,
and by the simulator of these tests, which knows nothing of it. Prints the tables of
docs/cause-matrix.md, in Markdown; `--write` puts them there.
"""

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import Pool
from pathlib import Path

from faults import FAULTS, make

from ledger_audit import audit
from ledger_audit.errors import LedgerAuditError, UsageError
from ledger_audit.model import Reading, Verdict
from ledger_audit.model.selftest import Shown, Trial
from ledger_audit.planting import FAULTS as CAUSES
from ledger_audit.planting import Stretch, cut, untouched
from ledger_audit.selftest import judged, tried
from ledger_audit.sources import open_source


@dataclass(frozen=True)
class Told:
    """What was named of one planted fault."""

    fault: str
    is_sure: bool
    """The untouched copy is proven to be right."""
    shown: Shown
    first: str


ENOUGH = 0.95
LEAST = 10
"""Steps of a random job: of fewer, most faults look like others."""
SIMULATED = {
    "partial-accumulation": "partial-accumulation-lost",
    "prefetch-loss": "prefetch-counted",
    "stale-rank": "rank-cursor-stale",
    "void-before-checkpoint": "void-steps-rewound",
    "reseed": "shuffle-changed",
    "older-checkpoint": "stale-cursor",
}
"""Fault of the simulator → its cause."""
PAGE = Path(__file__).parent.parent / "docs" / "cause-matrix.md"
MARK = "## The last result\n"


def random_stretch(seed: int) -> Stretch | None:
    """Draw a clean job, what it logs and when it dies; null: it is too short to fail."""
    job = make(FAULTS[seed % len(FAULTS)], seed, clean=True)
    rng = random.Random(f"matrix/{seed}")
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), job.control)
        try:
            stretch = cut(open_source([Path(folder)], Reading()), most_steps=64)
        except UsageError:
            return None
    if stretch.steps < LEAST:
        return None
    more = {"dataset": "one", "prefetch_factor": rng.randint(1, 3), "shuffle_buffer": 64}
    drawn = {key: value for key, value in more.items() if rng.random() < 0.5}
    known = {**stretch.attempt.fingerprint, **drawn}
    attempt = replace(stretch.attempt, fingerprint=known)
    return replace(stretch, attempt=attempt, dies_at=rng.uniform(0.5, 0.95))


def named_by_selftest(seed: int) -> list[Told]:
    """Give, for every fault that the job of this seed can show, what is named."""
    stretch = random_stretch(seed)
    if stretch is None:
        return []
    is_sure = judged(untouched(stretch), stretch)[-1].verdict == Verdict.CONTINUOUS
    trials = [tried(fault, stretch) for fault in CAUSES]
    return [
        Told(one.fault, is_sure, one.shown, _first(one))
        for one in trials
        if one.shown != Shown.NOT_PLANTED
    ]


def _first(one: Trial) -> str:
    own = [cause.code for cause in one.causes if not cause.is_older]
    return own[0] if own else f"{one.verdict}, no cause"


def first_causes(fault: str, seed: int, *, clean: bool) -> list[str]:
    """Name the first cause of each broken resume of a random job; `-` where none is named."""
    job = make(fault, seed, clean=clean)
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), job.run)
        try:
            report = audit.diff([Path(folder)], Reading(full=True))
        except LedgerAuditError:
            return []
    broken = [one for one in report.resumes if one.verdict == Verdict.BROKEN]
    own = [[cause.code for cause in one.causes if not cause.is_older] for one in broken]
    return [codes[0] if codes else "-" for codes in own]


def named_of_simulated(seed: int) -> list[Told]:
    """Give what is named first of the simulator's faults, and of their clean twins."""
    told = []
    for fault, cause in SIMULATED.items():
        for named in first_causes(fault, seed, clean=False):
            shown = Shown.FIRST if named == cause else Shown.OTHER
            told.append(Told(cause, True, shown, named))
        for named in first_causes(fault, seed, clean=True):
            told.append(Told("no fault", True, Shown.OTHER, named))
    return told


def table(found: Sequence[Told], faults: Sequence[str]) -> Iterator[str]:
    """Give the rows of a table: fault, how many, the share that is named first, and the others."""
    yield "| fault | jobs | named first | beside | otherwise |\n|---|---|---|---|---|\n"
    for fault in faults:
        own = [one for one in found if one.fault == fault]
        shown = Counter(one.shown for one in own)
        share = f"{100 * shown[Shown.FIRST] / len(own):.1f} %" if own else "-"
        rest = Counter(one.first for one in own if one.shown != Shown.FIRST)
        others = ", ".join(f"{first} {n}" for first, n in rest.most_common())
        mark = " (*)" if own and shown[Shown.FIRST] < ENOUGH * len(own) else ""
        yield f"| `{fault}` | {len(own)} | {share}{mark} | {shown[Shown.BESIDE]} | {others} |\n"


def _write(folder: Path, lines: tuple[dict[str, object], ...]) -> None:
    (folder / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def main(jobs: int, *, writes: bool) -> None:
    """Print both tables, or put them into the page."""
    with Pool(2) as pool:
        own = [one for told in pool.imap(named_by_selftest, range(jobs), 4) for one in told]
        twice = [one for told in pool.imap(named_of_simulated, range(jobs // 4), 4) for one in told]
    sure, unsure = [one for one in own if one.is_sure], [one for one in own if not one.is_sure]
    text = f"{jobs} random jobs, faults planted by `selftest`, the untouched copy is proven:\n\n"
    text += "".join(table(sure, tuple(CAUSES)))
    text += "\nThe same, where the log does not suffice to prove the untouched copy:\n\n"
    text += "".join(table(unsure, tuple(CAUSES)))
    text += f"\n{jobs // 4} random jobs of each fault that the simulator of the tests plants:\n\n"
    text += "".join(table(twice, (*SIMULATED.values(), "no fault")))
    sys.stdout.write(text)
    if writes:
        before = PAGE.read_text(encoding="utf-8").split(MARK)[0]
        PAGE.write_text(f"{before}{MARK}\n{text}", encoding="utf-8")


if __name__ == "__main__":
    numbers = [one for one in sys.argv[1:] if one.isdecimal()]
    main(int(numbers[0]) if numbers else 300, writes="--write" in sys.argv)
