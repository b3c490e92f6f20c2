"""Why it broke: the first cause is the true one, and a run that is right has none."""

import itertools
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from conftest import FIXTURES, ROOT
from running import ledger_audit

from ledger_audit.continuity.causes import CAUSES, DECIDED_BY, OLDER
from ledger_audit.continuity.limit_codes import LIMITS
from ledger_audit.explained import KINDS, causes, names, page, pages, sections, text_of, words
from ledger_audit.model import ClauseName, Expected, Overlay, Resumed, Verdict
from ledger_audit.simulation.faults import FAULTS

ZOO = FIXTURES / "zoo"
TRUE = {
    "accelerate-docs-epoch0": "epoch-not-set",
    "hf-datasets-plain-loader-state": "cursor-not-restored",
    "hf-trainer-batch-changed": "batch-size-rescaled",
    "hf-trainer-ignore-data-skip": "cursor-not-restored",
    "hf-trainer-iterable": "cursor-not-restored",
    "lightning-plain-midepoch": "cursor-not-restored",
    "lightning-stateful": "shuffle-changed",
    "litdata-not-loaded": "cursor-not-restored",
    "litdata-workers-changed": "workers-changed",
    "megatron-seqlen-changed": "packing-changed",
    "megatron-train-iters-extended": "dataset-changed",
    "olmo-gbs-changed": "batch-size-rescaled",
    "olmo-state-not-loaded": "cursor-not-restored",
    "streaming-plain-loader-rank-count": "rank-count-for-global",
    "torch-ddp-epoch-restart": "cursor-not-restored",
    "torch-ddp-no-set-epoch": "epoch-not-set",
    "torch-ddp-partial-accum": "partial-accumulation-lost",
    "torch-ddp-prefetched-position": "prefetch-counted",
    "torchdata-iterable-rank0-state": "rank-cursor-shared",
    "torchdata-sdl-last-batch": "epoch-exhausted",
    "webdataset-epoch-restart": "cursor-not-restored",
}
"""Real run → the cause that its `truth.json` tells in words."""

NAMED_BY_DEMO = sorted(FAULTS.keys() & CAUSES.keys() - {"ranks-swapped"})
"""Faults that the demo plants and that break the stream."""

OTHERS = ("none", "none-elastic", "ranks-swapped", "worker-turn-lost", "ledger-lost")
"""Faults that break nothing, or for which no cause is named yet; `test_demo.py` asks for all."""


def codes(report: dict[str, Any]) -> list[list[str]]:
    """Give the causes of each resume that broke the stream, the surest first."""
    return [
        [cause["code"] for cause in one["causes"] if not cause["before_failure"]]
        for one in report["resumes"]
        if one["verdict"] == "broken"
    ]


@cache
def _judged(run: str, command: str) -> dict[str, Any]:
    paths = [ZOO / run / "run"] if command == "diff" else [ZOO / run / "control", ZOO / run / "run"]
    return ledger_audit(command, *paths, "--format", "json").report


def test_every_broken_run_has_a_true_cause() -> None:
    """What the zoo's truth calls broken is in the list, and nothing else."""
    verdicts = {
        one.parent.name: json.loads(one.read_text())["verdict"] for one in ZOO.glob("*/truth.json")
    }

    assert {name for name, verdict in verdicts.items() if verdict == "broken"} == TRUE.keys()


@pytest.mark.parametrize("command", ["diff", "gate"])
@pytest.mark.parametrize("run", TRUE)
def test_the_first_cause_of_a_real_run_is_the_true_one(run: str, command: str) -> None:
    """By the rolled-back steps, where they show that it is broken, and by a control run."""
    found = codes(_judged(run, command))

    assert found or command == "diff"
    assert all(TRUE[run] == one[0] for one in found)


@pytest.mark.parametrize("command", ["diff", "gate"])
@pytest.mark.parametrize("run", sorted({one.name for one in ZOO.iterdir()} - TRUE.keys()))
def test_a_right_run_has_no_cause(run: str, command: str) -> None:
    """Neither by its rolled-back steps nor by a control run."""
    assert not any(one["causes"] for one in _judged(run, command)["resumes"])


def test_the_demo_asks_of_every_fault_for_its_cause() -> None:
    """Those that are named, and those that break nothing or have no cause yet, are all."""
    assert sorted(FAULTS) == sorted([*NAMED_BY_DEMO, *OTHERS])


def _every_cause() -> Iterator[dict[str, Any]]:
    for run, command in itertools.product(TRUE, ("diff", "gate")):
        for resume in _judged(run, command)["resumes"]:
            yield from resume["causes"]


def test_a_cause_shows_its_arithmetic_and_what_would_decide() -> None:
    """Every one has a title, a remedy and evidence; others that fit are named with a fact."""
    found = list(_every_cause())
    alternatives = [other for one in found for other in one["alternatives"]]

    assert all(one["title"] and one["remedy"] and one["evidence"] for one in found)
    assert {"steps-for-micro-batches"} <= {one["code"] for one in alternatives}
    assert all(one["decided_by"] for one in alternatives)


