"""`show` lays the raw window out: every record once, where it was used, with a line between."""

import re
from collections import Counter
from pathlib import Path

import pytest
from conftest import ANY_RUNS, FIXTURES
from native import read_lines
from running import ledger_audit

RUN = FIXTURES / "zoo" / "torch-ddp-prefetched-position" / "run"
FOLDERS = [path.parent for path in ANY_RUNS]


def _shown(*arguments: str | Path) -> list[tuple[str, int, int, int, str]]:
    """Read the grid back: section, step, rank, slot, id."""
    ran = ledger_audit("show", *arguments, "--ids")
    assert (ran.code, ran.err) == (0, "")
    found = []
    section, step, starts, slots, rank = "", 0, [], [], 0
    for line in ran.out.splitlines():
        if line.startswith("attempt "):
            section = line
        elif head := re.match(r"  step (\d+) ", line):
            step = int(head[1])
            heads = list(re.finditer(r"slot (\d+)", line))
            starts, slots = [one.start() for one in heads], [int(one[1]) for one in heads]
        elif line.startswith("    ") and starts:
            label = re.match(r"    rank (\d+)", line)
            rank = int(label[1]) if label else rank
            ends = [*starts[1:], len(line) + 1]
            for slot, start, end in zip(slots, starts, ends, strict=True):
                cell = line[start : end - 1].split()
                found += [(section, step, rank, slot, one) for one in cell if one != "-"]
    return found


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_record_of_a_step_is_shown_once(
    folder: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grid holds what the log holds, of every attempt, rank and slot, on any screen."""
    monkeypatch.setenv("COLUMNS", str(width))
    lines = [
        one
        for one in read_lines(folder / "run")
        if one["kind"] == "sample"
        and one.get("stream") is None
        and one.get("stage") in (None, "used")
    ]
    step = max((one["step"] for one in lines), default=0)

    shown = _shown(folder / "run", "--step", str(step))

    logged = Counter(
        (one["rank"], one["slot"], str(one["sample_id"])) for one in lines if one["step"] == step
    )
    assert logged == Counter((rank, slot, told.strip("'")) for _, _, rank, slot, told in shown)


def test_the_newest_resume_with_a_line_at_its_checkpoint() -> None:
    """Committed steps, the line, what was rolled back, what was done instead."""
    ran = ledger_audit("show", RUN)

    order = ["attempt 0, committed", "- checkpoint step 8 -", "attempt 0, rolled back"]
    places = [ran.out.index(text) for text in [*order, "attempt 1, resumed"]]
    assert places == sorted(places)
    steps = re.findall(r"^  step (\d+)", ran.out, flags=re.MULTILINE)
    assert ["6", "7", "8", "9", "10", "11", "9", "10", "11"] == steps


def test_one_rank_and_one_resume() -> None:
    """`--rank` and `--resume` choose; what is not there is said, with what is."""
    twice = FIXTURES / "zoo" / "torch-ddp-double-failure" / "run"

    assert {2} == {rank for _, _, rank, _, _ in _shown(RUN, "--rank", "2")}
    assert "checkpoint step 8 " in ledger_audit("show", twice, "--resume", "1").out
    assert "checkpoint step 15 " in ledger_audit("show", twice).out
    for arguments in (("--rank", "9"), ("--step", "99"), ("--resume", "3")):
        ran = ledger_audit("show", RUN, *arguments)
        assert (2, "") == (ran.code, ran.out)
        assert "try: " in ran.err
    assert ledger_audit("show", RUN, "--step", "3", "--resume", "1").code == 2


def test_details_on_demand() -> None:
    """Spans, epochs and positions are told when asked for, and few ids otherwise."""
    packed = FIXTURES / "zoo" / "megatron-correct" / "run"

    assert "@41" not in ledger_audit("show", packed).out
    told = ledger_audit("show", packed, "--spans", "--epochs", "--positions", "--ids").out
    assert "21 [1:33) e0 @41" in " ".join(told.split())


def test_a_long_micro_batch_is_cut_and_says_so(tmp_path: Path) -> None:
    """Two lines of a cell, then how many more; `--ids` tells all."""
    rows = [f"0,1,0,{1_000_000 + n}" for n in range(300)]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["rank,step,slot,sample_id", *rows]) + "\n")

    short, long = ledger_audit("show", log), ledger_audit("show", log, "--ids")

    more = re.search(r"and (\d+) more", short.out)
    assert more is not None
    assert 300 == int(more[1]) + short.out.count("1000")
    assert 300 == long.out.count("1000")


def test_what_became_of_a_try_is_said() -> None:
    """A void try and one that was never committed are marked, the retry follows."""
    retried = ledger_audit("show", FIXTURES / "traps" / "void-and-retry-before-the-crash" / "run")

    assert "rank 0 void" in retried.out
    assert "rank 0 open" in ledger_audit("show", RUN, "--after", "9").out
    assert retried.out.endswith("\nvoid: its update was thrown away\n")
    assert ledger_audit("show", RUN, "--step", "11").out.endswith(
        "\nopen: it was never committed\n"
    )
    assert "its update" not in ledger_audit("show", RUN, "--step", "9").out


def test_an_empty_ledger_has_nothing_to_show(tmp_path: Path) -> None:
    """It says so, with exit code 2."""
    (tmp_path / "a.jsonl").write_text("")

    ran = ledger_audit("show", tmp_path)

    assert 2 == ran.code
    assert "holds no record" in ran.err
