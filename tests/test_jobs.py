"""The random jobs of the other tests are what they say they are, by counting their lines."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from faults import FAULTS, make
from jobs import Job, Line

COUNTED = (
    "rewind",
    "jump",
    "prefetch-loss",
    "partial-accumulation",
    "one-dropped",
    "one-repeated",
    "stale-rank",
)


def is_training(line: Line) -> bool:
    """Tell whether the line is a record of the training stream."""
    return line["kind"] == "sample" and "stream" not in line


def identity(line: Line) -> tuple[object, ...]:
    """Name what a record used."""
    keys = ("epoch", "source", "sample_id", "token_start", "token_end")
    return tuple(line.get(key) for key in keys)


def parents(lines: Iterable[Line]) -> dict[int, Line | None]:
    """Find which attempt and step each attempt says that it resumed from."""
    starts = (line for line in lines if line["kind"] == "start")
    return {line["attempt"]: line["data"]["resumed_from"] for line in starts}


def lineage(job: Job) -> list[Line]:
    """List the training records of the newest attempt and of what it goes back to."""
    resumed_from = parents(job.run)
    attempt, limit, kept = max(resumed_from), 10**9, list[Line]()
    while True:
        mine = [line for line in job.run if is_training(line) and line["attempt"] == attempt]
        kept = [line for line in mine if line["step"] <= limit] + kept
        parent = resumed_from[attempt]
        if parent is None:
            return kept
        attempt, limit = parent["attempt"], parent["step"]


def steps(lines: Iterable[Line]) -> dict[int, Counter[tuple[object, ...]]]:
    """Count what each step used."""
    counts: defaultdict[int, Counter[tuple[object, ...]]] = defaultdict(Counter)
    for line in lines:
        counts[line["step"]][identity(line)] += 1
    return counts


def committed(job: Job) -> tuple[list[Line], list[Line]]:
    """List the lineage's records before the newest resume and those committed after it."""
    newest = max(parents(job.run))
    ranks = {line["rank"] for line in job.run if line["attempt"] == newest}
    commits = Counter(
        line["step"] for line in job.run if line["kind"] == "commit" and line["attempt"] == newest
    )
    lines = lineage(job)
    before = [line for line in lines if line["attempt"] != newest]
    after = [line for line in lines if line["attempt"] == newest]
    return before, [line for line in after if commits[line["step"]] == len(ranks)]


def control_records(job: Job) -> list[Line]:
    """List the training records of the control."""
    return [line for line in job.control if is_training(line)]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_can_be_made(fault: str) -> None:
    """A job of any seed is small, starts on every logged rank and says what was planted."""
    for seed in range(20):
        job = make(fault, seed)
        assert sum(map(is_training, job.run)) <= 1500, seed
        assert {"planted", "broken", "gate"} <= job.truth.keys(), seed
        assert job.truth["broken"] is not True or "at_step" in job.truth, seed
        for rank in {(line["attempt"], line["rank"]) for line in job.run}:
            mine = [line for line in job.run if (line["attempt"], line["rank"]) == rank]
            at = [line["step"] for line in mine if "step" in line]
            assert mine[0]["kind"] == "start", seed
            assert at == sorted(at), seed


@pytest.mark.parametrize("fault", FAULTS)
def test_the_clean_twin_uses_the_stream_of_the_control(fault: str) -> None:
    """Step by step the same samples are used, and nothing is planted."""
    for seed in range(8):
        job = make(fault, seed, clean=True)
        assert job.truth["planted"] == "none"
        assert job.truth["broken"] is False
        mine, theirs = steps(lineage(job)), steps(control_records(job))
        if job.truth["gate"] is None:  # a voided step that the control does not have
            assert sum(mine.values(), Counter()) <= sum(theirs.values(), Counter()), seed
            continue
        assert all(mine[step] == theirs[step] for step in range(1, max(mine))), seed
        assert mine[max(mine)] <= theirs[max(mine)], seed


@pytest.mark.parametrize("fault", FAULTS)
def test_job_and_twin_share_their_world(fault: str) -> None:
    """The steps before the newest resume are the same in both, unless the fault is there."""
    job, twin = make(fault, 3), make(fault, 3, clean=True)
    first = job.truth.get("at_step", 10**9)
    if fault != "control-differs":
        early = [line for line in control_records(job) if line["step"] < first]
        assert early == [line for line in control_records(twin) if line["step"] < first]
    assert make(fault, 3) == job


def n_twice(names: Iterable[object]) -> int:
    """Count the uses beyond the first one of each name."""
    counts = Counter(names)
    return counts.total() - len(counts)


@pytest.mark.parametrize("fault", COUNTED)
def test_planted_counts_are_found_by_counting(fault: str) -> None:
    """Positions without a record are the skipped ones, those with two the replayed ones."""
    n_by_position = n_by_identity = 0
    for seed in range(40):
        job = make(fault, seed)
        if not {"replayed", "skipped", "duplicated"} & job.truth.keys():
            continue
        before, after = committed(job)
        lines = [*before, *after]
        n_again = job.truth.get("replayed", 0) + job.truth.get("duplicated", 0)
        if "position" in lines[0]:
            places = [line["position"] for line in lines]
            n_holes = max(places) + 1 - len(set(places))
            # a rank that lags leaves holes too, but will come to them
            assert fault == "stale-rank" or n_holes == job.truth.get("skipped", 0), seed
            assert n_twice(places) == n_again, seed
            n_by_position += 1
        twin = lineage(make(fault, seed, clean=True))
        if "epoch" in lines[0] and not n_twice(map(identity, twin)):
            assert n_twice(map(identity, lines)) == n_again, seed
            n_by_identity += 1
    assert n_by_position >= 3
    assert n_by_identity >= 3


