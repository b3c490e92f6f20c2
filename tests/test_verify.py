"""`verify`: whether the newest weights used each sample of each pass as often as promised."""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
import tiny
from conftest import FIXTURES, ROOT
from faults import make
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from native import read_lines, write_ledger, write_segment
from running import Ran, ledger_audit
from sealed import emitted, job
from test_hostile import NASTY, QUIETLY, TEXT, is_safe
from verify_oracle import Told, expose

from ledger_audit.continuity.exposure import repeats
from ledger_audit.ledger import uses
from ledger_audit.model import Reading, Verdict
from ledger_audit.model.exposure import Exposure
from ledger_audit.report.exposure_json import to_json
from ledger_audit.verification import verify

Line = tiny.Line
ZOO = FIXTURES / "zoo"
RIGHT = "torch-ddp-double-failure"
"""Killed twice, and resumed rightly."""
RUNS = [
    *sorted([*ZOO.glob("*/control"), *ZOO.glob("*/run")]),
    *sorted(FIXTURES.glob("traps/*/run")),
    *sorted(FIXTURES.glob("cases/*/run")),
]
SCHEMA = Draft202012Validator(json.loads((ROOT / "docs" / "verify.schema.json").read_text()))
QUICK = settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])


def verified(folder: Path, *more: Path, memory: int = 2 << 30, **told: Any) -> Exposure:
    """Verify a ledger in this process."""
    return verify([folder, *more], Reading(memory=memory), **told)


def ran(lines: Sequence[Line], folder: Path, *options: str | Path) -> Ran:
    """Run the program on some lines; its report fits the schema."""
    found = ledger_audit("verify", tiny.write(folder / "run", lines), *options, "--format", "json")
    if found.code in (0, 1, 3):
        assert [] == [error.message for error in SCHEMA.iter_errors(found.report)]
    return found


def limits_of(report: Mapping[str, Any]) -> set[str]:
    """Give the codes of all limits."""
    return {one["code"] for one in report["limits"]}


def used(ids: Sequence[Any], epoch: int | None = 0, **columns: Any) -> list[dict[str, Any]]:
    """Give records of some samples."""
    label = {} if epoch is None else {"epoch": epoch}
    return [{"sample_id": one, **label, **columns} for one in ids]


def spans(*told: tuple[int, int, int], epoch: int = 0) -> list[dict[str, Any]]:
    """Give records of some documents: sample, first token, the token after the last."""
    return [
        {"sample_id": one, "token_start": start, "token_end": end, "epoch": epoch}
        for one, start, end in told
    ]


