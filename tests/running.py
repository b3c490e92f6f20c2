"""Runs the program as a user would, in this process, and reads what it says."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from ledger_audit import cli


@dataclass(frozen=True)
class Ran:
    """What one run of the program left."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        """The JSON report on standard output."""
        told: dict[str, Any] = json.loads(self.out)
        return told


def ledger_audit(*arguments: str | Path) -> Ran:
    """Run the program with these arguments."""
    code = 0
    runner = CliRunner()
    with runner.isolation() as (out, err, _):
        code = cli.run([str(one) for one in arguments])
        return Ran(code, out.getvalue().decode(), err.getvalue().decode())


def flat(told: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Give nested keys joined by dots."""
    found: dict[str, Any] = {}
    for key, value in told.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def outcomes_of(resume: dict[str, Any]) -> dict[str, Any]:
    """Give a resume of the JSON report in the shape of the stored outcomes, flat."""
    outcomes = {
        kind: {name: amount["records"] for name, amount in amounts.items() if name != "forbidden"}
        for kind, amounts in resume["outcomes"].items()
    }
    return flat(
        {
            "reference": resume["reference"]["kind"],
            "windows": resume["windows"],
            "outcomes": outcomes,
            "shift": resume["shift"]["records"],
            "verdict": resume["verdict"],
            "from_attempt": resume["from_attempt"],
            "to_attempt": resume["to_attempt"],
            "checkpoint_step": resume["checkpoint_step"],
        }
    )
