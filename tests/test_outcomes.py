"""Real runs of real frameworks, and tiny ledgers that break naive definitions."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from running import flat, ledger_audit, outcomes_of

FOLDERS = [*sorted((FIXTURES / "zoo").iterdir()), *sorted((FIXTURES / "traps").iterdir())]
STORED = [folder for folder in FOLDERS if (folder / "outcomes.json").exists()]
REPACKED = ["megatron-seqlen-changed", "megatron-train-iters-extended"]
EXIT = {"continuous": 0, "broken": 1, "unproven": 3}


def _stored(folder: Path, command: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads((folder / "outcomes.json").read_text())[command]
    return [
        flat(one) | {"from_attempt": str(one["from_attempt"]), "to_attempt": str(one["to_attempt"])}
        for one in told
    ]


def test_nothing_was_left_out() -> None:
    """Every real run and every trap is audited: 38 of 40 runs, and 39 traps, have outcomes."""
    assert tuple(len(list((FIXTURES / name).iterdir())) for name in ("zoo", "traps")) == (40, 39)
    assert len(STORED) == 38 + 39


@pytest.mark.parametrize("folder", STORED, ids=lambda folder: folder.name)
def test_diff_gives_the_stored_outcomes(folder: Path) -> None:
    """`diff --full` gives each count, shift and verdict that section 5 of the design gives."""
    ran = ledger_audit("diff", "--full", folder / "run", "--format", "json")

    expected = _stored(folder, "diff")
    assert expected == [outcomes_of(one) for one in ran.report["resumes"]]
    verdicts = {one["verdict"] for one in expected}
    worst = next(one for one in ("broken", "unproven", "continuous") if one in verdicts)
    assert EXIT[worst] == ran.code


@pytest.mark.parametrize(
    "folder", [one for one in STORED if (one / "control").exists()], ids=lambda folder: folder.name
)
def test_gate_gives_the_stored_outcomes(folder: Path) -> None:
    """`gate` gives each count, shift and verdict that section 5 of the design gives."""
    ran = ledger_audit("gate", folder / "control", folder / "run", "--format", "json")

    assert _stored(folder, "gate") == [outcomes_of(one) for one in ran.report["resumes"]]


@pytest.mark.parametrize("name", REPACKED)
def test_a_changed_packing_is_counted_in_tokens(name: str) -> None:
    """Where the packing changed, replayed and missing tokens are those of the brute-force truth."""
    folder = FIXTURES / "zoo" / name
    truth = json.loads((folder / "truth.json").read_text())["resumes"][0]["tokens"]

    ran = ledger_audit("gate", folder / "control", folder / "run", "--format", "json")

    outcomes = ran.report["resumes"][0]["outcomes"]
    expected = outcomes["expected"]
    assert ran.code == 1
    assert truth["replayed"] == outcomes["resumed"]["replayed"]["tokens"]
    # the truth counts what the run never used of the control's range, reached or not
    unused = ("skipped", "pending")
    assert truth["skipped"] == sum(expected[outcome]["tokens"] for outcome in unused)
    assert ledger_audit("diff", folder / "run").code == 1


def test_the_worked_example() -> None:
    """Prefetched samples counted as consumed: 64 skipped by the control, at least 40 without."""
    folder = FIXTURES / "zoo" / "torch-ddp-prefetched-position"

    gated = ledger_audit("gate", folder / "control", folder / "run")
    alone = ledger_audit("diff", folder / "run")

    assert (gated.code, alone.code) == (1, 1)
    told, told_alone = (" ".join(ran.out.split("\n\n")[0].split()) for ran in (gated, alone))
    assert (
        "BROKEN after step 8; compared through step 22, 14 steps, 4 of 4 lanes After step 8, 64 "
        "samples skipped, 0 samples replayed, 0 samples out of order, epoch 0 misses 64 samples, "
        "224 records at another step than in the reference; shift +64: it jumped ahead."
    ) == told
    assert "After step 8, at least 40 samples skipped" in told_alone
