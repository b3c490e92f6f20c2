"""What a LEDGER argument stands for: a path, or all that matches a pattern."""

import json
from pathlib import Path

import pytest
from conftest import FIXTURES
from native import read_lines
from running import ledger_audit

from ledger_audit.ledger import matching
from ledger_audit.ledger.opening import open_ledger

OLMO = FIXTURES / "foreign" / "olmo-data-indices"
RUN = FIXTURES / "zoo" / "torch-ddp-partial-accum" / "run"
HEAD = "rank,step,slot,sample_id\n"


def ids_of(*roots: Path) -> list[object]:
    """Give every id of the one attempt of a log."""
    return open_ledger(roots).everything("0")[0]["sample_id"].to_list()


def test_a_pattern_is_one_log() -> None:
    """What a quoted pattern matches is read as one log, on either side and with every command."""
    after = ("--post", OLMO / "after", "--checkpoint-step", "6")

    folder = ledger_audit("diff", OLMO / "before", *after)
    for pattern in ("before/*", "before/rank?.tsv.gz", "bef*/rank[01].tsv.gz", "**/before/**"):
        assert folder.out == ledger_audit("diff", OLMO / pattern, *after).out
    assert 0 == ledger_audit("gate", OLMO / "be*", OLMO / "**" / "before" / "r*").code
    assert 0 == ledger_audit("show", OLMO / "before" / "*.gz", "--step", "3").code


def test_a_pattern_of_ledgers_is_one_ledger(tmp_path: Path) -> None:
    """Folders of ledgers that match are roots of one ledger."""
    for rank in range(4):
        root = tmp_path / f"node{rank}"
        for attempt in (0, 1):
            lines = [
                json.dumps(one) + "\n"
                for one in read_lines(RUN)
                if (one["rank"], one["attempt"]) == (rank, attempt)
            ]
            (tmp_path / "log.jsonl").write_text("".join(lines))
            assert 0 == ledger_audit("convert", tmp_path / "log.jsonl", "-o", root).code

    whole = ledger_audit("diff", RUN, "--format", "json").report
    parts = ledger_audit("diff", tmp_path / "node*", "--format", "json").report

    assert whole["resumes"] == parts["resumes"]


@pytest.mark.parametrize("pattern", ["*.csv", "no/such/*", "**/x.jsonl", "[a", "a[!a]?"])
def test_a_pattern_that_matches_nothing_is_refused(pattern: str, tmp_path: Path) -> None:
    """No match is no empty log."""
    ran = ledger_audit("diff", tmp_path / pattern)

    assert 4 == ran.code
    assert "matches nothing as a pattern" in ran.err
    assert str(tmp_path / pattern) in ran.err


def test_a_path_that_exists_is_no_pattern(tmp_path: Path) -> None:
    """A name with brackets is that file."""
    for name in ("log[0].csv", "log0.csv"):
        (tmp_path / name).write_text(f"{HEAD}0,1,0,{len(name)}\n")

    assert [len("log[0].csv")] == ids_of(tmp_path / "log[0].csv")


def test_what_is_named_twice_counts_once(tmp_path: Path) -> None:
    """A folder and a pattern that lead to the same file give its records once."""
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.csv").write_text(f"{HEAD}0,1,0,7\n")
    (tmp_path / "link.csv").symlink_to(folder / "a.csv")
    (folder / ".a.csv").write_text(f"{HEAD}0,1,0,8\n")

    assert [7] == ids_of(folder / "a.csv", folder / "*", tmp_path / "**", tmp_path / "*.csv")


def test_a_pattern_that_matches_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of matches has an end."""
    monkeypatch.setattr(matching, "MOST_MATCHES", 3)
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text(f"{HEAD}0,{number + 1},0,7\n")

    ran = ledger_audit("diff", tmp_path / "*")

    assert 4 == ran.code
    assert "matches more than 3 paths" in ran.err
