"""The demo: a job that is really killed, a fault that its own code makes, and what is found."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from running import ledger_audit
from test_causes import OTHERS, codes

from ledger_audit.ledger.opening import open_ledger
from ledger_audit.model import Verdict
from ledger_audit.simulation.account import check_steps, count
from ledger_audit.simulation.faults import DEFAULT, FAULTS
from ledger_audit.simulation.job import JOB
from ledger_audit.simulation.process import simulate

PAGE = ROOT / "docs" / "demo.md"
PART = re.compile(r"<!-- demo: part (\d) -->\n```text\n(.*?)```", re.DOTALL)
HEADLINE = re.compile(r"^(\d)\. .*\n-+\n", re.MULTILINE)
CODES = {Verdict.CONTINUOUS: 0, Verdict.BROKEN: 1, Verdict.UNPROVEN: 3}

Use = tuple[int, int, int, int, int]
"""Step, slot, rank, epoch, sample id."""


@pytest.fixture
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder in which the demo makes its temporary ones."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def uses_by_job(folder: Path, attempt: str) -> Counter[Use]:
    """Read the job's own list of what an attempt used."""
    lines = (folder / "job" / f"used-{attempt}.jsonl").read_text().splitlines()
    said: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return Counter(
        (one["step"], one["slot"], one["rank"], one["epoch"], sample)
        for one in said
        for sample in one["ids"]
    )


def uses_by_ledger(folder: Path, attempt: str) -> Counter[Use]:
    """Read what an attempt used from its ledger."""
    rows = open_ledger([folder]).records(attempt, 0)
    names = ("step", "slot", "rank", "epoch", "sample_id")
    return Counter(rows.select(names).iter_rows())


def by_step(uses: Counter[Use]) -> Counter[tuple[int, int, int]]:
    """Count what each step used, whatever the rank and slot: step, epoch, sample id."""
    return Counter((step, epoch, sample) for step, _, _, epoch, sample in uses.elements())


def parts_of(told: str) -> dict[str, str]:
    """Give the four parts of what the demo prints, each under its number."""
    starts = list(HEADLINE.finditer(told))
    ends = [*(start.start() for start in starts[1:]), len(told)]
    return {
        start[1]: told[start.start() : end].rstrip("\n") + "\n"
        for start, end in zip(starts, ends, strict=True)
    }


