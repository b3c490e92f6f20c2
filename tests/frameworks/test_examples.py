"""Each example is killed inside an accumulation group; its ledger is what forward() saw."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from conftest import ROOT
from launching import EXAMPLES, HERE, Rows, attempts_of, events, seen, spied, used
from running import ledger_audit

pytestmark = pytest.mark.frameworks


def _indices(batch: pl.DataFrame) -> Rows:
    """Give what forward() sees of a batch whose samples are their indices."""
    return [[one] for one in batch["sample_id"]]


def _tokens(batch: pl.DataFrame) -> Rows:
    """Give the tokens of packed sequences, from the spans of documents in them."""
    rows: dict[int, list[float]] = {}
    columns = ("row", "sample_id", "token_start", "token_end")
    for row, document, first, last in batch.select(columns).iter_rows():
        rows.setdefault(row, []).extend((document * 97 + at) % 4998 for at in range(first, last))
    return list(rows.values())


@dataclass(frozen=True)
class Example:
    """A script of the documents, and how it is launched and killed."""

    script: str
    ranks: int
    kill: str
    """In the first of a step's micro-batches, which are two or four."""
    checkpoint: int
    expected: Callable[[pl.DataFrame], Rows] = _indices
    peers: int = 1
    """Processes that share a data-parallel rank."""
    workers: tuple[int | None, ...] = (0, 1)
    is_misused: bool = False
    """`wrong.py` knows how its framework is resumed wrongly."""


ALL = [
    Example("plain_loop.py", 1, "0:25", 10, workers=(None,)),
    Example("torch_ddp.py", 4, "2:25", 10),
    Example("accelerate_loop.py", 2, "1:25", 10, is_misused=True),
    Example("trainer.py", 2, "1:25", 10, is_misused=True),
    Example("lightning_fit.py", 2, "1:25", 10, is_misused=True),
    Example("megatron_loop.py", 4, "2:21", 5, _tokens, peers=2),
]


def _name(example: Example) -> str:
    return Path(example.script).stem


@pytest.fixture(scope="module", params=ALL, ids=_name)
def ran(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Example, Path]:
    """Give an example that ran once without a break, and once killed and resumed."""
    example, root = request.param, tmp_path_factory.mktemp("example")
    script = EXAMPLES / example.script
    whole = spied(example.ranks, script, root / "control", root / "seen-control")
    killed = spied(example.ranks, script, root / "run", root / "seen-0", example.kill)
    shutil.copytree(root / "run", root / "killed")
    resumed = spied(example.ranks, script, root / "run", root / "seen-1")

    assert 0 == whole.returncode, whole.stderr[-4000:]
    assert 0 != killed.returncode
    assert 0 == resumed.returncode, resumed.stderr[-4000:]
    return example, root


