"""`preflight`: what could be proven if the job died now, and what is missing for the rest."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from running import ledger_audit

from ledger_audit import audit, survey
from ledger_audit.continuity.contract import Bound, Contract, Fingerprints, Minimum, Ranks
from ledger_audit.model import Report, Verdict

Line = dict[str, Any]

RANKS, SLOTS, CHECKPOINT = 3, 2, 4
SAMPLES_IN_A_PASS = 1_000

CONTRACTS = {
    "default": Contract(),
    "placement": Contract(placement="kept"),
    "ranks": Contract(ranks=Ranks(may_change=False)),
    "two ranks": Contract(ranks=Ranks(sampled=(0, 1))),
    "minimum": Contract(minimum=Minimum(reference_steps=2)),
    "seed": Contract(fingerprint=Fingerprints(must_match=("seed",))),
    "restored": Contract(fingerprint=Fingerprints(restore_first=True)),
    "tokens": Contract(promise="bounded-replay", bounded_replay=Bound(tokens=10)),
    "drawn": Contract(promise="resampled"),
}


@dataclass(frozen=True)
class Lack:
    """What a ledger does not have."""

    columns: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    ranks: frozenset[int] = frozenset()
    logs_some: bool = False
    """Rank 0 alone writes a ledger, and start events say so."""
    lost_steps: int = 3
    """Steps that the failure rolled back."""


COLUMNS = ("epoch", "position", "source", "token")
KINDS = ("start", "commit", "checkpoint", "iterator", "end")  # a first launch restores nothing
KEYS = ("dataset_samples", "seed", "workers", "world_size")

lacks = st.builds(
    Lack,
    columns=st.frozensets(st.sampled_from(COLUMNS)),
    kinds=st.frozensets(st.sampled_from(KINDS), max_size=2),
    keys=st.frozensets(st.sampled_from(KEYS)),
    ranks=st.frozensets(st.sampled_from(range(RANKS)), max_size=2),
    logs_some=st.booleans(),
    lost_steps=st.sampled_from([0, 2, 3]),  # of one step alone, positions show no hole
)


def job(lack: Lack) -> tuple[list[Line], list[Line]]:
    """Give the lines of an attempt that dies, and of one that resumes it as it should."""
    last = CHECKPOINT + lack.lost_steps
    dead = [line for rank in range(RANKS) for line in _attempt(lack, 0, rank, 1, last)]
    alive = [
        line for rank in range(RANKS) for line in _attempt(lack, 1, rank, CHECKPOINT + 1, last + 1)
    ]
    return dead, alive


def _attempt(lack: Lack, attempt: int, rank: int, first: int, last: int) -> list[Line]:
    if rank in lack.ranks or (lack.logs_some and rank):
        return []
    start: Line = {"world_size": RANKS, "resumed_from": None}
    if attempt:
        start["resumed_from"] = {"attempt": 0, "step": CHECKPOINT}
    start["fingerprint"] = {"seed": 7, "dataset_samples": SAMPLES_IN_A_PASS, "workers": 0}
    for key in lack.keys:
        start.pop(key, None)
        start["fingerprint"].pop(key, None)
    if lack.logs_some:
        start["logged_ranks"] = [0]
    lines: list[Line] = [{"kind": "start", "data": start}]
    seen = {"fingerprint": {"seed": 7}}
    lines += [{"kind": "restore", "data": seen}] * bool(attempt)
    lines += [{"kind": "iterator", "data": seen}]
    for step in range(first, last + 1):
        for slot in range(SLOTS):
            lines.append({"kind": "sample", **_sample(step, slot, rank, lack)})
        lines.append({"kind": "commit", "step": step, "data": {"samples": SLOTS}})
        if step == CHECKPOINT:
            lines.append({"kind": "checkpoint", "step": step, "data": {"phase": "complete"}})
    kept = [line for line in lines if line["kind"] not in lack.kinds]
    return [{"attempt": attempt, "rank": rank, **line} for line in kept]


def _sample(step: int, slot: int, rank: int, lack: Lack) -> Line:
    position = ((step - 1) * SLOTS + slot) * RANKS + rank
    whole = {
        "step": step,
        "slot": slot,
        "row": 0,
        "sample_id": position * 37 % SAMPLES_IN_A_PASS,
        "epoch": 0,
        "position": position,
        "source": "web",
        "token_start": 0,
        "token_end": 16,
    }
    return (
        {name: value for name, value in whole.items() if not name.startswith(tuple(lack.columns))}
        if lack.columns
        else whole
    )


def write(folder: Path, *attempts: list[Line]) -> Path:
    """Write attempts as JSON Lines."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, lines in enumerate(attempts):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"attempt{number}.jsonl").write_text(text)
    return folder


def unproven(report: Report) -> set[str]:
    """Name the clauses that are not proven."""
    return {str(one.clause) for one in report.clauses if one.verdict == Verdict.UNPROVEN}


