"""`checkpoints`: what its ranks said of each save, put together; and what a log cannot know."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from native import Line
from running import ledger_audit
from test_checkpoints import flowing, job, log_of, only, saved, told
from test_checkpoints_tally import tallied
from tiny import attempt, dealt, write

from ledger_audit import LedgerWriter
from ledger_audit.model import Reading
from ledger_audit.report.json_text import text_of
from ledger_audit.sources import open_source

BOTH = (0, 1)


def both(*phases: str, **data: Any) -> list[Line]:
    """Give the checkpoint events of two ranks."""
    return [line for rank in BOTH for line in saved(rank, *phases, **data)]


@pytest.mark.parametrize("teller", BOTH)
def test_a_fingerprint_of_a_checkpoint_adds_to_that_of_the_launch(
    teller: int, tmp_path: Path
) -> None:
    """What its event leaves out is as the launch began, whichever rank tells it."""
    launch = {"dataset_samples": 10, "workers": 2, "micro_batch_size": 1, "drop_last": True}
    states = {"worker_states": {"0": "aa"}}
    events = saved(teller, "begin", "complete", fingerprint={**states, "workers": 3})
    events += saved(1 - teller, "begin", "complete")
    one = only(log_of(job(events, fingerprint=launch), tmp_path))["fingerprint"]

    changed = {"workers": 3} if teller == 0 else {}  # of a key that both log, rank 0 counts
    assert {**launch, **states, **changed} == one["value"]
    assert len(changed) == len(one["changes"])


def test_what_the_launch_said_explains_a_claim_of_a_later_checkpoint(tmp_path: Path) -> None:
    """A pass of 4 samples is over after step 2: a claim at its end has none of the next."""
    for name, fingerprint in (("plain", {}), ("told", {"worker_states": {"0": "aa"}})):
        claim = {"epoch": 0, "epoch_samples": 4}
        events = both("begin", "complete", claim=claim, fingerprint=fingerprint)
        lines = job(events, fingerprint={"dataset_samples": 4, "workers": 0})
        one = only(log_of(lines, tmp_path / name))
        assert 4 == one["fingerprint"]["value"]["dataset_samples"]
        assert "agrees" == one["agreement"]


@pytest.mark.parametrize("is_foreign", [False, True])
@pytest.mark.parametrize(("says", "agreement"), [(108, "not-compared"), (4, "contradicts")])
def test_a_log_that_began_in_the_middle_of_a_run(
    says: int, agreement: str, is_foreign: bool, tmp_path: Path
) -> None:
    """What came before is not known: a claim of more may be right, one below what is there not."""
    late = {step + 50: by_rank for step, by_rank in dealt(1, 3, rows=1).items()}
    lines = [one for one in attempt(0, late) if one["kind"] != "start" or not is_foreign]
    one = only(write(tmp_path, lines, save(53, (0, "complete", says))))

    assert "attempt 0 begins at step 51: nothing says what the run had used" in one["unseen"]
    assert (agreement, None) == (one["agreement"], one["ladder"]["committed"])


def test_a_writer_that_is_switched_on_late(tmp_path: Path) -> None:
    """Of the real writer, too: places before the first one that it saw are no holes."""
    with LedgerWriter(tmp_path, rank=0, world_size=1, attempt="a", strict=True) as ledger:
        for step in (51, 52):
            ledger.record(step, 0, [2 * step, 2 * step + 1], position=[2 * step, 2 * step + 1])
            ledger.commit(step)
        claim = {"consumed_samples": 106}
        ledger.begin_checkpoint(52, claim=claim).complete()
    ran = ledger_audit("checkpoints", tmp_path)

    assert "contradicts" not in ran.out
    assert "attempt a begins at step 51" in flowing(ran.out)
    assert "unknown" == only(tmp_path)["resumable"]


def test_a_hole_in_a_log_of_the_whole_run_is_one(tmp_path: Path) -> None:
    """A log that begins with the run knows every place: one that nobody used was skipped."""
    with LedgerWriter(tmp_path, rank=0, world_size=1, attempt="a", strict=True) as ledger:
        for step in (1, 2):
            ledger.record(step, 0, [2 * step, 2 * step + 1], position=[4 * step - 4, 4 * step - 3])
            ledger.commit(step)
        ledger.begin_checkpoint(2, claim={"consumed_samples": 4}).complete()

    one = only(tmp_path)
    assert one["unseen"] is None
    assert "contradicts" == one["agreement"]


@pytest.mark.parametrize("writers", [[8, 16], [], [-1, 99], [0, 9]])
def test_writers_that_take_no_part_vouch_for_nothing(writers: list[int], tmp_path: Path) -> None:
    """A rank of another numbering may have written a part: nobody knows whether it did."""
    lines = job(both("begin", "complete"), checkpoint_writers=writers)
    ran = ledger_audit("checkpoints", log_of(lines, tmp_path))
    one = only(tmp_path)

    assert (3, None, "unknown") == (ran.code, one["whole"]["is_whole"], one["resumable"])
    assert one["whole"]["text"].startswith("checkpoint_writers names ")
    assert "nobody knows" in one["whole"]["text"]


def test_a_rank_that_left_the_job_writes_no_more(tmp_path: Path) -> None:
    """It took part once, so it is no stranger; after it left, the others write alone."""
    lines = job(saved(0, "begin", "complete"), checkpoint_writers=[0, 1])
    lines = [line for line in lines if line["rank"] == 0 or line.get("step", 1) == 1]
    member = {"kind": "membership", "attempt": 0, "rank": 0, "step": 2, "data": {"ranks": [0]}}
    one = only(log_of([*lines[:1], member, *lines[1:]], tmp_path))

    assert ("whole on rank 0", True) == (one["whole"]["text"], one["whole"]["is_whole"])


def pairs_around(root: Path) -> dict[str, str]:
    """Give how the claims around a resume agree."""
    (resume,) = ledger_audit("diff", root, "--format", "json").report["resumes"]
    return {one["pair"]: one["agreement"] for one in resume["claims"]}


def save(step: int, *saying: tuple[int, str, int]) -> list[Line]:
    """Give checkpoint events of attempt 0: rank, phase and claim of each."""
    return [
        {
            "kind": "checkpoint",
            "attempt": 0,
            "rank": rank,
            "step": step,
            "data": {"phase": phase, "claim": {"consumed_samples": claim}},
        }
        for rank, phase, claim in saying
    ]


@pytest.mark.parametrize(
    ("second", "agreement"),
    [
        ([(0, "begin", 24)], "agrees"),
        ([(0, "begin", 24), (0, "complete", 24)], "contradicts"),
    ],
)
def test_the_save_that_was_loaded_is_one_that_ended(
    second: Sequence[tuple[int, str, int]], agreement: str, tmp_path: Path
) -> None:
    """A newer save of the step that never ended was not loaded; one that did end was."""
    lines = attempt(0, dealt(1, 6), checkpoint_writers=[0])
    events = save(4, (0, "begin", 16), (0, "complete", 16), *second)
    root = write(tmp_path, lines, events, attempt(1, dealt(5, 8), after=(0, 4)))

    assert agreement == pairs_around(root)["saved-ledger"]


def test_of_saves_that_are_not_whole_the_one_that_ended_anywhere_was_loaded(
    tmp_path: Path,
) -> None:
    """Rank 1 never completed: still, what rank 0 completed is the save to compare."""
    lines = attempt(0, dealt(1, 6))
    first = [(0, "begin", 16), (0, "complete", 16), (1, "begin", 16)]
    events = save(4, *first, (0, "begin", 24), (1, "begin", 24))
    root = write(tmp_path, lines, events, attempt(1, dealt(5, 8), after=(0, 4)))

    assert "agrees" == pairs_around(root)["saved-ledger"]


@pytest.mark.parametrize(
    ("second", "agreement", "resumable"),
    [(4, "agrees", "yes"), (999, "contradicts", "no"), ("odd", "not-compared", "unknown")],
)
def test_a_second_claim_of_a_save_counts_too(
    second: object, agreement: str, resumable: str, tmp_path: Path
) -> None:
    """Nothing says which of the two a resume would load: the worse one decides."""
    events = both("begin", "complete")
    for line in events:
        if line["data"]["phase"] == "complete":
            line["data"]["claim"] = {"consumed_samples": second}
    ran = ledger_audit("checkpoints", log_of(job(events), tmp_path))
    one = only(tmp_path)

    assert (agreement, resumable) == (one["agreement"], one["resumable"])
    is_told = "claimed twice for this save, and not the same" in flowing(ran.out)
    assert is_told == (second != 4)


def test_no_number_of_a_report_is_none(tmp_path: Path) -> None:
    """NaN and infinities become text in JSON, and a NaN that stays NaN is no change."""
    odd = {"temperature": float("nan"), "most": float("inf"), "seed": 1}
    events = both("begin", "complete", fingerprint={**odd, "seed": 2})
    ran = ledger_audit(
        "checkpoints", log_of(job(events, fingerprint=odd), tmp_path), "--format=json"
    )
    report = json.loads(ran.out, parse_constant=pytest.fail)

    (one,) = report["checkpoints"]
    assert {"temperature": "NaN", "most": "Infinity", "seed": 2} == one["fingerprint"]["value"]
    assert ["seed"] == [change["key"] for change in one["fingerprint"]["changes"]]


def test_json_text_is_plain() -> None:
    """What is finite is left as it is, however deep the rest lies."""
    told = {"a": [1.5, {"b": (float("-inf"), 1)}], "c": "NaN"}

    assert {"a": [1.5, {"b": ["-Infinity", 1]}], "c": "NaN"} == json.loads(text_of(told))


def test_what_a_resume_would_do_is_told_only_where_one_can_load_it(tmp_path: Path) -> None:
    """Of a checkpoint that is not whole the column says nothing; programs have the number."""
    for phases, would in ((("begin",), "-"), (("begin", "complete"), "neither skip nor replay")):
        lines = job([*saved(0, "begin", "complete"), *saved(1, *phases)])
        ran = ledger_audit("checkpoints", log_of(lines, tmp_path / would))
        (row,) = [line for line in ran.out.splitlines() if line.startswith("  0  ")]
        assert row.endswith(f" {would}")
        assert 0 == only(tmp_path / would)["ahead"]


@pytest.mark.parametrize(("records", "is_whole"), [(True, True), (False, False)])
def test_a_checkpoint_that_was_gone_on_from_was_whole(
    records: bool, is_whole: bool, tmp_path: Path
) -> None:
    """Its complete was not written in time; an attempt that left nothing proves nothing."""
    lines = attempt(0, dealt(1, 4))
    events = save(4, (0, "begin", 16), (0, "complete", 16), (1, "begin", 16))
    resumed = attempt(1, dealt(5, 8) if records else {}, after=(0, 4), world_size=2)
    root = write(tmp_path, lines, events, resumed)
    one = only(root)

    assert is_whole == one["whole"]["is_whole"]
    assert [[1, 1]] == one["whole"]["unfinished"]
    told_so = "whole after all, loaded by attempt 1: rank 1 began and did not complete"
    assert is_whole == (told_so in one["whole"]["text"])
    assert (0 if is_whole else 3) == ledger_audit("checkpoints", root).code


def test_the_reasons_do_not_repeat_the_claim(tmp_path: Path) -> None:
    """What the line `claim` says in full is not said again under `because`."""
    events = both("begin", "complete", claim={"odd": 3})
    text = flowing(ledger_audit("checkpoints", log_of(job(events), tmp_path)).out)
    explained = text[text.index("Step 2 of attempt 0: ") :]

    assert "because nothing of its claim is compared whole" in explained


def test_a_claim_with_two_wrong_numbers_is_told_once(tmp_path: Path) -> None:
    """Each number has its line; that there are two is no reason of its own."""
    claim = {"epoch": 0, "consumed_samples": 7, "epoch_samples": 9}
    text = ledger_audit(
        "checkpoints", log_of(job(both("begin", "complete", claim=claim)), tmp_path)
    ).out

    assert 2 == flowing(text).count(" contradicts: the claim says ")
    assert "  because " not in text


def test_a_fingerprint_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    """Nothing in it is a setting, and nothing crashes; one of a few levels is told."""
    deep: dict[str, Any] = {}
    for _ in range(900):
        deep = {"a": deep}
    for name, fingerprint, code in (("deep", deep, 4), ("flat", {"a": {"b": {"c": 1}}}, 0)):
        lines = job(both("begin", "complete", fingerprint=fingerprint))
        ran = ledger_audit("checkpoints", log_of(lines, tmp_path / name), "--format", "json")
        assert code == ran.code, ran.err
        assert (code == 4) == ("nested deeper than 100" in ran.err)


def test_a_diff_gives_no_number_that_is_none(tmp_path: Path) -> None:
    """The report of a resume is JSON, too: NaN that stays NaN is no change, another value is."""
    starts = [{"fingerprint": {"a": float("nan"), "b": after}} for after in (float("inf"), 1)]
    before = attempt(0, dealt(1, 6), **starts[0])
    root = write(tmp_path, before, attempt(1, dealt(5, 8), after=(0, 4), **starts[1]))
    ran = ledger_audit("diff", root, "--format", "json")
    report = json.loads(ran.out, parse_constant=pytest.fail)

    (change,) = report["resumes"][0]["fingerprint_changes"]
    assert ("b", "Infinity", 1) == (change["key"], change["before"], change["after"])


def test_cursors_of_several_ranks_are_told_in_the_plural(tmp_path: Path) -> None:
    """Two ranks have two cursors, and two sums."""
    for name, ranks in (("both", BOTH), ("one", (0,))):
        for rank in ranks:
            world = len(ranks)
            with LedgerWriter(
                tmp_path / name, rank=rank, world_size=world, attempt="a", run_id="r"
            ) as ledger:
                ledger.record(1, 0, [rank])
                ledger.commit(1)
                ledger.begin_checkpoint(1, claim={"consumed_samples": world}).complete()
    assert only(tmp_path / "both")["digest"]["text"] == (
        "the cursors of ranks 0-1 have the sums of their ranks' commits"
    )
    assert only(tmp_path / "one")["digest"]["text"] == (
        "the cursor of rank 0 has the sum of its rank's commits"
    )


def saves_of(root: Path) -> list[tuple[int, bool]]:
    """Give number and wholeness of every checkpoint, newest first."""
    return [(one["nth"], one["whole"]["is_whole"]) for one in told(root)["checkpoints"]]


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        # the same event again belongs to the save before it
        ("begin complete complete", "begin complete", [(1, True)]),
        ("begin complete complete", "begin complete complete", [(1, True)]),
        ("begin complete begin complete", "begin complete begin complete", [(2, True), (1, True)]),
        # a retry on one rank alone
        ("begin begin complete", "begin complete", [(2, True), (1, False)]),
        ("begin complete", "begin begin begin complete", [(3, True), (2, False), (1, False)]),
        ("begin begin complete begin", "begin complete", [(3, False), (2, True), (1, False)]),
        # a second save that one rank never began: the first is whole, and no other
        ("begin complete begin", "begin complete", [(2, False), (1, True)]),
        ("begin complete begin complete", "begin complete", [(2, False), (1, True)]),
        # one that ended on no rank, and one that did
        ("begin begin complete", "begin begin complete", [(2, True), (1, False)]),
        ("begin begin complete", "begin", [(2, False), (1, False)]),
    ],
)
def test_the_saves_of_a_step_are_put_together(
    first: str, second: str, found: list[tuple[int, bool]], tmp_path: Path
) -> None:
    """What is whole is found however often ranks tried, and nothing is whole that may not be."""
    events = [*saved(0, *first.split()), *saved(1, *second.split())]
    for number, line in enumerate(events):
        line["time_ns"] = number  # two events that are alike are no copies

    assert found == saves_of(log_of(job(events, checkpoint_writers=[0, 1]), tmp_path))


@pytest.mark.parametrize(
    ("first", "after", "holes"),
    [
        (51, None, (102, 103)),
        (51, (7, 50), (102, 103)),  # attempt 7 is not in the ledger
        (1, None, (0, 1, 2, 3, 4, 5, 6, 7)),
    ],
)
def test_places_before_the_first_one_of_a_late_log_are_no_holes(
    first: int, after: tuple[int, int] | None, holes: tuple[int, ...], tmp_path: Path
) -> None:
    """What a run used before its log began is not there, and was not skipped either."""
    uses = {
        first + step: [[{"sample_id": n, "position": n} for n in (at, at + 1)]]
        for step, at in enumerate((100, 104))
    }
    event = {"kind": "checkpoint", "attempt": 8, "rank": 0, "step": first + 1, "data": {}}
    root = write(tmp_path, attempt(8, uses, after=after), [event])
    (one,) = tallied(open_source([root], Reading()).archive())

    assert one.tally.places is not None
    assert holes == one.tally.places.holes
