"""Every case of a cause: a fault that was reported in public or planted, or its clean twin."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, ROOT
from running import ledger_audit

from ledger_audit.continuity.causes import CAUSES

TOLD: dict[str, dict[str, Any]] = {
    case.name: told
    for case in sorted((FIXTURES / "cases").iterdir())
    if "reports" in (told := json.loads((case / "expected.json").read_text()))
}
CASE_FOLDERS = [FIXTURES / "cases" / name for name in TOLD]
REPORTED = {
    *("C01", "C02", "C03", "C04", "C05", "C06", "C07", "C08", "C09", "C10", "C11", "C12", "C13"),
    *("C15", "C18", "C19", "C21", "C22", "C25", "C26", "C27", "C28", "C29", "C30", "C31", "C32"),
    *("C33", "C34", "C35", "C36", "C37", "C38", "C39", "C39b"),
    *("C14", "C16", "C17", "C20", "C23", "C24", "C50", "C51", "C52", "C53"),
    *("C40", "C41", "C42", "C43", "C44", "C45", "C46", "C54", "C55", "C56", "C57", "C58"),
    *("C59", "C60", "C61", "C62", "C63", "C64", "C65", "C66", "C67", "C68", "C74"),
    *("C70", "C71", "C72", "C73", "C80", "C81", "C82", "C83", "C84", "C85"),
}
"""The reports that have a case."""


def asked(*names: str) -> list[Any]:
    """List every command with one of these names, each with its case."""
    return [
        pytest.param(case, command, id=f"{case.name}: {' '.join(command['args'])}")
        for case in CASE_FOLDERS
        for command in TOLD[case.name]["commands"]
        if command["args"][0] in names
    ]


def answered(case: Path, command: dict[str, Any]) -> dict[str, Any]:
    """Run a command on its case, see that its exit code is right, and give its report."""
    name, *arguments = command["args"]
    paths = [case / one if (case / one).exists() else one for one in arguments]
    ran = ledger_audit(name, *paths, "--format", "json")
    assert command["exit"] == ran.code, ran.err
    return ran.report


@pytest.mark.parametrize(("case", "command"), asked("diff", "gate"))
def test_the_stream_is_judged_as_worked_out_by_hand(case: Path, command: dict[str, Any]) -> None:
    """Verdict, clauses, counts, what blocks, notes and changes are those of `expected.json`."""
    report = answered(case, command)

    assert command["verdict"] == report["verdict"]
    verdicts = {one["clause"]: one["verdict"] for one in report["clauses"]}
    assert command["clauses"] == {name: verdicts[name] for name in command["clauses"]}
    assert len(command["resumes"]) == len(report["resumes"])
    for wanted, resume in zip(command["resumes"], report["resumes"], strict=True):
        assert wanted == told_of(resume, wanted)
        assert command["changes"] == [one["key"] for one in resume["fingerprint_changes"]]
    limits = [one for resume in report["resumes"] for one in resume["limits"]]
    assert set(command["limits"]) == {one["code"] for one in limits if one["blocks"]}
    assert set(command["notes"]) <= {one["code"] for one in limits if not one["blocks"]}


def told_of(resume: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Give what a report says of a resume in the shape of `expected.json`, as far as is asked."""
    told: dict[str, Any] = {
        "checkpoint_step": resume["checkpoint_step"],
        "verdict": resume["verdict"],
        "shift": resume["shift"]["records"],
        "cause": next((one["code"] for one in resume["causes"] if not one["before_failure"]), None),
        "older": [one["code"] for one in resume["causes"] if one["before_failure"]],
        "outcomes": {
            kind: {name: amount["records"] for name, amount in counts.items() if amount["records"]}
            for kind, counts in resume["outcomes"].items()
        },
        "claims": {
            pair: sorted({one["agreement"] for one in resume["claims"] if one["pair"] == pair})
            for pair in wanted.get("claims", {})
        },
    }
    return {name: told[name] for name in wanted}


