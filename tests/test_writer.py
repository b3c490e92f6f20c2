"""The trainer's face: what is recorded is read back, whatever it was given as, and counted."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from running import ledger_audit

from ledger_audit import LedgerWriter
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.writer.launcher import attempt_label


def _writer(root: Path, **options: Any) -> LedgerWriter:
    return LedgerWriter(root, **{"rank": 0, "world_size": 1, "attempt": "a", **options})


def _rows(root: Path, attempt: str = "a") -> list[dict[str, Any]]:
    return open_ledger([root]).records(attempt, 0).to_dicts()


def _events(root: Path, kind: str) -> list[dict[str, Any]]:
    ledger = open_ledger([root])
    acts = [*ledger.acts().filter(kind=kind).to_dicts()]
    return [{**one, "data": json.loads(one["data"] or "{}")} for one in acts]


IDS = [7, 3, 2**62, -1]
TEXTS = ["doc-1", "größe", "", "x" * 100]


@pytest.mark.parametrize(
    "given",
    [
        IDS,
        tuple(IDS),
        np.array(IDS),
        np.array(IDS)[::-1][::-1],
        pa.array(IDS),
        pa.chunked_array([IDS[:1], IDS[1:]]),
        pd.Series(IDS),
        TEXTS,
        np.array(TEXTS),
        pa.array(TEXTS),
        pa.array(TEXTS).dictionary_encode(),
        [text.encode() for text in TEXTS],
        pa.array(TEXTS, pa.large_string()),
    ],
    ids=lambda value: f"{type(value).__module__}.{type(value).__name__}",
)
def test_ids_of_any_array_are_read_back(given: Any, tmp_path: Path) -> None:
    """Lists, numpy, Arrow, pandas; integers and text."""
    with _writer(tmp_path, strict=True) as ledger:
        ledger.record(1, 0, given)
        ledger.commit(1)

    assert (IDS if given[0] in (7, pa.scalar(7)) else TEXTS) == [
        row["sample_id"] for row in _rows(tmp_path)
    ]


def test_a_tensor_is_an_array_like_any_other(tmp_path: Path) -> None:
    """What has `detach`, `cpu` and `numpy` is taken for a tensor; the real ones are tried apart."""

    class Tensor:
        def detach(self) -> "Tensor":
            return self

        def cpu(self) -> "Tensor":
            return self

        def numpy(self) -> np.ndarray[Any, Any]:
            return np.array([4, 5])

        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> int:
            return [4, 5][index]

    with _writer(tmp_path, strict=True) as ledger:
        ledger.record(1, 0, Tensor(), token_start=[0, 1], token_end=Tensor())

    assert [(4, 0, 4), (5, 1, 5)] == [
        (row["sample_id"], row["token_start"], row["token_end"]) for row in _rows(tmp_path)
    ]


def test_every_column_is_read_back(tmp_path: Path) -> None:
    """One value a row, or one for all."""
    given = {
        "row": [0, 0],
        "token_start": [0, 10],
        "token_end": np.array([10, 30]),
        "source": "web",
        "epoch": 3,
        "position": [40, 40],
        "worker": [1, 2],
    }
    with _writer(tmp_path, rank=2, world_size=3, strict=True) as ledger:
        ledger.record(5, 1, [8, 9], **given)
        ledger.commit(5)

    first, second = open_ledger([tmp_path]).everything("a")[0].to_dicts()
    expected = {"rank": 2, "step": 5, "slot": 1, "sample_id": 9, "token_start": 10, "token_end": 30}
    expected |= {"row": 0, "source": "web", "epoch": 3, "position": 40, "worker": 2, "seq": 2}
    assert expected.items() <= second.items()
    assert (8, 1) == (first["sample_id"], first["seq"])


def test_other_stages_and_streams_enter_no_try(tmp_path: Path) -> None:
    """A commit counts what training used; the rest is kept apart."""
    with _writer(tmp_path, strict=True) as ledger:
        ledger.record(None, None, [1, 2, 3], stage="read")
        ledger.record(1, 0, [1])
        ledger.record(1, 0, [77], stream="eval")
        ledger.record(1, 0, [2], stage="dropped")
        ledger.commit(1)

    ledger_ = open_ledger([tmp_path])
    assert [1] == [row["sample_id"] for row in _rows(tmp_path)]
    assert [1] == ledger_.tries("a", 0)["samples"].to_list()
    assert [77] == open_ledger([tmp_path], stream="eval").records("a", 0)["sample_id"].to_list()
    assert 6 == ledger_.everything("a")[0].height
    assert [None] == open_ledger([tmp_path], stream="eval").tries("a", 0)["samples"].to_list()


@pytest.mark.parametrize("array", [list, np.array, pa.array])
def test_stages_and_streams_may_differ_row_by_row(array: Any, tmp_path: Path) -> None:
    """What training used of a micro-batch counts, whatever else is told with it."""
    with _writer(tmp_path, strict=True) as ledger:
        ledger.record(1, 0, [1, 2, 3, 4], stage=array(["used", "read", "used", "dropped"]))
        ledger.record(1, 1, [5, 6], stream=pa.array([None, "eval"]))
        ledger.commit(1)

    found = open_ledger([tmp_path])
    assert [1, 3, 5] == [row["sample_id"] for row in _rows(tmp_path)]
    assert [3] == found.tries("a", 0)["samples"].to_list()
    assert 0 == ledger_audit("seal", tmp_path, "--idle", "0").code  # and so says the digest


def test_an_error_in_the_block_is_not_hidden(tmp_path: Path) -> None:
    """A writer that is closed already does not raise over what went wrong."""

    def train() -> None:
        with _writer(tmp_path, strict=True) as ledger:
            ledger.close()
            raise RuntimeError("loss is NaN")

    with pytest.raises(RuntimeError, match="NaN"):
        train()


def test_events_say_what_happened(tmp_path: Path) -> None:
    """Each call leaves its event, in the order of the calls."""
    with _writer(tmp_path, fingerprint={"seed": 7}, strict=True) as ledger:
        ledger.restore(fingerprint={"seed": 7})
        ledger.iterator()
        ledger.record(1, 0, [1])
        ledger.void(1, "overflow")
        ledger.declare(1, skip={"positions": [1, 2]}, reason="bad data")
        ledger.membership(2, [0])
        ledger.record(2, 0, [2])
        ledger.commit(2)

    kinds = open_ledger([tmp_path]).acts()["kind"].to_list()
    assert ["start", "restore", "iterator", "declare", "membership", "end"] == kinds
    assert {"seed": 7} == _events(tmp_path, "start")[0]["data"]["fingerprint"]
    assert ["void", "commit"] == open_ledger([tmp_path]).tries("a", 0)["kind"].to_list()
    assert "bad data" == _events(tmp_path, "declare")[0]["data"]["reason"]


def _train(root: Path, attempt: str, first: int, last: int, restored: Any) -> dict[int, Any]:
    """Play two ranks; give the cursor of each checkpoint and rank."""
    writers = [
        LedgerWriter(root, rank=rank, world_size=2, attempt=attempt, restored=cursors, strict=True)
        for rank, cursors in enumerate(restored)
    ]
    saved: dict[int, Any] = {}
    for step in range(first, last + 1):
        for rank, ledger in enumerate(writers):
            ids = [100 * step + 10 * rank + n for n in range(3)]
            ledger.record(step, 0, ids, token_start=0, token_end=[5, 6, 7])
            ledger.commit(step)
        if step % 2 == 0:
            for ledger in writers:
                with ledger.checkpoint(step, claim={"consumed_samples": 6 * step}) as cursor:
                    saved.setdefault(step, []).append(json.loads(json.dumps(cursor.told())))
    for ledger in writers:
        ledger.close()
    return saved


def test_the_cursor_says_where_to_go_on(tmp_path: Path) -> None:
    """Parent and step come from what was loaded; counts and digests go on."""
    first = _train(tmp_path / "l", "a", 1, 5, [None, None])
    second = _train(tmp_path / "l", "b", 5, 8, first[4])
    whole = _train(tmp_path / "whole", "a", 1, 8, [None, None])

    start = _events(tmp_path / "l", "start")[-1]["data"]
    assert {"attempt": "a", "step": 4} == start["resumed_from"]
    for resumed, control in zip(second[8], whole[8], strict=True):
        same = ("step", "records", "tokens", "digest", "rank", "world_size")
        assert {key: control[key] for key in same} == {key: resumed[key] for key in same}
    assert (24, 144) == (second[8][0]["records"], second[8][0]["tokens"])
    ran = ledger_audit("diff", tmp_path / "l", "--format", "json")
    assert (0, "continuous") == (ran.code, ran.report["verdict"])
    assert 0 == ledger_audit("gate", tmp_path / "whole", tmp_path / "l").code


def test_a_fixed_label_is_told_apart_from_those_before_it(tmp_path: Path) -> None:
    """Every launch says `attempt="a"`: each resume has a label of its own, alike on all ranks."""
    saved = _train(tmp_path, "a", 1, 4, [None, None])
    saved = _train(tmp_path, "a", 5, 8, saved[4])
    _train(tmp_path, "a", 9, 9, saved[8])

    assert {"attempt=a", "attempt=a-g1", "attempt=a-g2"} == set(os.listdir(tmp_path))
    resumes = ledger_audit("diff", tmp_path, "--format", "json").report["resumes"]
    assert [("a", 4), ("a-g1", 8)] == [
        (one["from_attempt"], one["checkpoint_step"]) for one in resumes
    ]
    other = _writer(tmp_path, attempt="b", resumed_from=("b", 3))
    assert "b-from-3" == other.attempt


def test_two_launches_under_one_label_prove_nothing(tmp_path: Path) -> None:
    """Both resumed from one checkpoint and found one label: a rank committed a step in both."""
    saved = _train(tmp_path, "a", 1, 6, [None, None])
    _train(tmp_path, "b", 5, 7, saved[4])
    _train(tmp_path, "b", 5, 9, saved[4])

    ran = ledger_audit("diff", tmp_path, "--format", "json")

    assert 3 == ran.code
    assert "mixed-attempt" in {one["code"] for one in ran.report["resumes"][0]["limits"]}


def test_a_spare_that_takes_over_is_no_second_launch(tmp_path: Path) -> None:
    """It starts in the same attempt, and goes on after the last committed step."""
    saved = _train(tmp_path, "a", 1, 6, [None, None])
    writers = [_writer(tmp_path, attempt="b", restored=saved[4][0], world_size=1) for _ in "12"]
    for step, ledger in ((5, writers[0]), (6, writers[1])):
        ledger.record(step, 0, [100 * step + n for n in range(3)], token_start=0, token_end=5)
        ledger.commit(step)

    report = ledger_audit("diff", tmp_path, "--format", "json").report
    assert "mixed-attempt" not in {one["code"] for one in report["resumes"][0]["limits"]}


def test_a_neighbours_cursor_hands_down_only_the_place(tmp_path: Path) -> None:
    """A cursor of another rank tells where to resume, and no counts."""
    saved = _train(tmp_path, "a", 1, 4, [None, None])

    ledger = _writer(tmp_path, attempt="b", rank=0, world_size=2, restored=saved[4][1])

    assert (4, 0) == (ledger._total.step, ledger._total.records)


def test_a_broken_cursor_does_not_stop_the_restart(tmp_path: Path) -> None:
    """It is said in the start event; only a strict writer refuses."""
    ledger = _writer(tmp_path, restored={"attempt": "x"}, resumed_from=("x", 3))
    ledger.close()

    start = _events(tmp_path, "start")[0]["data"]
    assert "is no cursor" in start["restored_problem"]
    assert {"attempt": "x", "step": 3} == start["resumed_from"]
    with pytest.raises(Exception, match="is no cursor"):
        _writer(tmp_path, restored={"attempt": "x"}, strict=True)


def test_a_checkpoint_is_complete_when_its_block_ends_well(tmp_path: Path) -> None:
    """`begin`, then `complete` with the ledger synced; never where saving failed."""
    with _writer(tmp_path, strict=True) as ledger:
        ledger.record(1, 0, [1])
        ledger.record(1, 1, [2, 3])
        saving = ledger.begin_checkpoint(0, claim={"slot": 1}, path=tmp_path / "ckpt")
        saving.complete()
        with pytest.raises(OSError, match="full"), ledger.checkpoint(1):
            raise OSError("full")

    told = [(one["step"], one["data"]) for one in _events(tmp_path, "checkpoint")]
    assert ["begin", "begin", "complete"] == [data["phase"] for _, data in told]
    assert {"0": 1, "1": 2} == told[0][1]["cursor"]["open_slots"]
    assert str(tmp_path / "ckpt") == told[0][1]["path"]
    assert (0, True) == (told[2][0], told[2][1]["synced"])
    assert "end" == open_ledger([tmp_path]).acts()["kind"].to_list()[-1]


CLAIMS = [
    {"consumed_samples": 5, "state": np.arange(3), "blob": b"xyz", "nan": float("nan")},
    {"state": list(range(100_000)), "consumed_samples": 5},
    object(),
    {"a": {"b": [object(), {1, 2}]}},
    {1: 2},
    [1, 2],
    "text \ud800",
]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda value: type(value).__name__)
def test_a_claim_of_any_kind_is_recorded(claim: Any, tmp_path: Path) -> None:
    """It is JSON, not too long, and its known keys survive."""
    with _writer(tmp_path, strict=True) as ledger, ledger.checkpoint(0, claim=claim):
        pass

    told = _events(tmp_path, "checkpoint")[0]["data"]["claim"]
    assert len(json.dumps(told)) < 70_000
    if isinstance(claim, dict) and "consumed_samples" in claim:
        assert 5 == told["consumed_samples"]


def test_segments_roll_by_size_and_by_columns(tmp_path: Path) -> None:
    """A full segment, and a column that was not there before, begin the next one."""
    with _writer(tmp_path, segment_bytes=4096, strict=True) as ledger:
        for step in range(1, 40):
            ledger.record(step, 0, list(range(20)))
            ledger.commit(step)
        ledger.record(40, 0, [1], source="web")
        ledger.record(41, 0, [1])
        ledger.commit(41)

    names = sorted(path.name for path in (tmp_path / "attempt=a").glob("samples-*"))
    assert len(names) > 4
    assert all(name.endswith(f"-{number:06d}.arrows") for number, name in enumerate(names))
    assert 39 * 20 + 2 == len(_rows(tmp_path))


def test_segments_roll_by_age(tmp_path: Path) -> None:
    """A segment that is old enough is closed, whatever its size, by a clock that cannot jump."""
    with _writer(tmp_path, segment_seconds=0, strict=True) as ledger:
        for step in range(1, 4):
            ledger.record(step, 0, [step])
            ledger.commit(step)

    assert 3 == len(list((tmp_path / "attempt=a").glob("samples-*")))
    assert [1, 2, 3] == [row["sample_id"] for row in _rows(tmp_path)]


def test_only_the_last_checkpoints_keep_their_samples(tmp_path: Path) -> None:
    """`retain` empties older segments; the commits, and the windows of late resumes, stay."""
    with _writer(tmp_path, segment_bytes=1, retain=2, strict=True) as ledger:
        for step in range(1, 21):
            ledger.record(step, 0, [step])
            ledger.commit(step)
            if step % 4 == 0:
                saving = ledger.begin_checkpoint(step)
                saving.complete()
                assert saving.wait(10)

    kept = [row["step"] for row in _rows(tmp_path)]
    assert list(range(17, 21)) == kept
    assert 20 == open_ledger([tmp_path]).tries("a", 0).height
    assert () == open_ledger([tmp_path]).unread


def test_ranks_that_are_not_logged_write_nothing(tmp_path: Path) -> None:
    """The others say who writes."""
    for rank in range(4):
        with _writer(tmp_path, rank=rank, world_size=4, logged_ranks=[0, 2]) as ledger:
            ledger.record(1, 0, [rank])
            ledger.commit(1)
            with ledger.checkpoint(1):
                pass

    assert {0, 2} == {row["rank"] for row in _rows(tmp_path)}
    assert [0, 2] == _events(tmp_path, "start")[0]["data"]["logged_ranks"]


@pytest.mark.parametrize(
    ("environ", "generation", "label"),
    [
        ({"TORCHELASTIC_RUN_ID": "job7", "TORCHELASTIC_RESTART_COUNT": "2"}, 0, "job7-e2-g0"),
        ({"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0"}, 3, "e0-g3"),
        (
            {"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "1", "TORCHELASTIC_RESTART_COUNT": "0"},
            1,
            "slurm12-r1-e0-g1",
        ),
        ({"SLURM_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}, 0, "slurm12_3-r0-g0"),
        ({"JOBSET_NAME": "llama", "JOB_RESTART_ATTEMPT": "4"}, 0, "llama-j4-g0"),
        ({}, 2, "g2"),
    ],
)
def test_the_launcher_names_the_attempt(
    environ: dict[str, str], generation: int, label: str
) -> None:
    """All ranks of a launch find one name, and another launch another, without asking."""
    assert label == attempt_label(generation, 8, environ)


def test_a_process_alone_has_a_name_of_its_own() -> None:
    """Two launches without a launcher do not collide."""
    assert attempt_label(0, 1, {}) != attempt_label(0, 1, {})


def test_the_variables_of_the_launcher_are_recorded_raw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing else of the environment, which may hold secrets."""
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    monkeypatch.setenv("SECRET_TOKEN", "hush")

    _writer(tmp_path, attempt=None).close()

    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("attempt=slurm9-r0-")
    start = open_ledger([tmp_path]).acts().filter(kind="start")["data"][0]
    assert "9" == json.loads(start)["launcher"]["SLURM_JOB_ID"]
    assert "hush" not in start