def cut(records: Sequence[Any], batch: int = 4, first: int = 1, ranks: int = 2) -> dict[int, Any]:
    """Deal records to steps, in blocks."""
    found = {}
    for step, start in enumerate(range(0, len(records), batch), first):
        part = records[start : start + batch]
        each = -(-len(part) // ranks)
        found[step] = [part[rank * each : (rank + 1) * each] for rank in range(ranks)]
    return found


def size(samples: int, **more: Any) -> dict[str, Any]:
    """Give a start event's fingerprint that says how many samples a pass has."""
    return {"fingerprint": {"dataset_samples": samples, **more}}


def declared(step: int, **data: Any) -> list[Line]:
    """Give a deliberate act of attempt 0."""
    return [{"attempt": 0, "kind": "declare", "rank": 0, "step": step, "data": data}]


# What it counts, against the slow oracle


def product(report: Exposure) -> dict[str, Any]:
    """Give what the product says in the shape of the oracle."""
    passes = {}
    for one in report.generations:
        token = one.spans
        told = {
            "records": one.records,
            "samples": one.samples,
            "tokens": one.tokens,
            "exposures": dict(one.exposures),
            "repeats": sum(each.records for each in one.repeats),
            "again": 0 if token is None else token.again,
            "between": 0 if token is None else token.between,
            "late": 0 if token is None else token.late,
            "first_step": one.first_step,
            "last_step": one.last_step,
            "size": one.size,
            "is_over": one.is_over,
            "missing": one.missing,
        }
        if one.records:  # the oracle tells of no pass that never came
            passes[one.source, one.epoch] = told
    return {
        "passes": passes,
        "unused": {
            (one.attempt, one.fate, one.source, one.epoch): {
                "records": one.records,
                "tokens": one.tokens,
                "samples": one.samples,
                "never": one.never,
            }
            for one in report.unused
        },
        "losses": [
            {
                name: getattr(one, name)
                for name in (
                    "from_attempt",
                    "to_attempt",
                    "checkpoint_step",
                    "steps",
                    "records",
                    "tokens",
                    "samples",
                    "used_again",
                )
            }
            for one in report.losses
            if one.to_attempt is not None
        ],
        "survival": {
            one.attempt: {"records": one.records, "tokens": one.tokens} for one in report.survival
        },
        "shares": {(one.attempt, one.source, one.epoch): one.records for one in report.shares},
    }


def compared(told: Told, report: Exposure) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give both answers, without what only one of them tells."""
    found = product(report)
    expected = {name: getattr(told, name) for name in found}
    found["survival"] = {
        label: one for label, one in found["survival"].items() if label in told.survival
    }
    for of, one in expected["passes"].items():
        if one["again"] and one["tokens"] and of in found["passes"]:
            found["passes"][of]["exposures"] = one["exposures"]  # see `verify_oracle.depth`
        if one["is_over"] is None and of in found["passes"]:
            found["passes"][of]["is_over"] = None
    return expected, found


@pytest.mark.parametrize("folder", RUNS, ids=lambda one: f"{one.parent.name}/{one.name}")
def test_every_number_is_what_lists_and_loops_count(folder: Path) -> None:
    """Passes, waste, losses, survival and shares of every run; the JSON fits its schema."""
    report = verified(folder)
    expected, found = compared(expose(folder), report)

    assert expected == found
    assert [] == [error.message for error in SCHEMA.iter_errors(json.loads(to_json(report)))]
    for one in report.generations:
        assert one.samples == sum(count for _, count in one.exposures)
        assert (one.missing or 0) >= one.declared + one.dropped + one.doubted + one.skipped
    if folder.parent.parent == ZOO and folder.name == "control":
        assert Verdict.BROKEN != report.verdict


@pytest.mark.parametrize(
    "fault",
    ["rewind", "jump", "void-before-checkpoint", "several-restarts", "declared-skip", "positions"],
)
@pytest.mark.parametrize("is_clean", [True, False])
def test_numbers_of_random_jobs(fault: str, is_clean: bool, tmp_path: Path) -> None:
    """Blends, packed rows, spans, text ids and voids are counted as the oracle counts them."""
    for seed in range(2):
        made = make(fault, seed, clean=is_clean)
        folder, _ = made.write(tmp_path / str(seed))
        expected, found = compared(expose(folder), verified(folder))
        assert expected == found, made.truth


RECORD = st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(1, 6), st.integers(0, 1))


@QUICK
@given(
    first=st.lists(RECORD, min_size=1, max_size=14),
    second=st.lists(RECORD, max_size=10),
    after=st.integers(1, 3),
    void=st.sets(st.integers(1, 5)),
    uncommitted=st.sets(st.integers(1, 5)),
    kind=st.sampled_from(["samples", "spans"]),
    n=st.none() | st.integers(1, 8),
)
def test_numbers_of_any_job(
    first: list[Any],
    second: list[Any],
    after: int,
    void: set[int],
    uncommitted: set[int],
    kind: str,
    n: int | None,
) -> None:
    """Whatever was used, in whatever order: the oracle's numbers, and a verdict that they bear."""

    def records(told: list[Any]) -> list[dict[str, Any]]:
        if kind == "samples":
            return [{"sample_id": one, "epoch": epoch} for one, _, _, epoch in told]
        return [
            {"sample_id": one, "token_start": start, "token_end": start + length, "epoch": epoch}
            for one, start, length, epoch in told
        ]

    steps = cut(records(first), 3)
    parts = [tiny.attempt(0, steps, void=[*void - uncommitted], uncommitted=[*uncommitted])]
    at = min(after, max(steps))
    if second:
        parts.append(tiny.attempt(1, cut(records(second), 3, at + 1), after=(0, at)))
    with tempfile.TemporaryDirectory() as folder:
        root = tiny.write(Path(folder), *parts)
        report = verified(root, samples={None: n} if n else None)
        expected, found = compared(expose(root, {None: n} if n else None), report)

    assert expected == found
    passes = expected["passes"].values()
    lacking = any(one["is_over"] and one["missing"] for one in passes)
    if report.verdict == Verdict.BROKEN:
        told = lacking or any(one["repeats"] or one["between"] for one in passes)
        assert told or any(not one.records for one in report.generations)
    if report.verdict == Verdict.CONTINUOUS:
        assert all(one["is_over"] for one in passes)


# Verdicts


def right(epochs: int = 2, samples: int = 16) -> list[Line]:
    """Give a right job that is resumed after its second step."""
    every = [one for epoch in range(epochs) for one in used(range(samples), epoch)]
    steps = cut(every)
    died = tiny.attempt(0, {step: steps[step] for step in (1, 2, 3)}, **size(samples))
    rest = {step: one for step, one in steps.items() if step > 2}
    return died + tiny.attempt(1, rest, after=(0, 2), **size(samples))


def changed(lines: Sequence[Line], change: Callable[[Line], Line | None]) -> list[Line]:
    """Change records; null takes one away."""
    found = [change(one) if one["kind"] == "sample" else one for one in lines]
    return [one for one in found if one is not None]


def at(line: Line, attempt: int, step: int, rank: int, row: int) -> bool:
    """Tell whether a record stands at a place."""
    place = line["attempt"], line["step"], line["rank"], line["row"]
    return place == (attempt, step, rank, row)


def test_a_right_job_is_continuous(tmp_path: Path) -> None:
    """Two whole passes, and a failure between: each sample once."""
    found = ran(right(), tmp_path)

    assert (0, "continuous", set()) == (
        found.code,
        found.report["verdict"],
        limits_of(found.report),
    )
    (lost,) = found.report["losses"]
    told = {"checkpoint_step": 2, "steps": 1, "records": 4, "samples": 4, "used_again": 4}
    assert told == {name: lost[name] for name in told}


def test_a_sample_that_came_again_is_named(tmp_path: Path) -> None:
    """One repeat in the middle of a pass breaks the promise, and its own place is told."""
    lines = changed(right(), lambda one: one | {"sample_id": 1} if at(one, 1, 4, 1, 0) else one)
    found = ran(lines, tmp_path)

    assert 1 == found.code
    (repeat,) = found.report["generations"][0]["repeats"]
    told = {
        "attempt": "1",
        "first_step": 4,
        "last_step": 4,
        "ranks": [[1, 1]],
        "records": 1,
        "tokens": None,
        "earlier": [1, 1],
        "kind": "repeated",
        "examples": ["1"],
    }
    assert told == repeat


@pytest.mark.parametrize("steps", [{3}, {4}])
def test_a_step_of_samples_that_never_came_breaks_a_pass_that_is_over(
    steps: set[int], tmp_path: Path
) -> None:
    """A global batch that was skipped is missed once the next epoch begins, and not before."""
    gone = {one["sample_id"] for one in right() if one["kind"] == "sample" and one["step"] in steps}
    lines = changed(
        right(),
        lambda one: (
            one | {"epoch": 1, "sample_id": one["sample_id"] + 100}
            if one["attempt"] == 1 and one["step"] in steps
            else one
        ),
    )
    found = ran(lines, tmp_path, "--samples", "16")

    assert 1 == found.code
    assert len(gone) == found.report["generations"][0]["skipped"]


def test_a_pass_that_is_not_over_is_unproven(tmp_path: Path) -> None:
    """What it lacks may come; a waived limit lets it pass, and a position for each proves it."""
    lines = tiny.attempt(0, cut(used(range(12))), **size(16))
    found = ran(lines, tmp_path)
    assert (3, {"pass-not-over"}) == (found.code, limits_of(found.report))

    assert 0 == ran(lines, tmp_path, "--allow-unproven", "pass-not-over").code

    placed = changed(lines, lambda one: one | {"position": one["sample_id"]})
    found = ran(placed, tmp_path)
    assert (0, {"count": 0, "last": 11, "ranges": []}) == (found.code, found.report["holes"])

    hole = changed(lines, lambda one: one | {"position": one["sample_id"] * 2})
    found = ran(hole, tmp_path)
    assert (1, 11, 22) == (found.code, *(found.report["holes"][name] for name in ("count", "last")))


@pytest.mark.parametrize(
    ("lines", "code", "limit"),
    [
        (tiny.attempt(0, cut(used(range(8)) + used(range(4), 1))), 3, "pass-size-unknown"),
        (
            tiny.attempt(0, cut(used(range(8)) + used(range(8), None)), **size(8)),
            3,
            "passes-not-told",
        ),
        (tiny.attempt(0, cut([*used(range(6)), *used(range(8), 1)]), **size(8)), 3, "few-missing"),
        (tiny.attempt(0, cut(used([*range(8), 0, 1], None))), 3, "repeat-unexplained"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_cannot_be_known_is_said(
    lines: list[Line], code: int, limit: str, tmp_path: Path
) -> None:
    """Each limit of its own leaves the promise unproven."""
    found = ran(lines, tmp_path)

    assert code == found.code
    assert limit in limits_of(found.report)


def test_an_epoch_between_two_others_that_never_came_is_missed(tmp_path: Path) -> None:
    """Its label was left out by the attempt itself: nothing is wrong with the label."""
    lines = tiny.attempt(0, cut(used(range(8)) + used(range(8), 2)), **size(8))
    found = ran(lines, tmp_path)

    assert 1 == found.code
    assert [(0, 8, 0), (1, 0, 8), (2, 8, 0)] == [
        (one["epoch"], one["records"], one["skipped"]) for one in found.report["generations"]
    ]


def test_a_source_may_repeat_as_the_contract_says(tmp_path: Path) -> None:
    """Twice where two uses are promised; once too few is missed, once too often repeated."""
    contract = tmp_path / "contract.toml"
    contract.write_text('[repeats]\n"*" = 2\n')
    twice = used([*range(8), *range(8)])
    for records, code in ((twice, 0), ([*twice, *used([3])], 1)):
        lines = tiny.attempt(0, cut([*records, *used([*range(8), *range(8)], 1)]), **size(8))
        assert code == ran(lines, tmp_path, "--contract", contract).code


# The same bytes


def as_text(number: int) -> str:
    return f"doc-{number}"


IDS: dict[str, Callable[[int], Any]] = {
    "dense": lambda number: number,
    "negative": lambda number: number - 100,
    "sparse": lambda number: (number - 100) * 10**16,
    "extreme": lambda number: {0: -(2**63), 1: 2**63 - 1}.get(number, number),
    "text": as_text,
    "long": lambda number: f"{number:05d}" * 2000,
}


def renamed(name: str, kind: str) -> list[Line]:
    """Give the lines of a run of the zoo with other ids."""
    lines = read_lines(ZOO / name / "run")
    return changed(lines, lambda one: one | {"sample_id": IDS[kind](one["sample_id"])})


def told(folder: Path, **options: Any) -> str:
    """Give the JSON report without where the ledger lies."""
    return to_json(replace(verified(folder, **options), inputs={}))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("torch-ddp-epoch-restart", kind) for kind in IDS]
    + [("megatron-seqlen-changed", kind) for kind in ("dense", "text")],
)
def test_the_method_does_not_show(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte an id, keys in memory, keys on disk, and looks of any size: the same report."""
    lines = renamed(name, kind)
    root = write_ledger(lines, tmp_path / "plain")
    plain = told(root)

    for seed in range(2):
        shuffled = tmp_path / f"shuffled-{seed}"
        write_ledger(lines, shuffled, rng=random.Random(seed))
        assert plain == told(shuffled)
    assert plain == told(root, memory=2048)  # some buckets on disk
    monkeypatch.setattr(uses, "_DENSE", 0)
    assert plain == told(root)
    monkeypatch.setattr(repeats, "FEWEST", 1)
    assert plain == told(root, memory=50 * repeats.BYTES)
    monkeypatch.setattr(uses, "_MANY", 0)  # many buckets in memory, too
    assert plain == told(root)
    assert plain == told(root, memory=50 * repeats.BYTES)


def test_the_number_of_threads_does_not_show(tmp_path: Path) -> None:
    """One, two or five threads over many files: the same bytes."""
    write_ledger(renamed("torch-ddp-epoch-restart", "dense"), tmp_path / "ledger")
    command = [sys.executable, "-m", "ledger_audit", "verify", "ledger", "--format", "json"]
    found = {
        subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "POLARS_MAX_THREADS": threads, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=False,
        ).stdout
        for threads in ("1", "2", "5")
    }
    assert 1 == len(found)
    assert b'"verdict": "broken"' in found.pop()


def test_temporary_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys on disk lie in the temporary folder, and not for longer than is needed."""
    root = write_ledger(renamed("torch-ddp-epoch-restart", "text"), tmp_path / "ledger")
    away = tmp_path / "away"
    away.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(away))

    verified(root, memory=2048)

    assert [] == [*away.iterdir()]


# A list of all samples


def test_a_list_names_what_is_missing_and_what_is_not_in_it(tmp_path: Path) -> None:
    """Samples in the place of others are the same number, and only a list tells."""
    lines = tiny.attempt(0, cut([*used([0, 1, 2, 3, 4, 5, 98, 99]), *used(range(8), 1)]))
    ids = tmp_path / "ids.txt"
    ids.write_text("".join(f"{one}\n" for one in range(8)))

    found = ran(lines, tmp_path, "--manifest", ids)

    assert 1 == found.code
    first, second = found.report["generations"]
    assert (2, ["6", "7"]) == (first["missing"], first["missing_examples"])
    assert (2, ["98", "99"]) == (first["unlisted"], first["unlisted_examples"])
    assert (0, 0, "manifest") == (second["missing"], second["unlisted"], second["size_from"])
    assert {"promise", "unexpected"} == {one["clause"] for one in found.report["clauses"]}


def test_a_list_of_several_sources(tmp_path: Path) -> None:
    """Each source has its own; a sample of one is none of another."""
    steps = cut([*used(range(4), source="a"), *used(range(4, 8), source="b")])
    ids = tmp_path / "ids.csv"
    for last, code in (("b", 0), ("a", 1)):
        rows = [f"{one},a" for one in range(4)] + [f"{one},b" for one in range(4, 7)]
        ids.write_text("\n".join(["sample_id,source", *rows, f"7,{last}"]) + "\n")
        assert code == ran(tiny.attempt(0, steps), tmp_path, "--manifest", ids).code


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("none.txt", None, 4),
        ("empty.txt", "", 4),
        ("text.txt", "doc-1\ndoc-2\n", 4),
        ("other.csv", "name\n1\n", 4),
        ("broken.parquet", "PAR1 and no more", 4),
    ],
)
def test_a_list_that_is_none_is_refused(
    name: str, content: str | None, code: int, tmp_path: Path
) -> None:
    """What cannot be read, or holds other ids than the ledger, ends with 4 and says what to do."""
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    found = ran(right(), tmp_path, "--manifest", path)

    assert code == found.code
    assert "" == found.out
    assert name in found.err.replace("\n", "")


