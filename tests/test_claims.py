"""What a checkpoint claims against what committed updates consumed, before any resume."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import FIXTURES
from hypothesis import given, settings
from hypothesis import strategies as st
from running import ledger_audit
from saving import saves
from tallies import (
    RANKS,
    Checkpoint,
    checkpoints,
    counted,
    facts,
    frame,
    in_pass,
    of_all,
    plain,
    tally,
    used,
)
from tiny import attempt, write

from ledger_audit.continuity.claims.claim import Claim, Count
from ledger_audit.continuity.claims.compare import compare
from ledger_audit.continuity.claims.tally import Places, Tally
from ledger_audit.continuity.claims.wording import ranks_told

# The zoo: what checkpoints of real frameworks claim.

CONTRADICTED = {
    ("hf-datasets-plain-loader-state", 0, 10): (-80, "replay 40 samples of each"),
    ("streaming-plain-loader-rank-count", 0, 6): (-72, "a rank's own count given as everyone's"),
    ("torch-ddp-partial-accum", 0, 8): (
        8,
        "34 claimed - 32 committed = 2 samples of step 9, which had begun",
    ),
    ("torch-ddp-prefetched-position", 0, 8): (
        64,
        "48 claimed - 32 committed = 16 = 2 workers x 4 prefetched x 2 a batch",
    ),
    ("torch-ddp-prefetched-position", 1, 15): (64, "2 workers x 4 prefetched x 2 a batch"),
    # the stream itself had begun again, and the claim is right about that
    ("torch-ddp-epoch-restart", 1, 15): (-128, "it counts since the last resume only (60 - 32"),
}
"""Sequences of all ranks, as truth.json counts them after the resume, and the explanation."""

SILENT = {
    "accelerate-correct": "no data position in it",
    "accelerate-docs-epoch0": "no data position in it",
    "lightning-plain-midepoch": "its pass will begin again",
    "webdataset-epoch-restart": "compared by equality only",
    "webdataset-manual-skip": "compared by equality only",
}

ZOO = [
    (case.name, one)
    for case in sorted((FIXTURES / "zoo").iterdir())
    for one in checkpoints(case.name)
]


@pytest.mark.parametrize(
    ("case", "one"), ZOO, ids=[f"{case}-{one.attempt}-{one.step}" for case, one in ZOO]
)
def test_the_claims_of_real_checkpoints(case: str, one: Checkpoint) -> None:
    """A right state agrees or says why it cannot; a wrong one is caught before any resume."""
    found = facts(one.claims, one.tally)

    wrong = CONTRADICTED.get((case, one.attempt, one.step))
    if wrong is not None:
        assert "contradicts" == found.agreement
        assert wrong[0] == found.ahead
        assert wrong[1] in found.text
    elif case in SILENT:
        assert "not-compared" == found.agreement
        assert SILENT[case] in found.text
    else:
        assert "agrees" == found.agreement
        assert found.ahead in (0, None)
        assert all(each.agreement == "agrees" for each in found.comparisons)


def test_the_state_of_a_last_batch_tells_that_it_yields_nothing_first() -> None:
    """The count is right, and the restored loader begins with an empty pass; not inside a pass."""
    notes = {
        case: facts(one.claims, one.tally).notes
        for case in ("torchdata-sdl-last-batch", "torchdata-sdl-correct")
        for one in checkpoints(case)
    }

    assert any("first yields no batch" in note for note in notes["torchdata-sdl-last-batch"])
    assert not any("first yields" in note for note in notes["torchdata-sdl-correct"])


# Units.


def test_a_count_is_compared_in_its_own_unit() -> None:
    """Packed data has several records a sequence, and shares documents: each unit is its own."""
    found = tally(frame([(0, 0, 30, 10, 20, 640, 5)]), step=5)
    right = {"records": 30, "sequences": 10, "documents": 20, "tokens": 640, "micro-batches": 5}

    for unit, value in {**right, "steps": 5}.items():
        for claimed, agreement in ((value, "agrees"), (value + 1, "contradicts")):
            assert agreement == compare({0: counted(claimed, unit=unit)}, found).agreement, unit


def test_a_count_without_a_unit_needs_records_that_are_samples() -> None:
    """Where all units give one number it is compared; on packed data it is not, with a reason."""
    packed = tally(frame([(0, 0, 30, 10, 20, 640, 5)]))

    assert "agrees" == compare({0: counted(10, unit=None)}, tally(plain({0: 10}))).agreement
    told = compare({0: counted(10, unit=None)}, packed)
    assert "not-compared" == told.agreement
    assert "30 records, 10 sequences and 20 documents" in told.text


def test_a_count_without_a_unit_may_be_of_distinct_samples() -> None:
    """Where samples repeat, it is neither confirmed nor refuted by the number of distinct ones."""
    repeated = tally(frame([(0, 0, 10, 10, 8, None, 5)]))

    agreement = {n: compare({0: counted(n, unit=None)}, repeated).agreement for n in (7, 8, 10)}

    assert {7: "contradicts", 8: "not-compared", 10: "agrees"} == agreement


def test_tokens_need_spans_and_documents_need_one_rank() -> None:
    """Without spans no tokens are counted; a document that ranks share is counted in each."""
    no_spans = tally(plain({0: 10}, tokens=None))
    shared = tally(frame([(0, 0, 6, 4, 3, 64, 2), (1, 0, 6, 4, 3, 64, 2)]))

    assert "no spans are logged" in compare({0: counted(80, unit="tokens")}, no_spans).text
    assert "several ranks used" in compare({0: counted(6, unit="documents")}, shared).text
    one = counted(3, "rank", unit="documents")
    assert "agrees" == compare({0: one, 1: one}, shared).agreement


def test_people_are_told_samples_where_a_record_is_one() -> None:
    """On packed data the unit is named as it is."""
    assert "says 11 samples of all" in compare({0: counted(11)}, tally(plain({0: 10}))).text
    packed = tally(frame([(0, 0, 30, 10, 20, 640, 5)]))
    assert "says 11 sequences of all" in compare({0: counted(11)}, packed).text


# Void updates, groups that had begun, queues.


def test_void_updates_moved_the_stream_on() -> None:
    """What they used belongs to the count; a count of committed updates alone replays it."""
    found = tally(used(32), voided=used(4))

    both, alone = of_all({"consumed_samples": 144}, found), of_all({"consumed_samples": 128}, found)

    assert ("agrees", 0) == (both.agreement, both.ahead)
    assert "committed updates consumed 128 and void ones 16 more" in both.text
    assert ("contradicts", -16) == (alone.agreement, alone.ahead)
    assert alone.text.endswith("replay 16 samples, which void updates used")
    assert "void" not in of_all({"consumed_samples": 128}, tally(used(32))).text


def test_void_updates_at_the_end_may_be_used_again_or_passed_over() -> None:
    """Both counts are right and nothing is skipped or replayed; a part of them is neither."""
    found = tally(used(3), step=4, voided=used(1), voided_last=used(1))
    amounts = {"consumed_samples": 4, "rank_samples": 1, "epoch_samples": 4}

    for key, each in {**amounts, "rank_epoch_samples": 1}.items():
        for value in (3 * each, 4 * each):
            told = of_all({key: value, "epoch": 0}, found)
            assert ("agrees", 0) == (told.agreement, told.ahead), (key, value)
        for value in {*range(2 * each, 6 * each)} - {3 * each, 4 * each}:
            assert "contradicts" == of_all({key: value, "epoch": 0}, found).agreement, (key, value)

    again = of_all({"consumed_samples": 12}, found)
    assert again.text.endswith(
        "as committed updates consumed; what void updates used after that may be used again"
    )
    assert "again" not in of_all({"consumed_samples": 16}, found).text
    behind, beyond = (of_all({"consumed_samples": value}, found) for value in (10, 18))
    assert (-2, 2) == (behind.ahead, beyond.ahead)
    assert "void" not in behind.text


def test_only_void_updates_at_the_end_may_be_used_again() -> None:
    """Those before a committed one moved the stream on, whatever came later."""
    found = tally(used(3), step=5, voided=used(2), voided_last=used(1))

    agreement = {n: of_all({"consumed_samples": n}, found).agreement for n in (12, 16, 20)}

    assert {12: "contradicts", 16: "agrees", 20: "agrees"} == agreement


def test_all_ranks_use_void_samples_again_or_none_does() -> None:
    """One that goes back while another goes on is no stream."""
    found = tally(plain({0: 3, 1: 3}), voided=plain({0: 1, 1: 1}), voided_last=plain({0: 1, 1: 1}))

    def agreement(first: int, second: int) -> str:
        return facts({0: {"rank_samples": first}, 1: {"rank_samples": second}}, found).agreement

    assert ["agrees", "agrees"] == [agreement(3, 3), agreement(4, 4)]
    assert ["contradicts", "contradicts"] == [agreement(3, 4), agreement(4, 3)]


def test_a_pass_that_only_void_updates_at_the_end_began() -> None:
    """The claim may stand at the end of the one before it, and no further back."""
    void = plain({0: 2}, epoch=1)
    found = tally(plain({0: 6}), voided=void, voided_last=void, dataset_samples=6)

    def agreement(epoch: int, value: int, found: Tally = found) -> str:
        return compare({0: in_pass(epoch, value)}, found).agreement

    assert ["agrees"] * 3 == [agreement(0, 6), agreement(1, 0), agreement(1, 2)]
    assert ["contradicts"] * 3 == [agreement(0, 4), agreement(1, 1), agreement(2, 0)]
    assert "contradicts" == agreement(0, 6, replace(found, voided_last=None))


def test_void_updates_at_the_end_make_no_missing_record_right() -> None:
    """Where records may be missing, the count without them is no proof for all ranks either."""
    found = tally(used(3), voided=used(1), voided_last=used(1), unseen="a file of rank 2 is torn")

    agreement = {n: of_all({"consumed_samples": n}, found).agreement for n in (10, 12, 16)}

    assert {10: "contradicts", 12: "not-compared", 16: "not-compared"} == agreement


def test_the_place_after_the_last_committed_one_is_right_before_void_updates() -> None:
    """So is the count, one sample being repeated; a hole before both places is lost from both."""
    void = plain({0: 2}, batch=1)
    used_places = pl.DataFrame({"start": [0], "stop": [6]})
    again = tally(
        plain({0: 7}, batch=1),
        voided=void,
        voided_last=void,
        places=Places(8, (), 0, None, used_places),
    )
    holed = replace(again, places=Places(8, (3,), 1, None, used_places))

    agrees = {n for n in range(12) if compare({0: counted(n)}, again).agreement == "agrees"}

    assert {6, 7, 8, 9} == agrees  # places 6 and 8, counts 7 and 9
    passed = replace(again, voided_last=None)
    assert "contradicts" == compare({0: counted(6)}, passed).agreement
    assert ["contradicts"] * 2 == [compare({0: counted(n)}, holed).agreement for n in (6, 8)]


@pytest.mark.parametrize("is_placed", [False, True])
@pytest.mark.parametrize(
    ("void", "right"),
    [
        ((4,), {12, 16}),
        ((3, 4), {8, 16}),
        ((2,), {16}),
        ((2, 4), {12, 16}),
        ((1, 2, 3, 4), {0, 16}),
        ((), {16}),
    ],
)
def test_void_steps_of_a_ledger(
    void: tuple[int, ...], right: set[int], tmp_path: Path, *, is_placed: bool
) -> None:
    """Only a run of void steps that ends at the checkpoint may be used again, as a whole."""
    for value in range(20):
        steps: dict[int, list[list[dict[str, int]]]] = {}
        for step in range(1, 5):
            first = 4 * (step - 1)
            rows = [{"sample_id": one, "epoch": 0} for one in range(first, first + 4)]
            placed = [{**row, "position": row["sample_id"]} for row in rows]
            steps[step] = [placed[:2], placed[2:]] if is_placed else [rows[:2], rows[2:]]
        lines = attempt(0, steps, void=void)
        claim = {"consumed_samples": value, "epoch_samples": value, "epoch": 0}
        if value % 2 == 0:
            claim |= {"rank_samples": value // 2, "rank_epoch_samples": value // 2}
        for rank in (1, 0):
            last = max(at for at, line in enumerate(lines) if line["rank"] == rank)
            lines[last + 1 : last + 1] = saves(lines[last], claim)
        folder = write(tmp_path / str(value), lines)
        report = ledger_audit("checkpoints", folder, "--format", "json").report
        told = report["checkpoints"][0]["claim"]
        agreed = {one["agreement"] for one in told["comparisons"]}
        assert agreed == {"agrees" if value in right else "contradicts"}, (value, told)
        assert (told["ahead"] == 0) or value not in right, (value, told)


def test_a_void_try_that_was_committed_after_all_is_not_at_the_end(tmp_path: Path) -> None:
    """A retry used its samples again: they count once, and a claim without them contradicts."""
    for value, agreement in ((2, "contradicts"), (4, "agrees"), (6, "contradicts")):
        steps = {1: [[0, 1]], 2: [[2, 3]]}
        lines = attempt(0, steps, void=[2], fingerprint={"dataset_samples": 9})
        lines += attempt(0, {2: [[2, 3]]})[1:]
        lines += saves(lines[-1], {"consumed_samples": value})
        report = ledger_audit(
            "checkpoints", write(tmp_path / str(value), lines), "--format", "json"
        ).report
        assert agreement == report["checkpoints"][0]["claim"]["agreement"], value


def test_slots_of_a_group_that_had_begun_are_in_no_update() -> None:
    """A claim that counts them is ahead by them; by another number it is unexplained."""
    found = tally(used(32), open=used(2))

    right = of_all({"rank_samples": 34}, found)
    other = of_all({"rank_samples": 35}, found)

    assert "34 claimed - 32 committed = 2 samples of step 9, which had begun" in right.text
    assert 8 == right.ahead
    assert "had begun" not in other.text


def test_what_the_claim_says_is_queued_explains_it() -> None:
    """The page's own example: 812 claimed, 768 consumed, 44 queued."""
    found = tally(plain({0: 768}), step=96)

    told = facts({0: {"consumed_samples": 812, "queued_samples": 44}}, found)
    other = facts({0: {"consumed_samples": 812, "queued_samples": 40}}, found)

    assert (
        "the claim says 812 samples of all ranks since the run began, committed updates consumed "
        "768; 812 claimed - 768 committed = 44 queued, as the claim says: a resume from here will "
        "skip 44 samples"
    ) == told.text
    assert 44 == told.ahead
    assert "queued" not in other.text
    batches = facts(
        {0: {"consumed_samples": 776, "queued_batches": 4}}, replace(found, micro_batch_size=2)
    )
    assert "8 queued, as the claim says" in batches.text


