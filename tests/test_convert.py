"""What `convert` writes reads like the log that it was made of, and it says what that lacks."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import ANY_RUNS, FIXTURES
from native import read_lines, write_ledger
from running import Ran, ledger_audit

from ledger_audit.ledger.opening import open_ledger

OLMO = FIXTURES / "foreign" / "olmo-data-indices"
RUN = FIXTURES / "zoo" / "torch-ddp-partial-accum" / "run"
FOLDERS = sorted(path.parent for path in FIXTURES.glob("*/*/run"))
HEAD = "rank,step,slot,sample_id\n"


def told(ran: Ran, *renamed: tuple[str, str]) -> dict[str, Any]:
    """Give a report without its inputs, with some names of files replaced."""
    text = ran.out
    for theirs, ours in renamed:
        text = text.replace(theirs, ours)
    report: dict[str, Any] = json.loads(text)
    del report["inputs"]
    return report


def rows_of(table: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Give what each rank said, in its order; numbers may begin elsewhere."""
    own = table.sort("rank", "seq").drop("seq", "writer", strict=False)
    return own.select(sorted(own.columns)).rows()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_converted_log_gives_the_report_of_the_log(folder: Path, tmp_path: Path) -> None:
    """Every run of the zoo, the traps and the cases holds the same; of most, it is judged, too."""
    ran = ledger_audit("convert", folder / "run", "-o", tmp_path / "ledger")

    assert (0, "") == (ran.code, ran.err)
    before, after = (open_ledger([root]) for root in (folder / "run", tmp_path / "ledger"))
    assert before.attempts == after.attempts
    for attempt in before.attempts:
        one, other = before.everything(attempt), after.everything(attempt)
        for here, there in zip(one, other, strict=True):
            assert rows_of(here) == rows_of(there)
    if folder / "run" not in ANY_RUNS:
        return
    log, ledger = (
        ledger_audit("diff", "--full", root, "--format", "json")
        for root in (folder / "run", tmp_path / "ledger")
    )
    assert log.code == ledger.code
    assert told(log) == told(ledger)


@pytest.mark.parametrize("name", ["zoo/megatron-correct", "traps/eval-rows-in-the-same-ledger"])
def test_a_converted_pair_gives_the_report_of_the_pair(name: str, tmp_path: Path) -> None:
    """`gate` and other streams need nothing but the ledger either."""
    run, control = (FIXTURES / name / side for side in ("run", "control"))
    control = control if control.exists() else run
    for side, root in (("run", run), ("control", control)):
        assert 0 == ledger_audit("convert", root, "-o", tmp_path / side).code
    for options in ((), ("--stream", "eval")):
        log, ledger = (
            ledger_audit("gate", *roots, *options, "--format", "json")
            for roots in ((control, run), (tmp_path / "control", tmp_path / "run"))
        )
        assert log.code == ledger.code
        assert log.code == 2 or told(log) == told(ledger)


MIXED = [
    {"kind": "start", "rank": 1, "data": {"world_size": 2, "note": "a\u2028b"}, "time_ns": 5},
    {"rank": 1, "step": 1, "slot": 0, "sample_id": "b", "worker": 3, "row": 4, "position": 9},
    {"rank": 1, "stage": "read", "sample_id": "c"},
    {"rank": 1, "stage": "dropped", "sample_id": "d", "source": "web", "epoch": 2},
    {"rank": 0, "step": 2, "slot": 1, "sample_id": "a", "token_start": 0, "token_end": 7},
    {"rank": 0, "step": 1, "slot": 0, "sample_id": "a", "stream": "eval"},
    {"kind": "commit", "rank": 1, "step": 1, "data": {"samples": 1, "digest": "0x1"}},
    {"kind": "declare", "rank": 0, "data": {"reshuffle": True, "reason": "\x1b[31m"}},
]


def test_nothing_is_lost(tmp_path: Path) -> None:
    """All streams, all stages and all events are there, with all that they say."""
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in MIXED))

    ran = ledger_audit("convert", log, "-o", tmp_path / "ledger")

    assert 0 == ran.code
    one, other = (open_ledger([root]).everything("0") for root in (log, tmp_path / "ledger"))
    for here, there in zip(one, other, strict=True):
        assert here.sort("rank", "seq").rows() == there.sort("rank", "seq").rows()
    assert (5, 3) == (other[0].height, other[1].height)


