"""The claim that was saved, the one that was restored, and the first resumed records."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from hypothesis import given, settings
from hypothesis import strategies as st
from running import ledger_audit
from tallies import Checkpoint, checkpoints, frame, plain, tally
from tiny import attempt, dealt, write

from ledger_audit.continuity.checkpoints import around as looking
from ledger_audit.continuity.claims.pairs import canonical, differing, pairwise
from ledger_audit.continuity.claims.tally import Tally
from ledger_audit.model.claims import ClaimPair

FOUR = tally(plain(dict.fromkeys(range(4), 32)))


def pairs(
    saved: Mapping[int, object],
    restored: Mapping[int, object],
    first: int | None = 0,
    found: Tally = FOUR,
) -> dict[str, list[ClaimPair]]:
    """Compare pairwise, and give the pairs by their kind."""
    told: dict[str, list[ClaimPair]] = {}
    for one in pairwise(saved, restored, found, first):
        told.setdefault(one.pair, []).append(one)
    return told


def restored(saved: Mapping[int, object], loaded: Mapping[int, object]) -> tuple[str, str]:
    """Give how saved and restored states agree, where all ranks fare alike."""
    (one,) = pairs(saved, loaded)["saved-restored"]
    return one.agreement, one.text


def real(case: str) -> Checkpoint:
    """Give the first checkpoint of a zoo run."""
    return next(checkpoints(case))


def test_as_many_groups_of_ranks_as_can_be_read_are_told() -> None:
    """Where every rank restored another one's state, the rest are put together in one pair."""
    saved = {rank: {"rank_samples": rank} for rank in range(100)}
    loaded = {rank: saved[(rank + 1) % 100] for rank in saved}

    told = pairs(saved, loaded)["saved-restored"]

    assert 64 == len(told)
    assert "rank 0 restored rank 1's state" == told[0].text
    assert ("contradicts", ((63, 99),)) == (told[-1].agreement, told[-1].ranks)
    assert "ranks 63 to 99 restored other states, in 37 ways" == told[-1].text


def test_every_rank_restores_its_own_state() -> None:
    """Equal states agree, however their keys are ordered."""
    saved = {rank: {"rank_samples": 32, "seed": rank} for rank in range(4)}
    loaded = {rank: dict(reversed(state.items())) for rank, state in saved.items()}

    assert ("agrees", "ranks 0 to 3 restored the state that was saved") == restored(saved, loaded)


def test_a_rank_that_restores_anothers_state_is_named() -> None:
    """Rank 0's state on rank 1 contradicts; the ranks that are right are told apart."""
    one = real("torchdata-iterable-rank0-state")
    shared = dict.fromkeys(one.claims, one.claims[0])

    told = pairs(one.claims, shared, found=one.tally)["saved-restored"]

    assert [
        ("contradicts", ((1, 1),), "rank 1 restored rank 0's state"),
        ("agrees", ((0, 0),), "rank 0 restored the state that was saved"),
    ] == [(each.agreement, each.ranks, each.text) for each in told]


def test_one_state_may_be_saved_for_all() -> None:
    """Where only rank 0 saved, or all saved the same, every rank restores that one."""
    state = real("streaming-correct").claims[0]
    loaded = dict.fromkeys(range(4), state)

    alone = pairs({0: state}, loaded)["saved-restored"]
    same = pairs({0: state, 1: state}, loaded)["saved-restored"]

    assert ["agrees", "agrees"] == [one.agreement for one in alone]
    assert "ranks 1 to 3 restored rank 0's state, the only one that was saved" == alone[1].text
    assert ["agrees", "agrees"] == [one.agreement for one in same]
    assert "ranks 2 and 3 restored the state that all ranks had saved" == same[1].text


