"""
Disables one cause, outcome, limit or clause after the other: `mutants.py [NAME...]`.

A first run of the cheap tests below finds which of them meet what. Then, in a process of its own
for each, one thing is disabled and the tests that meet it run, until one fails. Prints a table in
Markdown; exits with 1 if anything was disabled and nobody noticed, with 2 if there is no result.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from seams import NAMES, Mutant, Watch, watch_all

PAGE = Path(__file__).parent.parent / "docs" / "mutation.md"
HEADING = "## The last result"
"""Of the page: what stands after it is written anew."""

FILES = (
    "test_bugs.py",
    "test_cases.py",
    "test_causes_tiny.py",
    "test_survivors.py",
    "test_contract_commands.py",
    "test_contract_draws.py",
    "test_contract_terms.py",
    "test_digest.py",
    "test_outcomes.py",
    "test_waiting.py",
    "test_preflight.py",
    "test_foreign.py",
    "test_causes.py",
)
"""Where the tests are, in the order in which they are asked."""

SLOW = (
    "test_a_planted_fault_is_named",
    "test_a_cause_shows_its_arithmetic_and_what_would_decide",
    "test_what_is_taken_away_blocks_in_preflight_what_it_blocks_in_the_audit",
    "test_cut_gzip_gives_its_sound_lines",
)
"""Tests that take many seconds: asked only by a parameter that has the name of a survivor."""


@dataclass
class Seen:
    """What one test met, in the run without a mutant."""

    test: str
    seconds: float
    met: list[Mutant]
    failed: str | None
    """Why; null: it passed."""


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    mutant: Mutant
    killer: str | None
    """The test that failed; null: the mutant survived."""


@dataclass(eq=False)  # pytest keeps its plugins in a set
class Mutation:
    """A plugin that takes the place of pytest's own loop over the tests."""

    chosen: list[Mutant]
    is_lenient: bool
    failing: list[Seen] = field(default_factory=list)
    """Tests that fail without any mutant."""
    results: list[Result] = field(default_factory=list)
    _failed: str | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run nothing in this process: every child starts with all imported and nothing done."""
        if session.testsfailed:
            return None  # pytest itself tells that a file cannot be collected
        quick = [one for one in session.items if one.name.partition("[")[0] not in SLOW]
        seen = [Seen(**one) for one in _in_a_child(lambda: self._look(quick))]
        seen = [one for one in seen if one.met]  # what meets nothing cannot notice anything
        self.failing = [one for one in seen if one.failed is not None]
        if self.failing and not self.is_lenient:
            return True
        by_name = {one.nodeid: one for one in quick}
        for mutant in self.chosen:
            meeting = [one for one in seen if one.failed is None and list(mutant) in one.met]
            meeting.sort(key=lambda one: round(one.seconds))
            killer, why = self._hunted([by_name[one.test] for one in meeting], mutant)
            if killer is None:
                named = [one for one in session.items if one.name.endswith(f"[{mutant[1]}]")]
                slow = [one for one in named if one.nodeid not in by_name]
                if slow and self._hunted(slow, None)[0] is None:
                    killer, why = self._hunted(slow, mutant)
            self.results.append(Result(mutant, killer))
            _say(f"{' '.join(mutant)}: {killer or 'SURVIVED'} {why}")
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test failed, and its first words."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = str(report.longrepr) if crash is None else crash.message
            self._failed = (text or "failed").splitlines()[0]

    def _run(self, item: pytest.Item) -> str | None:
        self._failed = None
        for one in vars(getattr(item, "module", None)).values():
            if hasattr(one, "cache_clear"):
                one.cache_clear()  # what another test has read is not met again
        item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        return self._failed

    def _look(self, items: Sequence[pytest.Item]) -> list[dict[str, Any]]:
        """Run all without a mutant, and see what each meets."""
        watch = Watch()
        watch_all(watch)
        seen = []
        for item in items:
            watch.met.clear()
            began = time.perf_counter()
            failed = self._run(item)
            seconds = time.perf_counter() - began
            seen.append(vars(Seen(item.nodeid, seconds, sorted(watch.met), failed)))
        return seen

    def _hunted(
        self, items: Sequence[pytest.Item], mutant: Mutant | None
    ) -> tuple[str | None, str]:
        """Give the first test that fails in a process of its own, and why; null: none does."""
        killer, why = _in_a_child(lambda: self._hunt(items, mutant)) if items else (None, "")
        return killer, why

    def _hunt(self, items: Sequence[pytest.Item], mutant: Mutant | None) -> tuple[str | None, str]:
        watch_all(Watch(disabled=mutant))
        for item in items:
            failed = self._run(item)
            if failed is not None:
                return item.nodeid, failed
        return None, ""


def _in_a_child(work: Callable[[], Any]) -> Any:
    """Give what a fork of this process finds; what it patches, reads and caches ends with it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            told = {"found": work()}
        except BaseException:  # whatever it is, the parent tells it
            told = {"trouble": traceback.format_exc()}
        with os.fdopen(writer, "w") as sink:
            json.dump(told, sink)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as source:
        told = json.load(source)
    os.waitpid(child, 0)
    if "trouble" in told:
        raise RuntimeError(told["trouble"])
    return told["found"]