def test_importing_the_package_stays_light() -> None:
    """A trainer gets pyarrow and numpy, and no engine."""
    code = "import sys; from ledger_audit import LedgerWriter; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert not {"polars", "rich", "click", "pandas"} & set(loaded)
    assert "pyarrow" in loaded


def test_any_job_is_read_back_whole(tmp_path: Path) -> None:
    """Random micro-batches over random segments: nothing is lost, doubled or moved."""
    for seed in range(20):
        rng = random.Random(seed)
        root = tmp_path / str(seed)
        expected = []
        with _writer(root, segment_bytes=rng.choice([1, 2000, 1 << 20]), strict=True) as ledger:
            for step in range(1, rng.randint(2, 30)):
                for slot in range(rng.randint(1, 3)):
                    ids = [rng.randrange(1000) for _ in range(rng.randint(0, 9))]
                    columns = {} if rng.random() < 0.5 else {"epoch": step % 3}
                    ledger.record(step, slot, ids, **columns)
                    expected += [(step, slot, one, columns.get("epoch")) for one in ids]
                ledger.commit(step)
        found = [
            (row["step"], row["slot"], row["sample_id"], row["epoch"])
            for row in sorted(_rows(root), key=lambda row: row["seq"])
        ]
        assert expected == found, seed
        assert os.listdir(root) == ["attempt=a"]


def test_batches_with_other_columns_share_a_file(tmp_path: Path) -> None:
    """What is read ahead has other columns than what is used: a file has all that were given."""
    with LedgerWriter(tmp_path, rank=0, world_size=1, attempt="a") as ledger:
        for step in range(1, 9):
            ledger.record(None, None, [step], stage="read")
            ledger.record(step, 0, [step], epoch=0, worker=1)

    assert 2 == len(list(tmp_path.rglob("samples-*")))
    assert list(range(1, 9)) == open_ledger([tmp_path]).records("a", 0)["sample_id"].to_list()
