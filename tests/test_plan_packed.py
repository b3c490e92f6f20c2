"""A packed stream goes on by a plan, on other numbers of ranks, to the token."""

from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from conftest import FIXTURES
from emitting import emit_ledger
from native import read_lines
from running import ledger_audit

from ledger_audit import LedgerWriter
from ledger_audit.integrations.plan import steps

CASE = FIXTURES / "zoo" / "megatron-correct"
INDEX = FIXTURES / "index-files" / "before"
CHECKPOINT = 5


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Work out the stream from the index files that the run really read."""
    target = tmp_path_factory.mktemp("packed") / "reference"
    description = next(INDEX.glob("*-description.txt"))
    ran = ledger_audit(
        "reference", "megatron", description, "-o", target, "--world-size", "4",
        "--micro-batch", "1", "--global-batch", "8",
    )  # fmt: skip
    assert 0 == ran.code, ran.err
    return target


def tokens(rows: pl.DataFrame) -> Counter[tuple[int, int]]:
    """Count how often each token of each document is used."""
    spans = rows.select("sample_id", "token_start", "token_end").iter_rows()
    return Counter((one, at) for one, start, end in spans for at in range(start, end))


def follow(plan: Path, ledger: Path, world_size: int) -> None:
    """Resume the dead attempt as the plan says, each rank with a writer of its own."""
    for rank in range(world_size):
        with LedgerWriter(
            ledger, rank=rank, world_size=world_size, attempt="1", run_id="test",
            resumed_from=("0", CHECKPOINT), strict=True,
        ) as writer:  # fmt: skip
            for step, own in steps(plan, rank):
                for one in own:
                    writer.record(
                        step,
                        one.slot,
                        [row.sample_id for row in one.rows],
                        token_start=[row.token_start for row in one.rows],
                        token_end=[row.token_end for row in one.rows],
                        position=[row.position for row in one.rows],
                        row=[row.row for row in one.rows],
                    )
                writer.commit(step)


@pytest.mark.parametrize("world_size", [2, 8, 3])
def test_every_token_is_used_once(world_size: int, reference: Path, tmp_path: Path) -> None:
    """What was committed and what the plan's ranks used is the reference, token by token."""
    ledger, plan = tmp_path / "ledger", tmp_path / "plan"
    dead = [one for one in read_lines(CASE / "run") if str(one["attempt"]) == "0"]
    emit_ledger(dead, ledger)
    made = ledger_audit(
        "plan", ledger, "--checkpoint-step", str(CHECKPOINT), "--world-size", str(world_size),
        "--reference", reference, "-o", plan,
    )  # fmt: skip
    assert 0 == made.code, made.err

    follow(plan, ledger, world_size)

    whole = pl.read_parquet(reference / "attempt=reference" / "samples-*.parquet")
    dealt = pl.read_parquet(plan / "attempt=plan" / "samples-*.parquet")
    before = pl.DataFrame([one for one in dead if one["kind"] == "sample"]).filter(
        pl.col("step") <= CHECKPOINT
    )
    assert tokens(whole) == tokens(before) + tokens(dealt)
    assert set(range(world_size)) == set(dealt["rank"])
    checked = ledger_audit("plan", "--check", plan, ledger, "--reference", reference)
    assert 0 == checked.code, checked.out
    judged = {
        "gate": ledger_audit("gate", plan, ledger, "--format", "json").report,
        "diff": ledger_audit("diff", ledger, "--reference", plan, "--format", "json").report,
    }
    for told in judged.values():
        (resume,) = told["resumes"]
        assert "continuous" == told["verdict"], told["clauses"]
        assert whole.height - before.height == resume["outcomes"]["expected"]["matched"]["records"]
    by_reference = ledger_audit("diff", ledger, "--reference", reference, "--format", "json").report
    assert "continuous" == by_reference["verdict"]
    told = ledger_audit("verify", ledger, "--format", "json").report
    assert not [one for one in told["generations"] if one["repeats"]]
    assert whole.height == sum(one["records"] for one in told["generations"])


def test_a_span_that_is_half_used_goes_on_where_it_stopped(reference: Path, tmp_path: Path) -> None:
    """Of a sequence whose first half was committed, the plan has the other half."""
    ledger, plan = tmp_path / "ledger", tmp_path / "plan"
    lines = [
        one
        for one in read_lines(CASE / "run")
        if str(one["attempt"]) == "0" and (one.get("step") or 0) <= CHECKPOINT
    ]
    cut = next(
        one
        for one in lines
        if one["kind"] == "sample" and one["step"] == CHECKPOINT
        and one["token_end"] - one["token_start"] > 9
    )  # fmt: skip
    cut["token_end"] -= 7
    emit_ledger(lines, ledger)

    made = ledger_audit(
        "plan", ledger, "--checkpoint-step", str(CHECKPOINT), "--world-size", "2",
        "--reference", reference, "-o", plan,
    )  # fmt: skip

    assert 0 == made.code, made.out
    whole = pl.read_parquet(reference / "attempt=reference" / "samples-*.parquet")
    dealt = pl.read_parquet(plan / "attempt=plan" / "samples-*.parquet")
    before = pl.DataFrame([one for one in lines if one["kind"] == "sample"])
    assert tokens(whole) == tokens(before) + tokens(dealt)
    rest = dealt.filter(pl.col("position") == cut["position"])
    assert (cut["sample_id"], cut["token_end"], cut["token_end"] + 7) in rest.select(
        "sample_id", "token_start", "token_end"
    ).rows()
