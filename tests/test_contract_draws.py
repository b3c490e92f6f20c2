"""Samples that may be used more than once: declared repeats, draws with replacement, overlaps."""

import random
from pathlib import Path

import pytest
from test_contract_terms import clause, judged, verdict
from tiny import Line, Steps, attempt, write

from ledger_audit import audit
from ledger_audit.continuity.contract import Contract

DRAWN = Contract(promise="resampled")
SIZE = 64


def draws(seed: int, first: int, last: int, *, of: int = SIZE) -> Steps:
    """Draw eight samples a step with replacement, two ranks of four."""
    rng = random.Random(seed)
    return {
        step: [[rng.randrange(of) for _ in range(4)] for _ in range(2)]
        for step in range(first, last + 1)
    }


def shuffles(seed: int, first: int, last: int) -> Steps:
    """Deal eight samples a step of a fresh shuffle, two ranks of four."""
    order = random.Random(seed).sample(range(SIZE), SIZE)
    begins = range(0, SIZE, 8)
    steps = range(first, last + 1)
    return {
        step: [order[at : at + 4], order[at + 4 : at + 8]]
        for step, at in zip(steps, begins, strict=False)
    }


def restarted(dead: Steps, alive: Steps, size: int | None = SIZE) -> list[Line]:
    """Resume after step 3."""
    start = {} if size is None else {"fingerprint": {"dataset_samples": size}}
    return [*attempt(0, dead, **start), *attempt(1, alive, after=(0, 3), **start)]


def test_draws_with_replacement_are_measured_and_never_called_replays(tmp_path: Path) -> None:
    """Repeats that chance explains keep the promise; the report tells how many."""
    report = judged(tmp_path, restarted(draws(1, 1, 5), draws(2, 4, 9)), DRAWN)

    assert report.verdict.value == "continuous"
    resume = report.resumes[0]
    assert resume.draws is not None
    assert resume.draws.records == 48
    used = {
        one for by_rank in list(draws(1, 1, 5).values())[:3] for each in by_rank for one in each
    }
    again = [one for by in draws(2, 4, 9).values() for each in by for one in each if one in used]
    assert resume.draws.repeats == len(again)
    assert resume.draws.expected_repeats == pytest.approx(48 * len(used) / SIZE)
    assert "expected by chance" in clause(report, "promise")[1]
    assert {resume.resumed[name].records for name in ("replayed", "duplicated", "unexpected")} == {
        0
    }
    assert resume.expected["skipped"].records == 0


def test_a_fresh_shuffle_at_each_restart_repeats_what_chance_gives(tmp_path: Path) -> None:
    """By default a fresh shuffle is broken; where it is declared, it is measured."""
    lines = restarted(shuffles(1, 1, 5), shuffles(2, 4, 9))

    assert verdict(tmp_path / "default", lines, Contract()) == "broken"
    report = judged(tmp_path / "drawn", lines, DRAWN)
    assert report.verdict.value == "continuous"
    draws_found = report.resumes[0].draws
    assert draws_found is not None
    assert draws_found.expected_repeats == pytest.approx(48 * 24 / 64)
    assert draws_found.missed == 64 - len({*_ids(shuffles(1, 1, 3)), *_ids(shuffles(2, 4, 9))})


def _ids(steps: Steps) -> list[int]:
    return [one for by_rank in steps.values() for each in by_rank for one in each]


@pytest.mark.parametrize("drawn", [draws, shuffles])
def test_the_same_draws_again_break_even_a_promise_of_none(drawn: object, tmp_path: Path) -> None:
    """A seed that was not moved on draws the run's first steps again: broken, and named."""
    assert callable(drawn)
    again = {step + 3: by_rank for step, by_rank in drawn(1, 1, 5).items()}

    report = judged(tmp_path, restarted(drawn(1, 1, 5), again), DRAWN)

    assert clause(report, "promise") == (
        "broken",
        "the draws of attempt 0 again, from its start: the seed stayed",
    )