def test_the_files_are_sealed_sorted_and_numbered(tmp_path: Path) -> None:
    """One file a table and attempt, by step, and every line of a rank has a number of its own."""
    assert 0 == ledger_audit("convert", RUN, "-o", tmp_path / "ledger").code

    for attempt in ("0", "1"):
        folder = tmp_path / "ledger" / f"attempt={attempt}"
        samples, events = (list(folder.glob(f"{name}-*")) for name in ("samples", "events"))
        assert (1, 1) == (len(samples), len(events))
        rows, acts = (
            pl.read_parquet(file, hive_partitioning=False) for (file,) in (samples, events)
        )
        assert rows["step"].is_sorted()
        numbers = pl.concat([rows.select("rank", "seq"), acts.select("rank", "seq")])
        assert not numbers.is_duplicated().any()
    assert {"ledger"} == {path.name for path in tmp_path.iterdir()}


def test_the_same_log_gives_the_same_names(tmp_path: Path) -> None:
    """A conversion that is repeated is the same writer, and another log is another one."""
    for name, root in (("a", RUN), ("b", RUN), ("c", OLMO / "before")):
        assert 0 == ledger_audit("convert", root, "-o", tmp_path / name).code

    names = [
        {file.name for file in (tmp_path / name / "attempt=0").iterdir()}
        for name in ("a", "b", "c")
    ]
    assert names[0] == names[1]
    assert not names[0] & names[2]
    twice = ledger_audit("diff", tmp_path / "a", tmp_path / "b", "--format", "json")
    assert told(ledger_audit("diff", RUN, "--format", "json"))["resumes"] == told(twice)["resumes"]


def test_two_conversions_are_one_ledger_before_and_after(tmp_path: Path) -> None:
    """What `diff --post` judges from two logs, `diff` judges from the ledger of both."""
    ledger = tmp_path / "ledger"
    first = ledger_audit("convert", OLMO / "before", "-o", ledger)
    second = ledger_audit(
        "convert", OLMO / "after", "-o", ledger, "--attempt", "1", "--resumed-from", "0:6"
    )
    logs = ledger_audit(
        "diff", OLMO / "before", "--post", OLMO / "after", "--checkpoint-step", "6",
        "--format", "json",
    )  # fmt: skip

    both = ledger_audit("diff", "--full", ledger, "--format", "json")

    assert (0, 0) == (first.code, second.code)
    assert 1 == logs.code == both.code
    (one,), (other,) = told(logs)["resumes"], told(both)["resumes"]
    for key in ("outcomes", "shift", "windows", "verdict", "coverage", "checkpoint_step"):
        assert one[key] == other[key]


def test_torn_stays_torn(tmp_path: Path) -> None:
    """The ledger of a torn log doubts what the log leaves in doubt, and says so."""
    for name, last in (("a", 9), ("b", 9)):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(
                json.dumps(
                    {
                        "rank": int(name == "b"),
                        "step": step,
                        "slot": 0,
                        "sample_id": 2 * step + int(name == "b"),
                        "attempt": 0,
                    }
                )
                + "\n"
                for step in range(1, last)
            )
        )
    log = tmp_path / "b.jsonl"
    log.write_text(log.read_text()[:-5])
    (tmp_path / "c.jsonl").write_text('{"ra')

    ran = ledger_audit("convert", tmp_path / "*.jsonl", "-o", tmp_path / "ledger")
    before, after = (
        [
            (one.attempt, one.from_step, one.to_step, one.reason)
            for one in open_ledger([root]).unread
        ]
        for root in (tmp_path / "*.jsonl", tmp_path / "ledger")
    )

    assert 0 == ran.code
    assert [("0", 7, None, "torn"), ("0", None, None, "torn")] == before == after
    assert "b.jsonl, which is cut short" in ran.out.replace("\n ", "")
    events = open_ledger([tmp_path / "ledger"]).everything("0")[1]
    assert ["recovered", "recovered"] == events["kind"].to_list()


