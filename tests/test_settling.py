"""Steps that a run and its control consumed alike are settled by sums: the verdict is the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import FIXTURES
from emitting import emit_ledger
from gated import bare, is_settled, judged
from running import ledger_audit
from tiny import Line, attempt, dealt, write

from ledger_audit.continuity import gating, opening, settling
from ledger_audit.continuity.contract import Contract
from ledger_audit.ledger.digest import digest
from ledger_audit.ledger.schema import DIGEST_COLUMNS

PAIRS = [
    folder
    for folder in sorted([*FIXTURES.glob("zoo/*"), *FIXTURES.glob("traps/*")])
    if (folder / "control").exists()
]

Jobs = tuple[list[Line], list[Line]]


@pytest.fixture
def settles(monkeypatch: pytest.MonkeyPatch) -> list[settling.Settled | None]:
    """Settle whatever the size, and tell what was settled."""
    found: list[settling.Settled | None] = []
    real = gating.settle

    def spied(*asked: Any) -> settling.Settled | None:
        found.append(real(*asked))
        return found[-1]

    monkeypatch.setattr(gating, "settle", spied)
    monkeypatch.setattr(opening, "AROUND", 1)
    return found


def _job() -> Jobs:
    """Give a control of 60 steps, and a run that is killed after step 30 and resumed at 25."""
    control = attempt(0, dealt(1, 60), fingerprint={"dataset_samples": 240})
    return control, [
        *attempt(0, dealt(1, 30), fingerprint={"dataset_samples": 240}),
        *attempt(1, dealt(26, 60, at=100), after=(0, 25), fingerprint={"dataset_samples": 240}),
    ]


def _with_epochs(lines: list[Line]) -> list[Line]:
    return [{**one, "epoch": 0} if one["kind"] == "sample" else one for one in lines]


def _swapped(lines: list[Line]) -> list[Line]:
    """Let two steps of the resumed attempt change their samples."""
    return _dealt_as(lines, {40: 50, 50: 40})


def _swapped_around_a_step(lines: list[Line]) -> list[Line]:
    """Let four steps change their samples around one that has fewer than any two of them."""
    return _dealt_as(lines, {40: 43, 41: 44, 43: 40, 44: 41})


def _dealt_as(lines: list[Line], other: dict[int, int]) -> list[Line]:
    ids = {
        (one["step"], one["rank"], one["row"]): one["sample_id"]
        for one in lines
        if one["kind"] == "sample" and one["attempt"] == 1
    }
    return [
        {**one, "sample_id": ids[other[one["step"]], one["rank"], one["row"]]}
        if one["kind"] == "sample" and one["attempt"] == 1 and one["step"] in other
        else one
        for one in lines
    ]


def _replayed(lines: list[Line]) -> list[Line]:
    """Let a step of the resumed attempt use what the first one had used."""
    return [
        {**one, "sample_id": one["rank"] * 2 + one["row"]}
        if one["kind"] == "sample" and one["attempt"] == 1 and one["step"] == 40
        else one
        for one in lines
    ]


@pytest.mark.parametrize("folder", PAIRS, ids=lambda one: str(one.name))
def test_every_real_pair_gets_the_same_report(
    folder: Path, monkeypatch: pytest.MonkeyPatch, settles: list[settling.Settled | None]
) -> None:
    """Whatever could be settled of it: verdict, clauses, outcomes, shift, reach, limits."""
    whole, settled = judged(folder / "control", folder / "run", monkeypatch)

    assert bare(settled) == bare(whole)
    assert len(settles) <= 1


@pytest.mark.parametrize(
    ("change", "verdict", "is_enough"),
    [
        (list, "continuous", True),
        (_swapped, "broken", True),
        (_swapped_around_a_step, "broken", False),
        (_replayed, "broken", False),
    ],
)
def test_only_steps_that_differ_are_opened(
    change: Callable[[list[Line]], list[Line]],
    verdict: str,
    is_enough: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settles: list[settling.Settled | None],
) -> None:
    """All are where a step that is alike would have to move, and where a resume replays."""
    control, ours = _job()
    ledgers = [
        write(tmp_path / "control", _with_epochs(control)),
        write(tmp_path / "run", _with_epochs(change(ours))),
    ]

    whole, settled = judged(*ledgers, monkeypatch)

    assert settled["verdict"] == verdict
    assert settles[0] is not None
    assert not set(settles[0].steps.to_list()) & {40} or change is list
    assert is_settled(settled) is is_enough
    assert bare(settled) == bare(whole)


def test_a_contract_of_places_looks_at_every_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settles: list[settling.Settled | None]
) -> None:
    """A sum cannot see slots, so it settles nothing where they are promised."""
    control, ours = _job()
    ledgers = [write(tmp_path / "control", control), write(tmp_path / "run", ours)]

    whole, settled = judged(*ledgers, monkeypatch, Contract(order="step", placement="kept"))

    assert settles == [None]
    assert settled["stream"] == whole["stream"]


@pytest.mark.parametrize("change", [list, _swapped])
def test_trusted_digests_settle_without_a_record(
    change: Callable[[list[Line]], list[Line]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settles: list[settling.Settled | None],
) -> None:
    """What the writer's commits tell is enough for the same verdict."""
    control, ours = _job()
    ledgers = [
        emit_ledger(_with_epochs(control), tmp_path / "control"),
        emit_ledger(_with_epochs(change(ours)), tmp_path / "run"),
    ]

    whole, settled = judged(*ledgers, monkeypatch, trusts_digests=True)

    assert settles[0] is not None
    assert len(settles[0].steps) > 30
    told, read = bare(settled), bare(whole)
    for part in [*told["resumes"], told["stream"], *read["resumes"], read["stream"]]:
        part["later_epochs"] = []  # digests do not tell passes apart
    assert told == read


