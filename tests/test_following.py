"""A trainer follows a plan: rank by rank, from any step, without an engine."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from test_expected import stream, written

from ledger_audit.errors import UnreadableError, UsageError
from ledger_audit.integrations.plan import PlanSampler, micro_batches, steps
from ledger_audit.ledger import expected as expected_stream

RANKS = 3


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six steps of three ranks and two rows; the last has one sample; files hold a step or two."""
    monkeypatch.setattr(expected_stream, "_SEGMENT_ROWS", 13)
    rows = stream(6, ranks=RANKS)
    written(tmp_path / "plan", rows.head(31), ranks=RANKS)
    return tmp_path / "plan"


def _ids(plan: Path, rank: int, first: int | None = None) -> list[list[int]]:
    return [[row.sample_id for row in one.rows] for one in micro_batches(plan, rank, first=first)]  # type: ignore[misc]


def test_each_rank_gets_its_own_micro_batches(plan: Path) -> None:
    """Together they are the plan; each has its step and slot."""
    assert [[0, 1], [6, 7], [12, 13], [18, 19], [24, 25], [30]] == _ids(plan, 0)
    assert [[4, 5], [10, 11], [16, 17], [22, 23], [28, 29]] == _ids(plan, 2)
    assert [(step, 0) for step in range(1, 7)] == [
        (one.step, one.slot) for one in micro_batches(plan, 0)
    ]
    every = [one for rank in range(RANKS) for ids in _ids(plan, rank) for one in ids]
    assert list(range(31)) == sorted(every)


@pytest.mark.parametrize("first", [1, 3, 6, 7])
def test_a_plan_is_followed_from_any_step(plan: Path, first: int) -> None:
    """What comes before is not read; every step is given, also one without a sample of a rank."""
    for rank in range(RANKS):
        given = list(steps(plan, rank, first=first))
        assert list(range(first, 7)) == [step for step, _ in given]
        assert _ids(plan, rank)[first - 1 :] == [
            [row.sample_id for row in one.rows] for _, own in given for one in own
        ]
    if first < 7:
        assert (6, ()) == given[-1]


def test_a_sampler_goes_on_where_it_was_saved(plan: Path) -> None:
    """The saved place counts steps that were committed, not what was read ahead."""
    sampler = PlanSampler(plan, 1, index=lambda one: one * 10)
    whole = list(sampler)
    assert [[20, 30], [80, 90], [140, 150], [200, 210], [260, 270]] == whole
    assert 5 == len(sampler)
    running = iter(sampler)
    for _ in range(4):
        next(running)  # two of them wait in a queue
    assert (4, 1) == sampler.place

    resumed = PlanSampler(plan, 1, index=lambda one: one * 10)
    resumed.load_state_dict(sampler.state_dict(committed_step=2))
    assert 3 == len(resumed)
    assert whole[2:] == list(resumed)
    resumed.load_state_dict(sampler.state_dict())
    assert whole[4:] == list(resumed)
    resumed.load_state_dict(sampler.state_dict(committed_step=6))
    assert [] == list(resumed)


def test_a_place_of_another_plan_is_refused(plan: Path, tmp_path: Path) -> None:
    """So is one that this plan has not, a rank that it has not, and a folder that is none."""
    sampler = PlanSampler(plan, 1)
    state = sampler.state_dict()
    for wrong in (
        {},
        {**state, "plan": {"files": []}},
        {**state, "step": 9},
        {**state, "slot": -1},
    ):
        with pytest.raises(UsageError):
            sampler.load_state_dict(wrong)
    with pytest.raises(UsageError, match="rank 3 is none"):
        PlanSampler(plan, 3)
    for nothing in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UnreadableError, match="no plan"):
            PlanSampler(nothing, 0)


def test_a_damaged_file_is_named(plan: Path) -> None:
    """Half a file is no shorter plan."""
    file = sorted((plan / "attempt=plan").glob("samples-*"))[1]
    file.write_bytes(file.read_bytes()[:-9])

    with pytest.raises(UnreadableError, match=file.name):
        PlanSampler(plan, 0)


def test_spans_of_a_packed_sequence_stay_together(tmp_path: Path) -> None:
    """They share a row, and have their tokens, source and pass."""
    rows = pl.DataFrame(
        {"rank": 0, "step": 1, "slot": 0, "row": [0, 0, 1], "sample_id": ["a", "b", "c"]}
    ).with_columns(token_start=pl.lit(0), token_end=pl.lit(5), source=pl.lit("web"))
    written(tmp_path / "plan", rows, ranks=1)

    (only,) = micro_batches(tmp_path / "plan", 0)
    assert [(0, "a", 0, 5, "web", None, None), (0, "b"), (1, "c")] == [
        only.rows[0],
        only.rows[1][:2],
        only.rows[2][:2],
    ]


def test_a_trainer_loads_no_engine() -> None:
    """Following a plan needs pyarrow alone."""
    code = "import sys, ledger_audit.integrations.plan; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not {"polars", "torch", "rich", "click"} & set(ran.stdout.split())