@pytest.mark.parametrize("name", ["torch-ddp-correct", "torch-ddp-double-failure"])
def test_a_torn_log_is_judged_alike(name: str, tmp_path: Path) -> None:
    """Cut anywhere, a log and its ledger give one report; only the torn file has another name."""
    source = FIXTURES / "zoo" / name / "run"
    log = tmp_path / "log"
    log.mkdir()
    for share in (0.3, 0.55, 0.8, 0.95):
        ledger = tmp_path / f"ledger{share}"
        for file in source.glob("*.jsonl"):
            text = file.read_bytes()
            if file.name == "attempt1.jsonl":
                text = text[: text.rindex(b"\n", 0, int(len(text) * share)) + 9]
            (log / file.name).write_bytes(text)
        assert 0 == ledger_audit("convert", log, "-o", ledger).code
        torn = next(ledger.glob("attempt=1/*.arrows"))

        one, other = (
            ledger_audit("diff", "--full", root, "--format", "json") for root in (log, ledger)
        )

        assert told(one, (str(log / "attempt1.jsonl"), "FILE")) == told(other, (str(torn), "FILE"))


def test_one_seq_twice_is_numbered_anew(tmp_path: Path) -> None:
    """Numbers that the log gives twice would hide records: they are given anew, in order."""
    log = tmp_path / "log.csv"
    log.write_text("rank,step,slot,sample_id,seq\n0,1,0,5,7\n0,1,0,6,7\n0,1,0,5,7\n1,1,0,8,7\n")

    ran = ledger_audit("convert", log, "-o", tmp_path / "ledger")
    rows, _ = open_ledger([tmp_path / "ledger"]).everything("0")

    assert 0 == ran.code
    assert "numbered anew" in ran.out
    assert [(0, 5), (1, 6), (2, 5)] == rows.filter(rank=0).sort("seq").select(
        "seq", "sample_id"
    ).rows()


def test_a_label_cannot_lead_elsewhere(tmp_path: Path) -> None:
    """Labels come from logs: they are escaped in the name of the folder and on the screen."""
    log = tmp_path / "log.csv"
    log.write_text("attempt,rank,step,slot,sample_id\n../../\x1b[31mx,0,1,0,5\n")

    ran = ledger_audit("convert", log, "-o", tmp_path / "ledger")

    assert 0 == ran.code
    assert ["attempt=..%2F..%2F%1B%5B31mx"] == [one.name for one in (tmp_path / "ledger").iterdir()]
    assert ("../../\x1b[31mx",) == open_ledger([tmp_path / "ledger"]).attempts
    assert "\x1b" not in ran.out
    assert "../../\\x1b[31mx" in ran.out


USAGE = {
    "several attempts": ((RUN, "--attempt", "3"), "holds the attempts 0, 1"),
    "several starts": ((RUN, "--world-size", "4"), "holds the attempts 0, 1"),
    "itself": ((OLMO / "before", "--resumed-from", "0:8"), "cannot resume from itself"),
    "no step": ((OLMO / "before", "--resumed-from", "0"), "is not of the form ATTEMPT:STEP"),
    "below zero": ((OLMO / "before", "--resumed-from", "0:-1"), "is not of the form ATTEMPT:STEP"),
    "no label": ((OLMO / "before", "--attempt", ""), "empty label"),
    "small world": ((OLMO / "before", "--world-size", "1"), "the log holds rank 1"),
    "no world": ((OLMO / "before", "--world-size", "0"), "0 is not in the range"),
}


@pytest.mark.parametrize("name", USAGE)
def test_options_that_contradict_the_log_are_refused(name: str, tmp_path: Path) -> None:
    """Exit code 2, and nothing is written."""
    arguments, message = USAGE[name]

    ran = ledger_audit("convert", *arguments, "-o", tmp_path / "ledger")

    assert 2 == ran.code
    assert message in ran.err
    assert [] == list(tmp_path.iterdir())


