"""Ends of tries that are remembered: the answers of reading, with less of it."""

from pathlib import Path

import polars as pl
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from ledger_audit import audit, sources
from ledger_audit.ledger import remembered
from ledger_audit.ledger.reader import Ledger

ROWS = {
    label: pl.DataFrame({"step": [step for step in range(1, most) for _ in range(2)]})
    for label, most in (("a", 20), ("b", 8), ("", 1))
}
ASKED = st.tuples(st.sampled_from(sorted(ROWS)), st.integers(0, 22), st.none() | st.integers(0, 22))


def read(attempt: str, first: int, last: int | None) -> pl.DataFrame:
    """Read the steps of an attempt."""
    return ROWS[attempt].filter(pl.col("step").is_between(first, 99 if last is None else last))


@given(st.lists(ASKED, max_size=12), st.integers(0, 60))
def test_whatever_is_asked_the_answer_is_that_of_reading(
    asked: list[tuple[str, int, int | None]], most: int
) -> None:
    """In any order, with room for all, some or none of it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(remembered, "MOST", most)
        found = remembered.Remembered(read)
        for one in asked:
            assert found.tries(*one).equals(read(*one))
        assert sum(kept.rows.height for kept in found._kept.values()) <= most


def test_a_whole_run_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gate` of two runs that were never resumed reads the ends of tries once of each."""
    monkeypatch.setattr(sources, "ROWS", 0)
    roots = [
        tiny.write(tmp_path / name, tiny.attempt(0, tiny.dealt(1, 40)))
        for name in ("control", "run")
    ]
    real, asked = Ledger.tries, []

    def spied(ledger: Ledger, attempt: str, first: int, last: int | None = None) -> pl.DataFrame:
        asked.append((ledger.name, attempt))
        return real(ledger, attempt, first, last)

    monkeypatch.setattr(Ledger, "tries", spied)
    report = audit.gate([roots[0]], [roots[1]])

    assert report.verdict == "continuous"
    assert sorted((str(root), "0") for root in roots) == sorted(one for one in asked if one[1])