def _say(text: str) -> None:
    """Tell on the terminal how far it is; the table alone goes to standard output."""
    sys.stderr.write(f"{text}\n")


def table(results: Sequence[Result]) -> str:
    """Give the results as a table in Markdown."""
    lines = ["| kind | name | killed by |", "|---|---|---|"]
    for one in results:
        kind, name = one.mutant
        killer = "**SURVIVED**" if one.killer is None else f"`{one.killer}`"
        lines.append(f"| {kind} | `{name}` | {killer} |")
    return "\n".join(lines) + "\n"


def page(results: Sequence[Result], failing: Sequence[Seen]) -> str:
    """Give the page with the result of this run in the place of the last one."""
    left = [f"`{one.mutant[1]}` ({one.mutant[0]})" for one in results if one.killer is None]
    told = f"{date.today().isoformat()}: {len(results)} disabled, {len(left)} survived"
    told += f": {', '.join(left)}." if left else "."
    if failing:
        told += f"\n{len(failing)} tests failed with nothing disabled and were not asked."
    prose, _, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    return f"{prose}{HEADING}\n\n{told}\n\n{table(results)}"


def main(arguments: Sequence[str]) -> int:
    """Disable what is asked for, tell who noticed, and give the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("names", nargs="*", metavar="NAME", help="disable these alone")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument(
        "--lenient", action="store_true", help="leave out tests that fail with nothing disabled"
    )
    asked = parser.parse_args(arguments)
    known = [(kind, name) for kind, names in NAMES.items() for name in names]
    if unknown := set(asked.names) - {name for _, name in known}:
        parser.error(f"nothing is named {', '.join(sorted(unknown))}")
    if asked.write and asked.names:
        parser.error("the page tells of all of them: --write takes no name")
    chosen = [one for one in known if not asked.names or one[1] in asked.names]
    mutation = Mutation(chosen, asked.lenient)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        options = ["-s", "-n", "0", "-p", "no:cacheprovider", "--basetemp", f"{folder}/base"]
        pytest.main([*options, *(one for one in FILES if Path(one).exists())], plugins=[mutation])
    for one in mutation.failing:
        _say(f"fails with nothing disabled: {one.test}: {one.failed}")
    if len(mutation.results) < len(chosen):
        _say("no result")
        return 2
    sys.stdout.write(table(mutation.results))
    if asked.write:
        PAGE.write_text(page(mutation.results, mutation.failing), encoding="utf-8")
    return 1 if any(one.killer is None for one in mutation.results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