def test_more_ranks_than_saved_a_state() -> None:
    """A rank that had saved nothing restores what all had saved, one of theirs, or another."""
    first, other = {"rank_samples": 1}, {"rank_samples": 2}

    def of_rank_2(saved: Mapping[int, object], loaded: object) -> tuple[str, str]:
        return restored(saved, {2: loaded})

    assert "agrees" == of_rank_2({0: first, 1: first}, first)[0]
    assert ("not-compared", "rank 2 restored rank 1's state, and had saved none") == of_rank_2(
        {0: first, 1: other}, other
    )
    assert "not-compared" == of_rank_2({0: first, 1: other}, {"rank_samples": 3})[0]
    assert "contradicts" == of_rank_2({0: first}, {"rank_samples": 3})[0]


def test_another_position_than_was_saved_is_told_with_both_numbers() -> None:
    """The count that differs is named; where no count does, the first key that differs."""
    saved = {0: {"consumed_samples": 12, "seed": 1}}

    assert (
        "contradicts",
        "rank 0 restored another position than was saved: consumed_samples was 12, "
        "consumed_samples is 0",
    ) == restored(saved, {0: {"consumed_samples": 0, "seed": 1}})
    assert (
        "contradicts",
        "rank 0 restored another state than was saved: seed: 1 became 2",
    ) == restored(saved, {0: {"consumed_samples": 12, "seed": 2}})


def test_an_unknown_state_is_compared_by_equality() -> None:
    """What no reader knows is the same or it is not."""
    saved = real("webdataset-manual-skip").claims

    assert "agrees" == restored(saved, saved)[0]
    agreement, text = restored(saved, {0: {"epoch": 0, "samples_in_epoch_per_rank": 0}})
    assert "contradicts" == agreement
    assert "samples_in_epoch_per_rank: 24 became 0" in text


def test_a_state_inside_another_is_the_same_state() -> None:
    """A trainer may keep the loader's state among keys of its own, on either side."""
    saved = {0: real("torchdata-sdl-correct").claims[0]}

    assert "agrees" == restored(saved, {0: {"step": 6, "data": saved[0]}})[0]
    assert "agrees" == restored({0: {"data": saved[0]}}, saved)[0]
    other = {**saved[0], "epoch": 1}
    assert "contradicts" == restored(saved, {0: {"step": 6, "data": other}})[0]


def test_a_state_as_text_is_the_state_that_it_holds() -> None:
    """A trainer may keep the text that a loader gives as it is, laid out anew, or taken out."""
    state = real("grain-loader-correct").claims[0]
    text = json.dumps(state, indent=4)

    for saved, loaded in ((text, state), (state, text), (text, json.dumps(state))):
        assert "agrees" == restored({0: saved}, {0: loaded})[0]
        assert "agrees" == restored({0: {"data": saved}}, {0: {"data": loaded}})[0]
        assert "agrees" == restored({0: {"data": saved}}, {0: loaded})[0]
    other = json.dumps({**state, "last_worker_index": 7})
    assert "contradicts" == restored({0: text}, {0: other})[0]


def test_a_cursor_is_compared_with_what_it_has_in_common() -> None:
    """Where a framework's state was saved and the writer's cursor restored, like meets like."""
    cursor: dict[str, Any] = {
        "run": "r", "attempt": "a", "step": 5, "rank": 0, "world_size": 4,
        "records": 10, "tokens": None, "digest": "1",
    }  # fmt: skip

    assert (
        "not-compared",
        "rank 0 restored a state of another kind (cursor) than was saved (MosaicML Streaming)",
    ) == restored({0: real("streaming-correct").claims[0]}, {0: cursor})
    keys = {"rank_samples": 10, "unit": "records"}
    assert "agrees" == restored({0: keys}, {0: cursor})[0]
    assert "contradicts" == restored({0: {**keys, "rank_samples": 12}}, {0: cursor})[0]


def test_nothing_logged_is_not_compared() -> None:
    """Which of the two sides is missing is said; null is nothing."""
    state = {0: {"consumed_samples": 128}}

    assert "no rank logs the state it saved" == restored({}, state)[1]
    assert "no rank logs the state it restored" == restored(state, {0: None})[1]
    told = pairs({}, {})
    assert {"not-compared"} == {one.agreement for each in told.values() for one in each}


