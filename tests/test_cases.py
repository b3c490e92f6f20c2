"""Every case of a documented false alarm, and its twin that must not be quiet."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import FALSE_ALARMS, FIXTURES
from running import ledger_audit

COMMANDS = [
    pytest.param(case, command, id=f"{case.name}: {' '.join(command['args'])}")
    for case in FALSE_ALARMS
    for command in json.loads((case / "expected.json").read_text())["commands"]
]


@pytest.mark.parametrize(("case", "command"), COMMANDS)
def test_the_case_is_judged_as_worked_out_by_hand(case: Path, command: dict[str, Any]) -> None:
    """Verdict, exit code, counts, limits and notes are those of `expected.json`."""
    name, *arguments = command["args"]
    paths = [case / one if (case / one).exists() else one for one in arguments]

    ran = ledger_audit(name, *paths, "--format", "json")

    assert command["exit"] == ran.code
    assert command["verdict"] == ran.report["verdict"]
    for wanted, resume in zip(command.get("resumes", []), ran.report["resumes"], strict=False):
        assert wanted["checkpoint_step"] == resume["checkpoint_step"]
        assert wanted.get("shift", resume["shift"]["records"]) == resume["shift"]["records"]
        for kind, counts in wanted.get("outcomes", {}).items():
            found = {
                outcome: amount["records"]
                for outcome, amount in resume["outcomes"][kind].items()
                if amount["records"]
            }
            assert counts == found
    older = [one["code"] for resume in ran.report["resumes"] for one in resume["causes"]]
    assert command["exit"] == 1 or command.get("older", []) == older
    judged = [*ran.report["resumes"], *filter(None, [ran.report.get("stream")])]
    codes = {limit["code"] for resume in judged for limit in resume["limits"]}
    assert {*command.get("limits", []), *command.get("notes", [])} <= codes


def test_every_false_alarm_has_a_case() -> None:
    """F1 to F22 are all there, and every twin names the case that it is a twin of."""
    told = {case.name: json.loads((case / "expected.json").read_text()) for case in FALSE_ALARMS}

    alarms = {name for one in told.values() for name in one["from"]}
    assert {f"F{number}" for number in range(1, 23)} <= alarms
    assert {one["twin_of"] for one in told.values() if "twin_of" in one} <= told.keys()


@pytest.mark.parametrize("case", FALSE_ALARMS, ids=lambda case: case.name)
def test_a_case_says_why(case: Path) -> None:
    """A case is a sentence, with its reason beside it, and is explained in the documentation."""
    page = (FIXTURES.parent / "docs" / "false-alarms.md").read_text()

    assert (case / "why.txt").read_text().strip()
    assert f"`{case.name}`" in page


def test_no_case_is_left_open() -> None:
    """Each is judged as it should be, if need be under a contract that says what is meant."""
    told = [json.loads((case / "expected.json").read_text()) for case in FALSE_ALARMS]

    assert [] == [one for one in told if "open" in one]
