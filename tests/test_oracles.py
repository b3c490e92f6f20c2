"""
The product against two oracles and against what was planted, on some hundred random jobs.

The oracles were written from the definitions and not from the product: one in plain Python with
lists and loops, one in SQL.
"""

from pathlib import Path
from typing import Any

import oracle_plain
import oracle_sql
import pytest
from faults import FAULTS, make
from jobs import Job
from running import flat, ledger_audit, outcomes_of

SEEDS = range(3)
SQL_SEEDS = range(1)


def told_by_product(run: Path, control: Path | None) -> dict[str, Any]:
    """Judge a run by the program, all of it."""
    command = ("diff", "--full") if control is None else ("gate", control)
    ran = ledger_audit(*command, run, "--format", "json")
    assert ran.code in (0, 1, 3), ran.err
    return ran.report


def as_flat(resumes: list[dict[str, Any]], report: dict[str, Any]) -> list[dict[str, Any]]:
    """
    Give an oracle's answer in the flat shape, without what only one oracle tells.

    Where ranks are not logged the program says null to holes and shift in positions, the oracles
    count what the logged ranks show.
    """
    kept = ("reference", "windows", "outcomes", "shift", "verdict", "checkpoint_step", "positions")
    found = []
    for one, told in zip(resumes, report["resumes"], strict=True):
        oracle = flat({name: one[name] for name in kept})
        if "ranks-not-logged" in {limit["code"] for limit in told["limits"]}:
            unknown = ("positions.shift", "positions.holes")
            oracle |= {name: None for name in unknown if name in oracle}
        found.append(oracle)
    return found


def product_as_flat(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the program's answer in the flat shape."""
    found = []
    for resume in report["resumes"]:
        outcomes = outcomes_of(resume)
        for name in ("from_attempt", "to_attempt"):
            del outcomes[name]
        found.append(outcomes | flat({"positions": resume["positions"]}))
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_the_product_agrees_with_both_oracles_and_the_plant(fault: str, tmp_path: Path) -> None:
    """Each count, shift, position and verdict; nothing legal is broken, no plant passes a gate."""
    for seed in SEEDS:
        for clean in (False, True):
            job = make(fault, seed, clean=clean)
            run, control = job.write(tmp_path / f"{seed}{clean}")
            for against, key in ((None, "broken"), (control, "gate")):
                where = (fault, seed, clean, key)
                report = told_by_product(run, against)
                product = product_as_flat(report)
                assert as_flat(oracle_plain.judge(run, against), report) == product, where
                if seed in SQL_SEEDS:
                    assert as_flat(oracle_sql.judge(run, against), report) == product, where
                check_plant(job, key, report, where)


def check_plant(job: Job, key: str, report: dict[str, Any], where: tuple[object, ...]) -> None:
    """What is legal is never broken; what is wrong is never continuous up to where it is wrong."""
    if job.truth.get(key) is False:
        assert report["verdict"] != "broken", where
    if key == "gate" and job.truth.get(key) is True and report["verdict"] == "continuous":
        reached = max((one["through_step"] or 0 for one in report["resumes"]), default=0)
        assert reached < job.truth["at_step"], where