def test_what_was_saved_is_compared_with_the_ledger() -> None:
    """The second pair is the comparison of the checkpoint itself."""
    one = real("torch-ddp-prefetched-position")

    (told,) = pairs(one.claims, {}, found=one.tally)["saved-ledger"]

    assert ("contradicts", ((0, 3),)) == (told.agreement, told.ranks)
    assert "2 workers x 4 prefetched" in told.text


@pytest.mark.parametrize(
    ("state", "first", "agreement", "told"),
    [
        ({"consumed_samples": 128}, 0, "agrees", "restored says 128 samples, the first"),
        (
            {"consumed_samples": 12},
            -128,
            "contradicts",
            "12 samples, the first resumed records stand at 0",
        ),
        ({"consumed_samples": 144}, 16, "agrees", "stand at 144"),
        ({"epoch": 0, "rank_epoch_samples": 36}, 16, "agrees", "restored says 144"),
        ({"epoch": 0, "rank_epoch_samples": 36}, 0, "contradicts", "stand at 128"),
        ({"consumed_samples": 0}, -128, "agrees", "says 0 samples, the first resumed"),
        ({"consumed_samples": 0}, -16, "contradicts", "stand at 112"),
        ({"consumed_samples": 128}, None, "not-compared", "stand is not known"),
        ({"place": 3}, 0, "not-compared", "the restored position is not known"),
    ],
)
def test_the_restored_position_is_that_of_the_first_records(
    state: object, first: int | None, agreement: str, told: str
) -> None:
    """A wrong claim that is followed agrees here; a right one that is ignored contradicts."""
    (one,) = pairs({}, dict.fromkeys(range(4), state), first)["restored-records"]

    assert agreement == one.agreement
    assert told in one.text


def pairs_around(folder: Path, resume: int = 0) -> dict[str, list[str]]:
    """Give how the claims around a resume of a ledger agree, as the report tells it."""
    told: dict[str, list[str]] = {}
    for one in ledger_audit("diff", folder, "--format", "json").report["resumes"][resume]["claims"]:
        told.setdefault(one["pair"], []).append(one["agreement"])
    return told


@pytest.mark.parametrize(
    ("says", "at", "agreements"),
    [
        (16, 16, ("agrees", "agrees", "agrees")),
        (16, 0, ("agrees", "agrees", "contradicts")),
        (0, 0, ("contradicts", "agrees", "agrees")),
        (0, 16, ("contradicts", "agrees", "contradicts")),
        (20, 20, ("contradicts", "agrees", "agrees")),
        (13, 13, ("contradicts", "agrees", "agrees")),
        (16, 13, ("agrees", "agrees", "contradicts")),
    ],
)
def test_a_wrong_claim_is_told_from_one_that_was_ignored(
    tmp_path: Path, says: int, at: int, agreements: tuple[str, ...]
) -> None:
    """However few steps came after the resume, the place where its first records stand is known."""
    claim = {"consumed_samples": says}
    save = {"kind": "checkpoint", "rank": 0, "step": 4, "attempt": 0, "data": {"claim": claim}}
    before = attempt(0, dealt(1, 8))
    # it is saved after step 4
    place = 1 + max(n for n, one in enumerate(before) if one["rank"] == 0 and one.get("step") == 4)
    resumed = attempt(1, dealt(5, 6, at=at), after=(0, 4), restored=claim)

    told = pairs_around(write(tmp_path, before[:place], [save], before[place:], resumed))

    pairs_of = ("saved-ledger", "saved-restored", "restored-records")
    assert agreements == tuple(told[one][0] for one in pairs_of)
    assert {1} == {len(set(told[one])) for one in pairs_of}


def test_a_state_that_stood_still_is_followed_to_where_it_says() -> None:
    """The state said 0 and the stream began at 0: only the save was wrong."""
    case = FIXTURES / "cases" / "a-frozen-state-says-zero-after-the-first-resume" / "run"

    assert {
        "saved-ledger": ["contradicts"],
        "saved-restored": ["agrees"],
        "restored-records": ["agrees"],
    } == pairs_around(case, 1)