def test_queued_samples_of_all_ranks_add_up() -> None:
    """Each rank says its own queue, and the count of all is ahead by their sum."""
    told = of_all({"consumed_samples": 144, "queued_samples": 4}, tally(used(32)))

    assert "144 claimed - 128 committed = 16 queued, as the claim says" in told.text


def test_what_is_queued_or_read_proves_no_position() -> None:
    """Such a number informs, even where it equals what the ledger logs, or what was consumed."""
    found = tally(used(32), open=used(1), queued=148, read=128)

    told = of_all({"queued_samples": 16, "read_samples": 128}, found)

    assert "not-compared" == told.agreement
    assert [128, 16] == sorted((one.found for one in told.comparisons), reverse=True)
    assert all("that is no position" in one.text for one in told.comparisons)


def test_what_the_ledger_logs_as_queued_or_read_explains_it() -> None:
    """Records that were logged and not used are what a claim is ahead by."""
    state = {"consumed_samples": 144}

    queued = of_all(state, tally(used(32), queued=144, read=160)).text
    read = of_all(state, tally(used(32), queued=136, read=144)).text
    neither = of_all(state, tally(used(32), queued=140, read=160)).text

    assert "16 queued and not used, as the ledger logs" in queued
    assert "16 read and not used, as the ledger logs" in read
    assert "as the ledger logs" not in neither