def test_the_arithmetic_can_be_followed() -> None:
    """It says where the stream went on, where it should, and what makes the difference."""
    (cause,) = _judged("torch-ddp-epoch-restart", "diff")["resumes"][0]["causes"]
    rounded = _judged("olmo-gbs-changed", "diff")["resumes"][0]["causes"][0]
    ahead = _judged("torch-ddp-prefetched-position", "gate")["resumes"][0]["causes"][0]

    assert cause["evidence"] == (
        "resumed at record 0 where 128 was expected: -128 = all that was committed since the run "
        "began"
    )
    assert rounded["evidence"].endswith(
        "-12 = 72 rounded down to a multiple of the new batch of 20"
    )
    assert ahead["evidence"].endswith("4 ranks x 2 workers x 4 batches x 2 = 64 were read ahead")


def test_the_report_for_eyes_names_cause_and_remedy_first() -> None:
    """Beside the decision, before any table."""
    ran = ledger_audit("diff", ZOO / "torch-ddp-epoch-restart" / "run")
    lines = ran.out.splitlines()
    named = next(at for at, line in enumerate(lines) if line.startswith("  cause "))

    assert named < 12
    assert "cursor-not-restored, proven" in lines[named]
    assert any(line.startswith("  remedy ") for line in lines[:15])


def test_every_cause_is_explained() -> None:
    """Those that are named, and no other."""
    assert CAUSES.keys() == causes().keys()
    assert OLDER | DECIDED_BY.keys() <= CAUSES.keys()


@pytest.mark.parametrize("slug", sorted(causes()))
def test_a_page_is_what_the_program_tells(slug: str, request: pytest.FixtureRequest) -> None:
    """`explain` and docs/causes have one home."""
    ran = ledger_audit("explain", slug)
    path = ROOT / "docs" / "causes" / f"{slug}.md"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(page(slug), encoding="utf-8")

    assert 0 == ran.code
    assert path.read_text(encoding="utf-8") == page(slug)
    assert ran.out.startswith(page(slug))
    assert slug in (ROOT / "docs" / "causes.md").read_text(encoding="utf-8")


def test_no_page_is_left_over() -> None:
    """Every page is of a cause."""
    assert {one.stem for one in (ROOT / "docs" / "causes").iterdir()} == causes().keys()


def test_the_glossary_is_what_the_program_tells(request: pytest.FixtureRequest) -> None:
    """Its page is the text that `explain` reads; every word in it is told, and no entry twice."""
    path = ROOT / "docs" / "glossary.md"
    if request.config.getoption("--update-golden"):
        path.write_text(text_of("glossary.md"), encoding="utf-8")

    assert path.read_text(encoding="utf-8") == text_of("glossary.md")
    lines = [one for one in text_of("glossary.md").splitlines() if one.startswith("| ")]
    entries = [one.split(" | ")[0].removeprefix("| ") for one in lines]
    entries = [one for one in entries if one != "word"]
    assert len(entries) == len({*entries}) == len({one for two in words().values() for one in two})
    for word in ("lane", "Rolled-back window", "world-size", "queued", "continuous"):
        ran = ledger_audit("explain", word)
        assert 0 == ran.code
        assert ran.out.startswith("# Word `")
        assert "](" not in ran.out
    assert {*ClauseName, *Verdict} <= words().keys()
    assert ["# Word `torn`", "# Word `torn (file)`"] == _titles(ledger_audit("explain", "torn").out)
    assert "did you mean lineage?" in ledger_audit("explain", "linaege").err


@pytest.mark.parametrize("kind", KINDS)
def test_the_pages_of_outcomes_and_limits_are_what_the_program_tells(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """The page in the documents is the text that `explain` reads, and has all of them."""
    path = ROOT / "docs" / f"{kind}.md"
    if request.config.getoption("--update-golden"):
        path.write_text(text_of(f"{kind}.md"), encoding="utf-8")
    codes = {*Resumed, *Expected, *Overlay} if kind == "outcomes" else {*LIMITS}

    assert path.read_text(encoding="utf-8") == text_of(f"{kind}.md")
    assert {str(code) for code in codes} == sections(kind).keys()


def test_every_code_on_a_screen_is_explained() -> None:
    """What stands in brackets behind a limit, on a stored screen or in an example, has a text."""
    screens = [one.read_text() for one in (FIXTURES / "golden").glob("*.200.txt")]
    for page_of_docs in (ROOT / "docs").glob("*.md"):
        screens += re.findall(r"```console\n(.*?)```", page_of_docs.read_text(), re.DOTALL)
    told = {code for one in screens for code in re.findall(r" \[([a-z]+(?:-[a-z]+)+)\]", one)}

    assert {"rolled-back-only", "no-whole-reference-step", "pass-not-over"} <= told
    assert [] == [code for code in sorted(told) if not pages(code)]


def test_a_name_of_two_kinds_is_explained_as_both() -> None:
    """A limit may have the name of an outcome, or of a cause."""
    outcome = ledger_audit("explain", "undecided").out
    cause = ledger_audit("explain", "frozen-epochs").out

    assert ["# Outcome `undecided`", "# Limit `undecided`"] == _titles(outcome)
    assert ["# Limit `frozen-epochs`"] == _titles(cause)[1:]


def _titles(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("# ")]


def test_explain_lists_all_and_knows_a_slip_of_the_keyboard() -> None:
    """Without a name it lists everything; a misspelt name is an error with the nearest one."""
    listed = [line.split()[:2] for line in ledger_audit("explain").out.splitlines()]
    slip = ledger_audit("explain", "prefetch-count")

    assert [[kind, slug] for kind, slug, _ in names()] == listed
    assert {"cause", "outcome", "limit"} == {kind for kind, _ in listed}
    assert 2 == slip.code
    assert "did you mean prefetch-counted?" in slip.err
