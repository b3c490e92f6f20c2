"""The guard: a resumed job that goes wrong stops at once, on all ranks; a right one never does."""

import logging
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gang import LOST, SAVED, SIZE, Act, Drawn, batch, launch, play, run
from native import write_ledger
from running import ledger_audit
from sealed import age

from ledger_audit import LedgerWriter
from ledger_audit.errors import ExitCode, UsageError
from ledger_audit.ledger.schema import DIGEST_COLUMNS

OPENING = 3
"""Sums before the first step is compared."""

Options = Callable[[int], dict[str, Any]]


def _shares(**options: Any) -> Options:
    return lambda _: options


def _batch(size: int | None) -> Options:
    return _shares(fingerprint=None if size is None else {"global_batch_size": size})


@pytest.fixture(autouse=True)
def _all_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ledger_audit")


def _said(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """Give what the guard has said in the log."""
    said = [(one.levelno, one.getMessage()) for one in caplog.records]
    return [(level, text) for level, text in said if text.startswith("guard: ")]


def _dead(root: Path, world: int = 2, acts: Sequence[Act] | None = None, **options: Any) -> Any:
    """Let an attempt do steps 1 to 6 and die; the cursor is that of step 3."""
    began = launch(root, "a", acts or run(1, 6), world=world, **options)

    assert ("done",) * world == began.ends

    return began.cursors[0]


RIGHT, WRONG, LARGER = run(4, 9), run(4, 9, moved=4), run(4, 9, size=SIZE + 2)
PADDED = [Act("commit", 4, batch(4)[:6]), *run(5, 9, moved=5)]
ELASTIC = [*run(1, 3), Act("membership", 4, [0, 1]), *run(4, 6)]
WORLDS = [(1, 1), (2, 2), (4, 2), (2, 4)]


@pytest.mark.parametrize(("before", "now"), WORLDS)
def test_a_right_resume_goes_on_and_is_told_once(
    before: int, now: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """When the last step that was rolled back is compared, no rank exchanges anything any more."""
    cursor = _dead(tmp_path, before)
    after = launch(tmp_path, "b", run(4, 9), world=now, restored=cursor)

    assert ("done",) * now == after.ends
    assert (OPENING + 3,) * now == after.calls
    assert [(logging.INFO, "guard: 3 steps up to 6 are those rolled back")] == _said(caplog)


@pytest.mark.parametrize("first", [4, 6])
@pytest.mark.parametrize(("before", "now"), WORLDS)
def test_a_wrong_resume_stops_at_its_first_wrong_step(
    before: int, now: int, first: int, tmp_path: Path
) -> None:
    """Every rank stops, at that very step, and is told the command that explains it."""
    cursor = _dead(tmp_path, before)
    after = launch(tmp_path, "b", run(4, 9, moved=first), world=now, restored=cursor)

    assert (f"stopped at {first}",) * now == after.ends
    assert (OPENING + first - SAVED,) * now == after.calls
    for told in after.told:
        assert f"step {first} is not the one" in told
        assert f"`ledger-audit diff {tmp_path}`" in told
    assert ExitCode.BROKEN == ledger_audit("diff", tmp_path).code


@pytest.mark.parametrize("first", [4, 6])
def test_a_warning_is_given_once_and_lets_the_job_go_on(
    first: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What follows the first wrong step is not exchanged any more."""
    cursor = _dead(tmp_path)
    wrong = run(4, 9, moved=first)
    after = launch(tmp_path, "b", wrong, restored=cursor, each=_shares(guard="warn"))
    ((level, text),) = _said(caplog)

    assert ("done", "done") == after.ends
    assert (OPENING + first - SAVED,) * 2 == after.calls
    assert logging.WARNING == level
    assert f"guard: step {first} is not the one" in text
    assert f"`ledger-audit diff {tmp_path}`" in text


def test_one_process_that_only_warns_keeps_all_from_stopping(tmp_path: Path) -> None:
    """Processes that were given different modes do not part."""
    cursor = _dead(tmp_path)
    after = launch(
        tmp_path, "b", WRONG, restored=cursor, each=lambda one: {"guard": "warn" if one else "stop"}
    )

    assert ("done", "done") == after.ends


def test_a_run_that_begins_exchanges_nothing_after_its_first_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has nothing to redo, and says nothing."""
    began = launch(tmp_path, "a", run(1, 6))

    assert ("done", "done") == began.ends
    assert (OPENING, OPENING) == began.calls
    assert [] == _said(caplog)


def _events(root: Path) -> list[Path]:
    return sorted(root.glob("attempt=a/events-*"))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a rank's events are gone": (lambda root: _events(root)[0].unlink(), "no step after 3"),
    "all are gone": (lambda root: [one.unlink() for one in _events(root)], "no start event"),
    "the attempt is gone": (lambda root: shutil.rmtree(root / "attempt=a"), "cannot be read"),
    "the ledger is gone": (shutil.rmtree, "cannot be read"),
    "no events": (lambda root: _events(root)[0].write_bytes(b"no events"), "cannot be read"),
    "empty": (lambda root: _events(root)[0].write_bytes(b""), "no step after 3"),
    "zeros": (lambda root: _events(root)[0].write_bytes(bytes(999)), "no step after 3"),
    "a stranger": (lambda root: (root / "attempt=a" / "x.txt").touch(), "cannot be read"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_dead_attempt_that_cannot_be_read_is_said_once_and_hangs_nobody(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A right resume goes on, whatever became of the files that it would be compared with."""
    damage, why = DAMAGES[name]
    cursor = _dead(tmp_path)
    damage(tmp_path)
    after = launch(tmp_path, "b", RIGHT, restored=cursor)

    assert ("done", "done") == after.ends
    assert (OPENING, OPENING) == after.calls
    assert [(logging.WARNING, True)] == [(level, why in text) for level, text in _said(caplog)]


_START = {"world_size": 2, "digest_columns": [*DIGEST_COLUMNS]}


@pytest.mark.parametrize(
    "said",
    [
        *({"world_size": one} for one in (10**15, -1, "2", True)),
        *({"logged_ranks": one} for one in (5, [[0], "1"], {"cut": 1}, [], [0, 1, 2])),
        *({"fingerprint": one} for one in ("a text", [1], {"global_batch_size": 10**40})),
        {"digest_columns": None},
    ],
    ids=str,
)
def test_nothing_that_a_start_event_says_hangs_or_stops_a_job(
    said: dict[str, Any], tmp_path: Path
) -> None:
    """What the leader cannot make sense of is no reason to leave the others waiting."""
    commit = {"kind": "commit", "step": 4, "data": {"samples": 9, "digest": "7"}}
    lines = [
        {"attempt": "a", "rank": rank, **line}
        for rank in (0, 1)
        for line in ({"kind": "start", "data": {**_START, **said}}, commit)
    ]
    write_ledger(lines, tmp_path, sealed=False)
    after = launch(tmp_path, "b", run(4, 5), each=_shares(resumed_from=("a", 3)))

    assert ("done", "done") == after.ends


UNFIT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another global batch": ({}, {"acts": LARGER, "each": _batch(10)}, "the global batch changed"),
    "the same by chance": ({}, {"acts": WRONG, "each": _batch(10)}, "the global batch changed"),
    "no fingerprint": ({"each": _batch(None)}, {"acts": LARGER}, "no fingerprint says"),
    "only one has a fingerprint": (
        {},
        {"acts": LARGER, "each": lambda one: {} if one else {"fingerprint": None}},
        "no fingerprint says",
    ),
    "only others have none": (
        {},
        {"acts": LARGER, "each": lambda one: _batch(None if one else 10)(one)},
        "the global batch changed",
    ),
    "padded by other ranks": ({}, {"world": 4, "acts": PADDED}, "the number of ranks changed"),
    "nothing is rolled back": ({"acts": run(1, 3)}, {"acts": RIGHT}, "no step after 3"),
    "too early": ({}, {"acts": run(2, 9)}, "and not after 3"),
    "membership": ({"acts": ELASTIC}, {"acts": WRONG}, "lost or gained ranks"),
    "other ranks log": (
        {"each": _shares(logged_ranks=[0])},
        {"acts": WRONG, "each": _shares(logged_ranks=[1])},
        "not all ranks log",
    ),
    "two leaders": (
        {},
        {"acts": RIGHT, "each": lambda one: {"rank": one % 2}, "processes": 4},
        "2 of 4 processes say",
    ),
    "apart": ({}, {"acts": lambda one: run(4 + one, 9)}, "the ranks commit different steps"),
    "some begin": (
        {},
        {"acts": WRONG, "each": lambda one: {"restored": None} if one else {}},
        "1 of 2 processes did not resume",
    ),
    "the first begins": (
        {},
        {"acts": WRONG, "each": lambda one: {} if one else {"restored": None}},
        "the first process has no cursor",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_cannot_be_compared_is_said_once_and_never_stops(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All ranks go on, and exchange nothing any more."""
    before, now, why = UNFIT[name]
    cursor = _dead(tmp_path, **before)
    after = launch(tmp_path, "b", **{"restored": cursor, **now})
    ((level, text),) = set(_said(caplog))

    assert {"done"} == set(after.ends)
    assert 1 == len(set(after.calls))
    assert OPENING + 1 >= after.calls[0]
    assert logging.WARNING == level
    assert text.startswith("guard: cannot judge: ")
    assert why in text


@pytest.mark.parametrize("other", [{"step": 2}, {"attempt": "0"}])
def test_ranks_that_loaded_different_checkpoints_are_not_compared(
    other: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The leader says how many; nobody stops."""
    cursor = _dead(tmp_path)
    mine = cursor, replace(cursor, **other)
    after = launch(tmp_path, "b", WRONG, each=lambda one: {"restored": mine[one]})

    assert ("done", "done") == after.ends
    assert (OPENING, OPENING) == after.calls
    assert [True] == ["1 of 2 processes did not" in text for _, text in _said(caplog)]


def test_an_attempt_that_was_launched_twice_is_not_compared_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two launches under one label prove nothing, even where their start events are alike."""
    _dead(tmp_path, acts=run(1, 4))
    cursor = _dead(tmp_path, acts=[*run(1, 3), *run(5, 6)])
    after = launch(tmp_path, "b", run(4, 9, moved=6), restored=cursor)

    assert ("done", "done") == after.ends
    assert [True] == ["launched twice" in text for _, text in _said(caplog)]


@pytest.mark.parametrize(
    ("dead", "resumed", "end"),
    [
        ("c4/4 c5/5 c6/6", "v4/4 c4/5 c5/6 c6/7", "done"),  # a retry takes the next batch
        ("c4/4 c5/5 c6/6", "v4/4 c4/4 c5/5 c6/6", "done"),  # or the same
        ("c4/4 c5/5 c6/6", "v4/4 c5/5 c6/6", "done"),  # or there is none
        ("v4/4 c4/5 c5/6", "c4/4 c5/5 c6/6", "done"),
        ("v4/4 c5/5 c6/6", "c4/4 c5/5 c6/6", "done"),
        ("v4/4 c4/5 c5/6", "v4/4 c4/5 c5/6 c6/7", "done"),
        ("v4/4 c4/5 c5/6", "v4/5 c4/6 c5/7", "stopped at 4"),
        ("c4/4 v5/5 c5/6", "c4/4 v5/5 c5/9 c6/10", "stopped at 5"),  # the last one's retry
        ("c4/4 v5/5 c6/6", "c4/4 v5/5 c6/7 c7/8", "stopped at 6"),
        ("v4/4 c4/5 c5/6", "c4/5 v5/6 c5/7", "stopped at 5"),
        ("c4/4 c5/5 v6/6", "c4/4 c5/6", "stopped at 5"),
    ],
)
def test_void_updates_move_a_stream_and_stop_nobody(
    dead: str, resumed: str, end: str, tmp_path: Path
) -> None:
    """Where both attempts threw the same number away, a difference is one all the same."""
    cursor = _dead(tmp_path, acts=[*run(1, 3), *play(dead)])
    after = launch(tmp_path, "b", play(resumed), restored=cursor)

    assert (end, end) == after.ends
    if end == "done":
        assert ExitCode.CONTINUOUS == ledger_audit("diff", tmp_path).code


@pytest.mark.parametrize("kind", ["v", "lost"])
@pytest.mark.parametrize("is_dead", [False, True])
def test_a_step_that_some_ranks_threw_away_or_lost_is_not_compared(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_dead: bool
) -> None:
    """All ranks go on together, and what follows is compared."""

    def acts(rank: int, first: int) -> list[Act]:
        spoilt = play("v4/4")[0] if kind == "v" else Act("commit", 4, LOST)
        return [*run(first, 3), spoilt if rank else run(4, 4)[0], *run(5, 6)]

    one_sided = (lambda rank: acts(rank, 1)) if is_dead else run(1, 6)
    cursor = launch(tmp_path, "a", one_sided).cursors[0]
    again = run(4, 9) if is_dead else lambda rank: acts(rank, 4)
    after = launch(tmp_path, "b", again, restored=cursor)
    said = [level for level, _ in _said(caplog)]

    assert ("done", "done") == after.ends
    assert (OPENING + 3,) * 2 == after.calls
    assert [logging.WARNING, logging.INFO] == said


@pytest.mark.parametrize("moved", [None, 5])
@pytest.mark.parametrize("way", ["logged", "peers", "text", "sealed", "torn", "alone"])
def test_every_layout_is_compared(way: str, moved: int | None, tmp_path: Path) -> None:
    """Some ranks log, peers listen, ids are text, the dead left sealed files or torn ones."""
    ways: dict[str, dict[str, Any]] = {
        "logged": {"world": 4, "each": _shares(logged_ranks=[1, 2])},
        "peers": {"processes": 4, "each": lambda one: {"rank": one // 2, "is_peer": one % 2 == 1}},
        "alone": {"world": 1, "each": _shares(all_reduce=None)},
    }
    options = ways.get(way, {})
    before, now = run(1, 6), run(4, 9, moved=moved)
    if way == "text":
        before, now = ([replace(a, ids=[f"d{i}" for i in a.ids]) for a in x] for x in (before, now))
    began = launch(tmp_path, "a", before, **options)
    if way == "sealed":
        age(tmp_path)

        assert 0 == ledger_audit("seal", tmp_path).code
        assert not list(tmp_path.glob("attempt=a/*.arrows"))
    elif way == "torn":
        path = _events(tmp_path)[0]
        path.write_bytes(path.read_bytes()[:-9])

    cursor = began.cursors[2 if way == "logged" else 0]
    after = launch(tmp_path, "b", now, restored=cursor, **options)
    writers = {path.name.split("-")[1] for path in tmp_path.glob("attempt=b/*")}
    expected = {"logged": {"r00001", "r00002"}, "alone": {"r00000"}}

    assert {"done" if moved is None else f"stopped at {moved}"} == set(after.ends)
    assert expected.get(way, {"r00000", "r00001"}) == writers


def test_a_guard_without_its_sum_is_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where there are others, the first rank says so once; a guard that nobody knows is refused."""
    cursor = _dead(tmp_path)
    after = launch(tmp_path, "b", WRONG, restored=cursor, each=_shares(all_reduce=None))

    assert ("done", "done") == after.ends
    assert [True] == ["off: it needs all_reduce=" in text for _, text in _said(caplog)]
    with pytest.raises(UsageError, match="neither warn nor stop"):
        LedgerWriter(tmp_path, rank=0, world_size=1, guard="halt")  # type: ignore[arg-type]


def test_a_forked_child_exchanges_nothing(tmp_path: Path) -> None:
    """Its commits and voids are its own affair."""
    calls: list[int] = []
    ledger = LedgerWriter(tmp_path, rank=0, world_size=1, guard="stop", all_reduce=calls.extend)
    child = os.fork()
    if not child:
        ledger.commit(1)
        ledger.void(2)
        os._exit(len(calls))

    assert 0 == os.waitpid(child, 0)[1]


@pytest.mark.parametrize("seed", range(48))
def test_all_ranks_end_alike_and_only_a_wrong_stream_stops(seed: int, tmp_path: Path) -> None:
    """Whatever happens to either attempt; where nothing does, the first wrong step stops it."""
    job = Drawn(seed)
    cursor = launch(tmp_path, "a", job.dead, world=job.before).cursors[0]
    job.damage(tmp_path)
    is_unknown = job.fault == "cursor"
    after = launch(
        tmp_path,
        "b",
        job.resumed,
        world=job.now,
        each=lambda one: {"restored": None if is_unknown and one % 2 else cursor},
    )
    stops = [f"stopped at {step}" for step in range(job.moved or 99, job.last + 1)]

    assert 1 == len(set(after.ends)) == len(set(after.calls)), f"seed {seed}: {after.ends}"
    assert after.ends[0] in ["done", *stops], f"seed {seed}"
    if job.is_whole:
        assert [*stops, "done"][0] == after.ends[0], f"seed {seed}"