@pytest.mark.parametrize(
    ("key", "ahead", "told"),
    [
        ("rank_samples", 16, "16 = 2 workers x 4 prefetched x 2 a batch"),
        ("consumed_samples", 64, "64 = 4 ranks x 2 workers x 4 prefetched x 2 a batch"),
        ("rank_samples", 15, None),
        ("consumed_samples", 16, None),
    ],
)
def test_what_workers_had_prefetched_explains_it(key: str, ahead: int, told: str | None) -> None:
    """Exactly as many as they hold, of one rank or of all; any other number is not it."""
    found = tally(used(32), workers=2, prefetch_factor=4, micro_batch_size=2)
    proven = 32 if key == "rank_samples" else 128

    text = of_all({key: proven + ahead}, found).text

    assert (told is not None) == ("prefetched" in text)
    assert (told or "") in text


def test_prefetched_batches_are_counted_in_batches_too() -> None:
    """A count of micro-batches is ahead by workers times what each prefetches."""
    found = tally(used(32), workers=2, prefetch_factor=4)
    told = compare(dict.fromkeys(RANKS, counted(24, "rank", unit="micro-batches")), found)

    assert "24 claimed - 16 committed = 8 = 2 workers x 4 prefetched:" in told.text


def test_a_slot_in_the_middle_of_a_step_contradicts() -> None:
    """Only whole updates are in the weights; slot 0 is right."""
    found = tally(used(32))

    told = of_all({"consumed_samples": 128, "slot": 1}, found)

    assert "contradicts" == told.agreement
    assert ("slot", 1, 0, "slots") == (
        told.comparisons[-1].key,
        told.comparisons[-1].claimed,
        told.comparisons[-1].found,
        told.comparisons[-1].unit,
    )
    assert "slot 1 of step 9 comes next" in told.text
    assert "agrees" == of_all({"consumed_samples": 128, "slot": 0}, found).agreement
    assert "contradicts" == of_all({"slot": 3}, found).agreement


# Void samples that come round in the next pass, where no pass is logged.


def rounds(epoch: int | None = None, **more: Any) -> Tally:
    """Give 0 and 1 void, 2 and 3, then 0 and 1 again: a new pass, or a replay."""
    return tally(
        plain({0: 4}, epoch=epoch),
        step=3,
        **{"dataset_samples": 4, "voided_all": plain({0: 2}, epoch=epoch), **more},
    )


@pytest.mark.parametrize("key", ["consumed_samples", "rank_samples"])
@pytest.mark.parametrize(
    ("value", "agreement", "told"),
    [
        (3, "contradicts", "a resume from here will replay 1 sample"),
        (4, "not-compared", "2 samples of void updates were used again"),
        (5, "not-compared", "whether in the next pass, no epoch is logged to tell"),
        (6, "not-compared", "committed updates consumed 4"),
        (7, "contradicts", "skip 1 sample at least: 2 samples of void updates were used again"),
    ],
)
def test_void_samples_that_may_have_come_round(
    key: str, value: int, agreement: str, told: str
) -> None:
    """Without epochs neither amount is refuted, and what is outside of both is."""
    found = facts({0: {key: value}}, rounds())

    assert agreement == found.agreement
    assert told in found.text.replace(" of each", "")
    assert found.ahead is None


@pytest.mark.parametrize(
    "found",
    [
        rounds(dataset_samples=6),
        rounds(epoch=0),
        rounds(voided_all=None),
        rounds(places=Places(4, (), 0)),
    ],
    ids=["within one pass", "epochs", "not used again", "places"],
)
def test_a_replay_of_void_samples_is_one_where_no_pass_turned_over(found: Tally) -> None:
    """Then the count is what committed updates used, and no other."""
    told = {n: facts({0: {"consumed_samples": n}}, found).agreement for n in (4, 5, 6)}

    assert {4: "agrees", 5: "contradicts", 6: "contradicts"} == told


def test_the_size_of_the_data_set_is_needed_to_tell_that_no_pass_turned_over() -> None:
    """Without it any void sample that was used again may have come round, in every unit."""
    found = rounds(dataset_samples=None)

    assert "not-compared" == facts({0: {"consumed_samples": 6}}, found).agreement
    for unit, value in (("tokens", 48), ("micro-batches", 3)):
        claims = {0: counted(value, unit=unit)}
        assert "not-compared" == compare(claims, found).agreement
        assert "contradicts" == compare(claims, rounds(voided_all=None)).agreement
    assert "not-compared" == facts({0: {"next_index": 4}}, found).agreement
    assert "not-compared" == facts({0: {"epoch_samples": 2}}, rounds()).agreement


def test_a_pass_that_comes_round_in_a_ledger(tmp_path: Path) -> None:
    """Counted from the records themselves: a right and a wrong claim are both left open."""
    dealt = {1: [[0, 1]], 2: [[2, 3]], 3: [[0, 1]]}

    def agreement(value: int, samples: int, epochs: tuple[int | None, ...]) -> str:
        steps = {
            step: [[{"sample_id": one, "epoch": epoch} for one in row] for row in rows]
            for (step, rows), epoch in zip(dealt.items(), epochs, strict=True)
        }
        lines = attempt(0, steps, void=[1], fingerprint={"dataset_samples": samples})
        lines += saves(lines[-1], {"consumed_samples": value})
        folder = write(tmp_path / f"{value}-{samples}-{epochs[2]}", lines)
        report = ledger_audit("checkpoints", folder, "--format", "json").report
        return str(report["checkpoints"][0]["claim"]["agreement"])

    none, logged = (None, None, None), (0, 0, 1)
    assert ["not-compared"] * 2 == [agreement(n, 4, none) for n in (6, 4)]
    assert ["contradicts", "agrees"] == [agreement(n, 9, none) for n in (6, 4)]
    assert ["agrees", "contradicts"] == [agreement(n, 4, logged) for n in (6, 4)]


