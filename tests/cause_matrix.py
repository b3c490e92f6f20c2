"""
Counts which cause is named first for random jobs with planted faults: `cause_matrix.py [SEEDS]`.

World sizes, slots, rows, workers, epochs, logged columns and the length of the rolled-back window
are drawn; each fault has its clean twins, of which no cause may be named. Prints a table in
Markdown.
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from faults import FAULTS, make

from ledger_audit import audit
from ledger_audit.errors import LedgerAuditError
from ledger_audit.model import Reading, Verdict


def first_causes(fault: str, seed: int, *, clean: bool) -> list[str]:
    """Name the first cause of each broken resume of a random job; `-` where none is named."""
    job = make(fault, seed, clean=clean)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        run.mkdir()
        (run / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in job.run))
        try:
            report = audit.diff([run], Reading(full=True))
        except LedgerAuditError:
            return []
    broken = [one for one in report.resumes if one.verdict == Verdict.BROKEN]
    own = [[cause.code for cause in one.causes if not cause.is_older] for one in broken]
    return [codes[0] if codes else "-" for codes in own]


def main(seeds: int) -> None:
    """Print fault, broken resumes, and how often each cause came first."""
    sys.stdout.write("| fault | broken | first cause named |\n|---|---|---|\n")
    for fault in FAULTS:
        found: Counter[str] = Counter()
        for seed in range(seeds):
            found.update(first_causes(fault, seed, clean=False))
            wrong = first_causes(fault, seed, clean=True)
            if wrong:
                found[f"CLEAN {wrong}"] += 1
        told = ", ".join(f"{cause} {count}" for cause, count in found.most_common())
        sys.stdout.write(f"| {fault} | {found.total()} | {told} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