def test_start_events_of_the_log_have_the_last_word(tmp_path: Path) -> None:
    """Options that say the same add nothing; those that say something else are refused."""
    log = tmp_path / "log.jsonl"
    lines = [one for one in read_lines(RUN) if one["attempt"] == 1]
    log.write_text("".join(json.dumps(one) + "\n" for one in lines))
    same = ("--resumed-from", "0:8", "--world-size", "4")

    agreed = ledger_audit("convert", log, "-o", tmp_path / "ledger", *same)
    for options in (("--resumed-from", "0:7"), ("--world-size", "8")):
        ran = ledger_audit("convert", log, "-o", tmp_path / "other", *options)
        assert 2 == ran.code
        assert "a start event of attempt 1 says" in ran.err

    assert 0 == agreed.code
    assert "with start events" not in agreed.out
    starts = [one for one in lines if one["kind"] == "start"]
    _, events = open_ledger([tmp_path / "ledger"]).everything("1")
    assert len(starts) == events.filter(kind="start").height
    assert not (tmp_path / "other").exists()


def test_start_events_come_first(tmp_path: Path) -> None:
    """Every rank that is seen says what the options say, before all that it wrote."""
    options = ("--attempt", "b", "--resumed-from", "a:b:8", "--world-size", "3")
    ran = ledger_audit("convert", OLMO / "after", "-o", tmp_path / "ledger", *options)

    rows, events = open_ledger([tmp_path / "ledger"]).everything("b")
    assert 0 == ran.code
    assert [(0, 0), (1, 0)] == events.sort("rank").select("rank", "seq").rows()
    assert {"world_size": 3, "resumed_from": {"attempt": "a:b", "step": 8}} == json.loads(
        events["data"][0]
    )
    assert 1 == rows["seq"].min()


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("not-there.csv", 4, "does not exist"),
        ("empty.jsonl", 2, "holds no record and no event"),
        ("null.csv", 4, "a record has a null 'slot'"),
        ("span.csv", 4, "'token_end' precedes 'token_start'"),
        ("native", 2, "is a ledger of format 1 already"),
    ],
)
def test_what_cannot_be_converted_is_refused(
    name: str, code: int, message: str, tmp_path: Path
) -> None:
    """The log says why, and nothing is left behind."""
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "null.csv").write_text(f"{HEAD}0,1,,5\n")
    (tmp_path / "span.csv").write_text(f"token_start,token_end,stream,{HEAD}5,3,eval,0,1,0,5\n")
    write_ledger(read_lines(RUN), tmp_path / "native")
    before = sorted(tmp_path.rglob("*"))

    ran = ledger_audit("convert", tmp_path / name, "-o", tmp_path / "ledger")

    assert code == ran.code
    assert message in ran.err
    assert "  try: " in ran.err
    assert before == sorted(tmp_path.rglob("*"))


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    """A log that says all leaves nothing to list, and a bare one lists each with its remedy."""
    bare = tmp_path / "bare.csv"
    bare.write_text(f"{HEAD}0,1,0,5\n")
    full = tmp_path / "full.jsonl"
    start = {"world_size": 1, "resumed_from": None, "fingerprint": {"dataset_samples": 9}}
    sample = {"step": 1, "slot": 0, "row": 0, "sample_id": 5, "token_start": 0, "token_end": 9}
    more = {"source": "web", "epoch": 0, "position": 0, "stream": "eval"}
    lines = [
        {"kind": "start", "rank": 0, "data": start},
        {"kind": "sample", "rank": 0, **sample, **more},
        {"kind": "commit", "rank": 0, "step": 1, "data": {"samples": 1}},
    ]
    full.write_text("".join(json.dumps(one) + "\n" for one in lines))

    all_told = ledger_audit("convert", full, "-o", tmp_path / "full")
    little = ledger_audit("convert", bare, "-o", tmp_path / "bare")

    assert (
        f"Wrote 1 attempt to {tmp_path / 'full'}\n  0: 1 rank, 1 record, 2 events, steps 1 to 1\n"
        == (all_told.out)
    )
    for what in (
        "no start event", "no world size", "no commit events", "no `row`", "no `epoch`",
        "no spans of tokens", "no `source`", "no `position`", "no `stream`",
        "no size of the data set",
    ):  # fmt: skip
        assert f"\n- {what}\n    so " in little.out
    assert little.out.count("\n    try ") == 10
    assert "no slots" not in little.out
    assert "no slots" in ledger_audit("convert", OLMO / "after", "-o", tmp_path / "olmo").out