# Whose count it is.


def test_equal_results_of_neighbouring_ranks_are_one() -> None:
    """Ranks for which a number is worth the same are closed ranges of one comparison."""
    found = tally(plain({0: 8, 1: 8, 2: 8, 3: 6, 4: 8}))
    said = {0: 8, 1: 8, 2: 8, 3: 8, 4: 8}

    told = facts({rank: {"rank_samples": value} for rank, value in said.items()}, found)

    assert [((3, 3),), ((0, 2), (4, 4))] == [one.ranks for one in told.comparisons]
    assert ["contradicts", "agrees"] == [one.agreement for one in told.comparisons]


@pytest.mark.parametrize(
    ("consumed", "said", "told"),
    [
        ((7, 5, 6, 6), (6, 6, 6, 6), "all ranks say the count of ranks 2 and 3"),
        ((7, 5, 6, 4), (7, 7, 6, 6), "ranks 0 and 1 say the count of rank 0"),
        ((7, 5, 6, 4), (7, 7, 6, 6), "ranks 2 and 3 say the count of rank 2"),
        ((7, 5, 6, 4), (7, 6, 7, 4), "rank 1 says the count of rank 2"),
        ((7, 5, 6, 4), (9, 9, 9, 9), None),
        ((7, 5, 6, 4), (7, 5, 6, 4), None),
    ],
)
def test_ranks_that_say_another_ranks_count(
    consumed: tuple[int, ...], said: tuple[int, ...], told: str | None
) -> None:
    """The rank whose count fits is named, also where ranks of a node share a file."""
    found = facts(
        {rank: {"rank_samples": one} for rank, one in enumerate(said)},
        tally(plain(dict(enumerate(consumed)))),
    )
    texts = " | ".join(one.text for one in found.comparisons)

    assert (told is not None) == ("the count of" in texts)
    assert (told or "") in texts


def test_a_shared_count_replays_on_one_rank_and_skips_on_another() -> None:
    """Then there is no single number of samples that a resume is ahead by."""
    found = tally(plain({0: 7, 1: 5}))

    assert facts({0: {"rank_samples": 6}, 1: {"rank_samples": 6}}, found).ahead is None
    assert 2 == facts({0: {"rank_samples": 8}, 1: {"rank_samples": 6}}, found).ahead


def test_a_ranks_count_as_that_of_all_and_the_other_way_round() -> None:
    """Each is named where it fits, and not where it does not."""
    found = tally(used(32))

    assert "a rank's own count given as everyone's" in of_all({"consumed_samples": 32}, found).text
    assert "everyone's count given as a rank's" in of_all({"rank_samples": 128}, found).text
    assert "given as" not in of_all({"consumed_samples": 33}, found).text
    assert "given as" not in of_all({"rank_samples": 127}, found).text


def test_one_rank_alone_is_compared_and_the_others_are_named() -> None:
    """What the others would say is not known; whether one count could be theirs is told."""
    state = {0: {"rank_samples": 8}}

    even, uneven = (
        facts(state, tally(plain({0: 8, 1: 8}))),
        facts(state, tally(plain({0: 8, 1: 6}))),
    )

    assert ("agrees", None) == (even.agreement, even.ahead)
    assert ((0, 0),) == even.comparisons[0].ranks
    assert "only rank 0 says its own count: what rank 1 would say is not known" in even.notes
    assert any(note.endswith("and rank 1 used another number") for note in uneven.notes)


@pytest.mark.parametrize(
    ("states", "silent"),
    [
        ({0: {"rank_samples": 8}}, ((1, 3),)),
        ({0: {"rank_samples": 8}, 2: {"rank_samples": 8}}, ((1, 1), (3, 3))),
        ({0: {"rank_samples": 8}, 1: {}, 2: {"slot": 0}, 3: {"place": 4}}, ((1, 3),)),
        ({rank: {"rank_samples": 8} for rank in range(4)}, ()),
        ({0: {"rank_samples": 9}}, ((1, 3),)),
        ({0: {"rank_samples": 8, "consumed_samples": 32}}, ()),
        ({0: {"consumed_samples": 32}}, ()),
        ({0: {"consumed_samples": 30}}, ((1, 3),)),
        ({0: {"global_step": 4, "max_steps": 9, "train_batch_size": 2}}, ()),
        ({0: {"rank_samples": 8, "queued_samples": 4, "unit": "records"}}, ((1, 3),)),
        ({}, ((0, 3),)),
    ],
)
def test_ranks_of_which_nothing_is_told_are_silent(
    states: dict[int, object], silent: tuple[tuple[int, int], ...]
) -> None:
    """A rank's own count speaks for itself, a right one of all ranks for everyone."""
    assert silent == facts(states, tally(used(8), step=4)).silent


def test_a_state_that_rank_0_saves_for_all_speaks_for_them_if_it_counts_all() -> None:
    """Streaming counts all ranks, and a step is that of all; a loader of one rank is its own."""
    silent = {
        case: facts({0: one.claims[0]}, one.tally).silent
        for case in ("streaming-correct", "hf-trainer-correct", "lightning-stateful")
        for one in [next(checkpoints(case))]
    }

    assert {
        "streaming-correct": (),
        "hf-trainer-correct": (),
        "lightning-stateful": ((1, 1),),
    } == silent


def test_ranks_whose_counts_are_added_up_are_not_silent() -> None:
    """After the number of ranks changed, the sum over all of them tells of each."""
    found = tally(
        plain({0: 48, 1: 48, 2: 32, 3: 32}), world_sizes=(4, 2), committed_before=used(32)
    )

    assert () == facts({0: {"rank_samples": 80}, 1: {"rank_samples": 80}}, found).silent
    assert ((0, 1),) == facts({0: {"rank_samples": 80}}, found).silent


def test_ranks_that_differ_in_a_count_of_all_are_told() -> None:
    """Those that are wrong contradict, and no number of samples is ahead."""
    found = facts(
        {0: {"consumed_samples": 16}, 1: {"consumed_samples": 15}}, tally(plain({0: 8, 1: 8}))
    )

    assert ("contradicts", None) == (found.agreement, found.ahead)
    assert "the claim of rank 1 says 15" in found.text
    assert any("ranks differ in consumed_samples" in note for note in found.notes)


def test_a_rank_without_a_record_is_not_compared_if_records_may_be_unseen() -> None:
    """What is unknown may be anything; in a whole ledger a rank without records used nothing."""
    whole = tally(plain({0: 8}), world_sizes=(2,))
    states = {0: {"rank_samples": 8}, 1: {"rank_samples": 8}}

    told = facts(states, replace(whole, unseen="rank 1 is not logged"))

    assert ["agrees", "not-compared"] == [one.agreement for one in told.comparisons]
    assert "the rank left no record" in told.comparisons[1].text
    assert "contradicts" == facts(states, whole).agreement


