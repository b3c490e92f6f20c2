"""`checkpoints`: every checkpoint judged before a resume, by real runs and by real writers."""

import json
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ANY_RUNS, FIXTURES, ROOT
from jsonschema import Draft202012Validator
from native import Line, read_lines, write_ledger
from running import Ran, ledger_audit
from saving import with_saves

from ledger_audit import LedgerWriter
from ledger_audit.continuity.checkpoints import documents
from ledger_audit.ledger import tallying
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.sealing import seal

ZOO = FIXTURES / "zoo"
RUNS = sorted(path.parent for path in ZOO.glob("*/run"))
BROKEN_ALREADY = {
    "torch-ddp-prefetched-position": (64, "48 claimed - 32 committed = 16 = 2 workers x 4"),
    "torch-ddp-partial-accum": (8, "34 claimed - 32 committed = 2 samples of step 9"),
    "streaming-plain-loader-rank-count": (-72, "a rank's own count given as everyone's"),
    "hf-datasets-plain-loader-state": (-80, "committed updates consumed 40"),
}
"""Runs whose saved state is wrong: what a resume would skip, and the arithmetic."""
SAY_NOTHING = (
    "accelerate-correct",
    "accelerate-docs-epoch0",
    "lightning-plain-midepoch",
    "webdataset-epoch-restart",
    "webdataset-manual-skip",
)
"""Runs whose saved states hold no position that anybody knows."""


def first_attempt(name: str, folder: Path) -> Path:
    """Copy what a run had logged before it was ever resumed."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ZOO / name / "run" / "attempt0.jsonl", folder)
    return folder


def flowing(text: str) -> str:
    """Undo the breaking of lines."""
    return " ".join(text.split())


def log_of(lines: list[Line], folder: Path) -> Path:
    """Write lines as one log."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def told(*arguments: str | Path) -> dict[str, Any]:
    """Give the JSON report."""
    return ledger_audit("checkpoints", *arguments, "--format", "json").report


def only(*arguments: str | Path) -> dict[str, Any]:
    """Give the one checkpoint of a ledger."""
    (one,) = told(*arguments)["checkpoints"]
    found: dict[str, Any] = one
    return found


@pytest.mark.parametrize("folder", RUNS, ids=lambda path: path.name)
def test_a_real_run_before_its_resume(folder: Path, tmp_path: Path) -> None:
    """What is wrong in the saved state is found before any resume; nothing else is accused."""
    ran = ledger_audit("checkpoints", first_attempt(folder.name, tmp_path))

    text = flowing(ran.out)
    if folder.name in BROKEN_ALREADY:
        assert 1 == ran.code
        assert BROKEN_ALREADY[folder.name][1] in text
        newest = told(tmp_path)["checkpoints"][0]
        assert BROKEN_ALREADY[folder.name][0] == newest["ahead"]
        assert ("no", "contradicts") == (newest["resumable"], newest["agreement"])
        assert "NO CHECKPOINT is fit to resume from" in text
    elif folder.name in SAY_NOTHING:
        assert 3 == ran.code
        assert "nothing of its claim is compared" in text
        assert "NO CHECKPOINT is known to be fit to resume from" in text
    else:
        assert (0, "RESUME FROM step") == (ran.code, text[:16])


def test_newest_first_over_all_attempts() -> None:
    """By attempt, then by step; who loaded one is said, and the newest good one is chosen."""
    report = told(ZOO / "torch-ddp-double-failure" / "run")

    places = [(one["attempt"], one["step"]) for one in report["checkpoints"]]
    assert [("1", 15), ("0", 8)] == places
    assert [["2"], ["1"]] == [one["loaded_by"] for one in report["checkpoints"]]
    assert {"attempt": "1", "step": 15, "nth": 1} == report["choice"] == report["newest_whole"]
    assert [240, 128] == [one["ladder"]["committed"] for one in report["checkpoints"]]


def test_an_older_one_is_chosen_where_the_newest_is_wrong(tmp_path: Path) -> None:
    """The first line names what to resume from, the next why the newer one is not it."""
    lines = read_lines(ZOO / "torch-ddp-correct" / "run")
    for line in lines:
        if line["kind"] == "checkpoint" and line["step"] == 15:
            line["data"]["claim"]["rank_epoch_samples"] += 2
    ran = ledger_audit("checkpoints", log_of(lines, tmp_path))

    first, second = ran.out.splitlines()[:2]
    assert "RESUME FROM step 8 of attempt 0" == first
    assert second.startswith("Whole on ranks 0-3; the claim says 32 samples")
    assert "Step 15 of attempt 1, the newest whole one: the claim says 10" in flowing(ran.out)
    assert 1 == ran.code