# Ledgers of all kinds


def test_what_changed_no_weights_is_told_by_its_fate(tmp_path: Path) -> None:
    """Void tries, uncommitted steps, and attempts outside the lineage are no uses."""
    lines = (
        tiny.attempt(0, cut(used(range(16))), void=[2], **size(16))
        + tiny.attempt(1, cut(used(range(8, 12)), first=3), after=(0, 2), **size(16))
        + tiny.attempt(
            2, cut(used(range(8, 20)), first=3), after=(0, 2), uncommitted=[5], **size(16)
        )
    )
    found = ran(lines, tmp_path).report

    told = {(one["attempt"], one["fate"]): one["records"] for one in found["unused"]}
    assert {
        ("0", "void"): 4,
        ("0", "rolled-back"): 8,
        ("1", "rolled-back"): 4,
        ("2", "uncommitted"): 4,
    } == told
    assert [("0", 4), ("2", 8), ("1", 0)] == [
        (one["attempt"], one["records"]) for one in found["survival"]
    ]
    assert 4 == next(one["never"] for one in found["unused"] if one["fate"] == "void")


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_plain_logs_are_read(suffix: str, tmp_path: Path) -> None:
    """Without events, the last step of all is not known to be committed."""
    rows = [
        {"rank": 0, "step": step, "slot": 0, "sample_id": 2 * step + one}
        for step in range(4)
        for one in range(2)
    ]
    frame = pl.DataFrame(rows)
    path = tmp_path / f"log.{suffix}"
    {"parquet": frame.write_parquet, "csv": frame.write_csv, "jsonl": frame.write_ndjson}[suffix](
        path
    )
    report = verified(path, samples={None: 6})

    assert (6, Verdict.CONTINUOUS) == (report.generations[0].records, report.verdict)
    assert {"commits-assumed"} == {one.code for one in report.limits}