def test_after_the_number_of_ranks_changed_their_counts_are_added_up() -> None:
    """A right elastic resume deals out anew what each had consumed; only the sum must be right."""
    found = tally(
        plain({0: 48, 1: 48, 2: 32, 3: 32}), world_sizes=(4, 2), committed_before=used(32)
    )

    right = facts({0: {"rank_samples": 80}, 1: {"rank_samples": 80}}, found)
    wrong = facts({0: {"rank_samples": 80}, 1: {"rank_samples": 90}}, found)
    own = facts({0: {"rank_samples": 48}, 1: {"rank_samples": 48}}, found)
    alone = facts({0: {"rank_samples": 80}}, found)

    assert ("agrees", 0) == (right.agreement, right.ahead)
    assert "160 samples of ranks 0 and 1 together" in right.text
    assert ("contradicts", 10) == (wrong.agreement, wrong.ahead)
    assert "agrees" == own.agreement
    assert "not-compared" == alone.agreement
    unseen = replace(found, unseen="a file is torn")
    torn = facts({0: {"rank_samples": 40}, 1: {"rank_samples": 130}}, unseen)
    assert "160 were found, but a file is torn" in torn.text
    same = replace(found, world_sizes=(4, 4))
    assert "contradicts" == facts({0: {"rank_samples": 80}}, same).agreement


@pytest.mark.parametrize(
    ("value", "agreement", "ahead", "told"),
    [
        (4, "agrees", 0, "as committed updates consumed"),
        (6, "agrees", 0, "6 samples of rank 0, as committed"),
        (5, "contradicts", None, "rank 0 used 4 samples, and all ranks that ever took part 6"),
        (3, "contradicts", -3, "will replay 3 samples"),
        (8, "contradicts", 2, "will skip 2 samples"),
    ],
)
def test_after_ranks_left_a_count_may_be_read_in_two_ways(
    value: int, agreement: str, ahead: int | None, told: str
) -> None:
    """Between what a rank used and what all did it is wrong by both, and no distance is known."""
    found = tally(plain({0: 4, 1: 2}), step=4, world_sizes=(2, 1))

    judged = facts({0: {"rank_samples": value}}, found)

    assert (agreement, ahead) == (judged.agreement, judged.ahead)
    assert told in judged.text


def test_after_ranks_left_void_samples_may_have_come_round() -> None:
    """A sum that may count them is left open, and one beyond is wrong, by an unknown distance."""
    found = tally(
        plain({0: 4, 1: 2}, epoch=None),
        step=4,
        world_sizes=(2, 1),
        dataset_samples=6,
        voided_all=plain({0: 2}, epoch=None),
    )

    told = {n: facts({0: {"rank_samples": n}}, found) for n in (3, 6, 8, 9)}

    assert ["contradicts", "not-compared", "not-compared", "contradicts"] == [
        one.agreement for one in told.values()
    ]
    assert {None} == {one.ahead for one in told.values()}
    assert "will skip 1 sample at least" in told[9].text
    assert "void samples were used again" in told[8].text
    replayed = facts({0: {"rank_samples": 8}}, replace(found, dataset_samples=99))
    assert ("contradicts", 2) == (replayed.agreement, replayed.ahead)


def test_ranks_are_named_in_short() -> None:
    """Neighbours are a range, many ranges are cut, and nobody is nobody."""
    assert "rank 3" == ranks_told([3])
    assert "ranks 0 and 1" == ranks_told([1, 0])
    assert "ranks 0 to 3, 5 and 7 to 9" == ranks_told([0, 1, 2, 3, 5, 7, 8, 9])
    assert "ranks 0, 2, 4, 6 and 3 more" == ranks_told([0, 2, 4, 6, 8, 10, 12])
    assert "no rank" == ranks_told([])


# Passes.


@pytest.mark.parametrize(
    ("labels", "epoch", "first", "agreement"),
    [
        ((0, 1), 1, None, "agrees"),
        ((0, 1), 1, 0, "agrees"),
        ((0, 1), 2, 1, "agrees"),
        ((1, 2), 2, None, "agrees"),
        ((1, 2), 1, 0, "agrees"),
        ((1, 2), 2, 1, "agrees"),
        ((7, 8), 8, 0, "agrees"),
        ((7, 8), 8, None, "agrees"),
        ((0, 1), None, None, "agrees"),
        ((0, 1), 0, None, "contradicts"),
        ((0, 1), 1, 1, "contradicts"),
        ((1, 2), 1, None, "contradicts"),
        ((0, 1), 4, None, "contradicts"),
    ],
)
def test_the_pass_is_found_however_both_number_it(
    labels: tuple[int, int], epoch: int | None, first: int | None, agreement: str
) -> None:
    """By the ledger's label, or as the n-th pass of the run where the state counts from 0 or 1."""
    rows = [
        (0, label, one, one, one, None, one) for label, one in zip(labels, (20, 6), strict=True)
    ]

    told = compare({0: in_pass(epoch, 6, first=first)}, tally(frame(rows), dataset_samples=20))

    assert agreement == told.agreement


def test_a_claim_of_an_older_pass_contradicts() -> None:
    """A pass that the stream has left would be replayed, and all that came after it."""
    found = tally(
        frame([(0, 0, 20, 20, 20, None, 20), (0, 1, 6, 6, 6, None, 6)]), dataset_samples=20
    )

    end, middle = compare({0: in_pass(0, 20)}, found), compare({0: in_pass(0, 15)}, found)

    assert ("contradicts", -6) == (end.agreement, end.ahead)
    assert ("contradicts", -11) == (middle.agreement, middle.ahead)
    assert "and committed updates are in pass 1" in end.text
    more = compare({0: in_pass(0, 26)}, found)
    assert ("contradicts", None) == (more.agreement, more.ahead)
    only = tally(frame([(0, 0, 20, 20, 20, None, 20)]), dataset_samples=20)
    assert "agrees" == compare({0: in_pass(0, 20)}, only).agreement


@pytest.mark.parametrize(
    ("consumed", "samples", "drop_last", "agreement", "ahead", "told"),
    [
        (20, 20, None, "agrees", 0, "pass 0 is over"),
        (21, 20, None, "agrees", 0, "pass 0 is over"),
        (20, None, None, "agrees", 0, "after pass 0"),
        (12, 20, None, "contradicts", 8, "of which 8 samples were not used"),
        (18, 20, None, "not-compared", None, "whether drop_last leaves them out is not logged"),
        (18, 20, True, "agrees", 0, "pass 0 is over"),
        (18, 20, False, "contradicts", 2, "of which 2 samples were not used"),
    ],
)
def test_the_next_pass_begins_where_one_is_over(
    consumed: int,
    samples: int | None,
    drop_last: bool | None,
    agreement: str,
    ahead: int | None,
    told: str,
) -> None:
    """A pass is over when the data set is used up; a rest is excused by drop_last alone."""
    found = tally(plain({0: consumed}), step=6, dataset_samples=samples, drop_last=drop_last)

    told_of = compare({0: in_pass(1, 0)}, found)

    assert (agreement, ahead) == (told_of.agreement, told_of.ahead)
    assert told in told_of.text
    if samples is None:
        lacking = "it is not known whether pass 0 was over: no size of the data set is logged"
        assert lacking in told_of.notes
    if drop_last:
        assert "2 samples of pass 0 were left out, as drop_last does" in told_of.notes


def test_a_pass_is_over_where_every_earlier_one_was() -> None:
    """Passes of the same length, however short, end where the first one did."""
    rows = [(0, label, 12, 12, 12, None, 6) for label in (0, 1)]
    found = tally(frame(rows), step=12, dataset_samples=20)

    assert "agrees" == compare({0: in_pass(2, 0)}, found).agreement
    rows[1] = (0, 1, 8, 8, 8, None, 4)
    assert (
        "contradicts"
        == compare({0: in_pass(2, 0)}, replace(found, committed=frame(rows))).agreement
    )