def test_checkpoints_of_one_attempt() -> None:
    """`--attempt` leaves the others out; a label that is not there is said, with those that are."""
    run = ZOO / "torch-ddp-double-failure" / "run"

    assert ["0"] == [one["attempt"] for one in told(run, "--attempt", "0")["checkpoints"]]
    none = ledger_audit("checkpoints", run, "--attempt", "2")
    assert (3, "NO CHECKPOINT is logged") == (none.code, none.out.splitlines()[0])
    wrong = ledger_audit("checkpoints", run, "--attempt", "9")
    assert (2, "") == (wrong.code, wrong.out)
    assert "there are: 0, 1, 2" in wrong.err


def test_three_are_explained_unless_all_are_asked_for(tmp_path: Path) -> None:
    """Every checkpoint has a row; `--all` explains each."""
    lines = with_saves(read_lines(ZOO / "grain-map-correct" / "run")[:200])
    log = log_of([line for line in lines if line["attempt"] == 0], tmp_path)

    short, long = ledger_audit("checkpoints", log), ledger_audit("checkpoints", log, "--all")

    count = len(told(log)["checkpoints"])
    assert count > 5
    assert 3 == short.out.count("  whole        ")
    assert f"--all explains {count - 3} more checkpoints." in short.out
    assert count == long.out.count("  whole        ")


def test_frameworks_that_save_on_one_rank_are_whole_on_it() -> None:
    """Ranks that never wrote any and went on past the first do not write: that is assumed."""
    one = only(ZOO / "hf-trainer-correct" / "run")

    assert one["whole"]["is_whole"] is True
    assert one["whole"]["is_assumed"] is True
    assert "whole on rank 0 (writers assumed: rank 0)" == one["whole"]["text"]


def job(saved: list[Line], *, steps: int = 3, ranks: int = 2, **start: Any) -> list[Line]:
    """Give a small run of one sample a rank and step, with lines put in after step 2's commits."""
    lines: list[Line] = []
    for rank in range(ranks):
        place = {"attempt": 0, "rank": rank}
        lines.append({"kind": "start", **place, "data": {"world_size": ranks, **start}})
        for step in range(1, steps + 1):
            at = {**place, "step": step}
            sample = {"slot": 0, "row": 0, "sample_id": step * ranks + rank, "epoch": 0}
            lines += [{"kind": "sample", **at, **sample}, {"kind": "commit", **at, "data": {}}]
            if step == 2:
                lines += [line for line in saved if line["rank"] == rank]
    return lines


def saved(rank: int, *phases: str, step: int = 2, **data: Any) -> list[Line]:
    """Give the checkpoint events of one rank."""
    claim = {"consumed_samples": 4}
    return [
        {
            "kind": "checkpoint",
            "attempt": 0,
            "rank": rank,
            "step": step,
            "data": {"phase": phase, **({"claim": claim} if phase == "begin" else {}), **data},
        }
        for phase in phases
    ]


def test_a_begin_without_a_complete_is_not_whole(tmp_path: Path) -> None:
    """The ranks that began and did not complete are named, and nothing is compared with exit 0."""
    lines = job([*saved(0, "begin", "complete"), *saved(1, "begin")])
    ran = ledger_audit("checkpoints", log_of(lines, tmp_path))

    assert 3 == ran.code
    assert "not whole: rank 1 began and did not complete" in flowing(ran.out)
    assert "No checkpoint is whole on all its writers." in ran.out
    assert "no" == only(tmp_path)["resumable"]


def test_a_writer_that_wrote_nothing_is_named(tmp_path: Path) -> None:
    """Where the start event says who writes, silence is a part that is missing."""
    everyone = saved(0, "begin", "complete")
    one = only(log_of(job(everyone, checkpoint_writers=[0, 1]), tmp_path / "both"))
    assert "not whole: rank 1 wrote nothing of it" == one["whole"]["text"]

    one = only(log_of(job(everyone, checkpoint_writers=[0]), tmp_path / "one"))
    assert (True, False) == (one["whole"]["is_whole"], one["whole"]["is_assumed"])
    assert "yes" == one["resumable"]

    dead = [line for line in job(everyone) if not (line["rank"] == 1 and line.get("step") == 3)]
    one = only(log_of(dead, tmp_path / "dead"))
    assert "not whole: rank 1 wrote nothing of it" == one["whole"]["text"]