def test_several_roots_are_one_ledger(tmp_path: Path) -> None:
    """Ranks collected from their nodes, and files that two roots both hold, are read once."""
    lines = read_lines(ZOO / RIGHT / "run")
    whole = write_ledger(lines, tmp_path / "whole")
    roots = [
        write_ledger([one for one in lines if one["rank"] in ranks], tmp_path / name)
        for name, ranks in (("a", {0, 1, 2}), ("b", {3}))
    ]
    told_once = to_json(replace(verified(whole), inputs={}))

    assert told_once == to_json(replace(verified(*roots), inputs={}))


def overlapping(folder: Path) -> Path:
    """Write a right run, of which one writer's last lines are in two of its files."""
    root = write_ledger(read_lines(ZOO / RIGHT / "run"), folder)
    path = root / "attempt=0" / "samples-r00000x-000000.parquet"
    metadata = {key.decode(): one.decode() for key, one in pq.read_schema(path).metadata.items()}
    table = pq.read_table(path, partitioning=None)
    write_segment(table.slice(8), path.with_name("samples-r00000x-000001"), metadata=metadata)
    return root


def test_segments_that_overlap_are_read_once(tmp_path: Path) -> None:
    """The same lines of one writer in two files are no repeats."""
    once = verified(write_ledger(read_lines(ZOO / RIGHT / "run"), tmp_path / "once"))
    twice = verified(overlapping(tmp_path / "twice"))

    assert once.generations == twice.generations
    assert (once.verdict, once.shares) == (twice.verdict, twice.shares)


