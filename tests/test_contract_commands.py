"""Contracts on the command line: found, named, overridden; judged by every command that judges."""

import json
from pathlib import Path

import pytest
from conftest import FIXTURES
from running import ledger_audit
from test_contract_terms import replaying
from tiny import attempt, dealt, write

CLEAN = [
    outcomes.parent.name
    for outcomes in sorted((FIXTURES / "zoo").glob("*/outcomes.json"))
    if json.loads(outcomes.read_text())["diff"][0]["verdict"] == "continuous"
]


@pytest.mark.parametrize("name", CLEAN)
def test_a_drafted_contract_never_breaks_a_clean_run(name: str, tmp_path: Path) -> None:
    """What init writes from a clean run holds for that run, in diff and in gate."""
    folder = FIXTURES / "zoo" / name
    contract = tmp_path / "contract.toml"
    assert ledger_audit("init", folder / "run", "-o", contract).code == 0

    drafted = ledger_audit("diff", folder / "run", "--contract", contract, "--format", "json")
    plain = ledger_audit("diff", folder / "run", "--format", "json")

    assert drafted.code == plain.code == 0, drafted.report["clauses"]


def test_the_contract_of_the_working_directory_is_used_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A contract.toml beside the user is found, told in the report, and left out by a flag."""
    run = write(tmp_path / "run", replaying(4))
    monkeypatch.chdir(tmp_path)
    terms = 'promise = "bounded-replay"\n[bounded_replay]\nsamples = 4\n'
    (tmp_path / "contract.toml").write_text(terms)

    found = ledger_audit("diff", run)
    assert found.code == 0
    assert "contract  contract.toml" in found.out
    assert ledger_audit("diff", run, "--no-contract").code == 1

    (tmp_path / "contract.toml").rename(tmp_path / "elsewhere.toml")
    assert ledger_audit("diff", run).code == 1
    assert ledger_audit("diff", run, "--contract", "elsewhere.toml").code == 0
    (tmp_path / "pyproject.toml").write_text(
        "[tool.ledger-audit]\n" + terms.replace("[bounded", "[tool.ledger-audit.bounded")
    )
    assert ledger_audit("diff", run).code == 0


def test_flags_beat_the_contract(tmp_path: Path) -> None:
    """`--order` and `--allow-unproven` change the terms of the file."""
    swapped = dict(zip(range(5, 8), [*dealt(5, 7).values()][::-1], strict=True))
    dead = attempt(0, dealt(1, 7))
    run = write(tmp_path / "run", [*dead, *attempt(1, swapped, after=(0, 4))])
    contract = tmp_path / "contract.toml"
    contract.write_text('order = "relative"\n')

    assert ledger_audit("diff", run, "--contract", contract).code == 1
    assert ledger_audit("diff", run, "--contract", contract, "--order", "none").code == 0
    contract.write_text('promise = "resampled"\n')
    refused = ledger_audit("diff", run, "--contract", contract, "--order", "step")
    assert refused.code == 2
    assert "the contract lets samples be drawn anew, in no order" in refused.err


def test_every_reason_is_told_in_the_report(tmp_path: Path) -> None:
    """Allowances of findings, limits and changes print why, in every form of the report."""
    lines = [line for line in replaying(4, fingerprint={"seed": 2}) if line["kind"] != "end"]
    for line in lines:
        if line["kind"] == "start" and line["attempt"] == 0:
            line["data"] = {**line["data"], "fingerprint": {"seed": 1}}
    run = write(tmp_path / "run", lines)
    contract = tmp_path / "contract.toml"
    contract.write_text(
        '[fingerprint]\nmust_match = ["seed"]\n'
        '[[allow]]\nfinding = "replayed"\nat_most = 4\nreason = "first reason"\n'
        '[[allow]]\nlimit = "no-later-epoch"\nreason = "second [red]reason[/red]"\n'
        '[[allow]]\nchange = "seed"\nreason = "third reason"\n'
    )

    told = ledger_audit("diff", run, "--contract", contract)

    assert told.code == 0, told.out
    for reason in ("first reason", "second [red]reason[/red]", "third reason"):
        assert reason in " ".join(told.out.split())


def test_forbidden_samples_break_a_ledger_that_was_never_resumed(tmp_path: Path) -> None:
    """Without a resume to judge, a hit is a hit: exit code 1, and the list is named."""
    run = write(tmp_path / "run", attempt(0, dealt(1, 7)))
    (tmp_path / "ids.txt").write_text("5\n99999\n")
    contract = tmp_path / "contract.toml"
    contract.write_text('[[forbid]]\nfile = "ids.txt"\nname = "held back"\n')

    told = ledger_audit("diff", run, "--contract", contract)

    assert told.code == 1
    assert told.out.startswith("BROKEN in the clause forbidden\n")
    assert "1 record of 'held back' since attempt 0" in told.out
    (tmp_path / "ids.txt").write_text("99999\n")
    assert ledger_audit("diff", run, "--contract", contract).code == 3


def test_preflight_looks_for_what_the_contract_forbids(tmp_path: Path) -> None:
    """What is in the weights already is told before anything fails."""
    run = write(tmp_path / "run", attempt(0, dealt(1, 7)))
    (tmp_path / "ids.txt").write_text("5\n")
    contract = tmp_path / "contract.toml"
    contract.write_text('[[forbid]]\nfile = "ids.txt"\n')

    told = ledger_audit("preflight", run, "--contract", contract)

    assert told.code == 1
    assert "BROKEN ALREADY" in told.out
    (tmp_path / "ids.txt").write_text("99\n")
    assert ledger_audit("preflight", run, "--contract", contract).code == 0


def test_an_allowance_holds_forbidden_samples_up_to_its_number(tmp_path: Path) -> None:
    """Known leaks are told with the reason, and break nothing while there are no more of them."""
    lines = [*attempt(0, dealt(1, 7)), *attempt(1, dealt(5, 9), after=(0, 4))]
    run = write(tmp_path / "run", lines)
    (tmp_path / "ids.txt").write_text("1\n2\n")
    contract = tmp_path / "contract.toml"
    terms = '[[forbid]]\nfile = "ids.txt"\n[[allow]]\nfinding = "forbidden"\nat_most = {}\n'
    terms += 'reason = "found in March"\n'

    contract.write_text(terms.format(2))
    assert ledger_audit("diff", run, "--contract", contract).code == 0
    contract.write_text(terms.format(1))
    assert ledger_audit("diff", run, "--contract", contract).code == 1


def forbidding(folder: Path, *names: str, more: str = "") -> Path:
    """Write a contract that forbids lists of ids beside it."""
    contract = folder / "contract.toml"
    lists = "".join(f'[[forbid]]\nfile = "{name}.txt"\n' for name in names)
    contract.write_text(lists + more)
    return contract


def test_forbidden_samples_of_a_lineage_that_is_only_assumed_are_unproven(tmp_path: Path) -> None:
    """Where nothing says who resumed from where, neither a hit nor its absence is trusted."""
    lines = [*attempt(0, dealt(1, 7)), *attempt(1, dealt(5, 9), after=(0, 4))]
    run = write(tmp_path / "run", [line for line in lines if line["kind"] != "start"])
    for name, ids in (("hit", "8\n"), ("none", "9999\n")):
        (tmp_path / f"{name}.txt").write_text(ids)
        contract = forbidding(tmp_path, name)
        told = ledger_audit("diff", run, "--contract", contract, "--format", "json")
        assert told.code == 3
        clause = next(one for one in told.report["clauses"] if one["clause"] == "forbidden")
        assert clause["verdict"] == "unproven"


def test_an_allowed_hit_does_not_hide_missing_evidence(tmp_path: Path) -> None:
    """Known leaks are allowed, and a rank that left nothing still leaves the clause unproven."""
    lines = [*attempt(0, dealt(1, 7)), *attempt(1, dealt(5, 9), after=(0, 4))]
    run = write(tmp_path / "run", [line for line in lines if line["rank"] == 0])
    (tmp_path / "hit.txt").write_text("4\n")
    more = '[[allow]]\nfinding = "forbidden"\nat_most = 9\nreason = "known"\n'
    contract = forbidding(tmp_path, "hit", more=more)

    told = ledger_audit("diff", run, "--contract", contract, "--format", "json")

    clause = next(one for one in told.report["clauses"] if one["clause"] == "forbidden")
    assert clause["verdict"] == "unproven"


def test_an_allowance_counts_the_records_of_one_attempt_over_all_lists(tmp_path: Path) -> None:
    """Six records against two lists are more than four, in the resume and in the report."""
    lines = [*attempt(0, dealt(1, 7)), *attempt(1, dealt(5, 9), after=(0, 4))]
    run = write(tmp_path / "run", lines)
    (tmp_path / "a.txt").write_text("20\n21\n22\n")
    (tmp_path / "b.txt").write_text("23\n24\n25\n")
    more = '[[allow]]\nfinding = "forbidden"\nat_most = {}\nreason = "known"\n'
    for most, code in ((4, 1), (6, 0)):
        contract = forbidding(tmp_path, "a", "b", more=more.format(most))
        told = ledger_audit("diff", run, "--contract", contract, "--format", "json")
        clause = next(one for one in told.report["clauses"] if one["clause"] == "forbidden")
        assert (told.code, clause["verdict"]) == (code, "broken" if code else "continuous")


def test_what_is_forbidden_in_training_is_not_forbidden_in_evaluation(tmp_path: Path) -> None:
    """The contract of the working directory does not hold the eval stream against itself."""
    rows = dealt(1, 7)
    lines = [*attempt(0, rows), *attempt(1, dealt(5, 9), after=(0, 4))]
    shown = {step: [[{"sample_id": 900 + step}]] for step in range(1, 10)}
    evals = [
        {**line, "attempt": int(line["step"] > 4)}
        for line in attempt(0, shown, stream="eval")
        if line["kind"] == "sample"
    ]
    run = write(tmp_path / "run", lines, evals)
    contract = tmp_path / "contract.toml"
    contract.write_text('held_out = ["eval"]\n')

    told = ledger_audit("diff", run, "--contract", contract, "--stream", "eval", "--format", "json")

    assert "forbidden" not in {one["clause"] for one in told.report["clauses"]}
    assert ledger_audit("diff", run, "--contract", contract).code == 0
