"""Counts that are taken for places of the stream, and what was left out of it on purpose."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from tallies import counted, facts, frame, in_pass, of_all, plain, tally, used

from ledger_audit.continuity.claims.compare import compare
from ledger_audit.continuity.claims.tally import Places, Tally


def placed(
    next_place: int,
    holes: tuple[int, ...] = (),
    amount: int = 6,
    *,
    after: int | None = None,
    used: list[tuple[int, int]] | None = None,
    ranks: int = 1,
    **more: Any,
) -> Tally:
    """Give a tally of so many places that were used, up to the next."""
    runs = None
    if used is not None:
        runs = pl.DataFrame(used, schema={"start": pl.Int64, "stop": pl.Int64}, orient="row")
    places = Places(next_place, holes, len(holes), after, runs)
    one = amount // ranks
    return tally(plain(dict.fromkeys(range(ranks), one), batch=1), step=one, places=places, **more)


def filtered(**more: Any) -> Tally:
    """Give a tally of rows 0 to 19, of which every fifth was dropped: 16 were used."""
    return placed(19, amount=16, after=20, used=[(0, 4), (5, 9), (10, 14), (15, 19)], **more)


def test_a_count_is_a_place_where_all_places_were_used() -> None:
    """Without holes both agree; a place agrees too where the count is another."""
    assert "agrees" == compare({0: counted(6)}, placed(6)).agreement
    replayed = placed(6, amount=8)
    assert "agrees" == compare({0: counted(6)}, replayed).agreement
    assert "agrees" == compare({0: counted(8)}, replayed).agreement
    assert "contradicts" == compare({0: counted(7)}, replayed).agreement


def test_a_consumed_counter_is_no_position_once_some_samples_failed() -> None:
    """Eight were drawn, 2 and 6 failed: at place 6 the stream loses 2 and replays 7."""
    found = placed(8, (2, 6))

    count, place = compare({0: counted(6)}, found), compare({0: counted(8)}, found)

    assert "contradicts" == count.agreement
    assert (
        "a count is not a place: 1 place before it was never used (first: 2), and 1 place from it "
        "on was used: a resume at place 6 will lose the former and replay the latter"
    ) in count.text
    assert ("contradicts", 2) == (place.agreement, place.ahead)
    assert "2 places before it were never used (first: 2)" in place.text


@pytest.mark.parametrize(
    ("value", "agreement", "ahead", "told"),
    [
        (
            16,
            "contradicts",
            -3,
            "as were consumed, but a count is not a place: 3 of the places before 19 were left "
            "out, and 3 places from 16 on were used: a resume at place 16 will replay 3 places",
        ),
        (19, "agrees", 0, "19 samples of all ranks since the run began, the place that comes next"),
        (20, "agrees", 0, "the place that comes next after 1 place left out on purpose"),
        (
            21,
            "contradicts",
            None,
            "consumed 16, and the place that comes next is 19: it is neither",
        ),
        (18, "contradicts", None, "it is neither"),
        (0, "contradicts", -16, "will replay 16 samples"),
    ],
)
def test_a_count_of_accepted_rows_is_no_place_of_raw_ones(
    value: int, agreement: str, ahead: int | None, told: str
) -> None:
    """Every fifth row was dropped: at the count, rows that were used are read again."""
    found = compare({0: counted(value)}, filtered())

    assert (agreement, ahead) == (found.agreement, found.ahead)
    assert told in found.text


def test_how_much_a_count_replays_as_a_place_is_told_where_it_skips_nothing() -> None:
    """Before a hole it only replays; behind one it loses the hole, too; unknown use is unknown."""
    used = [(0, 4), (5, 9), (10, 12), (13, 14)]

    behind = compare({0: counted(11)}, placed(14, (4,), amount=11, used=used))
    before = compare({0: counted(11)}, placed(14, (12,), amount=11, used=used))
    unknown = compare({0: counted(11)}, placed(14, amount=11))

    assert ("contradicts", None) == (behind.agreement, behind.ahead)
    assert "1 place before it was never used (first: 4), and 2 places from it on" in behind.text
    assert ("contradicts", -2) == (before.agreement, before.ahead)
    assert "2 places from 11 on were used: a resume at place 11 will replay 2" in before.text
    assert ("contradicts", None) == (unknown.agreement, unknown.ahead)
    assert "places from 11 on were used" in unknown.text


def test_a_place_from_which_only_void_updates_went_on_is_right() -> None:
    """What they used may be used again: nothing that is in the weights is replayed."""
    used = [(0, 4)]
    found = placed(6, amount=4, used=used, voided=plain({0: 1}, batch=1))

    told = compare({0: counted(5)}, found)

    assert ("agrees", 0) == (told.agreement, told.ahead)


@pytest.mark.parametrize(
    ("state", "agreement", "ahead", "told"),
    [
        ({"read_samples": 20}, "agrees", 0, "16 samples of all ranks since the run began, as comm"),
        ({"read_samples": 19}, "agrees", 0, "as committed updates consumed"),
        ({"read_samples": 28, "queued_samples": 8}, "agrees", 0, "as committed updates consumed"),
        ({"read_samples": 28, "queued_samples": 9}, "agrees", 0, "as committed updates consumed"),
        ({"read_samples": 18}, "contradicts", -1, "18 samples read, and places up to 18 were used"),
        ({"read_samples": 28}, "not-compared", None, "what waits of the 28 that were read is not"),
        ({"queued_samples": 8}, "contradicts", -3, "a count is not a place"),
    ],
)
def test_what_was_read_tells_the_place_beside_what_was_consumed(
    state: dict[str, Any], agreement: str, ahead: int | None, told: str
) -> None:
    """The count is then what was used and no more; what was read ahead hides the place."""
    found = facts({0: {"consumed_samples": 16, **state}}, filtered())

    assert (agreement, ahead) == (found.agreement, found.ahead)
    assert told in found.text
    if agreement == "agrees":
        (read,) = [one for one in found.comparisons if one.key == "read_samples"]
        assert ("agrees", 19) == (read.agreement, read.found)
        assert "the place that comes next" in read.text


def test_a_wrong_count_stays_wrong_beside_the_right_place() -> None:
    """Each of the two is compared, and together they say no one position."""
    found = facts({0: {"consumed_samples": 12, "read_samples": 20}}, filtered())

    assert ("contradicts", None) == (found.agreement, found.ahead)
    assert {"consumed_samples": "contradicts", "read_samples": "agrees"} == {
        one.key: one.agreement for one in found.comparisons
    }


def test_what_was_read_does_not_come_back_to_holes() -> None:
    """The place is behind rows that nothing explains: they will be lost."""
    found = placed(8, (2, 6), used=[(0, 2), (3, 6), (7, 8)])

    told = facts({0: {"consumed_samples": 6, "read_samples": 8}}, found)

    assert ("contradicts", 2) == (told.agreement, told.ahead)
    assert "8 samples read: the place that comes next, but 2 places before it were" in told.text


@pytest.mark.parametrize(
    ("read", "agreement", "told"),
    [
        ({0: 10, 1: 10}, "agrees", "20 samples read: the place that comes next"),
        ({0: 12, 1: 8}, "agrees", "20 samples read"),
        ({0: 20, 1: 20}, "agrees", "20 samples read"),
        ({0: 20}, "agrees", "20 samples read"),
        ({0: 10}, "contradicts", "a count is not a place"),
        ({0: 8, 1: 8}, "contradicts", "16 samples read, and places up to 18 were used"),
        ({0: 30, 1: 30}, "not-compared", "what waits of the 60"),
    ],
)
def test_ranks_may_each_say_what_they_read_or_what_all_read(
    read: dict[int, int], agreement: str, told: str
) -> None:
    """Their sum is a place, and so is one number that they share; that of some ranks is none."""
    states = {rank: {"consumed_samples": 16} for rank in range(2)}
    states |= {rank: {"consumed_samples": 16, "read_samples": one} for rank, one in read.items()}

    found = facts(states, filtered(ranks=2, world_sizes=(2,)))

    assert agreement == found.agreement
    assert told in " | ".join(one.text for one in found.comparisons)


def test_what_was_read_is_only_told_where_the_count_is_the_place() -> None:
    """A loader reads ahead of a stream without holes; nor is it a place without a count."""
    ahead = facts({0: {"consumed_samples": 6, "read_samples": 14}}, placed(6))
    alone = facts({0: {"read_samples": 20}}, filtered())

    assert ("agrees", 0) == (ahead.agreement, ahead.ahead)
    assert "that is no position" in ahead.comparisons[1].text
    assert "not-compared" == alone.agreement


# What was dropped, where no places are logged.


@pytest.mark.parametrize(
    ("state", "more", "agreement", "told"),
    [
        ({"consumed_samples": 16}, {}, "agrees", "as committed updates consumed"),
        ({"consumed_samples": 20}, {}, "agrees", "consumed 16, and 4 were dropped, as the ledger"),
        ({"consumed_samples": 21}, {}, "contradicts", "will skip 5 samples"),
        ({"consumed_samples": 19}, {}, "contradicts", "will skip 3 samples"),
        ({"epoch": 0, "epoch_samples": 20}, {}, "agrees", "4 were dropped"),
        ({"rank_samples": 20}, {}, "agrees", "4 were dropped"),
        (
            {"consumed_samples": 20},
            {"workers": 2, "prefetch_factor": 2, "micro_batch_size": 1},
            "not-compared",
            "4 were dropped, as the ledger logs; or 20 claimed - 16 committed = 4 = 2 workers",
        ),
        (
            {"consumed_samples": 22, "queued_samples": 6},
            {},
            "contradicts",
            "6 queued, as the claim says",
        ),
        (
            {"consumed_samples": 20},
            {"committed_before": plain({0: 8})},
            "not-compared",
            "how many before the resume samples were dropped is not counted",
        ),
        ({"consumed_samples": 12}, {"committed_before": plain({0: 8})}, "contradicts", "replay 4"),
    ],
)
def test_what_was_dropped_may_be_counted(
    state: dict[str, Any], more: dict[str, Any], agreement: str, told: str
) -> None:
    """A cursor of raw rows is ahead by what nothing was to use, by exactly as many."""
    found = facts({0: state}, tally(plain({0: 16}), dropped=4, **more))

    assert agreement == found.agreement
    assert told in found.text
    if agreement == "agrees":
        assert 0 == found.ahead


def test_what_was_dropped_is_not_told_by_rank_or_pass() -> None:
    """As far as it may be their share, ranks and passes are not compared; beyond it they are."""
    ranks = tally(used(8), dropped=4)
    passes = tally(frame([(0, 0, 20, 20, 20, None, 20), (0, 1, 6, 6, 6, None, 6)]), dropped=4)

    assert "not-compared" == of_all({"rank_samples": 9}, ranks).agreement
    assert "contradicts" == of_all({"rank_samples": 13}, ranks).agreement
    assert "contradicts" == of_all({"rank_samples": 7}, ranks).agreement
    assert "not-compared" == compare({0: in_pass(1, 8)}, passes).agreement
    assert "contradicts" == compare({0: in_pass(1, 11)}, passes).agreement
    assert "contradicts" == of_all({"consumed_samples": 36}, tally(used(8))).agreement


def test_holes_of_ranks_that_are_not_logged_are_no_holes() -> None:
    """Where records may be unseen, places tell nothing against a count."""
    found = replace(placed(8, (2, 6)), unseen="rank 1 is not logged")

    assert "not-compared" == compare({0: counted(6)}, found).agreement
    assert "not-compared" == compare({0: counted(8)}, found).agreement


def test_only_a_count_of_all_since_the_run_began_is_a_place() -> None:
    """A count of a rank, of a pass or of tokens says nothing of places."""
    found = placed(8, (2, 6))

    for claim in (counted(6, "rank"), in_pass(0, 6), counted(48, unit="tokens")):
        assert "agrees" == compare({0: claim}, found).agreement