def test_open_segments_are_read_as_sealed_ones(tmp_path: Path) -> None:
    """What a writer left open, and what was sealed of it, give the same report."""
    lines = read_lines(ZOO / RIGHT / "run")
    left_open = write_ledger(lines, tmp_path / "open", sealed=False)

    assert told(write_ledger(lines, tmp_path / "sealed")) == told(left_open)


def test_what_a_writer_emitted_is_verified_before_and_after_sealing(tmp_path: Path) -> None:
    """A ledger of our own writer needs nothing but its size."""
    root = emitted(tmp_path / "ledger", job(steps=8))
    before = told(root, samples={None: 32})
    assert 0 == ledger_audit("seal", root).code

    assert before == told(root, samples={None: 32})
    assert Verdict.CONTINUOUS == verified(root, samples={None: 32}).verdict


@pytest.mark.parametrize(
    "data",
    [
        {"resumed_from": {"attempt": "gone", "step": 2}},
        {"logged_ranks": [0]},
        {"world_size": 3},
    ],
    ids=["parent", "sampled", "rank"],
)
def test_nothing_is_proven_where_evidence_is_missing(data: dict[str, Any], tmp_path: Path) -> None:
    """All that is there is right, and something may have been used that is not there."""
    lines = tiny.attempt(0, cut(used(range(8)), first=3), **size(8))
    told = [one | {"data": one["data"] | data} if one["kind"] == "start" else one for one in lines]

    assert 3 == ran(told, tmp_path).code


