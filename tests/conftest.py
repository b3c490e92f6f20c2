"""Keeps what surrounds a test from changing what it sees."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
FALSE_ALARMS = [
    case
    for case in sorted((FIXTURES / "cases").iterdir())
    if "reports" not in json.loads((case / "expected.json").read_text())
]
"""Cases that must stay quiet, and their twins; the others are of causes."""
ANY_RUNS = [
    *sorted(FIXTURES.glob("zoo/*/run")),
    *sorted(FIXTURES.glob("traps/*/run")),
    *sorted(FIXTURES.glob("cases/*/run"))[::8],
]
"""For what must hold of any ledger: all real ones, all traps, and every eighth case."""

OURS = ("GITHUB_STEP_SUMMARY", "LEDGER_AUDIT_REDACT")
"""Variables that the program itself reads."""

# the frames of tests are small, and each worker of the suite has a core of its own
os.environ.setdefault("POLARS_MAX_THREADS", "1")

# The same examples in every run: the suite tells of the change that is tested, not of a draw.
# `--hypothesis-profile=drawn` draws new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("drawn", deadline=None, max_examples=1000)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Golden texts are written on demand alone: `pytest -n 0 --update-golden`."""
    parser.addoption("--update-golden", action="store_true")


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the machine may change a report."""
    for name in ("CI", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "GITHUB_ACTIONS", "TERM", *OURS):
        monkeypatch.delenv(name, raising=False)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Suites that need what few have are looked at only by `-m` and their name, and fail then."""
    name = collection_path.name
    return (
        True
        if name in ("frameworks", "browser", "remote", "spark") and config.option.markexpr != name
        else None
    )