@pytest.mark.parametrize("control_tells", [True, False])
def test_a_digest_that_lies_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settles: list[settling.Settled | None],
    control_tells: bool,
) -> None:
    """Equal records with another digest in one commit are corruption, and found."""
    control, ours = _job()
    lies = [
        {**one, "data": {"samples": 2, "digest": "7"}}
        if one["kind"] == "commit" and (one["attempt"], one["step"], one["rank"]) == (1, 45, 0)
        else one
        for one in _with_digests(ours)
    ]
    ledgers = [
        write(tmp_path / "control", _with_digests(control) if control_tells else control),
        write(tmp_path / "run", lies),
    ]

    whole, settled = judged(*ledgers, monkeypatch)

    assert settles[0] is not None
    assert len(settles[0].steps) > 30

    assert whole["verdict"] == settled["verdict"] == "unproven"
    assert "digest-mismatch" in {one["code"] for one in settled["stream"]["limits"]}


def _with_digests(lines: list[Line]) -> list[Line]:
    """Let every commit tell how many records it had and the digest of them."""
    ids: dict[tuple[int, int, int], list[int]] = {}
    for one in lines:
        if one["kind"] == "sample":
            place = one["attempt"], one["rank"], one["step"]
            ids.setdefault(place, []).append(one["sample_id"])
    return [_telling(one, ids) for one in lines]


def _telling(one: Line, ids: dict[tuple[int, int, int], list[int]]) -> Line:
    if one["kind"] == "start":
        return {**one, "data": {**one["data"], "digest_columns": list(DIGEST_COLUMNS)}}
    if one["kind"] == "commit":
        own = ids[one["attempt"], one["rank"], one["step"]]
        summed = digest([pa.array(own), None, None, None, None])
        return {**one, "data": {"samples": len(own), "digest": str(summed)}}
    return one


def test_the_command_settles_and_says_the_same(tmp_path: Path) -> None:
    """`gate --trust-digests` ends with the code of the verdict, and tells that it trusted."""
    control, ours = _job()
    emit_ledger(control, tmp_path / "control")
    emit_ledger(ours, tmp_path / "run")

    paths = tmp_path / "control", tmp_path / "run"
    done = ledger_audit("gate", *paths, "--trust-digests", "--format", "json")

    assert done.code == 0
    assert done.report["options"]["trusts_digests"] is True