def test_a_second_restart_that_draws_as_the_first_did_is_broken(tmp_path: Path) -> None:
    """The draws of any earlier attempt's start count, not those of the run's start alone."""
    lines = restarted(draws(1, 1, 5), draws(2, 4, 9))
    third = {step + 3: by_rank for step, by_rank in draws(2, 4, 9).items()}
    lines += attempt(2, third, after=(1, 6), fingerprint={"dataset_samples": SIZE})

    report = judged(tmp_path, lines, DRAWN)

    assert [one.verdict.value for one in report.resumes] == ["continuous", "broken"]
    assert "attempt 1" in clause(report, "promise")[1]


def test_the_rolled_back_draws_again_are_a_right_resume(tmp_path: Path) -> None:
    """A generator that is restored draws what was rolled back: that is no fault."""
    whole = draws(1, 1, 9)
    dead = {step: whole[step] for step in range(1, 6)}
    alive = {step: whole[step] for step in range(4, 10)}

    assert verdict(tmp_path, restarted(dead, alive), DRAWN) == "continuous"


def test_repeats_beyond_chance_are_unproven(tmp_path: Path) -> None:
    """Far more repeats than chance gives: weighted draws or a fault, and nothing tells which."""
    few = draws(5, 4, 9, of=12)
    lines = restarted(draws(4, 1, 5, of=12), few, size=640)

    report = judged(tmp_path, lines, DRAWN)

    assert clause(report, "promise")[0] == "unproven"
    assert "draws-repeat" in {one.code for one in report.resumes[0].limits}


def test_without_the_size_of_the_data_set_nothing_is_measured(tmp_path: Path) -> None:
    """The note says so; that the draws are not those of the start again is proven without it."""
    report = judged(tmp_path, restarted(draws(1, 1, 5), draws(2, 4, 9), size=None), DRAWN)

    assert report.verdict.value == "continuous"
    assert "draws-not-measured" in {one.code for one in report.resumes[0].limits}


def test_missing_ranks_leave_draws_unproven(tmp_path: Path) -> None:
    """A rank that left nothing may have drawn anything."""
    lines = [
        one
        for one in restarted(draws(1, 1, 5), draws(2, 4, 9))
        if (one["rank"], one["attempt"]) != (1, 1)
    ]

    assert verdict(tmp_path, lines, DRAWN) == "unproven"


def upsampled(uses: int) -> list[Line]:
    """After the reference's end, samples of `web` come again so often, within one pass."""

    def row(sample: int, source: str = "web") -> dict[str, object]:
        return {"sample_id": sample, "source": source, "epoch": 0}

    dead = {1: [[row(0), row(1)]], 2: [[row(2), row(3)]], 3: [[row(4), row(5)]]}
    alive = {3: dead[3]}
    for time in range(1, uses):
        alive[2 * time + 2] = [[row(0), row(1)]]
        alive[2 * time + 3] = [[row(100 * time), row(100 * time + 1)]]
    start = {"fingerprint": {"dataset_samples": 1000}}
    return [*attempt(0, dead, **start), *attempt(1, alive, after=(0, 2), **start)]


@pytest.mark.parametrize(
    ("repeats", "uses", "expected"),
    [
        ({}, 1, "continuous"),
        ({}, 2, "broken"),
        ({"web": 2}, 2, "continuous"),
        ({"web": 2}, 3, "broken"),
        ({"web": 3}, 3, "continuous"),
        ({"books": 2}, 2, "broken"),
        ({"*": 2}, 2, "continuous"),
        ({"*": 2, "web": 1}, 2, "broken"),
    ],
)
def test_declared_repeats_are_counted_by_source(
    repeats: dict[str, int], uses: int, expected: str, tmp_path: Path
) -> None:
    """A sample may be used as often in one pass as its source declares, and no more."""
    assert verdict(tmp_path, upsampled(uses), Contract(repeats=repeats)) == expected


def test_declared_repeats_do_not_hide_a_replay_where_the_reference_tells(tmp_path: Path) -> None:
    """Where the lost work shows what should have come, it tells how often, not the contract."""
    lines = [
        {**line, "source": "web"} if line["kind"] == "sample" else line
        for line in restarted(shuffles(1, 1, 8), {s: shuffles(1, 1, 8)[s - 1] for s in range(4, 9)})
    ]

    assert verdict(tmp_path, lines, Contract(repeats={"web": 2})) == "broken"