def test_the_ledger_is_what_forward_saw(ran: tuple[Example, Path]) -> None:
    """Id by id, or token by token: of the control run, the killed attempt and the resumed one."""
    example, root = ran
    ledgers = {"control": "seen-control", "run": "seen-0"}
    places = [(root / of, attempts_of(root / of / "ledger")[0], log) for of, log in ledgers.items()]
    places.append((root / "run", attempts_of(root / "run" / "ledger")[1], "seen-1"))
    for folder, attempt, log in places:
        records = used(folder / "ledger", attempt)
        saw = seen(root / log)
        assert example.ranks == len(saw)
        assert example.ranks // example.peers == len(records)
        for process, rows in saw.items():
            expected = [example.expected(batch) for batch in records[process // example.peers]]
            _compare(expected, rows, may_miss_one=log == "seen-0")


def _compare(recorded: Sequence[Rows], saw: Sequence[Rows], *, may_miss_one: bool) -> None:
    """Compare batch by batch; a process that was ended may have recorded what it did not use."""
    width = len(recorded[0][0])
    assert [[row[:width] for row in rows] for rows in saw] == recorded[: len(saw)]
    assert len(recorded) - len(saw) in ((0, 1) if may_miss_one else (0,))


def test_the_killed_rank_lost_nothing(ran: tuple[Example, Path]) -> None:
    """It died in the first micro-batch of a step, and the ledger has it, and no more."""
    example, root = ran
    process, count = map(int, example.kill.split(":"))
    attempt = attempts_of(root / "run" / "ledger")[0]
    last = used(root / "run" / "ledger", attempt)[process // example.peers]

    assert count == len(last) == len(seen(root / "seen-0")[process])
    assert [0] == last[-1]["slot"].unique().to_list()


def test_the_resume_is_continuous(ran: tuple[Example, Path]) -> None:
    """By the rolled-back steps, and by the control run."""
    example, root = ran
    ledger = root / "run" / "ledger"
    diff = ledger_audit("diff", ledger, "--format", "json")
    gate = ledger_audit("gate", root / "control" / "ledger", ledger, "--format", "json")

    assert (0, "continuous") == (diff.code, diff.report["verdict"])
    assert (0, "continuous") == (gate.code, gate.report["verdict"])
    assert [example.checkpoint] == [one["checkpoint_step"] for one in diff.report["resumes"]]


def test_the_ledger_tells_how_the_loader_began(ran: tuple[Example, Path]) -> None:
    """Restore, iterator, first record; each worker is named, with a digest of its state."""
    example, root = ran
    ledger = root / "run" / "ledger"
    attempt = attempts_of(ledger)[1]
    workers = {one for all_of in used(ledger, attempt).values() for one in all_of[0]["worker"]}
    restored = {one["rank"]: one["seq"] for one in reversed(events(ledger, attempt, "restore"))}
    made = {one["rank"]: one["seq"] for one in reversed(events(ledger, attempt, "iterator"))}
    digests = {
        int(worker): state
        for one in events(ledger, attempt, "iterator")
        for worker, state in one["fingerprint"].get("worker_states", {}).items()
    }

    assert set(example.workers) >= workers
    assert range(example.ranks // example.peers) == range(len(restored))
    assert all(restored[rank] < made[rank] for rank in restored)
    assert {one for one in example.workers if one is not None} == digests.keys()
    assert all(state["rng"].startswith("sha256:") for state in digests.values())


def test_a_checkpoint_is_known_to_be_fit(ran: tuple[Example, Path]) -> None:
    """Whole on all its writers, with a claim that agrees."""
    _, root = ran
    report = ledger_audit("checkpoints", root / "run" / "ledger", "--format", "json").report
    newest = report["checkpoints"][0]

    assert "yes" == newest["resumable"]
    assert "agrees" == newest["claim"]["agreement"]


@pytest.mark.parametrize("ran", [one for one in ALL if one.is_misused], indirect=True, ids=_name)
def test_a_wrong_resume_is_stopped(ran: tuple[Example, Path]) -> None:
    """What each framework allows and no step counter shows: the guard stops it, diff explains."""
    example, root = ran
    folder, log = root / "killed", root / "seen-wrong"
    wrong = spied(example.ranks, EXAMPLES / example.script, folder, log, through=HERE / "wrong.py")
    diff = ledger_audit("diff", folder / "ledger", "--format", "json")
    attempt = attempts_of(folder / "ledger")[1]

    assert 0 != wrong.returncode
    assert "DivergedError: step 11 is not the one that the failure rolled back" in wrong.stderr
    assert {11} == {one["step"] for one in events(folder / "ledger", attempt, "commit")}
    assert (1, "broken") == (diff.code, diff.report["verdict"])


@pytest.mark.parametrize(
    "script", sorted(one.name for one in EXAMPLES.glob("*.py") if one.name != "ci_job.py")
)
def test_every_example_is_run(script: str) -> None:
    """None is in the documents that is not in this list; `test_ci_page.py` runs the other one."""
    assert script in {one.script for one in ALL}
    assert f"examples/{script}" in (ROOT / "docs" / "integrations.md").read_text()
