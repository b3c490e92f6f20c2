"""Steps and slots are counted, cursors taken back, and batches of a plain loop recorded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger_audit.errors import UsageError
from ledger_audit.integrations.loop import LoopLedger
from ledger_audit.integrations.stepping import StepLedger
from ledger_audit.ledger.opening import open_ledger

GARBAGE: dict[str, Any] = {
    "nothing in it": {},
    "another state": {"step": 7},
    "text": "cursor",
    "a step that is no number": {"step": "7", "attempt": "a"},
}


def _ledger(root: Path, **options: Any) -> StepLedger:
    return StepLedger(root, **{"attempt": "a", "strict": True, **options})


def _places(root: Path, attempt: str = "a") -> list[tuple[int, int, int]]:
    rows = open_ledger([root]).everything(attempt)[0].sort("seq")
    return rows.select("step", "slot", "sample_id").rows()


def _events(root: Path, attempt: str = "a") -> list[tuple[str, int | None, dict[str, Any]]]:
    rows = open_ledger([root]).everything(attempt)[1].sort("seq")
    told = rows.select("kind", "step", "data").iter_rows()
    return [(kind, step, json.loads(data or "{}")) for kind, step, data in told]


def _kinds(root: Path, attempt: str = "a") -> list[str]:
    return [kind for kind, _, _ in _events(root, attempt)]


def test_slots_count_the_micro_batches_of_a_step(tmp_path: Path) -> None:
    """A commit begins the next step."""
    with _ledger(tmp_path) as ledger:
        for ids in ([1], [2], None, [3], None):
            ledger.commit() if ids is None else ledger.record(ids)

    assert [(1, 0, 1), (1, 1, 2), (2, 0, 3)] == _places(tmp_path)
    assert (2, 3) == (ledger.committed, ledger.step)


def test_a_void_step_is_tried_again_from_its_first_slot(tmp_path: Path) -> None:
    """Its number stays."""
    with _ledger(tmp_path) as ledger:
        ledger.record([1])
        ledger.void("overflow")
        ledger.record([2])
        ledger.commit()

    assert [(1, 0, 1), (1, 0, 2)] == _places(tmp_path)
    assert ["start", "void", "commit", "end"] == _kinds(tmp_path)


def test_steps_that_are_given_count_their_slots_each(tmp_path: Path) -> None:
    """Also where the next step begins before the last one is committed, or is void."""
    with _ledger(tmp_path) as ledger:
        for step in (5, 5, 6, 5, 6):
            ledger.record([step], step=step)
        ledger.commit(5)
        ledger.record([6])
        ledger.void(step=7)
        ledger.record([6])
        ledger.commit(6)

    found = [(step, slot) for step, slot, _ in _places(tmp_path)]

    assert [(5, 0), (5, 1), (6, 0), (5, 2), (6, 1), (6, 2), (6, 3)] == found
    assert 7 == ledger.step


def test_staged_samples_belong_to_no_step(tmp_path: Path) -> None:
    """They are no micro-batch."""
    with _ledger(tmp_path) as ledger:
        ledger.staged("read", [1, 2])
        ledger.record([1])

    assert [(None, None, 1), (None, None, 2), (1, 0, 1)] == _places(tmp_path)


def test_a_ledger_that_is_closed_without_a_record_begins_and_ends(tmp_path: Path) -> None:
    """It was not there before; a second close says nothing more."""
    ledger = _ledger(tmp_path / "ledger")

    assert not (tmp_path / "ledger").exists()
    ledger.close()
    ledger.close()

    assert ["start", "end"] == _kinds(tmp_path / "ledger")


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_block_that_raises_has_no_end(is_begun: bool, tmp_path: Path) -> None:
    """The next launch resumes it; of a ledger that was not begun, nothing is left."""
    ledger = _ledger(tmp_path / "ledger")
    if is_begun:
        ledger.record([1])

    with pytest.raises(ZeroDivisionError), ledger:
        raise ZeroDivisionError

    assert is_begun is (tmp_path / "ledger").exists()
    assert not is_begun or _kinds(tmp_path / "ledger") == ["start"]


def test_a_checkpoint_that_raises_is_not_complete(tmp_path: Path) -> None:
    """The one before it is."""
    with _ledger(tmp_path) as ledger:
        ledger.commit()
        with ledger.checkpoint(path="one"):
            pass
        ledger.commit()
        with pytest.raises(OSError, match="full"), ledger.checkpoint(path="two"):
            raise OSError("full")

    told = [(step, data["phase"]) for kind, step, data in _events(tmp_path) if kind == "checkpoint"]

    assert [(1, "begin"), (1, "complete"), (2, "begin")] == sorted(told)


def _through_json(cursor: Any) -> Any:
    return json.loads(json.dumps(cursor))


def _as_it_is(cursor: Any) -> Any:
    return cursor


@pytest.mark.parametrize("stored", [_through_json, _as_it_is])
@pytest.mark.parametrize("is_given", [False, True])
def test_a_cursor_tells_where_to_go_on(
    stored: Callable[[Any], Any], is_given: bool, tmp_path: Path
) -> None:
    """Given or loaded before the first record; the start says what was resumed."""
    with _ledger(tmp_path) as ledger:
        for _ in range(3):
            ledger.record([1])
            ledger.commit()
        with ledger.checkpoint() as cursor:
            kept = stored(cursor)
    ledger = _ledger(tmp_path, attempt="b", restored=kept if is_given else None)
    if not is_given:
        ledger.load_state_dict(kept)
    ledger.record([2])
    ledger.close()
    (_, _, start), *others = _events(tmp_path, "b")

    assert [(4, 0, 2)] == _places(tmp_path, "b")
    assert {"attempt": "a", "step": 3} == start["resumed_from"]
    assert ["cursor", None] == [told.get("of") for _, _, told in others]


@pytest.mark.parametrize("name", GARBAGE)
def test_a_cursor_that_cannot_be_read_stops_nothing(name: str, tmp_path: Path) -> None:
    """The steps are counted from the first, and the start says what is wrong with it."""
    ledger = _ledger(tmp_path, strict=False, restored=GARBAGE[name])
    ledger.record([1])
    ledger.close()
    (_, _, start), *_ = _events(tmp_path)

    assert [(1, 0, 1)] == _places(tmp_path)
    assert start["resumed_from"] is None
    assert "is no cursor" in start["restored_problem"]


@pytest.mark.parametrize("used", [lambda one: one.record([1]), lambda one: one.close()])
def test_a_cursor_is_not_restored_after_use(
    used: Callable[[StepLedger], None], tmp_path: Path
) -> None:
    """What was written before would belong to another launch."""
    used(ledger := _ledger(tmp_path))

    with pytest.raises(UsageError, match="restored after"):
        ledger.load_state_dict({})


def test_restores_and_iterators_are_told_in_their_order(tmp_path: Path) -> None:
    """Those before the first record, too; the loader's restore stands for the cursor's."""
    with _ledger(tmp_path, fingerprint={"seed": 1}) as ledger, ledger.checkpoint() as cursor:
        pass
    with _ledger(tmp_path, attempt="b", restored=cursor, fingerprint={"seed": 1}) as ledger:
        ledger.restore(of="loader", fingerprint={"epoch": 2})
        ledger.iterator()
        ledger.record([1])
        ledger.iterator(worker=0)
    told = [one for one in _events(tmp_path, "b") if one[0] in ("restore", "iterator")]

    assert ["restore", "iterator", "iterator"] == [kind for kind, _, _ in told]
    assert ["loader", None, None] == [data.get("of") for _, _, data in told]
    assert {"seed": 1, "epoch": 2} == told[0][2]["fingerprint"]


@pytest.mark.parametrize(
    "ids",
    [
        "sample_id",
        lambda batch: batch["sample_id"],
        lambda _: {"sample_id": [1], "source": "w"},
    ],
)
def test_a_plain_loop_gets_its_batches_and_they_are_recorded(ids: Any, tmp_path: Path) -> None:
    """Each is the very object; its ids are under a key, or what a function says."""
    batches = [{"sample_id": [1]}, {"sample_id": [1]}]
    found = []
    with LoopLedger(tmp_path, attempt="a", strict=True) as ledger:
        for batch in ledger.batches(batches, ids=ids, epoch=3):
            found.append(batch)
            ledger.commit()

    assert [id(one) for one in batches] == [id(one) for one in found]
    assert [(1, 0, 1), (2, 0, 1)] == _places(tmp_path)
    assert ["start", "iterator", "commit", "commit", "end"] == _kinds(tmp_path)


@pytest.mark.parametrize(
    ("batch", "ids"),
    [({"x": 1}, "sample_id"), ([1], "id"), (7, "id"), ({"x": 1}, lambda _: {"source": "w"})],
)
def test_a_plain_batch_without_ids_is_a_usage_error(batch: Any, ids: Any, tmp_path: Path) -> None:
    """It says where ids may come from."""
    ledger = LoopLedger(tmp_path, attempt="a")

    with pytest.raises(UsageError, match=r"cannot be recorded|have no sample_id"):
        next(ledger.batches([batch], ids=ids))
