"""Answers a question in pieces, and whole."""

from collections.abc import Sequence
from pathlib import Path

from running import Ran, ledger_audit

Question = Sequence[str | Path]
"""A command with its arguments."""


def pieces_of(question: Question, folder: Path, of: int) -> list[Path]:
    """Answer a question in so many pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number}-{of}" for number in range(1, of + 1)]
    for number, path in enumerate(paths, 1):
        ran = ledger_audit(*question, "--bucket", f"{number}/{of}", "-o", path)
        assert (0, "") == (ran.code, ran.err)
    return paths


def same(question: Question, folder: Path, of: int) -> Ran:
    """Answer it in pieces and whole: the same bytes and the same exit code."""
    found = pieces_of(question, folder / "pieces", of)
    one = ledger_audit(*question, "--format", "json")
    many = ledger_audit("merge", *reversed(found), "--format", "json")
    assert one.out == many.out
    assert (one.code, one.err) == (many.code, many.err)
    return many