def test_a_loader_may_have_read_into_the_next_pass() -> None:
    """What it claims there is all ahead, and what prefetching explains is told."""
    found = tally(
        plain({0: 20}), dataset_samples=20, workers=2, prefetch_factor=2, micro_batch_size=2
    )

    told = compare({0: in_pass(1, 8)}, found)

    assert ("contradicts", 8) == (told.agreement, told.ahead)
    assert "8 = 2 workers x 2 prefetched x 2 a batch" in told.text
    short = replace(found, committed=plain({0: 12}))
    assert 16 == compare({0: in_pass(1, 8)}, short).ahead


def test_a_later_pass_may_have_been_reached_unseen() -> None:
    """Where records may be missing, the stream may be further than the ledger tells."""
    found = tally(plain({0: 12}), dataset_samples=20, unseen="a file is torn")

    for claim in (in_pass(1, 4), in_pass(1, 0), in_pass(5, 0)):
        assert "not-compared" == compare({0: claim}, found).agreement
        assert "contradicts" == compare({0: claim}, replace(found, unseen=None)).agreement


def test_a_rank_may_be_in_another_pass_than_others() -> None:
    """A step can hold the end of one pass on one rank and the next pass on another."""
    found = tally(
        frame(
            [(0, 0, 10, 10, 10, None, 10), (1, 0, 10, 10, 10, None, 10), (1, 1, 2, 2, 2, None, 2)]
        ),
        dataset_samples=20,
    )

    told = compare({0: in_pass(0, 10, of="rank"), 1: in_pass(1, 2, of="rank")}, found)

    assert ("agrees", 0) == (told.agreement, told.ahead)


@pytest.mark.parametrize(
    ("epoch", "samples", "agreement", "told"),
    [
        (0, None, "agrees", "in the first pass"),
        (None, 20, "agrees", "in the first pass"),
        (None, None, "not-compared", "nor is the data set's size known"),
        (None, 10, "not-compared", "more than one pass was used"),
        (3, 20, "not-compared", "its pass 3 is not known"),
    ],
)
def test_without_epochs_only_a_first_pass_is_known(
    epoch: int | None, samples: int | None, agreement: str, told: str
) -> None:
    """All that was used is one pass if the claim says so, or if it fits into the data set."""
    found = tally(plain({0: 12}, epoch=None), dataset_samples=samples)

    told_of = compare({0: in_pass(epoch, 12)}, found)

    assert agreement == told_of.agreement
    assert told in told_of.text


def test_a_claim_without_a_pass_that_used_nothing_may_be_the_next_one() -> None:
    """At the end of a pass, with or without labels, zero is where the next one begins."""
    for label in (0, None):
        full = tally(plain({0: 20}, epoch=label), dataset_samples=20)
        part = tally(plain({0: 12}, epoch=label), dataset_samples=20)

        assert "agrees" == compare({0: in_pass(None, 0)}, full).agreement
        assert "contradicts" == compare({0: in_pass(None, 0)}, part).agreement


def test_more_than_the_data_set_holds_is_impossible() -> None:
    """In one pass; a count over passes, or of padding that was used, is not."""
    found = tally(plain({0: 12}), dataset_samples=20)
    padded = tally(plain({0: 22}), dataset_samples=20)

    assert (
        "more than the data set holds (20): impossible" in compare({0: in_pass(0, 25)}, found).text
    )
    assert "impossible" not in compare({0: in_pass(0, 19)}, found).text
    assert "impossible" not in compare({0: counted(25)}, found).text
    assert "agrees" == compare({0: in_pass(0, 22)}, padded).agreement


@pytest.mark.parametrize(
    ("value", "ahead", "told"),
    [
        (32, 8, "more than a rank's share of the data set (20 of 40)"),
        (32, 8, "will skip 4 samples of each, all that is left of its pass"),
        (19, 6, "will skip 3 samples of each"),
        (20, 8, "will skip 4 samples of each"),
    ],
)
def test_no_more_is_skipped_than_its_pass_holds(value: int, ahead: int, told: str) -> None:
    """A rank's place beyond its share of the pass is impossible, and skips what is left."""
    found = tally(plain({0: 16, 1: 16}), dataset_samples=40)

    judged = facts({key: {"epoch": 0, "rank_epoch_samples": value} for key in (0, 1)}, found)

    assert ("contradicts", ahead) == (judged.agreement, judged.ahead)
    assert told in judged.text
    assert ("share" in judged.text) == (value > 20)


def test_a_share_of_a_pass_is_rounded_up_and_known_only_where_it_holds() -> None:
    """Padding fills the last rows; a rank that used more, or other ranks before, leave it open."""
    even = tally(plain({0: 16, 1: 16}), dataset_samples=39)
    more = tally(plain({0: 24, 1: 8}), dataset_samples=40)
    before = replace(even, world_sizes=(1, 2))
    state = {key: {"epoch": 0, "rank_epoch_samples": 21} for key in (0, 1)}

    def texts(state: Any, found: Tally) -> str:
        return " ".join(one.text for one in facts(state, found).comparisons)

    assert "more than a rank's share of the data set (20 of 39)" in texts(state, even)
    twenty = {key: {"epoch": 0, "rank_epoch_samples": 20} for key in (0, 1)}
    assert "share" not in texts(twenty, even)
    assert "share" not in texts(state, more)
    assert "share" not in texts(state, before)
    full = facts({0: {"epoch": 0, "epoch_samples": 50}}, tally(plain({0: 40}), dataset_samples=40))
    assert ("contradicts", 0) == (full.agreement, full.ahead)
    assert "nothing is left of its pass to skip" in full.text
    batches = compare(
        {0: in_pass(0, 50, unit="micro-batches")}, tally(plain({0: 16}), dataset_samples=20)
    )
    assert "will skip 2 micro-batches, all that is left of its pass" in batches.text


def test_the_next_pass_holds_no_more_than_the_data_set() -> None:
    """A place far beyond it skips one pass at most."""
    found = tally(plain({0: 20}), dataset_samples=20)

    assert 20 == compare({0: in_pass(1, 70)}, found).ahead
    assert 19 == compare({0: in_pass(1, 19)}, found).ahead


def test_whole_passes_may_be_counted_at_the_data_sets_size() -> None:
    """Padding that filled a pass, or a rest that was left, is no difference of position."""
    rows = [(0, 0, 22, 22, 22, None, 11), (0, 1, 6, 6, 6, None, 3)]
    found = tally(frame(rows), step=7, dataset_samples=20)

    for value, agreement in ((26, "agrees"), (28, "agrees"), (27, "contradicts")):
        assert agreement == compare({0: counted(value)}, found).agreement
    assert "each pass counted as 20" in compare({0: counted(26)}, found).text
    full = tally(plain({0: 22}), dataset_samples=20)
    assert "agrees" == compare({0: in_pass(0, 20)}, full).agreement
    short = tally(plain({0: 18}), step=6, dataset_samples=20)
    assert "contradicts" == compare({0: in_pass(0, 20)}, short).agreement


