"""Derived streams: those that real frameworks consumed, and resumes that are judged by them."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import FIXTURES
from running import ledger_audit

from ledger_audit.stream.megatron import Ramp, legs_of
from ledger_audit.stream.pieces import Sharding

ZOO = FIXTURES / "zoo"
INDEX = FIXTURES / "index-files" / "before"
DESCRIPTION = next(INDEX.glob("*-description.txt"))
OLMO = sorted((FIXTURES / "index-files" / "olmo").glob("*.npy"))
DEALT = ("--world-size", "4", "--micro-batch", "1", "--global-batch", "8")
IDENTITY = ["step", "rank", "slot", "row", "sample_id", "token_start", "token_end"]


def records(ledger: Path) -> pl.DataFrame:
    return pl.read_parquet(ledger / "attempt=reference" / "samples-*.parquet")


def logged(run: Path) -> pl.DataFrame:
    """Give the samples of a log, as plain Python reads them."""
    lines = [json.loads(line) for line in next(run.glob("attempt0.jsonl")).read_text().splitlines()]
    return pl.DataFrame([line for line in lines if line["kind"] == "sample"])


def same(ours: pl.DataFrame, theirs: pl.DataFrame, columns: list[str]) -> bool:
    both = [one.select(pl.col(columns).cast(pl.String)).sort(columns) for one in (ours, theirs)]
    return both[0].equals(both[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("references")


@pytest.fixture(scope="module")
def megatron(folder: Path) -> Path:
    target = folder / "megatron"
    assert 0 == ledger_audit("reference", "megatron", DESCRIPTION, "-o", target, *DEALT).code
    return target


@pytest.fixture(scope="module")
def olmo(folder: Path) -> Path:
    for name, windows in (("part-0.npy", 67), ("part-1.npy", 54)):
        (folder / name).write_bytes(bytes(2 * (16 * windows + 7)))
    target = folder / "olmo"
    files = [("--token-file", folder / name) for name in ("part-0.npy", "part-1.npy")]
    options = ("--world-size", "4", "--micro-batch", "2", "--global-batch", "8")
    ran = ledger_audit(
        "reference", "olmo", *OLMO, "-o", target, *options, "--sequence-length", "16",
        *(part for pair in files for part in pair),
    )  # fmt: skip
    assert 0 == ran.code, ran.err
    return target


def test_megatron_gives_what_a_real_run_consumed(megatron: Path) -> None:
    """Every span of every sequence, at its rank, step, slot, row and position."""
    control = logged(ZOO / "megatron-correct" / "control")

    assert same(records(megatron), control, [*IDENTITY, "position"])


def test_olmo_gives_what_a_real_run_consumed(olmo: Path) -> None:
    """Every window of a file, over two epochs of which the last instance of 121 is dropped."""
    control = logged(ZOO / "olmo-correct" / "control")

    assert same(records(olmo), control, [*IDENTITY, "epoch"])


JUDGED = {
    "megatron-correct": ("continuous", None),
    "megatron-gbs-doubled-correct": ("continuous", 6),
    "megatron-seqlen-changed": ("broken", 6),
    "megatron-train-iters-extended": ("broken", 6),
    "olmo-correct": ("continuous", None),
    "olmo-gbs-changed": ("broken", 10),
    "olmo-seed-changed": ("continuous", None),
    "olmo-state-not-loaded": ("broken", 10),
}
"""Real run → the verdict of its resume, and where its stream first differs from the reference."""


@pytest.mark.parametrize("case", JUDGED)
def test_a_reference_judges_as_a_control_does(case: str, request: pytest.FixtureRequest) -> None:
    """`diff --reference` and `gate` say what `gate` says by the control that really ran."""
    reference = request.getfixturevalue(case.partition("-")[0])
    run, control = ZOO / case / "run", ZOO / case / "control"
    verdict, divergence = JUDGED[case]

    full = ledger_audit("diff", run, "--reference", reference, "--full", "--format", "json").report
    narrow = ledger_audit("diff", run, "--reference", reference, "--format", "json").report
    gated = ledger_audit("gate", reference, run, "--format", "json").report
    control_says = ledger_audit("gate", control, run, "--format", "json").report

    ours, theirs = full["resumes"][0], control_says["resumes"][0]
    assert verdict == full["verdict"] == narrow["verdict"]
    assert "reference" == ours["reference"]["kind"] == narrow["resumes"][0]["reference"]["kind"]
    assert ours["outcomes"]["resumed"] == theirs["outcomes"]["resumed"]
    assert ours["outcomes"]["expected"] == theirs["outcomes"]["expected"]
    assert [one["code"] for one in ours["causes"]] == [one["code"] for one in theirs["causes"]]
    assert divergence == gated["stream"]["first_divergence"]
    assert control_says["verdict"] == gated["verdict"]
    assert "commits-assumed" not in {one["code"] for one in gated["stream"]["limits"]}


def test_a_window_of_a_reference_is_enough(megatron: Path) -> None:
    """Where only some steps are read, what lies beyond them is looked up, and not read."""
    case = ZOO / "megatron-correct" / "run"
    report = ledger_audit(
        "diff", case, "--reference", megatron, "--before", "2", "--after", "3", "--format", "json"
    ).report

    (resume,) = report["resumes"]
    assert [4, 8] == resume["read_steps"]
    assert "continuous" == report["verdict"]
    assert 8 == resume["reference"]["through_step"]


def test_a_jump_beyond_the_window_is_found(megatron: Path, tmp_path: Path) -> None:
    """A run that goes on four steps ahead of its reference has skipped them, and reordered none."""
    run = tmp_path / "run.jsonl"
    lines = (ZOO / "megatron-correct" / "run" / "attempt0.jsonl").read_text().splitlines()
    kept = [line for line in map(json.loads, lines) if (line.get("step") or 0) <= 5]
    start = next(line for line in kept if line["kind"] == "start")
    again = {**start["data"], "resumed_from": {"attempt": 0, "step": 5}}
    kept += [{**start, "attempt": 1, "rank": rank, "data": again} for rank in range(4)]
    ahead = records(megatron).filter(pl.col("step") > 9).with_columns(step=pl.col("step") - 4)
    kept += [
        {"kind": "sample", "attempt": 1, **row}
        for row in ahead.drop("attempt", "seq", "position").sort("rank", "step").to_dicts()
    ]
    kept += [
        {"kind": "commit", "attempt": 1, "rank": rank, "step": step, "data": {}}
        for rank in range(4)
        for step in (6, 7, 8)
    ]
    run.write_text("\n".join(map(json.dumps, kept)) + "\n")

    ran = ledger_audit("diff", run, "--reference", megatron, "--after", "2", "--format", "json")

    assert 1 == ran.code, ran.err
    (resume,) = ran.report["resumes"]
    lost = records(megatron).filter(pl.col("step").is_between(6, 9)).height
    assert lost == resume["outcomes"]["expected"]["skipped"]["records"]
    assert 0 == resume["outcomes"]["resumed"]["unexpected"]["records"]


def test_a_reference_of_another_run_says_nothing(tmp_path: Path) -> None:
    """It differs before the checkpoint: the resume is judged by its rolled-back work, unproven."""
    other = tmp_path / "other"
    description = next((FIXTURES / "index-files" / "after").glob("*-description.txt"))
    assert 0 == ledger_audit("reference", "megatron", description, "-o", other, *DEALT).code

    ran = ledger_audit(
        "diff", ZOO / "megatron-correct" / "run", "--reference", other, "--format", "json"
    )

    (resume,) = ran.report["resumes"]
    assert 3 == ran.code
    assert "rolled-back" == resume["reference"]["kind"]
    (limit,) = [one for one in resume["limits"] if one["code"] == "reference-departs"]
    assert "committed step 1" in limit["text"]


def test_a_ramp_is_the_one_of_the_framework() -> None:
    """Sizes and steps, by its own rule applied step by step."""
    ramp, batch, samples, sharding = Ramp(8, 4, 100), 24, 1000, Sharding(2, 2)

    def by_rule() -> Iterator[tuple[int, int]]:
        consumed = 0
        while True:
            size = batch
            if consumed <= ramp.samples:
                size = ramp.start + int(consumed / (ramp.samples / 4)) * ramp.increment
            if consumed + size > samples:
                return
            yield consumed, size
            consumed += size

    legs = list(legs_of(samples, batch, sharding, ramp))
    ours = [
        (leg.first + at * leg.size, leg.size) for leg in legs for at in range(leg.count // leg.size)
    ]
    assert list(by_rule()) == ours
    assert [leg.first_step for leg in legs] == [
        1 + sum(one.count // one.size for one in legs[:number]) for number in range(len(legs))
    ]


def test_a_blend_is_dealt_by_its_own_index(tmp_path: Path) -> None:
    """Each position names a data set and a place in it; the source is the name of the data."""
    cache = tmp_path / "cache"
    shutil.copytree(INDEX, cache)
    (part,) = [json.loads(DESCRIPTION.read_text())]
    told = {"class": "BlendedDataset", "datasets": [part, part], "split": "train", "size": 6}
    text = json.dumps(told, indent=4)
    import hashlib  # noqa: PLC0415

    name = f"{hashlib.md5(text.encode()).hexdigest()}-BlendedDataset-train"
    (cache / f"{name}-description.txt").write_text(text)
    np.save(cache / f"{name}-dataset_index.npy", np.array([0, 1, 0, 1, 1, 0], np.int16))
    np.save(cache / f"{name}-dataset_sample_index.npy", np.array([3, 0, 4, 1, 2, 5]))
    target = tmp_path / "ref"

    ran = ledger_audit(
        "reference", "megatron", cache / f"{name}-description.txt", "-o", target,
        "--world-size", "1", "--micro-batch", "1", "--global-batch", "2",
    )  # fmt: skip

    assert 0 == ran.code, ran.err
    single = logged(ZOO / "megatron-correct" / "control")
    for position, own in enumerate([3, 0, 4, 1, 2, 5]):
        ours = records(target).filter(pl.col("position") == position)
        theirs = single.filter(pl.col("position") == own)
        assert same(ours, theirs, ["sample_id", "token_start", "token_end"])
        assert {position // 2 + 1} == set(ours["step"])
        assert {"toy_text_document"} == set(ours["source"])


def test_a_list_keeps_its_order_and_its_repeats(tmp_path: Path) -> None:
    """Ids that are integers stay integers; twice through it, with labels."""
    ids = tmp_path / "ids.txt"
    ids.write_text("7\n3\n7\n-1\n9\n")
    target = tmp_path / "ref"
    ran = ledger_audit(
        "reference", "listing", ids, "-o", target, "--world-size", "2", "--micro-batch", "1",
        "--global-batch", "2", "--epochs", "2", "--first-epoch", "1",
    )  # fmt: skip

    assert 0 == ran.code, ran.err
    assert "10 records of a stream (listing)" in ran.out
    found = records(target).sort("position")
    assert [7, 3, 7, -1, 9] * 2 == found["sample_id"].to_list()
    assert [1, 1, 2, 2, 3, 4, 4, 5, 5, 6] == found["step"].to_list()
    assert [0, 1, 0, 1, 0] * 2 == found["rank"].to_list()
    assert [1] * 5 + [2] * 5 == found["epoch"].to_list()


def test_ids_with_a_leading_zero_are_text(tmp_path: Path) -> None:
    """Nothing is read as a number that would be written otherwise."""
    ids = tmp_path / "ids.txt"
    ids.write_text("01\n2\n")
    options = ("--world-size", "1", "--micro-batch", "1", "--global-batch", "1")
    ledger_audit("reference", "listing", ids, "-o", tmp_path / "ref", *options)

    assert ["01", "2"] == records(tmp_path / "ref")["sample_id"].to_list()


def broken(cache: Path, what: str) -> None:
    """Damage the index files in one way."""
    arrays = {
        name: next(cache.glob(f"*{name}_index.npy")) for name in ("document", "sample", "shuffle")
    }
    match what:
        case "gone":
            arrays["sample"].unlink()
        case "cut":
            arrays["shuffle"].write_bytes(arrays["shuffle"].read_bytes()[:200])
        case "of another":
            np.save(arrays["document"], np.array([10**6], np.int32))
        case "flat":
            np.save(arrays["sample"], np.arange(9))
        case "of objects":
            np.save(arrays["document"], np.array([{}], object), allow_pickle=True)
        case "changed":
            text = DESCRIPTION.read_text().replace("1234", "4321")
            (cache / DESCRIPTION.name).write_text(text)
        case "no idx":
            next(cache.glob("*.idx")).unlink()
        case "cut idx":
            idx = next(cache.glob("*.idx"))
            idx.write_bytes(idx.read_bytes()[:60])
        case "other idx":
            next(cache.glob("*.idx")).write_bytes(b"nothing of the kind, but long enough for it")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("gone", "sample_index.npy: cannot be read"),
        ("cut", "shuffle_index.npy: cannot be read"),
        ("of another", "document_index.npy: names document 1,000,000"),
        ("flat", "sample_index.npy: holds int64 of 1 dimensions"),
        ("of objects", "document_index.npy: cannot be read"),
        ("changed", "its name begins with another hash"),
        ("no idx", "toy_text_document.idx: is not there"),
        ("cut idx", "toy_text_document.idx: is cut off"),
        ("other idx", "toy_text_document.idx: is no index of token files"),
    ],
)
def test_damaged_index_files_are_named(what: str, said: str, tmp_path: Path) -> None:
    """With exit code 4, a remedy, and no ledger."""
    cache = tmp_path / "cache"
    shutil.copytree(INDEX, cache)
    broken(cache, what)

    ran = ledger_audit(
        "reference", "megatron", cache / DESCRIPTION.name, "-o", tmp_path / "ref", *DEALT
    )

    assert 4 == ran.code
    assert said in ran.err
    assert "try: " in ran.err
    assert not (tmp_path / "ref").exists()


def olmo_arguments(*more: Any) -> tuple[Any, ...]:
    return ("olmo", *OLMO, "--world-size", "4", "--micro-batch", "2", *more)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("megatron", DESCRIPTION, *DEALT[:-1], "6"), "global batch of 6 cannot be shared by 4"),
        (("megatron", DESCRIPTION, *DEALT, "--samples", "9999"), "9,999 sequences are asked for"),
        (("megatron", DESCRIPTION, *DEALT, "--rampup", "3", "2", "9"), "does not lead to 8"),
        (olmo_arguments("--global-batch", "128"), "fill no global batch of 128"),
        (olmo_arguments("--global-batch", "8", "--sequence-length", "3"), "belong together"),
        (
            olmo_arguments("--global-batch", 8, "--sequence-length", 3, "--token-file", OLMO[0]),
            "the token files have",
        ),
        (
            ("distributed-sampler", "--samples", "9", *DEALT[:4]),
            "is not installed",
        ),
        (("listing", FIXTURES, *DEALT), "is a folder, and no list of ids"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_stream_is_refused(
    arguments: tuple[Any, ...], said: str, tmp_path: Path
) -> None:
    """With exit code 2, and no ledger."""
    ran = ledger_audit("reference", *arguments, "-o", tmp_path / "ref")

    assert 2 == ran.code
    assert said in ran.err
    assert not (tmp_path / "ref").exists()


def test_nothing_is_overwritten(megatron: Path) -> None:
    """A target that is there is refused."""
    ran = ledger_audit("reference", "megatron", DESCRIPTION, "-o", megatron, *DEALT)

    assert 2 == ran.code
    assert "nothing is overwritten" in ran.err


@pytest.mark.parametrize("command", ["diff", "verify", "checkpoints", "show"])
def test_a_reference_is_no_run(command: str, megatron: Path) -> None:
    """What nobody ran is not judged as if somebody had."""
    ran = ledger_audit(command, megatron)

    assert 2 == ran.code
    assert "is a stream that is expected, and no run" in ran.err


def test_a_run_of_gate_is_none_either(megatron: Path) -> None:
    """A reference would otherwise be continuous by itself."""
    ran = ledger_audit("gate", megatron, megatron)

    assert 2 == ran.code
    assert "and no run" in ran.err


def test_an_empty_reference_is_refused(tmp_path: Path) -> None:
    """It would prove nothing."""
    (tmp_path / "ref.jsonl").write_text('{"kind":"start","attempt":0,"rank":0,"data":{}}\n')
    run = ZOO / "megatron-correct" / "run"
    ran = ledger_audit("diff", run, "--reference", tmp_path / "ref.jsonl")

    assert 2 == ran.code
    assert "holds no record" in ran.err


def planned_stop(folder: Path, fingerprint: dict[str, Any]) -> Path:
    """Write a real run as if it had stopped right after its checkpoint."""
    run = folder / "run.jsonl"
    lines: list[dict[str, Any]] = []
    for name in ("attempt0.jsonl", "attempt1.jsonl"):
        text = (ZOO / "torch-ddp-correct" / "run" / name).read_text()
        lines += map(json.loads, text.splitlines())
    for line in lines:
        if line["kind"] == "start":
            line["data"]["fingerprint"] |= fingerprint
    kept = [one for one in lines if one["attempt"] == 1 or (one.get("step") or 0) <= 8]
    run.write_text("\n".join(map(json.dumps, kept)) + "\n")
    return run


def test_a_recipe_that_nobody_can_draw_is_said(tmp_path: Path) -> None:
    """The fingerprint states the order in full, and PyTorch is not there."""
    run = planned_stop(tmp_path, {"sampler": "DistributedSampler"})
    ran = ledger_audit("diff", run, "--format", "json")

    (resume,) = ran.report["resumes"]
    codes = {one["code"] for one in resume["limits"]}
    assert 3 == ran.code
    assert {"no-whole-reference-step", "recipe-not-derived"} <= codes


def test_a_recipe_is_no_stand_in_for_what_was_lost(tmp_path: Path) -> None:
    """A rank of the dead attempt left no ledger: its rolled-back work is missing, not none."""
    run = planned_stop(tmp_path, {"sampler": "DistributedSampler"})
    lines = list(map(json.loads, run.read_text().splitlines()))
    kept = [one for one in lines if (one["attempt"], one["rank"]) != (0, 3)]
    run.write_text("\n".join(map(json.dumps, kept)) + "\n")

    ran = ledger_audit("diff", run, "--format", "json")

    codes = {one["code"] for one in ran.report["resumes"][0]["limits"]}
    assert 3 == ran.code
    assert not {"recipe-not-derived", "recipe-departs"} & codes


@pytest.mark.parametrize(
    "said", [{}, {"sampler": "DistributedSampler", "accumulation": 3, "drop_last": None}]
)
def test_a_recipe_that_is_not_whole_is_none(said: dict[str, Any], tmp_path: Path) -> None:
    """Nothing is guessed."""
    ran = ledger_audit("diff", planned_stop(tmp_path, said), "--format", "json")

    codes = {one["code"] for one in ran.report["resumes"][0]["limits"]}
    assert 3 == ran.code
    assert not {"recipe-not-derived", "recipe-departs"} & codes
