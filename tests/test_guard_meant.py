"""What a guard leaves alone because it may be meant, and who else must be able to resume."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from gang import SAVED, Act, batch, launch, run

WRONG = run(4, 9, moved=4)
SKIPS = Act("declare", 4, batch(4))


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    return [text for text in texts if text.startswith("guard: ")]


@pytest.mark.parametrize(
    ("dead", "resumed"),
    [(run(1, 6), [SKIPS, *WRONG]), ([*run(1, 3), SKIPS, *run(4, 6)], WRONG)],
    ids=["by the resumed attempt", "by the dead one"],
)
def test_a_declared_skip_is_not_judged(
    dead: list[Act], resumed: list[Act], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Other samples may be meant: the guard says that it cannot judge, and no rank stops."""
    began = launch(tmp_path, "a", dead)
    after = launch(tmp_path, "b", resumed, restored=began.cursors[0])
    (told,) = _said(caplog)

    assert ("done", "done") == after.ends
    assert "declared" in told


def test_what_was_declared_before_the_checkpoint_excuses_nothing(tmp_path: Path) -> None:
    """Both attempts have it behind them."""
    began = launch(tmp_path, "a", [run(1, 1)[0], replace(SKIPS, step=1), *run(2, 6)])
    after = launch(tmp_path, "b", WRONG, restored=began.cursors[0])

    assert ("stopped at 4",) * 2 == after.ends


@pytest.mark.parametrize("acts", [run(4, 9), WRONG], ids=["right", "wrong"])
def test_who_writes_nothing_resumes_from_its_own_cursor(acts: list[Act], tmp_path: Path) -> None:
    """A peer's cursor says the step that was committed, as that of the process that records."""

    def peers(process: int) -> dict[str, object]:
        return {"rank": process // 2, "is_peer": process % 2 == 1}

    began = launch(tmp_path, "a", run(1, 6), processes=4, each=peers)
    after = launch(
        tmp_path,
        "b",
        acts,
        processes=4,
        each=lambda one: {**peers(one), "restored": began.cursors[one]},
    )

    assert [SAVED] * 4 == [began.cursors[one].step for one in range(4)]
    assert (("done" if acts != WRONG else "stopped at 4"),) * 4 == after.ends


def test_a_step_that_was_saved_in_part_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its first slots are in the checkpoint, so only the rest is redone; the next step counts."""
    began = launch(tmp_path, "a", run(1, 6))
    cut = replace(began.cursors[0], open_step=4, open_slots={"0": 2})
    rest = [replace(run(4, 4)[0], ids=batch(4)[4:])]
    right = launch(tmp_path, "b", [*rest, *run(5, 9)], restored=cut)
    wrong = launch(tmp_path, "c", [*rest, *run(5, 9, moved=5)], restored=cut)

    assert ("done", "done") == right.ends
    assert ("stopped at 5",) * 2 == wrong.ends
    assert "step 4 was not rolled back whole" in _said(caplog)[0]


def test_a_cursor_that_nobody_can_read_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The job resumed from something: that is not the silence of a run that begins."""
    launch(tmp_path, "a", run(1, 6))
    after = launch(tmp_path, "b", WRONG, restored={"step": "four"})

    assert ("done", "done") == after.ends
    assert ["guard: cannot judge: the first process has no cursor that it can read"] == _said(
        caplog
    )