def test_passes_of_several_data_sets_are_not_compared() -> None:
    """Each has passes of its own; a count since the run began is compared all the same."""
    rows = [(0, 0, 20, 20, 20, None, 10), (0, 1, 6, 6, 6, None, 3)]
    found = tally(frame(rows), dataset_samples=20, sources=2)

    told = compare({0: in_pass(1, 6)}, found)

    assert "not-compared" == told.agreement
    assert "several data sets" in told.text
    assert "agrees" == compare({0: counted(26)}, found).agreement


def test_batches_of_nominal_size_are_no_difference() -> None:
    """LitData counts a short batch in full: then the number of batches decides."""
    found = tally(frame([(0, 0, 22, 22, 22, None, 6)]))
    count = Count("n", 24, "rank", "epoch", "sequences", batch=4)

    assert "agrees" == compare({0: Claim("test", (count,), epoch=0)}, found).agreement
    plain_count = replace(count, batch=None)
    assert "contradicts" == compare({0: Claim("test", (plain_count,), epoch=0)}, found).agreement


def test_steps_of_a_pass_are_compared_in_the_only_one() -> None:
    """The ledger does not count steps by pass; the checkpoint's own step it knows."""
    one = tally(plain({0: 12}), step=6)
    two = tally(frame([(0, 0, 20, 20, 20, None, 10), (0, 1, 6, 6, 6, None, 3)]), step=13)

    def agreement(value: int, epoch: int, found: Tally) -> str:
        claim = counted(value, since="epoch", unit="steps", epoch=epoch)
        return compare({0: claim}, found).agreement

    assert ("agrees", "contradicts") == (agreement(6, 0, one), agreement(7, 0, one))
    assert "not-compared" == agreement(3, 1, two)


# Elements, of which it is not known what they are.


@pytest.mark.parametrize(
    ("value", "agreement", "told"),
    [
        (12, "agrees", "as many as the samples"),
        (6, "agrees", "as many as the micro-batches"),
        (7, "not-compared", "neither its 12 samples nor its 6 micro-batches"),
        (0, "contradicts", "a resume from here will replay 12 samples"),
    ],
)
def test_an_element_is_a_sample_or_a_batch_or_not_compared(
    value: int, agreement: str, told: str
) -> None:
    """Zero is wrong in any unit once something was consumed."""
    found = tally(plain({0: 12}), dataset_samples=20)

    for since in ("run", "epoch"):
        claim = counted(value, "rank", since, "elements", epoch=0 if since == "epoch" else None)
        told_of = compare({0: claim}, found)
        assert agreement == told_of.agreement
        assert told in told_of.text


def test_elements_agree_only_by_a_reading_unless_all_readings_are_one() -> None:
    """The next index of a map pipeline may be batches or half the samples: no distance is told."""
    found = tally(plain({0: 16}), step=4, dataset_samples=100)
    state = {0: {"next_index": 8}}

    read = facts(state, found)
    one = facts({0: {"next_index": 16}}, tally(plain({0: 16}, batch=1)))

    assert ("agrees", None) == (read.agreement, read.ahead)
    rests = "if its elements are micro-batches"
    assert read.text.endswith(rests)
    assert f"next_index agrees {rests}: the state does not tell what it counts" in read.notes
    assert ("agrees", 0) == (one.agreement, one.ahead)
    assert not any("agrees if" in note for note in one.notes)


def test_a_reading_takes_no_distance_from_a_number_that_says_it() -> None:
    """Beside a count of samples, elements leave the distance to it, right or wrong."""
    found = tally(plain({0: 16}), step=4)

    for consumed, ahead in ((16, 0), (18, 2)):
        told = facts({0: {"next_index": 8, "consumed_samples": consumed}}, found)
        assert ahead == told.ahead


def test_elements_of_ranks_must_fit_in_one_unit() -> None:
    """Samples on one rank and micro-batches on another are no agreement; a rank that fits is."""
    found = tally(plain({0: 16, 1: 16}), step=4)

    def agreement(first: int, second: int) -> str:
        return facts({0: {"next_index": first}, 1: {"next_index": second}}, found).agreement

    assert ["agrees", "agrees", "not-compared", "agrees"] == [
        agreement(16, 16),
        agreement(8, 8),
        agreement(16, 8),
        agreement(8, 7),
    ]


def test_an_iterator_may_be_made_anew_for_a_pass() -> None:
    """Then it counts the newest pass, or nothing where that is over."""
    rows = [(0, 0, 20, 20, 20, None, 10), (0, 1, 6, 6, 6, None, 3)]
    found = tally(frame(rows), dataset_samples=20)
    over = tally(plain({0: 20}), dataset_samples=20)

    def agreement(value: int, found: Tally) -> str:
        return compare({0: counted(value, "rank", "run", "elements")}, found).agreement

    assert ["agrees"] * 4 == [agreement(value, found) for value in (26, 13, 6, 3)]
    assert "contradicts" == agreement(0, found)
    assert "not-compared" == agreement(0, over)


# Resumes before.


def test_a_count_since_the_last_resume_only() -> None:
    """The first resume was right, the second will not be: the counter began anew."""
    found = tally(used(40), committed_before=used(30))

    relative = of_all({"consumed_samples": 40}, found)
    frozen = of_all({"consumed_samples": 120}, found)
    other = of_all({"consumed_samples": 100}, found)

    assert ("contradicts", -120) == (relative.agreement, relative.ahead)
    assert "it counts since the last resume only (160 - 120 before it)" in relative.text
    assert "it has not moved since the last resume" in frozen.text
    assert "resume only" not in other.text
    assert "not moved" not in other.text
    unresumed = of_all({"consumed_samples": 40}, tally(used(40)))
    assert "last resume" not in unresumed.text


def test_a_cursor_that_was_not_handed_down_proves_nothing() -> None:
    """It begins anew with other ranks: less is not compared, more contradicts."""

    def cursor(records: int) -> dict[str, Any]:
        return {
            "run": "r",
            "attempt": "b",
            "step": 8,
            "rank": 0,
            "world_size": 4,
            "records": records,
            "tokens": None,
            "digest": "1",
        }

    found = tally(used(32))
    by_value = {n: facts({0: cursor(n)}, found).comparisons[0].agreement for n in (8, 32, 40)}

    assert {8: "not-compared", 32: "agrees", 40: "contradicts"} == by_value


# What is missing.


@pytest.mark.parametrize(
    ("key", "value", "agreement"),
    [
        ("consumed_samples", 140, "not-compared"),
        ("consumed_samples", 128, "not-compared"),
        ("consumed_samples", 120, "contradicts"),
        ("rank_samples", 40, "not-compared"),
        ("rank_samples", 32, "agrees"),
        ("rank_samples", 30, "contradicts"),
    ],
)
def test_what_may_be_unseen_refutes_only_what_is_smaller(
    key: str, value: int, agreement: str
) -> None:
    """More may have been consumed than was found, never less; as many is no proof for all ranks."""
    found = tally(used(32), unseen="a file of rank 2 is torn")

    told = of_all({key: value}, found)

    assert agreement == told.agreement
    if agreement == "not-compared":
        assert "a file of rank 2 is torn" in told.text


def test_a_step_is_known_whatever_is_unseen() -> None:
    """The checkpoint tells its own step; a later one may be that of lost work."""
    found = tally(used(32), unseen="its parent is missing")

    agreement = {n: compare({0: counted(n, unit="steps")}, found).agreement for n in (7, 8, 9)}

    assert {7: "contradicts", 8: "agrees", 9: "not-compared"} == agreement


