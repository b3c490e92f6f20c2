"""Causes that no real run here shows, each on a ledger small enough to check by hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cause_matrix import first_causes
from conftest import FIXTURES
from faults import FAULTS
from running import ledger_audit
from tiny import Line, attempt, dealt, write

from ledger_audit import audit
from ledger_audit.continuity.causes import CAUSES
from ledger_audit.continuity.causes.case import Case
from ledger_audit.model import Limit, Reading

Parts = Sequence[Sequence[Line]]


def _saved(*steps: int) -> list[Line]:
    return [
        {"attempt": 0, "kind": "checkpoint", "rank": rank, "step": step, "data": {}}
        for rank in range(2)
        for step in steps
    ]


def _spans(step: int, *spans: tuple[int, int, int]) -> dict[int, list[list[dict[str, int]]]]:
    names = ("sample_id", "token_start", "token_end")
    return {step: [[dict(zip(names, span, strict=True)) for span in spans]]}


def _stale() -> Parts:
    """Steps 1 to 8, 4 samples each; loaded at step 6, and the loader's state is that of step 4."""
    resumed = attempt(1, dealt(7, 10, at=16), after=(0, 6))
    return attempt(0, dealt(1, 8)), _saved(4, 6), resumed


def _twice() -> Parts:
    """24 samples were used; the sampler begins at 24, and the loop skips 24 more."""
    return attempt(0, dealt(1, 16)), attempt(1, dealt(7, 8, at=48), after=(0, 6))


def _chunk() -> Parts:
    """18 samples were used, of a chunk of 32 that was read at once: the next is number 32."""
    old, new = dealt(1, 16, ranks=1, rows=3), dealt(7, 9, ranks=1, rows=3, at=32)
    return attempt(0, old), attempt(1, new, after=(0, 6))


def _remainder() -> Parts:
    """Document 5 had 10 tokens before the checkpoint; its other 10 are never used."""
    old = _spans(1, (4, 0, 10), (5, 0, 10)) | _spans(2, (5, 10, 20), (6, 0, 10))
    old |= _spans(3, (6, 10, 20), (7, 0, 10))
    new = _spans(2, (6, 0, 10), (6, 10, 20)) | _spans(3, (7, 0, 10), (8, 0, 10))
    return attempt(0, old), attempt(1, new | _spans(4, (8, 10, 20), (9, 0, 10)), after=(0, 1))


def _buffer() -> Parts:
    """Samples 25, 28 and 31 were in the buffer; the others go on in their order."""
    left = [one for one in range(24, 60) if one not in (25, 28, 31)]
    new = {step: [left[4 * (step - 7) : 4 * (step - 6)]] for step in range(7, 13)}
    old = dealt(1, 12, ranks=1, rows=4)
    fingerprint = {"shuffle_buffer": 8}
    return attempt(0, old, fingerprint=fingerprint), attempt(1, new, after=(0, 6))


def _unsharded(first: int, last: int, at: int | None = None) -> dict[int, list[list[int]]]:
    one = dealt(first, last, ranks=1, rows=2, at=at)
    return {step: [by_rank[0], by_rank[0]] for step, by_rank in one.items()}


def _alike() -> Parts:
    """Both ranks read the whole stream, before the failure too; the resume begins again."""
    return attempt(0, _unsharded(1, 8)), attempt(1, _unsharded(7, 9, at=0), after=(0, 6))


@pytest.mark.parametrize(
    ("code", "made", "evidence"),
    [
        ("stale-cursor", _stale, "-8 = back to the checkpoint at step 4"),
        ("offset-applied-twice", _twice, "+24 = all that was committed since the run began"),
        ("read-chunk-skipped", _chunk, "the 14 that are skipped end at a multiple of 32"),
        ("packing-remainder-lost", _remainder, "of 1 documents a part is used and the rest, 1"),
        ("shuffle-buffer-lost", _buffer, "3 records are skipped, in 3 places between others"),
    ],
)
def test_a_small_ledger_has_its_cause_first(
    code: str, made: Any, evidence: str, tmp_path: Path
) -> None:
    """By the very numbers that its docstring tells."""
    report = ledger_audit("diff", write(tmp_path / "run", *made()), "--format", "json").report
    (resume,) = report["resumes"]

    assert "broken" == resume["verdict"]
    assert code == resume["causes"][0]["code"]
    assert evidence in resume["causes"][0]["evidence"]