# The command


@pytest.mark.parametrize(
    "options",
    [
        ("--samples", "x"),
        ("--samples", "0"),
        ("--samples", "-4"),
        ("--samples", "a=b"),
        ("--memory", "1"),
        ("--memory", "63MiB"),
        ("--memory", "much"),
        ("--format", "markdown"),
        ("--allow-unproven", "no-such-limit"),
        ("--report", "json=no/such/folder/x.json"),
    ],
)
def test_wrong_options_end_with_2(options: tuple[str, str], tmp_path: Path) -> None:
    """Nothing is judged, and nothing is printed on standard output."""
    found = ledger_audit("verify", tiny.write(tmp_path, right()), *options)

    assert (2, "") == (found.code, found.out)


def test_a_contract_that_draws_anew_promises_nothing(tmp_path: Path) -> None:
    """It is refused, and the message says what to do instead."""
    contract = tmp_path / "contract.toml"
    contract.write_text('promise = "resampled"\n')
    found = ran(right(), tmp_path, "--contract", contract)

    assert (2, "") == (found.code, found.out)
    assert "diff" in found.err
    assert 0 == ran(right(), tmp_path, "--no-contract").code


@pytest.mark.parametrize("amount", ["64MiB", "512MB", "2GiB", "1.5 gib", "67108864"])
def test_amounts_of_memory(amount: str, tmp_path: Path) -> None:
    """Powers of ten and of two, in any case, or bytes."""
    assert 0 == ran(right(), tmp_path, "--memory", amount).code