def test_swapped_ranks_keep_their_steps() -> None:
    """Every step holds the control's samples, and some stand on another rank."""
    for seed in range(10):
        job = make("swapped-ranks", seed)
        mine, theirs = steps(lineage(job)), steps(control_records(job))
        assert all(mine[step] == theirs[step] for step in range(1, max(mine))), seed
        places = {(identity(line), line["step"], line["rank"]) for line in control_records(job)}
        assert any(
            (identity(line), line["step"], line["rank"]) not in places for line in lineage(job)
        ), seed


@pytest.mark.parametrize("clean", [False, True])
def test_lost_ranks_take_nothing_else_along(clean: bool) -> None:
    """One rank's ledger of one attempt is missing, and only in the broken job."""
    for seed in range(10):
        job, twin = make("lost-rank", seed, clean=clean), make("lost-rank", seed, clean=True)
        gone = {(line["attempt"], line["rank"]) for line in twin.run}
        gone -= {(line["attempt"], line["rank"]) for line in job.run}
        assert len(gone) == (0 if clean else 1), seed
        kept = [line for line in twin.run if (line["attempt"], line["rank"]) not in gone]
        assert list(job.run) == kept, seed


def test_commits_count_the_lost_rows() -> None:
    """The commits of the job with lost rows count more records than there are."""
    for seed in range(10):
        job = make("lost-rows", seed)
        rows = Counter(
            (line["attempt"], line["rank"], line["step"]) for line in job.run if is_training(line)
        )
        missing = [
            line["data"]["samples"] - rows[line["attempt"], line["rank"], line["step"]]
            for line in job.run
            if line["kind"] == "commit"
        ]
        assert min(missing) == 0, seed
        assert 1 <= sum(missing) <= 4, seed


def epochs_of_a_step(job: Job) -> list[int]:
    """Count the epochs in each step of the control; an absent column counts as one."""
    return [len({name[0] for name in counts}) for counts in steps(control_records(job)).values()]


def has_padding(job: Job) -> bool:
    """Tell whether the control uses a sample twice in an epoch."""
    return n_twice(map(identity, control_records(job))) > 0


def has_short_steps(job: Job) -> bool:
    """Tell whether the control's steps differ in size."""
    return len({counts.total() for counts in steps(control_records(job)).values()}) > 1


@pytest.mark.parametrize(
    ("fault", "shows"),
    [
        ("epoch-ends-inside-step", lambda job: max(epochs_of_a_step(job)) > 1),
        ("padding", has_padding),
        ("padding", has_short_steps),
        ("drop-last", lambda job: not has_short_steps(job) and not has_padding(job)),
        ("data-echoing", has_padding),
        ("upsampled-blend", has_padding),
        ("batch-size-ramp", has_short_steps),
        ("string-ids", lambda job: isinstance(control_records(job)[0]["sample_id"], str)),
        ("negative-ids", lambda job: any(row["sample_id"] < 0 for row in control_records(job))),
        ("spans", lambda job: "token_end" in control_records(job)[0]),
        ("packed-sequences", lambda job: "position" in control_records(job)[0]),
        ("other-streams", lambda job: any("stream" in line for line in job.run)),
        ("no-commits", lambda job: all(line["kind"] != "commit" for line in job.run)),
        ("membership", lambda job: any(line["kind"] == "membership" for line in job.run)),
        ("declared-skip", lambda job: any(line["kind"] == "declare" for line in job.run)),
        ("void-after-checkpoint", lambda job: any(line["kind"] == "void" for line in job.run)),
        ("missing-epoch-column", lambda job: all("epoch" not in line for line in job.run)),
    ],
)
def test_shapes_show(fault: str, shows: Callable[[Job], bool]) -> None:
    """A fault that is named after a shape of ledger has it, in most of its jobs."""
    jobs = [make(fault, seed) for seed in range(12)]
    with_epochs = [job for job in jobs if "epoch" in control_records(job)[0]] or jobs
    assert sum(map(shows, with_epochs)) >= 0.75 * len(with_epochs)


def test_worlds_vary() -> None:
    """Over a few dozen seeds every column is there and absent, and ranks die at other steps."""
    jobs = [make("rewind", seed) for seed in range(60)]
    for column in ("epoch", "position", "source", "worker"):
        assert {column in control_records(job)[0] for job in jobs} == {True, False}, column
    for key in ("dataset_samples", "sampler", "micro_batch_size", "accumulation"):
        starts = [job.run[0]["data"]["fingerprint"] for job in jobs]
        assert {key in facts for facts in starts} == {True, False}, key
    assert {start["data"]["world_size"] for start in (job.run[0] for job in jobs)} == {1, 2, 3, 4}
    assert {any(line["kind"] == "end" for line in job.run) for job in jobs} == {True, False}
    assert any(len(last_steps(job)) > 1 for job in jobs)


def last_steps(job: Job) -> set[int]:
    """Find the last step of each rank of the dead attempt."""
    last: dict[int, int] = {}
    for line in job.run:
        if is_training(line) and line["attempt"] == 0:
            last[line["rank"]] = max(line["step"], last.get(line["rank"], 0))
    return set(last.values())


def test_files_round_trip(tmp_path: Path) -> None:
    """What was written reads back as the job's own lines, rank 0 first, one file an attempt."""
    job = make("several-restarts", 1)
    for folder, lines in zip(job.write(tmp_path), (job.run, job.control), strict=True):
        files = sorted(folder.iterdir())
        assert len(files) == 1 + max(line["attempt"] for line in lines)
        texts = [file.read_text().splitlines() for file in files]
        assert [json.loads(line) for text in texts for line in text] == list(lines)
        for text in texts:
            ranks = [json.loads(line)["rank"] for line in text]
            assert ranks == sorted(ranks)
