"""Limits and clauses that could be disabled without any other cheap test noticing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from running import ledger_audit
from tiny import Line, attempt, dealt, write

Parts = Sequence[Sequence[Line]]
Spans = dict[int, list[list[dict[str, int]]]]

OLD = attempt(0, dealt(1, 8))
NEW = attempt(1, dealt(7, 9), after=(0, 6))
"""Samples 0, 1, 2, ..., 2 ranks x 2 a step; the resume at step 6 goes on with sample 24."""


def _labelled(steps: dict[int, list[list[int]]], **more: int) -> Spans:
    """Give every sample the same columns beside its id."""
    return {
        step: [[{"sample_id": one, **more} for one in rows] for rows in by_rank]
        for step, by_rank in steps.items()
    }


def _starting(lines: Sequence[Line], rank: int, **data: Any) -> list[Line]:
    """Change what a rank says when it starts."""
    return [
        line | {"data": line["data"] | data}
        if line["kind"] == "start" and line["rank"] == rank
        else line
        for line in lines
    ]


def _restoring(*ranks: int, seed: int = 7) -> list[Line]:
    """Ranks 0 and 1 start with seed 7, and these restore the loader's state before they go on."""
    lines: list[Line] = []
    for line in attempt(1, dealt(7, 9), after=(0, 6), fingerprint={"seed": 7}):
        lines.append(line)
        if line["kind"] == "start" and line["rank"] in ranks:
            lines.append(
                {
                    "attempt": 1,
                    "kind": "restore",
                    "rank": line["rank"],
                    "data": {"fingerprint": {"seed": seed}},
                }
            )
    return lines


def _two_runs() -> Parts:
    """Rank 1 of the resumed attempt names another run than rank 0."""
    return OLD, _starting(_starting(NEW, 0, run_id="one"), 1, run_id="another")


def _no_parent() -> Parts:
    """The attempt that was resumed from left nothing."""
    return (NEW,)


def _one_lost_and_one_out_of_order() -> Parts:
    """
    Samples 27 and 28 changed places, so one of the seven must move to mend the order.

    One record of step 8 was lost, sample 31: it may be the reason.
    """
    old = attempt(0, dealt(1, 8, ranks=1, rows=4))
    new = attempt(1, {7: [[24, 25, 26, 28]], 8: [[27, 29, 30]]}, after=(0, 6))
    lost = {"attempt": 1, "kind": "lost", "rank": 0, "step": 8, "data": {"records": 1}}
    return old, new, [lost]


def _dark_lane() -> Parts:
    """Rank 1 of the first attempt has nothing after step 6."""
    return [one for one in OLD if one["rank"] == 0 or one.get("step", 0) <= 6], NEW


def _one_restored() -> Parts:
    """Rank 0 restored the loader's state; rank 1 does not say that it did."""
    return OLD, _restoring(0)


def _another_seed_restored() -> Parts:
    """Both ranks start with seed 7 and see seed 8 when they restore."""
    return OLD, _restoring(0, 1, seed=8)


def _a_seed_each() -> Parts:
    """Rank 0 has seed 7 and rank 1 seed 8, in both attempts."""
    return tuple(
        _starting(_starting(one, 0, fingerprint={"seed": 7}), 1, fingerprint={"seed": 8})
        for one in (OLD, NEW)
    )