def test_a_ledger_without_a_record_is_refused(tmp_path: Path) -> None:
    """There is nothing to judge: 2; a path that is not there: 4."""
    assert 2 == ran(tiny.attempt(0, {}), tmp_path).code
    assert 4 == ledger_audit("verify", tmp_path / "gone").code


@pytest.mark.parametrize("name", ["torch-ddp-epoch-restart", RIGHT, "torchdata-sdl-last-batch"])
def test_the_screen_says_what_the_report_says(name: str, tmp_path: Path) -> None:
    """The exit code, the verdict and the numbers of each pass, once for eyes and once for tools."""
    path = tmp_path / "report.json"
    found = ledger_audit("verify", ZOO / name / "run", "--report", f"json={path}")
    report = json.loads(path.read_text())

    assert {"continuous": 0, "broken": 1, "unproven": 3}[report["verdict"]] == found.code
    rows = [line.split() for line in found.out.splitlines()]
    assert report["verdict"].upper() == rows[0][0]
    for one in report["generations"]:
        again = sum(each["records"] for each in one["repeats"])
        steps = f"{one['first_step']}-{one['last_step']}" if one["records"] else "none"
        numbers = [one["records"], one["samples"], one["size"], again, one["missing"]]
        told = [str(one["epoch"]), steps, *(f"{number:,}" for number in numbers)]
        assert [*told, "yes" if one["is_over"] else "no"] in rows
    text = " ".join(found.out.split())
    for one in report["losses"]:
        assert f"attempt {one['from_attempt']} after step {one['checkpoint_step']}" in text
        assert f"{one['used_again']} of the samples were used again" in text


@QUIETLY
@given(texts=st.lists(TEXT, min_size=1, max_size=6), source=TEXT, label=st.sampled_from(NASTY))
def test_no_id_source_or_label_is_obeyed(texts: list[str], source: str, label: str) -> None:
    """Whatever a log holds, a terminal only shows it, and JSON is ASCII."""
    names = {0: f"{label}0", 1: f"{label}1"}
    lines = []
    for number, one in enumerate(right()):
        line = one | {"attempt": names[one["attempt"]]}
        if one["kind"] == "sample":
            repeat = 0 if number % 5 == 0 else one["sample_id"]
            line |= {"sample_id": f"{texts[repeat % len(texts)]}{repeat}", "source": source}
        elif one["kind"] == "start" and one["data"]["resumed_from"]:
            line["data"] = one["data"] | {"resumed_from": {"attempt": names[0], "step": 2}}
        lines.append(line)
    with tempfile.TemporaryDirectory() as folder:
        root = tiny.write(Path(folder) / "run", lines)
        listed = Path(folder) / "ids.jsonl"
        listed.write_text(json.dumps({"sample_id": texts[0] + "x"}) + "\n")
        for options in ((), ("--format", "json"), ("--manifest", listed)):
            found = ledger_audit("verify", root, *options)
            assert found.code in (0, 1, 3), found.err
            assert is_safe(found.out + found.err)
            if "json" not in options:
                assert max(map(len, found.out.splitlines())) <= 80


# Faults that were found by an attack


def test_lost_work_in_segments_that_overlap_is_counted_once(tmp_path: Path) -> None:
    """Rolled-back lines that two files of one writer hold are lost once."""
    once = verified(write_ledger(read_lines(ZOO / RIGHT / "run"), tmp_path / "once"))
    twice = verified(overlapping(tmp_path / "twice"))

    assert (once.unused, once.losses) == (twice.unused, twice.losses)


def test_an_overflow_step_is_no_skip(tmp_path: Path) -> None:
    """A batch whose update was thrown away, and that is not tried again, is legal: not broken."""
    every = [one for epoch in range(2) for one in used(range(16), epoch)]
    found = ran(tiny.attempt(0, cut(every), void=[2], **size(16)), tmp_path)

    assert 1 != found.code


def test_an_id_beyond_the_data_set_is_noted(tmp_path: Path) -> None:
    """Fifteen samples of 16 and the id 999 are 16 samples, and only a list tells them apart."""
    every = [*used([*range(15), 999]), *used(range(16), 1)]
    found = ran(tiny.attempt(0, cut(every), **size(16)), tmp_path)

    assert "id-outside-dataset" in {one["code"] for one in found.report["limits"]}