@pytest.mark.parametrize("made", [_stale, _twice, _chunk, _remainder, _buffer, _alike])
def test_its_clean_twin_has_none(made: Any, tmp_path: Path) -> None:
    """The same first attempt, resumed by what it lost."""
    first, *_ = made()
    steps = sorted({line["step"] for line in first if line["kind"] == "sample"})
    at = steps[len(steps) // 2]
    start = {"world_size": 1 + max(line["rank"] for line in first)}
    told = {**start, "resumed_from": {"attempt": 0, "step": at}}
    again = [line | {"attempt": 1} for line in first if line.get("step", 0) > at]
    begun = [
        {"attempt": 1, "kind": "start", "rank": rank, "data": told}
        for rank in range(start["world_size"])
    ]
    ledger = write(tmp_path / "run", first, sorted([*begun, *again], key=lambda one: one["rank"]))
    (resume,) = ledger_audit("diff", ledger, "--format", "json").report["resumes"]

    assert "broken" != resume["verdict"]
    assert [] == resume["causes"]


def test_what_was_there_before_the_failure_is_told_apart(tmp_path: Path) -> None:
    """Ranks that always read the same are not the resume's fault, and are told last."""
    report = ledger_audit("diff", write(tmp_path / "run", *_alike()), "--format", "json").report
    causes = report["resumes"][0]["causes"]

    assert ("unsharded-ranks", True) == (causes[-1]["code"], causes[-1]["before_failure"])
    assert "12 of 12 samples were used by several of the 2 ranks" in causes[-1]["evidence"]


def test_ranks_that_changed_places_are_named_where_places_are_promised(tmp_path: Path) -> None:
    """Every sample comes in its step, on the other rank."""
    swapped = {step: by_rank[::-1] for step, by_rank in dealt(7, 9).items()}
    ledger = write(tmp_path / "run", attempt(0, dealt(1, 8)), attempt(1, swapped, after=(0, 6)))
    terms = tmp_path / "contract.toml"
    terms.write_text('placement = "kept"\n')
    ran = ledger_audit("diff", ledger, "--contract", terms, "--format", "json")
    (cause,) = ran.report["resumes"][0]["causes"]

    assert "ranks-swapped" == cause["code"]
    assert "rank 0 has rank 1's, rank 1 has rank 0's" == cause["evidence"]


def test_ids_that_name_several_samples_are_suspected() -> None:
    """What a limit suspects is a cause of what is broken."""
    run = FIXTURES / "zoo" / "torch-ddp-epoch-restart" / "run"
    (resume,) = audit.diff([run], Reading()).resumes
    suspected = Limit("ids-unique-per-shard-suspected", (), "ids repeat in shards", "qualified ids")
    sign = CAUSES["ids-not-unique"]

    assert resume.clues is not None
    assert sign(Case(resume, resume.clues)) is None
    told = sign(Case(replace(resume, limits=(suspected,)), resume.clues))
    assert ("likely", "ids repeat in shards") == told


@pytest.mark.parametrize("fault", FAULTS)
def test_the_clean_twin_of_a_random_job_has_no_cause(fault: str) -> None:
    """Whatever its world, its recipe and its log are."""
    assert [] == [one for seed in range(1) for one in first_causes(fault, seed, clean=True)]


@pytest.mark.parametrize("seed", range(4))
def test_half_a_group_that_a_random_job_lost_is_named(seed: int) -> None:
    """Whatever the number of ranks, slots and rows."""
    named = first_causes("partial-accumulation", seed, clean=False)

    assert set(named) <= {"partial-accumulation-lost"}


def test_an_unproven_run_tells_only_what_was_there_before() -> None:
    """Repeats may be older than the resume: then that is said, and marked as such."""
    run = FIXTURES / "cases" / "every-rank-records-what-every-rank-read" / "run"
    (resume,) = ledger_audit("diff", run, "--format", "json").report["resumes"]
    told = " ".join(ledger_audit("diff", run).out.split())

    assert "unproven" == resume["verdict"]
    assert [("unsharded-ranks", True)] == [
        (one["code"], one["before_failure"]) for one in resume["causes"]
    ]
    assert "cause unsharded-ranks, proven, before the failure already: 2 of 2 samples" in told