def test_the_restored_count_of_one_rank_is_no_position_of_all() -> None:
    """What the others restored is not known, so the first records are not compared with it."""
    (one,) = pairs({}, {0: {"rank_samples": 32}})["restored-records"]

    assert "not-compared" == one.agreement


def test_records_that_are_not_sequences_are_not_compared_with_sequences() -> None:
    """Where packed records stand is in another unit than a count of sequences; zero is zero."""
    packed = tally(frame([(0, None, 30, 10, 20, 640, 5)]))
    state = {0: {"consumed_samples": 10, "unit": "sequences"}}

    assert "not-compared" == pairs({}, state, 3, packed)["restored-records"][0].agreement
    assert "agrees" == pairs({}, state, 0, packed)["restored-records"][0].agreement


def test_a_truth_value_is_not_a_number() -> None:
    """What differs is found by the JSON that it is: 1 and true are different states."""
    assert canonical({"a": 1}) != canonical({"a": True})
    assert "a: 1 became true" == differing({"a": 1}, {"a": True})
    assert "a.1: 'x y' became an object of 0" == differing({"a": [0, "x y"]}, {"a": [0, {}]})


def test_what_is_no_json_is_not_compared() -> None:
    """Neither bytes nor endless nesting makes the comparison fail."""
    deep: Any = {}
    for _ in range(5000):
        deep = {"in": deep}

    assert "not-compared" == restored({0: {"a": 1}}, {0: deep})[0]
    assert "not-compared" == restored({0: {"a": 1}}, {0: {"a": b"bytes"}})[0]
    assert "not-compared" == restored({0: deep}, {0: {"a": 1}})[0]


STATES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 40) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["consumed_samples", "rank_samples", "epoch", "slot", "a", "b"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
BY_RANK = st.dictionaries(st.integers(0, 3), STATES, max_size=4)


@given(BY_RANK, BY_RANK, st.none() | st.integers(-200, 200))
@settings(max_examples=300, deadline=None)
def test_any_states_are_compared(
    saved: dict[int, object], loaded: dict[int, object], first: int | None
) -> None:
    """Nothing fails, each pair is there, and each rank that restored is told of once."""
    told = pairs(saved, loaded, first)

    assert {"saved-restored", "saved-ledger", "restored-records"} == set(told)
    ranks = [
        rank
        for one in told["saved-restored"]
        for first, last in one.ranks
        for rank in range(first, last + 1)
    ]
    wanted = sorted(rank for rank, state in loaded.items() if state is not None)
    is_saved = any(state is not None for state in saved.values())
    assert (wanted if is_saved else []) == sorted(ranks)
    assert all(one.text.isprintable() for each in told.values() for one in each)


@given(BY_RANK)
@settings(max_examples=100, deadline=None)
def test_what_is_restored_as_it_was_saved_never_contradicts(saved: dict[int, object]) -> None:
    """Equality is equality, whatever the states are."""
    told = pairs(saved, saved)["saved-restored"]

    assert "contradicts" not in {one.agreement for one in told}


def test_a_narrow_diff_of_a_long_job_does_not_count_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a window is read, more records than a limit are not counted; with --full they are."""
    monkeypatch.setattr(looking, "MOST_COUNTED", 50)
    claim = {"phase": "complete", "claim": {"consumed_samples": 400}}
    saved = {"kind": "checkpoint", "attempt": 0, "rank": 0, "step": 100, "data": claim}
    dead = attempt(0, dealt(1, 103))
    root = write(tmp_path, dead, [saved], attempt(1, dealt(101, 105), after=(0, 100)))

    narrow = ledger_audit("diff", root, "--format", "json").report["resumes"][0]["claims"]
    full = ledger_audit("diff", root, "--full", "--format", "json").report["resumes"][0]["claims"]

    assert [one["agreement"] for one in narrow] == ["not-compared"] * 3
    assert "counting 412 records is left to --full" in narrow[1]["text"]
    assert [one["agreement"] for one in full] == ["not-compared", "agrees", "not-compared"]