def test_a_writer_without_a_ledger_leaves_it_open(tmp_path: Path) -> None:
    """A rank that writes and is not logged can neither be missed nor vouched for."""
    start = {"checkpoint_writers": [0, 1], "logged_ranks": [0]}
    lines = [line for line in job(saved(0, "begin", "complete"), **start) if line["rank"] == 0]
    one = only(log_of(lines, tmp_path))

    assert one["whole"]["is_whole"] is None
    assert "rank 1 may have written it, and left no ledger" == one["whole"]["text"]
    assert "unknown" == one["resumable"]


def test_writers_that_are_no_list_are_refused(tmp_path: Path) -> None:
    """An event whose data has a wrong type is refused, with the field's name."""
    lines = job(saved(0, "begin", "complete"), checkpoint_writers="all")
    ran = ledger_audit("checkpoints", log_of(lines, tmp_path))

    assert (4, "") == (ran.code, ran.out)
    assert "'checkpoint_writers'" in ran.err


@pytest.mark.parametrize("key", ["path", "fingerprint", "cursor"])
def test_data_of_a_wrong_type_is_refused(key: str, tmp_path: Path) -> None:
    """So is every key of a checkpoint event."""
    lines = job([*saved(0, "begin", "complete", **{key: 7}), *saved(1, "begin", "complete")])
    ran = ledger_audit("checkpoints", log_of(lines, tmp_path))

    assert 4 == ran.code
    assert f"'{key}' in the data of its checkpoint event at step 2 is 7" in ran.err


def test_a_save_that_was_tried_again_is_another(tmp_path: Path) -> None:
    """A second begin of a step is a second save of it; the newest has its own row."""
    twice = [line for rank in (0, 1) for line in saved(rank, "begin", "begin", "complete")]
    report = told(log_of(job(twice), tmp_path))

    assert [(2, 2, True), (2, 1, False)] == [
        (one["step"], one["nth"], one["whole"]["is_whole"]) for one in report["checkpoints"]
    ]
    assert "step 2 (save 2) of attempt 0" in ledger_audit("checkpoints", tmp_path).out


def test_an_event_without_a_step_is_told(tmp_path: Path) -> None:
    """It belongs to no checkpoint, and is not dropped in silence."""
    lines = job([*saved(0, "begin", "complete"), *saved(1, "begin", "complete")])
    lines.append({"kind": "checkpoint", "attempt": 0, "rank": 0, "data": {"phase": "begin"}})
    ran = ledger_audit("checkpoints", log_of(lines, tmp_path))

    assert "Note: 1 checkpoint event of attempt 0 left out: no step is named." in ran.out


def test_what_the_weights_hold_beyond_the_label_is_found(tmp_path: Path) -> None:
    """A snapshot after the next commit holds more than its step says; one before it, less."""
    for number, label in ((1, "behind"), (3, "ahead")):
        events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete", step=number)]
        ran = ledger_audit("checkpoints", log_of(job(events), tmp_path / label))
        one = only(tmp_path / label)

        assert 1 == ran.code
        assert (label, "no", "contradicts") == (
            one["label"]["state"],
            one["resumable"],
            one["agreement"],
        )
    behind, ahead = (
        flowing(ledger_audit("checkpoints", tmp_path / one).out) for one in ("behind", "ahead")
    )
    assert "ranks 0-1 committed update 2 before the snapshot" in behind
    assert "train updates again" in behind
    assert "ranks 0-1 had not committed update 3 at the snapshot" in ahead


def test_an_update_that_was_thrown_away_is_over(tmp_path: Path) -> None:
    """A checkpoint at a void step holds all there is to hold; a retry after it is not in it."""
    events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete")]
    void = job(events)
    for line in void:
        if line["kind"] == "commit" and line["step"] == 2:
            line["kind"] = "void"
    assert "agrees" == only(log_of(void, tmp_path / "void"))["label"]["state"]

    again = [
        one
        for line in void
        for one in (
            [line]
            if line["kind"] != "checkpoint" or line["data"]["phase"] == "begin"
            else [
                line,
                {
                    "kind": "sample",
                    **{k: line[k] for k in ("attempt", "rank", "step")},
                    "slot": 0,
                    "sample_id": 4 + line["rank"],
                    "epoch": 0,
                    "row": 0,
                },
                {"kind": "commit", **{k: line[k] for k in ("attempt", "rank", "step")}, "data": {}},
            ]
        )
    ]
    assert "ahead" == only(log_of(again, tmp_path / "again"))["label"]["state"]