def _epochs(first: int, last: int) -> Spans:
    """Twelve samples an epoch, three steps; nothing says that they are twelve."""
    return {
        step: _labelled(dealt(step, step, at=(step - 1) % 3 * 4), epoch=(step - 1) // 3)[step]
        for step in range(first, last + 1)
    }


def _an_epoch_ends() -> Parts:
    """Epoch 0 ends at step 3, the first after the resume."""
    return attempt(0, _epochs(1, 4)), attempt(1, _epochs(3, 5), after=(0, 2))


def _no_commits() -> Parts:
    """Nothing says what was committed."""
    return tuple([one for one in lines if one["kind"] != "commit"] for lines in (OLD, NEW))


def _epochs_after_the_resume_alone() -> Parts:
    """The first attempt logs no epoch, the resumed one does."""
    return OLD, attempt(1, _labelled(dealt(7, 9), epoch=0), after=(0, 6))


def _epochs_by_another_name() -> Parts:
    """The same samples, called epoch 0 before the resume and epoch 1 after it."""
    old = attempt(0, _labelled(dealt(1, 8), epoch=0))
    return old, attempt(1, _labelled(dealt(7, 9), epoch=1), after=(0, 6))


def _one_id_in_two_shards() -> Parts:
    """Sample 0 is 10 tokens long at step 1, and 20 at step 2."""

    def used(step: int, sample: int, tokens: int) -> Spans:
        return {step: [[{"sample_id": sample, "token_start": 0, "token_end": tokens}]]}

    old = used(1, 0, 10) | used(2, 0, 20) | used(3, 3, 5) | used(4, 4, 5)
    return attempt(0, old), attempt(1, used(4, 4, 5) | used(5, 5, 5), after=(0, 3))


def _other_samples_in_their_places(at: int = 100) -> Parts:
    """Places 24 to 31 hold samples 24 to 31 before the resume, and 100 to 107 after it."""

    def placed(first: int, last: int, at: int | None = None) -> dict[int, list[list[Line]]]:
        steps, places = dealt(first, last, at=at), dealt(first, last)
        return {
            step: [
                [{"sample_id": one, "position": place} for one, place in zip(*pair, strict=True)]
                for pair in zip(steps[step], places[step], strict=True)
            ]
            for step in steps
        }

    return attempt(0, placed(1, 8)), attempt(1, placed(7, 8, at), after=(0, 6))


def _judged(parts: Parts, folder: Path, *options: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Give the clauses and the limits of one resume: name → all of it, code → text."""
    ran = ledger_audit("diff", write(folder / "run", *parts), "--format", "json", *options)
    (resume,) = ran.report["resumes"]
    clauses = {one["clause"]: one for one in resume["clauses"]}
    return clauses, {one["code"]: one["text"] for one in resume["limits"]}


WRONG_WINDOWS: dict[str, tuple[Parts, str]] = {
    "mixed-attempt": (_two_runs(), 'run_id: "another" and "one"'),
    "parent-missing": (_no_parent(), "attempt 0, which was resumed from, left nothing"),
}
"""Limit → a ledger that has it, and what it says."""

BLOCKING: dict[str, tuple[Parts, tuple[str, ...], str, str]] = {
    "order-undecided": (
        _one_lost_and_one_out_of_order(),
        (),
        "order",
        "1 record out of order, and as many or more are missing",
    ),
    "lane-without-evidence": (
        _dark_lane(),
        ("--allow-unproven", "no-whole-reference-step"),
        "promise",
        "the reference has no record of rank 1",
    ),
}
"""Limit → a ledger that has it, options that waive others, its clause, and what it says."""

NOTES: dict[str, tuple[Parts, tuple[str, ...], str]] = {
    "steps-not-read": ((OLD, NEW), ("--after", "2"), "steps from 9 on were not read"),
    "restore-missing": (_one_restored(), (), "rank 1: no restore event, while other ranks"),
    "fingerprint-seen-otherwise": (_another_seed_restored(), (), "ranks 0-1: start, restore and"),
    "fingerprint-differs-between-ranks": (_a_seed_each(), (), "is 7 on rank 0, 8 on rank 1"),
    "epoch-size-unknown": (_an_epoch_ends(), (), "epoch 0 ended after the resume"),
    "commits-assumed": (_no_commits(), (), "the ledger has no commit event"),
    "column-left-out": (_epochs_after_the_resume_alone(), (), "epoch is not logged in every"),
    "epoch-label-changed": (_epochs_by_another_name(), (), "labels its epochs otherwise"),
    "ids-unique-per-shard-suspected": (_one_id_in_two_shards(), (), "samples of different"),
}
"""Limit → a ledger that has it, options, and what it says."""


@pytest.mark.parametrize("code", WRONG_WINDOWS)
def test_nothing_holds_where_the_windows_may_be_wrong(code: str, tmp_path: Path) -> None:
    """Every clause is unproven, and says why."""
    parts, text = WRONG_WINDOWS[code]
    clauses, limits = _judged(parts, tmp_path)

    assert text in limits[code]
    assert {("unproven", limits[code])} == {
        (one["verdict"], one["because"]) for one in clauses.values()
    }


@pytest.mark.parametrize("code", BLOCKING)
def test_a_limit_leaves_its_clause_unproven(code: str, tmp_path: Path) -> None:
    """Nothing else does: what else blocks the clause is waived."""
    parts, options, clause, text = BLOCKING[code]
    clauses, limits = _judged(parts, tmp_path, *options)

    assert text == limits[code]
    assert ("unproven", text) == (clauses[clause]["verdict"], clauses[clause]["because"])


@pytest.mark.parametrize("code", NOTES)
def test_a_note_is_told_and_blocks_nothing(code: str, tmp_path: Path) -> None:
    """The stream goes on rightly; what is unusual about its log is said."""
    parts, options, text = NOTES[code]
    clauses, limits = _judged(parts, tmp_path, *options)

    assert text in limits[code]
    assert {"continuous"} == {one["verdict"] for one in clauses.values()}


def test_a_right_resume_has_one_note(tmp_path: Path) -> None:
    """The ledger that the others are made from has none of theirs."""
    clauses, limits = _judged((OLD, NEW), tmp_path)

    assert {"no-later-epoch"} == limits.keys()
    assert {"continuous"} == {one["verdict"] for one in clauses.values()}


def test_other_samples_at_the_places_of_before_break_the_clause_drift(tmp_path: Path) -> None:
    """Eight places hold another sample than before; with the same samples none does."""
    clauses, _ = _judged(_other_samples_in_their_places(), tmp_path / "other")
    same, _ = _judged(_other_samples_in_their_places(at=24), tmp_path / "same")

    assert "broken" == clauses["drift"]["verdict"]
    assert "8 positions with another sample than before" == clauses["drift"]["because"]
    assert "continuous" == same["drift"]["verdict"]


def test_a_sample_of_nowhere_breaks_the_clause_unexpected(tmp_path: Path) -> None:
    """Sample 99 is used at step 7 in the place of 27; the reference has 24 to 31."""
    strange = {**dealt(7, 9), 7: [[24, 25], [26, 99]]}
    clauses, _ = _judged((OLD, attempt(1, strange, after=(0, 6))), tmp_path)

    assert "broken" == clauses["unexpected"]["verdict"]
    assert "1 record not in the reference" == clauses["unexpected"]["because"]


def test_where_nothing_was_rolled_back_no_place_is_proven(tmp_path: Path) -> None:
    """The first attempt ends at the checkpoint: nothing says at which rank a sample belongs."""
    terms = tmp_path / "contract.toml"
    terms.write_text('placement = "kept"\n')
    planned = attempt(0, dealt(1, 6))
    clauses, limits = _judged((planned, NEW), tmp_path, "--contract", str(terms))
    whole, _ = _judged((OLD, NEW), tmp_path / "whole", "--contract", str(terms))

    assert "unproven" == clauses["placement"]["verdict"]
    assert limits["no-whole-reference-step"] == clauses["placement"]["because"]
    assert "continuous" == whole["placement"]["verdict"]
