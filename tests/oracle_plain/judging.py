"""The whole path, from a folder to what is said of every resume."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from oracle_plain.case import Case, choose_columns, drop_wrong_epoch
from oracle_plain.expected import classify_expected
from oracle_plain.later import control_differs
from oracle_plain.lineage import END, Link, Part, ancestry, kept, lineage
from oracle_plain.matching import match
from oracle_plain.order import out_of_order, positions
from oracle_plain.reading import read
from oracle_plain.resumed import classify_resumed
from oracle_plain.verdict import limits, shift, through_step, verdict

RESUMED = (
    "void",
    "in-place",
    "moved",
    "padding",
    "replayed",
    "duplicated",
    "repeat-unexplained",
    "unexpected",
    "fresh",
)


EXPECTED = ("matched", "declared", "repeat-missing", "skipped", "pending", "undecided")


def judge_resume(case: Case) -> dict[str, Any]:
    """Audit one resume whose windows are known."""
    drop_wrong_epoch(case)
    match(case)
    classify_resumed(case)
    classify_expected(case)
    disorder, block = out_of_order(case), positions(case)
    found = limits(case, block, disorder)
    word = verdict(case, block, disorder, found)
    if case.to.assumed:
        case.notes.add("commits-assumed")
    places = [(row, case.mate[row]) for row in case.resumed if case.outcome[row] == "in-place"]
    misplaced = sum(1 for row, mate in places if (row.rank, row.slot) != (mate.rank, mate.slot))
    resumed = Counter(case.outcome[row] for row in case.resumed)
    expected = Counter(case.outcome[row] for row in case.reference)
    return {
        "reference": case.kind,
        "windows": {
            "committed": len(case.committed),
            "reference": len(case.reference),
            "resumed": len(case.resumed),
        },
        "outcomes": {
            "resumed": {name: resumed[name] for name in RESUMED},
            "expected": {name: expected[name] for name in EXPECTED},
            "overlays": {"misplaced": misplaced, "out-of-order": disorder},
        },
        "shift": shift(case, disorder),
        "verdict": word,
        "from_attempt": case.parent.label,
        "to_attempt": case.to.label,
        "checkpoint_step": case.at,
        "positions": block,
        "through_step": through_step(case, word, block),
        "limits": found,
        "notes": sorted(case.notes),
    }


def build(
    chain: list[Link], nth: int, order: str, control: list[Part] | None, died: list[Part]
) -> Case:
    """Cut the windows of the nth resume, against the control or else the rolled-back window."""
    link = chain[nth]
    parent = link.parent or chain[nth - 1].attempt
    until = chain[nth + 1].at if nth + 1 < len(chain) else END
    past = kept(chain[:nth], link.at)
    # Decision: where C lies before the parent's own start, its whole lineage was rolled back.
    kind, source = ("control", control) if control else ("rolled-back", died)
    case = Case(parent, link.attempt, link.at, order, past, until, kind, source)
    choose_columns(case)
    return case


def judge(
    run: Path, control: Path | None = None, order: str | None = None, stream: str | None = None
) -> list[dict[str, Any]]:
    """Judge every resume, oldest first: `gate` with a control, `diff --full` without."""
    attempts = read(Path(run), stream)
    chain = lineage(attempts)
    contract = order or ("relative" if control is None else "step")
    parts = kept(lineage(read(Path(control), stream)), END) if control is not None else None
    reports = []
    for nth in range(1, len(chain)):
        died = kept(ancestry(attempts, chain[nth].parent or chain[nth - 1].attempt), END)
        case = build(chain, nth, contract, parts, died)
        if parts and control_differs(case, parts):
            case = build(chain, nth, contract, None, died)
            case.notes.add("control-differs")
        reports.append(judge_resume(case))
    return reports