def test_a_commit_that_was_lost_makes_no_label_wrong(tmp_path: Path) -> None:
    """Where later commits of the rank are logged, the one of the step is most likely lost."""
    events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete")]
    lines = [line for line in job(events) if not (line["kind"] == "commit" and line["step"] == 2)]
    one = only(log_of(lines, tmp_path))

    assert ("unknown", "unknown") == (one["label"]["state"], one["resumable"])
    assert "the commit of step 2 is not logged on ranks 0-1, later ones are" == one["label"]["text"]
    assert "step 2 of attempt 0 not committed by all ranks" == one["unseen"]


def test_the_state_before_the_first_update_is_a_checkpoint(tmp_path: Path) -> None:
    """Step 0 holds nothing, and nothing was consumed."""
    events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete", step=0)]
    lines = job([])
    for rank in (0, 1):
        place = next(
            at for at, line in enumerate(lines) if line["rank"] == rank and line["kind"] == "sample"
        )
        own = [line for line in events if line["rank"] == rank]
        own[0]["data"]["claim"] = {"consumed_samples": 0}
        lines[place:place] = own
    one = only(log_of(lines, tmp_path))

    assert ("agrees", "agrees", "yes") == (
        one["label"]["state"],
        one["agreement"],
        one["resumable"],
    )
    assert (0, None) == (one["ladder"]["committed"], one["unseen"])


def test_a_save_right_after_the_resume_holds_what_was_loaded(tmp_path: Path) -> None:
    """Its step is no newer than the one that was resumed from: its commits are the parent's."""
    lines = read_lines(ZOO / "torch-ddp-correct" / "run")
    again = []
    for line in lines:
        again.append(line)
        if line["kind"] == "start" and line["attempt"] == 1:
            place = {"attempt": 1, "rank": line["rank"], "step": 8}
            claim = {"epoch": 0, "rank_epoch_samples": 32}
            for phase in ("begin", "complete"):
                data = {"phase": phase, "claim": claim}
                again.append({"kind": "checkpoint", **place, "data": data})
    report = told(log_of(again, tmp_path))
    one = next(one for one in report["checkpoints"] if (one["attempt"], one["step"]) == ("1", 8))

    assert ("agrees", "agrees", 128) == (
        one["label"]["state"],
        one["agreement"],
        one["ladder"]["committed"],
    )


def test_what_a_void_update_used_moved_the_stream(tmp_path: Path) -> None:
    """It is in used and not in committed, unless a committed update used it again."""
    events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete", step=3)]
    for line in events:
        line["data"].pop("claim", None)
    lines = job([])
    for rank in (0, 1):
        end = max(at for at, line in enumerate(lines) if line["rank"] == rank)
        lines[end + 1 : end + 1] = [line for line in events if line["rank"] == rank]
        for line in lines:
            if line["rank"] == rank and line["kind"] == "commit" and line["step"] == 2:
                line["kind"] = "void"
    one = only(log_of(lines, tmp_path / "lost"))
    assert (6, 4) == (one["ladder"]["used"], one["ladder"]["committed"])

    for line in lines:
        if line["kind"] == "sample" and line["step"] == 3:
            line["sample_id"] = 4 + line["rank"]  # what step 2 had used
    one = only(log_of(lines, tmp_path / "again"))
    assert (4, 4) == (one["ladder"]["used"], one["ladder"]["committed"])


def test_places_that_were_passed_and_not_used_are_found(tmp_path: Path) -> None:
    """A count is not a place where the stream has a hole; a declared skip explains one."""
    events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete")]
    lines = job(events)
    for line in lines:
        if line["kind"] == "sample":
            line["position"] = line["sample_id"] - 2 + (line["step"] > 1)  # 0 1 3 4 ...
    one = only(log_of(lines, tmp_path / "hole"))
    assert "contradicts" == one["agreement"]
    assert "a count is not a place" in one["claim"]["text"]

    skip = {"skip": {"positions": [2]}, "reason": "bad shard"}
    lines.append({"kind": "declare", "attempt": 0, "rank": 0, "step": 1, "data": skip})
    one = only(log_of(lines, tmp_path / "declared"))
    assert "was never used" not in one["claim"]["text"]