@given(lack=lacks, terms=st.sampled_from(sorted(CONTRACTS)))
@settings(max_examples=60, deadline=None)
def test_what_is_taken_away_blocks_in_preflight_what_it_blocks_in_the_audit(
    lack: Lack, terms: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Clauses that preflight calls not provable are those that a real resume leaves unproven."""
    folder = tmp_path_factory.mktemp("job")
    dead, alive = job(lack)
    if not dead:
        return
    contract = CONTRACTS[terms].with_terms(default="relative")
    before = survey.preflight(
        [write(folder / "before", dead)], contract=contract, checkpoint_step=CHECKPOINT
    )

    after = audit.diff([write(folder / "after", dead, alive)], contract=contract)

    assert after.verdict != Verdict.BROKEN
    assert unproven(before) == unproven(after)


@pytest.mark.parametrize(
    ("lack", "evidence", "presence", "blocks"),
    [
        (Lack(), "ranks ledgers", "there", []),
        (Lack(ranks=frozenset({2})), "ranks ledgers", "partly", ["promise", "order", "unexpected"]),
        (Lack(logs_some=True), "ranks ledgers", "partly", ["promise"]),
        (Lack(kinds=frozenset({"commit"})), "event commit", "absent", []),
        (Lack(columns=frozenset({"position"})), "column position", "absent", []),
        (
            Lack(columns=frozenset({"position"}), lost_steps=0),
            "column position",
            "absent",
            ["promise", "order", "unexpected"],
        ),
        (
            Lack(kinds=frozenset({"start"})),
            "event start",
            "absent",
            ["promise", "order", "unexpected", "drift"],
        ),
    ],
)
def test_the_stock_says_what_is_there_and_what_its_lack_blocks(
    lack: Lack, evidence: str, presence: str, blocks: list[str], tmp_path: Path
) -> None:
    """Every kind of evidence is named, there or not, with the clauses that its lack blocks."""
    ran = ledger_audit("preflight", write(tmp_path / "run", job(lack)[0]), "--format", "json")

    found = {f"{one['kind']} {one['name']}": one for one in ran.report["evidence"]}
    assert found[evidence]["presence"] == presence
    assert found[evidence]["blocks"] == blocks
    assert ran.code == (3 if blocks else 0)


def test_right_after_a_checkpoint_the_reason_names_its_step(tmp_path: Path) -> None:
    """Without positions nothing could be judged yet, and the report says that it is too early."""
    lack = Lack(columns=frozenset({"position"}), lost_steps=0)

    ran = ledger_audit("preflight", write(tmp_path / "run", job(lack)[0]))

    assert ran.code == 3
    told = "no whole step was done after step 4 yet: there is no lost work to judge skips by"
    assert told in " ".join(ran.out.split())
    assert "Run preflight again a few steps after the checkpoint" in " ".join(ran.out.split())


def test_without_a_checkpoint_event_a_step_is_assumed(tmp_path: Path) -> None:
    """The attempt's middle stands for a checkpoint, and the report says that it is assumed."""
    lines = job(Lack(kinds=frozenset({"checkpoint"})))[0]

    ran = ledger_audit("preflight", write(tmp_path / "run", lines))

    assert "from step 3, assumed: no checkpoint event says where" in ran.out
    assert ran.code == 0


def test_a_step_that_the_attempt_never_reached_is_refused(tmp_path: Path) -> None:
    """A checkpoint step outside of the newest attempt is a usage error that names its steps."""
    run = write(tmp_path / "run", job(Lack())[0])

    ran = ledger_audit("preflight", run, "--checkpoint-step", "90")

    assert ran.code == 2
    assert "--checkpoint-step 90: attempt 0 has the steps 1 to 7" in ran.err


def test_a_ledger_without_a_step_has_nothing_to_resume_from(tmp_path: Path) -> None:
    """Start events alone prove nothing: exit code 3, and what to do."""
    start = [line for line in job(Lack())[0] if line["kind"] == "start"]

    ran = ledger_audit("preflight", write(tmp_path / "run", start))

    assert ran.code == 3
    assert "Run preflight again once the job has committed a few steps." in ran.out


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_many_ranks_that_are_missing_squeeze_no_table(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, what a piece of evidence is for can be read beside it."""
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = tiny.attempt(0, tiny.dealt(1, 4, ranks=60), fingerprint={"dataset_samples": 1000})
    root = tiny.write(tmp_path / "run", [one for one in lines if one["rank"] % 3])

    told = ledger_audit("preflight", root).out

    table = told.partition("  evidence ")[2].partition("\n\n")[0]
    assert "not ranks 0,3,6,9,12,15 and 14 more ranges; every rank's lane is judged" in " ".join(
        table.split()
    )
    assert 12 < len(table.splitlines()) < 40