def spans(*ends: int, first: int, overlap: int) -> Steps:
    """Cut one document at these ends, each span beginning `overlap` tokens before the last end."""
    begins = [0, *(end - overlap for end in ends[:-1])]
    rows = [
        {"sample_id": 7, "token_start": begin, "token_end": end}
        for begin, end in zip(begins, ends, strict=True)
    ]
    return {step: [[row]] for step, row in enumerate(rows, first)}


@pytest.mark.parametrize(
    ("begins_at", "contract", "expected"),
    [
        (21, Contract(), "broken"),
        (21, Contract(token_overlap=3), "continuous"),
        (14, Contract(token_overlap=3), "broken"),
        (29, Contract(token_overlap=3), "broken"),
        (21, Contract(token_overlap=0), "broken"),
    ],
)
def test_neighbours_may_share_as_many_tokens_as_the_contract_says(
    begins_at: int, contract: Contract, expected: str, tmp_path: Path
) -> None:
    """With another packing after the resume, three shared tokens are no replay, and more are."""
    dead = spans(11, 21, 31, 41, 51, first=1, overlap=3)
    packed = spans(begins_at, begins_at + 7, 36, 46, 56, first=2, overlap=3)
    alive = {step: packed[step] for step in range(3, 7)}

    lines = [*attempt(0, dead), *attempt(1, alive, after=(0, 2))]

    assert verdict(tmp_path, lines, contract) == expected


def test_a_contract_judges_the_whole_stream_too(tmp_path: Path) -> None:
    """`gate` holds run and control to the same terms."""
    control = write(tmp_path / "control", attempt(0, shuffles(1, 1, 8)))
    again = {step: shuffles(1, 1, 8)[step] for step in range(1, 9)}
    swapped = {step: by_rank[::-1] for step, by_rank in again.items()}
    run = write(tmp_path / "run", attempt(0, swapped))

    kept = Contract(placement="kept").with_terms(default="step")
    free = Contract().with_terms(default="step")

    assert audit.gate([control], [run], contract=free).verdict.value == "continuous"
    assert audit.gate([control], [run], contract=kept).verdict.value == "broken"


def test_the_first_draws_again_that_are_too_few_to_tell_are_unproven(tmp_path: Path) -> None:
    """Eight draws of eight samples are those of the start: chance may do that, and it is said."""
    one_by_one = {step: [[step]] for step in range(1, 9)}
    again = {step + 8: by_rank for step, by_rank in one_by_one.items()}
    lines = [*attempt(0, one_by_one), *attempt(1, again, after=(0, 8))]

    report = judged(tmp_path, lines, DRAWN)

    assert clause(report, "promise")[0] == "unproven"
    assert "draws-too-few" in {one.code for one in report.resumes[0].limits}


def test_a_batch_of_the_whole_data_set_is_no_same_draw(tmp_path: Path) -> None:
    """Every step holds all samples in another order: equal sets say nothing."""
    rng = random.Random(6)
    orders = {step: [rng.sample(range(30), 30)] for step in range(1, 10)}
    dead = {step: orders[step] for step in range(1, 4)}
    alive = {step: orders[step] for step in range(4, 10)}

    assert verdict(tmp_path, restarted(dead, alive, size=30), DRAWN) == "continuous"


def test_the_same_draws_in_smaller_batches_are_the_same_draws(tmp_path: Path) -> None:
    """A seed that was reset is seen though the batch was halved."""
    order = random.Random(7).sample(range(SIZE), 48)
    dead = {step: [order[8 * step - 8 : 8 * step]] for step in range(1, 4)}
    alive = {step: [order[4 * step - 16 : 4 * step - 12]] for step in range(4, 10)}

    report = judged(tmp_path, restarted(dead, alive), DRAWN)

    assert clause(report, "promise")[0] == "broken"


def test_a_stuck_loader_is_unproven_though_it_repeats_nothing_from_before(tmp_path: Path) -> None:
    """One sample again and again after the resume is more than chance repeats."""
    stuck = {step: [[63] * 4] * 2 for step in range(4, 10)}
    dead = {step: [[step, 8 + step]] for step in range(1, 6)}

    report = judged(tmp_path, restarted(dead, stuck, size=None), DRAWN)
    assert "draws-not-measured" in {one.code for one in report.resumes[0].limits}
    report = judged(tmp_path, restarted(dead, stuck), DRAWN)
    assert clause(report, "promise")[0] == "unproven"