def test_a_torn_file_leaves_a_claim_in_doubt(tmp_path: Path) -> None:
    """Steps that it may have held are named, unless commits count them in full."""
    events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete")]
    for told_by_commits in (False, True):
        lines = job(events, steps=2)
        for line in lines:
            if line["kind"] == "commit" and told_by_commits:
                line["data"] = {"samples": 1}
        root = write_ledger(lines, tmp_path / str(told_by_commits), sealed=False)
        file = next(root.glob("attempt=0/samples-r00001x-*.arrows"))
        file.write_bytes(file.read_bytes() + b"\xff\xff\xff\xff\x10\x00")
        one = only(root)
        assert told_by_commits == (one["unseen"] is None)
        assert ("yes" if told_by_commits else "unknown") == one["resumable"]


def test_a_spare_that_takes_over_a_rank_is_no_second_launch(tmp_path: Path) -> None:
    """Two start events of a rank that go on from each other leave the amounts whole."""
    events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete", step=3)]
    lines = job([])
    for rank in (0, 1):
        end = max(at for at, line in enumerate(lines) if line["rank"] == rank)
        own = [line for line in events if line["rank"] == rank]
        own[0]["data"]["claim"] = {"consumed_samples": 6}
        lines[end + 1 : end + 1] = own
    place = next(at for at, line in enumerate(lines) if line["rank"] == 1 and line.get("step") == 3)
    lines.insert(place, {"kind": "start", "attempt": 0, "rank": 1, "data": {"world_size": 2}})
    lines[place]["time_ns"] = 5
    one = only(log_of(lines, tmp_path / "spare"))
    assert (None, "agrees") == (one["unseen"], one["agreement"])

    twice = [
        *lines[: place + 1],
        *[line for line in lines if line["rank"] == 1][1:3],
        *lines[place + 1 :],
    ]
    one = only(log_of(twice, tmp_path / "twice"))
    assert "was launched twice" in one["unseen"]


def test_without_commits_the_label_is_taken_at_its_word(tmp_path: Path) -> None:
    """What is not logged is said, and no fault is made of it."""
    events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete")]
    lines = [line for line in job(events) if line["kind"] != "commit"]
    one = only(log_of(lines, tmp_path))

    assert "unknown" == one["label"]["state"]
    assert "no commits are logged" in one["label"]["text"]
    assert ("agrees", 4) == (one["agreement"], one["ladder"]["committed"])


def test_a_claim_may_stand_in_either_event(tmp_path: Path) -> None:
    """Frameworks hand out their state when they have saved it, others when they begin."""
    for phase in ("begin", "complete"):
        events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete")]
        for line in events:
            line["data"].pop("claim", None)
            if line["data"]["phase"] == phase:
                line["data"]["claim"] = {"consumed_samples": 4}
        assert "agrees" == only(log_of(job(events), tmp_path / phase))["agreement"]


def test_read_and_queued_are_told_beside_used_and_committed() -> None:
    """The four places of the stream, from the stages that are logged, else from the claim."""
    one = only(FIXTURES / "cases" / "prefetched-data-is-thrown-away-and-read-again" / "run")

    assert {"read": 6, "queued": 6, "used": 2, "committed": 2} == one["ladder"]
    assert ("agrees", "yes") == (one["agreement"], one["resumable"])