def test_a_silent_state_is_not_compared() -> None:
    """Its reason is the text; beside others that speak it is a note; nobody at all says nothing."""
    found = tally(used(32))

    assert (
        "the claim says no position: no data position in it"
        == facts({0: {"files": ["random_states_0.pkl"]}}, found).text
    )
    mixed = facts({0: {"consumed_samples": 128}, 1: {}, 2: {}}, found)
    assert "agrees" == mixed.agreement
    assert "ranks 1 and 2: it is empty" in mixed.notes
    assert ("not-compared", "no rank says a position") == (
        facts({}, found).agreement,
        facts({}, found).text,
    )


def test_a_checkpoint_before_the_first_step_claims_nothing() -> None:
    """Of nothing consumed, zero is right and anything else is ahead."""
    found = tally(frame(), step=0)

    assert "agrees" == facts({0: {"consumed_samples": 0, "rank_epoch_samples": 0}}, found).agreement
    assert 5 == facts({0: {"consumed_samples": 5}}, found).ahead


# Random jobs.

ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.none() | st.integers(0, 2),
        st.integers(0, 30),
        st.integers(0, 30),
        st.integers(0, 30),
        st.none() | st.integers(0, 300),
        st.integers(0, 30),
    ),
    max_size=6,
).map(frame)
SMALL = st.none() | st.integers(0, 6)
RUNS = st.lists(st.integers(0, 40), unique=True, max_size=6).map(
    lambda edges: pl.DataFrame(
        list(zip(sorted(edges)[::2], sorted(edges)[1::2], strict=False)),
        schema={"start": pl.Int64, "stop": pl.Int64},
        orient="row",
    )
)
TALLIES = st.builds(
    Tally,
    step=st.integers(0, 12),
    committed=ROWS,
    voided=ROWS,
    open=ROWS,
    read=SMALL,
    queued=SMALL,
    dropped=SMALL,
    places=st.none()
    | st.builds(
        Places,
        st.integers(0, 40),
        st.lists(st.integers(0, 9), max_size=3).map(tuple),
        st.integers(0, 9),
        st.none() | st.integers(0, 44),
        st.none() | RUNS,
    ),
    dataset_samples=st.none() | st.integers(0, 40),
    workers=SMALL,
    prefetch_factor=SMALL,
    micro_batch_size=SMALL,
    unseen=st.none() | st.just("a rank is not logged"),
    committed_before=st.none() | ROWS,
    world_sizes=st.lists(st.integers(1, 5), max_size=3).map(tuple),
    sources=st.integers(1, 2),
    drop_last=st.none() | st.booleans(),
    voided_all=st.none() | ROWS,
    voided_last=st.none() | ROWS,
)
UNITS = [None, "records", "sequences", "documents", "tokens", "micro-batches", "steps", "elements"]
COUNTS = st.builds(
    Count,
    key=st.sampled_from("abc"),
    value=st.integers(0, 60) | st.sampled_from([2**31, 2**63 - 1]),
    of=st.sampled_from(["all", "rank"]),
    since=st.sampled_from(["run", "epoch"]),
    unit=st.sampled_from(UNITS),
    stage=st.sampled_from(["consumed", "consumed", "consumed", "read", "queued"]),
    batch=SMALL,
    may_restart=st.booleans(),
)
CLAIMS = st.builds(
    Claim,
    reader=st.just("test"),
    counts=st.lists(COUNTS, max_size=3).map(tuple),
    epoch=st.none() | st.integers(0, 4),
    first_epoch=st.none() | st.integers(0, 1),
    slot=st.none() | st.integers(0, 3),
    silence=st.none() | st.just("it says nothing"),
    end_note=st.none() | st.just("it is at its end"),
)


ODD_NUMBER = re.compile(
    r"(?<![\d,.-])(?:1 (?:more )?(?:records|sequences|documents|tokens|micro-batches|steps|"
    r"elements|samples|places|ranks|workers|slots|ways|groups)\b|1 \w+ were\b|(?!1 )\d+ \w+ was\b)"
)


@given(st.dictionaries(st.integers(0, 6), CLAIMS, max_size=5), TALLIES)
@settings(max_examples=400, deadline=None)
def test_any_claim_is_compared_with_any_ledger(claims: dict[int, Claim], found: Tally) -> None:
    """Nothing fails, the worst agreement is that of the whole, and every text is one line."""
    told = compare(claims, found)

    agreements = {one.agreement for one in told.comparisons}
    worst = next((one for one in ("contradicts", "agrees") if one in agreements), "not-compared")
    assert worst == told.agreement
    texts = [told.text, *told.notes, *(one.text for one in told.comparisons)]
    assert not [one for one in texts if "\n" in one or "{" in one]
    assert not [one for one in texts if ODD_NUMBER.search(one)]
    for one in told.comparisons:
        assert one.ranks
        assert all(first <= last for first, last in one.ranks)


@given(st.dictionaries(st.integers(0, 6), CLAIMS, max_size=5), TALLIES)
@settings(max_examples=200, deadline=None)
def test_what_is_unseen_never_makes_a_claim_right_or_wrong(
    claims: dict[int, Claim], found: Tally
) -> None:
    """Saying that records may be missing turns no comparison into agreement or contradiction."""
    whole = compare(claims, replace(found, unseen=None, places=None))
    unseen = compare(claims, replace(found, unseen="a rank is not logged", places=None))

    if "not-compared" != unseen.agreement:
        assert "not-compared" != whole.agreement
    if "contradicts" == unseen.agreement:
        assert "contradicts" == whole.agreement


JOBS = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 12))


@given(JOBS, st.integers(1, 3), st.data())
@settings(max_examples=200, deadline=None)
def test_an_exact_count_agrees_and_any_other_contradicts(
    job: tuple[int, int, int, int], passes: int, data: st.DataObject
) -> None:
    """In every unit, of a rank or of all, since the run began or in the pass."""
    ranks, slots, batch, steps = job
    of_rank = slots * batch * steps
    rows = [
        (rank, label, of_rank, of_rank, of_rank, of_rank * 8, slots * steps)
        for rank in range(ranks)
        for label in range(passes)
    ]
    found = tally(frame(rows), step=steps * passes, dataset_samples=of_rank * ranks)
    of, since = (
        data.draw(st.sampled_from(["all", "rank"])),
        data.draw(st.sampled_from(["run", "epoch"])),
    )
    unit = data.draw(st.sampled_from([None, "records", "sequences", "tokens", "micro-batches"]))
    size = {"tokens": 8 * of_rank, "micro-batches": slots * steps}.get(unit or "", of_rank)
    value = size * (ranks if of == "all" else 1) * (passes if since == "run" else 1)
    off = data.draw(st.integers(-value, 50).filter(bool))

    def claims(value: int) -> dict[int, Claim]:
        return dict.fromkeys(range(ranks), counted(value, of, since, unit, epoch=passes - 1))

    right, wrong = compare(claims(value), found), compare(claims(value + off), found)

    assert ("agrees", 0) == (right.agreement, right.ahead)
    assert "contradicts" == wrong.agreement
    if unit in (None, "records", "sequences"):
        # nothing is left of the pass that could be skipped
        ahead = min(off, 0) if since == "epoch" else off
        assert ahead * (ranks if of == "rank" else 1) == wrong.ahead