def section_of(fault: str, look: str) -> str:
    """Give the section of a fault on the page: one sentence a line, what to look at as a quote."""
    one = FAULTS[fault]
    sentences = "\n".join(f"> {text}" for text in re.split(r"(?<=\.) (?=[A-Z])", look))
    verdicts = f"`diff`: {one.verdict}; `gate`: {one.gate}."
    return f"### `{fault}`\n\n{one.wrong}\n{verdicts}\n\n{sentences}\n"


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_planted_is_found(fault: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Every fault gives its verdicts, the numbers of the job's own list, its cause and its text."""
    folder = tmp_path / "kept"
    demo = ledger_audit("demo", "--fault", fault, "--keep", folder)
    diff = ledger_audit("diff", folder / "ledger", "--format", "json")
    gate = ledger_audit("gate", folder / "control", folder / "ledger", "--format", "json")

    assert demo.code == 0, demo.err
    cause = [] if fault in OTHERS else [fault]
    for report in (diff.report, gate.report):
        assert all(cause == found[:1] for found in codes(report))
        assert codes(report) or fault in OTHERS
    assert CODES[FAULTS[fault].verdict] == diff.code
    assert CODES[FAULTS[fault].gate] == gate.code
    if fault == DEFAULT:
        assert ledger_audit("diff", folder / "ledger").out in demo.out

    dead, resumed = (uses_by_job(folder, attempt) for attempt in ("0", "1"))
    lost = FAULTS[fault].lost_ranks
    logged = Counter({use: n for use, n in dead.items() if use[2] not in lost})
    assert logged == uses_by_ledger(folder / "ledger", "0")
    assert resumed == uses_by_ledger(folder / "ledger", "1")
    control = uses_by_job(folder, "control")
    assert control == uses_by_ledger(folder / "control", "control")

    outcomes = diff.report["resumes"][0]["outcomes"]
    checkpoint = diff.report["resumes"][0]["checkpoint_step"]
    consumed = {use[3:] for use in dead if use[0] <= checkpoint}
    again = Counter({use: n for use, n in resumed.items() if use[3:] in consumed})
    rolled_back = {use[3:] for use in dead if use[0] > checkpoint}
    assert again.total() == outcomes["resumed"]["replayed"]["records"]
    gone = rolled_back - {use[3:] for use in resumed}
    assert len(gone) == outcomes["expected"]["skipped"]["records"]

    survived = Counter({use: n for use, n in dead.items() if use[0] <= checkpoint}) + resumed
    is_right = FAULTS[fault].gate is Verdict.CONTINUOUS or bool(lost)
    assert is_right == (by_step(control) == by_step(survived))

    look = parts_of(demo.out)["4"].split("\n\n")[0].split("\n", 2)[2].replace("\n", " ").strip()
    told = section_of(fault, look)
    if pytestconfig.getoption("--update-golden"):
        _write_section(fault, told)
    assert told in PAGE.read_text()


def _write_section(fault: str, told: str) -> None:
    text = PAGE.read_text()
    found = re.search(rf"### `{fault}`\n.*?(?=\n### |\Z)", text, re.DOTALL)
    assert found is not None, f"{PAGE} has no section for {fault}"
    PAGE.write_text(text[: found.start()] + told + text[found.end() :])


def test_the_page_lists_every_fault() -> None:
    """`demo.md` has a section for every fault, in the order of the table, and for no other."""
    assert list(FAULTS) == re.findall(r"^### `([a-z0-9-]+)`$", PAGE.read_text(), re.MULTILINE)


def test_the_default_demo(own_temporary_folder: Path, pytestconfig: pytest.Config) -> None:
    """The first command of a newcomer prints what the page walks through, and leaves nothing."""
    ran = ledger_audit("demo")

    assert ran.code == 0
    assert [] == list(own_temporary_folder.iterdir())
    assert max(len(line) for line in ran.out.splitlines() if "/" not in line) <= 80
    for words in ("1 global batch", "16 samples skipped", "0 samples replayed", "step 25"):
        assert words in ran.out.replace("\n", " ")
    parts = parts_of(re.sub(r"\S*/ledger-audit-demo-\w+", "/tmp/ledger-audit-demo", ran.out))
    if pytestconfig.getoption("--update-golden"):
        blocks = PART.sub(
            lambda block: block[0].replace(block[2], parts[block[1]]), PAGE.read_text()
        )
        PAGE.write_text(blocks)
    assert parts == dict(PART.findall(PAGE.read_text()))


def test_the_default_fault_skips_one_global_batch(tmp_path: Path) -> None:
    """
    The job is killed inside an accumulation group, and the next step's samples are never used.

    The steps that survive are whole and in sequence all the same.
    """
    ran = simulate(DEFAULT, tmp_path, has_control=True)

    dead, resumed, control = (uses_by_job(tmp_path, name) for name in ("0", "1", "control"))
    assert (-signal.SIGKILL, 0) == ran.endings
    last = max(use[0] for use in dead)
    assert 0 < sum(use[0] == last for use in dead) < JOB.batch
    assert {slot for step, slot, *_ in dead if step == last} == {0, 1}
    account = count(ran.ledger)
    after = account.checkpoint_step + 1
    skipped = {use[3:] for use in control if use[0] == after}
    assert len(skipped) == JOB.batch == 16
    assert not skipped & {use[3:] for use in resumed}
    following = {use[3:] for use in control if use[0] == after + 1}
    assert following == {use[3:] for use in resumed if use[0] == after}
    assert all(check.passes for check in check_steps(account))


def test_step_checks_fail_where_a_ledger_is_missing(tmp_path: Path) -> None:
    """What step-based checks see is counted from the ledger, and not taken for granted."""
    ran = simulate("ledger-lost", tmp_path, has_control=False)

    checks = check_steps(count(ran.ledger))

    assert [True, False, False] == [check.passes for check in checks]
    assert "12 samples in steps 1-25, 16 samples in steps 26-45" in checks[1].told
    assert "rank 3 differs in steps 1-25" in checks[2].told
    assert not (tmp_path / "control").exists()


def test_the_list_names_every_fault() -> None:
    """`--list` gives each name and its sentence, and runs nothing."""
    ran = ledger_audit("demo", "--list")

    assert ran.code == 0
    paragraphs = [" ".join(one.split()) for one in ran.out.strip().split("\n\n")]
    assert [f"{name} {one.wrong}" for name, one in FAULTS.items()] == paragraphs


def test_an_unknown_fault_is_refused_with_the_list() -> None:
    """A misspelt name is a usage error that says which there are."""
    ran = ledger_audit("demo", "--fault", "off-by-two")

    assert ran.code == 2
    assert all(name in ran.err for name in FAULTS)
    assert ran.out == ""


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """`--keep` takes a folder that is new or empty, and refuses any other."""
    full, file = tmp_path / "full", tmp_path / "file"
    full.mkdir()
    (full / "mine").write_text("mine")
    file.write_text("mine")
    empty = tmp_path / "empty"
    empty.mkdir()

    for folder in (full, file, file / "below"):
        ran = ledger_audit("demo", "--keep", folder)
        assert (2, "") == (ran.code, ran.out)
        assert "--keep" in ran.err
    assert ledger_audit("demo", "--fault", "none", "--keep", empty).code == 0

    assert ["mine"] == [one.name for one in full.iterdir()]
    assert (full / "mine").read_text() == file.read_text() == "mine"
    assert {"control", "job", "ledger"} == {one.name for one in empty.iterdir()}


def test_a_verdict_that_was_not_planted_is_our_bug(
    own_temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the audit does not find what was planted, the demo says so and ends with 70."""
    wrong = replace(FAULTS["none"], verdict=Verdict.BROKEN)
    monkeypatch.setitem(FAULTS, "none", wrong)

    ran = ledger_audit("demo", "--fault", "none")

    assert ran.code == 70
    assert "the verdict is continuous instead of broken" in ran.err
    assert [] == list(own_temporary_folder.iterdir())


def test_files_around_the_user_are_no_modules(
    own_temporary_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `json.py` in the folder that the user stands in does not get into the job."""
    (tmp_path / "json.py").write_text("raise SystemExit('not me')")
    monkeypatch.chdir(tmp_path)

    assert ledger_audit("demo", "--fault", "none").code == 0
    assert [] == list(own_temporary_folder.iterdir())


@contextlib.contextmanager
def started(*arguments: str | Path, temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the program in a process of its own, which does not outlive the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ledger_audit", "demo", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={"TMPDIR": str(temporary), "POLARS_MAX_THREADS": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def jobs_of(folder: Path) -> list[str]:
    """List the living processes whose command line names the folder."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = one.read_bytes().decode(errors="replace").split("\0")
            if any(str(folder) in word for word in words):
                found.append(" ".join(words))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are listed there")
@pytest.mark.parametrize("is_kept", [False, True], ids=["temporary", "kept"])
def test_an_interrupt_leaves_nothing_behind(is_kept: bool, tmp_path: Path) -> None:
    """Ctrl-C while the job runs: the job is dead, its folder is gone, the exit code is 130."""
    temporary, kept = tmp_path / "temporary", tmp_path / "kept"
    temporary.mkdir()
    arguments: list[str | Path] = ["--keep", kept] if is_kept else []
    with started(*arguments, temporary=temporary) as process:
        deadline = time.monotonic() + 30
        while not [one for one in jobs_of(tmp_path) if "ledger_audit.simulation" in one]:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)

    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert [] == jobs_of(tmp_path)
    assert [] == list(temporary.iterdir())
    assert not kept.exists()