def test_ledgers_of_any_shape_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines, sealed and open segments, cut and shuffled, in stretches of any length: one report."""
    monkeypatch.setattr(tallying, "MOST", 40)
    monkeypatch.setattr(documents, "MOST", 40)
    names = ["void-and-retry-before-the-crash", "planned-stop-with-positions"]
    folders = [ZOO / "torch-ddp-double-failure", ZOO / "megatron-correct"]
    folders += [FIXTURES / "traps" / name for name in names]
    for number, folder in enumerate(folders):
        lines = with_saves(read_lines(folder / "run"), {"rank_samples": 3})
        log = log_of(lines, tmp_path / f"{number}")
        expected = told(log)["checkpoints"]
        for sealed in (True, False):
            root = tmp_path / f"{number}-{sealed}"
            write_ledger(lines, root, rng=random.Random(number), sealed=sealed)
            assert expected == told(root)["checkpoints"], (folder, sealed)


def test_copies_of_a_segment_count_once(tmp_path: Path) -> None:
    """What two files of one writer both hold was used once, and committed once."""
    lines = with_saves(read_lines(ZOO / "torch-ddp-correct" / "run"), {"rank_samples": 3})
    root = write_ledger(lines, tmp_path / "ledger")
    expected = told(root)["checkpoints"]
    for table in ("samples", "events"):
        part = next(root.glob(f"attempt=1/{table}-r00000x-000000.parquet"))
        shutil.copy(part, part.with_name(f"{table}-r00000x-000001.parquet"))

    assert expected == told(root)["checkpoints"]


def train(root: Path, steps: int, *, rank: int = 0, **options: Any) -> LedgerWriter:
    """Record, commit and save with the real writer, and leave it open."""
    ledger = LedgerWriter(
        root,
        rank=rank,
        world_size=2,
        attempt=options.pop("attempt", "a"),
        run_id="r",
        strict=True,
        fingerprint={"seed": 1, "workers": 0},
        **options,
    )
    for step in range(ledger._total.step + 1, steps + 1):
        for slot in range(2):
            ledger.record(
                step, slot, [step * 100 + slot * 10 + rank, step * 100 + 5 + rank], epoch=0
            )
        ledger.commit(step)
        if step % 2 == 0:
            saving = ledger.begin_checkpoint(
                step, claim={"rank_samples": step * 4, "unit": "records"}
            )
            saving.complete()
            saving.wait()
    return ledger


def test_a_ledger_of_the_writer_is_whole_and_agrees(tmp_path: Path) -> None:
    """Label, claim and cursor of each rank agree, and the digest is the sum of all commits."""
    for rank in (0, 1):
        train(tmp_path, 4, rank=rank).close()
    ran = ledger_audit("checkpoints", tmp_path)
    newest = told(tmp_path)["checkpoints"][0]

    assert (0, "RESUME FROM step 4 of attempt a") == (ran.code, ran.out.splitlines()[0])
    assert ("agrees", "agrees", "yes") == (
        newest["label"]["state"],
        newest["digest"]["cursor"],
        newest["resumable"],
    )
    assert 32 == newest["ladder"]["committed"] == newest["ladder"]["used"]
    sums = sum(commits_of(tmp_path)) % 2**64
    assert sums == int(newest["digest"]["value"]) % 2**64


def commits_of(root: Path) -> list[int]:
    """Give the digests of all commits of a ledger."""
    ledger = open_ledger([root])
    return [
        int(digest)
        for label in ledger.attempts
        for digest in ledger.tries(label, 0)["digest"]
        if digest is not None
    ]


def test_cursors_go_on_over_a_resume(tmp_path: Path) -> None:
    """A cursor that was given back counts on; one of another world begins anew. Both agree."""
    for rank in (0, 1):
        first = train(tmp_path, 4, rank=rank)
        cursor = first.begin_checkpoint(4).cursor
        first.__exit__(KeyboardInterrupt, None, None)
        train(tmp_path, 6, rank=rank, attempt="b", restored=cursor).close()
    report = told(tmp_path)

    assert [("b", 6), ("a", 4), ("a", 4), ("a", 2)] == [
        (one["attempt"], one["step"]) for one in report["checkpoints"]
    ]
    assert {"agrees"} == {one["digest"]["cursor"] for one in report["checkpoints"]}
    assert (
        sum(commits_of(tmp_path)) % 2**64
        == int(report["checkpoints"][0]["digest"]["value"]) % 2**64
    )


def test_a_cursor_of_something_else_contradicts(tmp_path: Path) -> None:
    """A cursor whose digest is not the sum of its rank's commits stands for something else."""
    events = []
    for rank in (0, 1):
        cursor = {
            "run": "r",
            "attempt": "0",
            "step": 2,
            "rank": rank,
            "world_size": 2,
            "records": 2,
            "digest": str(3 + 4 * rank),
        }
        events += saved(rank, "begin", "complete", cursor=cursor)
    lines = job(events)
    for line in lines:
        if line["kind"] == "commit":
            line["data"] = {"digest": str(line["step"])}
    ran = ledger_audit("checkpoints", log_of(lines, tmp_path))
    one = only(tmp_path)

    assert (1, "contradicts", "6") == (ran.code, one["digest"]["cursor"], one["digest"]["value"])
    assert "the cursor of rank 1 has not the sum of its rank's commits" in flowing(ran.out)


def test_a_digest_with_a_gap_is_not_told(tmp_path: Path) -> None:
    """Where one commit tells none, the sum of the others is no sum of all."""
    lines = job([line for rank in (0, 1) for line in saved(rank, "begin", "complete")])
    for line in lines:
        if line["kind"] == "commit" and line["rank"] == 0:
            line["data"] = {"digest": "5"}
    one = only(log_of(lines, tmp_path))

    assert (None, "not-compared") == (one["digest"]["value"], one["digest"]["cursor"])