@pytest.mark.parametrize(
    ("case", "command"),
    [one for one in asked("diff") if "forbidden" in one.values[1]],
)
def test_what_is_forbidden_names_its_list_and_since_when(
    case: Path, command: dict[str, Any]
) -> None:
    """A leak names the list, the attempt that began it, and whether the split was drawn anew."""
    report = answered(case, command)

    found = report["forbidden"]["lists"]
    told = [
        {name: one[name] for name in wanted}
        for wanted, one in zip(command["forbidden"], found, strict=True)
    ]
    assert command["forbidden"] == told


@pytest.mark.parametrize(("case", "command"), asked("checkpoints"))
def test_the_newest_whole_checkpoint_is_weighed(case: Path, command: dict[str, Any]) -> None:
    """Its claim, its label and what a resume would do are those of `expected.json`."""
    report = answered(case, command)

    wanted, place = command["newest_whole"], report["newest_whole"]
    assert (wanted["attempt"], wanted["step"]) == (place["attempt"], place["step"])
    newest = next(
        one
        for one in report["checkpoints"]
        if all(one[key] == place[key] for key in ("attempt", "step", "nth"))
    )
    assert (wanted["agreement"], wanted["ahead"]) == (newest["agreement"], newest["ahead"])
    assert wanted.get("label", "agrees") == newest["label"]["state"]
    said = " ".join([*newest["because"], newest["claim"]["text"]])
    assert [] == [words for words in wanted["says"] if words not in said]
    assert [] == [words for words in wanted.get("silent_on", []) if words in said]
    notes = " ".join(newest["claim"]["notes"])
    assert [] == [words for words in wanted.get("notes", []) if words not in notes]


def test_every_report_has_a_case() -> None:
    """Every report has a case, and every twin names the case that it is a twin of."""
    faults = {name: told for name, told in TOLD.items() if "twin_of" not in told}
    assert REPORTED == {number for told in faults.values() for number in told["from"]}
    assert {told["twin_of"] for told in TOLD.values() if "twin_of" in told} <= TOLD.keys()


@pytest.mark.parametrize("case", CASE_FOLDERS, ids=lambda case: case.name)
def test_a_case_is_told_in_the_documentation(case: Path) -> None:
    """A case has its reason beside it, and its row names the reports and every verdict."""
    page = (ROOT / "docs" / "reported-faults.md").read_text()
    rows = [one for one in page.splitlines() if one.startswith("|") and f"`{case.name}`" in one]

    assert (case / "why.txt").read_text().strip()
    assert 1 == len(rows)
    for report in TOLD[case.name]["reports"]:
        assert report in rows[0]
    for command in TOLD[case.name]["commands"]:
        verdict = command.get("verdict") or command["newest_whole"]["agreement"]
        assert f"`{' '.join(command['args'])}`: {verdict}, {command['exit']}" in rows[0]
    assert [] == [cause for cause in _causes(TOLD[case.name]) if f"`{cause}`" not in rows[0]]


def _causes(told: dict[str, Any]) -> set[str]:
    """Collect the causes that a case expects: the first of each resume, and older ones."""
    resumes = [one for command in told["commands"] for one in command.get("resumes", [])]
    first = {one["cause"] for one in resumes if one.get("cause")}
    return first | {cause for one in resumes for cause in one.get("older", [])}


@pytest.mark.parametrize("slug", CAUSES)
def test_every_cause_has_a_case_and_a_clean_twin(slug: str) -> None:
    """It is planted, or was reported; and the same job, resumed rightly, has no cause at all."""
    planted = {name for name, told in TOLD.items() if slug in _causes(told)}
    twins = {told["twin_of"]: told for told in TOLD.values() if "twin_of" in told}

    assert any(not _causes(twins[name]) for name in planted & twins.keys())


def test_every_broken_resume_says_its_cause() -> None:
    """No expectation is silent on why; null says that nothing can be named."""
    resumes = [
        (name, one)
        for name, told in TOLD.items()
        for command in told["commands"]
        for one in command.get("resumes", [])
        if one.get("verdict", command["verdict"]) == "broken"
    ]

    assert [] == [name for name, one in resumes if "cause" not in one]