KILLED = """
import os, signal, sys
from ledger_audit import LedgerWriter
ledger = LedgerWriter(sys.argv[1], rank=int(sys.argv[2]), world_size=2, attempt="a", run_id="r")
for step in (1, 2, 3, 4):
    ledger.record(step, 0, [step * 2 + int(sys.argv[2])])
    ledger.commit(step)
    if step % 2 == 0:
        saving = ledger.begin_checkpoint(step, claim={"consumed_samples": step * 2})
        if step == 4 and sys.argv[2] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        saving.complete()
        saving.wait()
ledger.close()
"""


def test_a_rank_that_is_killed_while_it_saves(tmp_path: Path) -> None:
    """Its begin is on disk and its complete is not: the checkpoint before it is the one to load."""
    for rank in ("0", "1"):
        ran = subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path / "ledger"), rank], cwd=ROOT, check=False
        )
        assert (-signal.SIGKILL if rank == "1" else 0) == ran.returncode
    report = ledger_audit("checkpoints", tmp_path / "ledger")
    newest, older = told(tmp_path / "ledger")["checkpoints"]

    assert "RESUME FROM step 2 of attempt a" == report.out.splitlines()[0]
    assert ("no", [[1, 1]]) == (newest["resumable"], newest["whole"]["unfinished"])
    assert ("yes", 2) == (older["resumable"], older["step"])
    assert 0 == report.code


def test_records_that_were_put_away_are_counted_by_commits(tmp_path: Path) -> None:
    """`retain` puts records away on purpose: commits say how many there were."""
    for rank in (0, 1):
        train(tmp_path, 8, rank=rank, retain=1, segment_bytes=1200).close()
    newest = told(tmp_path)["checkpoints"][0]
    kept = open_ledger([tmp_path]).records("a", 0)

    assert 0 < kept.height < 64
    assert (64, None, "agrees", "yes") == (
        newest["ladder"]["committed"],
        newest["unseen"],
        newest["agreement"],
        newest["resumable"],
    )


@pytest.mark.parametrize("retain", [None, 1])
def test_sealing_changes_nothing(retain: int | None, tmp_path: Path) -> None:
    """What dead writers left is judged alike before and after it is sealed and merged."""
    for rank in (0, 1):
        ledger = train(tmp_path, 8, rank=rank, retain=retain, segment_bytes=1200)
        ledger.record(9, 0, [9000 + rank], epoch=0)
        ledger.void(9)
        ledger.__exit__(KeyboardInterrupt, None, None)
    before = told(tmp_path)["checkpoints"]

    seal(tmp_path, idle=0)

    assert before == told(tmp_path)["checkpoints"]
    assert not [*tmp_path.rglob("*.arrows")]


def test_what_may_be_missing_is_told_and_blames_nobody(tmp_path: Path) -> None:
    """A rank that left nothing makes a claim of all ranks neither right nor wrong."""
    events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete")]
    lines = [line for line in job(events) if line["rank"] == 0]
    one = only(log_of(lines, tmp_path))

    assert "rank 1 of attempt 0 left nothing" in one["unseen"]
    assert "not-compared" == one["agreement"]
    assert one["ladder"]["committed"] is None


def test_what_was_not_loaded_is_not_in_the_newest_weights(tmp_path: Path) -> None:
    """A checkpoint that the next attempt passed over is told to be outside the lineage."""
    lines = read_lines(ZOO / "torch-ddp-correct" / "run")
    lines = with_saves([line for line in lines if line["kind"] != "checkpoint"])
    report = told(log_of(lines, tmp_path))

    inside = {(one["attempt"], one["step"]) for one in report["checkpoints"] if one["in_lineage"]}
    assert ("0", 8) in inside
    assert ("0", 9) not in inside
    assert ("1", 26) in inside


def test_a_changed_fingerprint_is_told(tmp_path: Path) -> None:
    """The checkpoint's own fingerprint counts, and what differs from the start is named."""
    events = saved(0, "begin", "complete", fingerprint={"seed": 2})
    lines = job([*events, *saved(1, "begin", "complete")], fingerprint={"seed": 1})
    ran = ledger_audit("checkpoints", log_of(lines, tmp_path))

    assert [{"key": "seed", "start": 1, "checkpoint": 2}] == only(tmp_path)["fingerprint"][
        "changes"
    ]
    assert "changed since the start of the attempt: seed was 1 and is 2" in flowing(ran.out)


def test_a_ledger_that_was_not_safe_is_told(tmp_path: Path) -> None:
    """`synced: false` in a complete does not make it less whole, and is said."""
    events = [*saved(0, "begin"), *saved(0, "complete", synced=False)]
    lines = job([*events, *saved(1, "begin", "complete")])
    ran = ledger_audit("checkpoints", log_of(lines, tmp_path))

    assert [[0, 0]] == only(tmp_path)["whole"]["unsynced"]
    assert "not safe on storage by then: the ledger of rank 0" in flowing(ran.out)


NASTY = "\x1b[31mred\x1b[0m\r\n\u202eevil [bold]x[/bold]"


def test_nothing_in_a_log_steers_the_screen(tmp_path: Path) -> None:
    """Labels, paths, claims and fingerprints are escaped, for people and for programs."""
    claim = {NASTY: NASTY, "consumed_samples": 4, "unit": NASTY}
    data = {"path": NASTY, "fingerprint": {NASTY: NASTY, "seed": NASTY}}
    events = []
    for rank in (0, 1):
        events += saved(rank, "begin", "complete", **data)
    for line in events:
        if line["data"]["phase"] == "begin":
            line["data"]["claim"] = claim
    lines = job(events, fingerprint={"seed": 1, NASTY: 1})
    for line in lines:
        line["attempt"] = NASTY
    log = log_of(lines, tmp_path)
    for options in ((), ("--probe",)):
        ran = ledger_audit("checkpoints", log, *options)
        assert not set("\x1b\r\u202e") & set(ran.out)
        assert "\\x1b[31mred" in ran.out
        assert told(log, *options)["checkpoints"][0]["attempt"] == NASTY
        text = ledger_audit("checkpoints", log, *options, "--format", "json").out
        assert text.isascii()


def test_reports_are_written_beside(tmp_path: Path) -> None:
    """`--report` writes another form into a file, whole; the exit code is the same."""
    run = ZOO / "torch-ddp-correct" / "run"
    beside = tmp_path / "report.json"
    ran = ledger_audit("checkpoints", run, "--report", f"json={beside}")

    assert ledger_audit("checkpoints", run, "--format", "json").out == beside.read_text()
    assert (0, True) == (ran.code, ran.out.startswith("RESUME FROM"))


def test_nothing_is_looked_at_unless_asked(tmp_path: Path) -> None:
    """Without `--probe` a path of the log is told and not touched."""
    there = tmp_path / "saved"
    events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete", path=str(there))]
    log = log_of(job(events), tmp_path / "log")

    assert only(log)["probed"] is None
    assert "(not looked at: --probe does)" in flowing(ledger_audit("checkpoints", log).out)
    one = only(log, "--probe")
    assert ("no", False) == (one["resumable"], one["probed"][0]["loadable"])
    there.write_bytes(b"weights")
    one = only(log, "--probe")
    assert ("yes", True, 7) == (
        one["resumable"],
        one["probed"][0]["loadable"],
        one["probed"][0]["bytes"],
    )


def test_a_relative_path_is_looked_for_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is relative to the working directory, wherever the ledger lies."""
    events = [line for rank in (0, 1) for line in saved(rank, "begin", "complete", path="saved")]
    log = log_of(job(events), tmp_path / "log")
    monkeypatch.chdir(tmp_path)
    assert only(log, "--probe")["probed"][0]["loadable"] is False
    (tmp_path / "saved").write_bytes(b"weights")

    assert only(log, "--probe")["probed"][0]["loadable"] is True


def reports() -> list[Ran]:
    """Give the JSON reports of every fixture that has a checkpoint, and of some that have none."""
    return [
        ledger_audit("checkpoints", folder, *options, "--format", "json")
        for folder in ANY_RUNS
        for options in ((), ("--probe",))
    ]


def test_every_json_report_fits_the_published_schema(tmp_path: Path) -> None:
    """Reports of every fixture, and of ledgers of the writer, fit `checkpoints.schema.json`."""
    schema = json.loads((ROOT / "docs" / "checkpoints.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for rank in (0, 1):
        train(tmp_path, 4, rank=rank).close()
    ours = ledger_audit("checkpoints", tmp_path, "--probe", "--format", "json")
    for ran in [*reports(), ours]:
        errors = [error.message for error in validator.iter_errors(ran.report)]
        assert [] == errors
        assert {"agrees": 0, "contradicts": 1, "not-compared": 3}[
            ran.report["agreement"]
        ] == ran.code
