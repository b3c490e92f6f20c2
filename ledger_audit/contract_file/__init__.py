"""
Reads a contract from a TOML file, and tells all that is wrong with it at once.

The terms stand at the top of a file of their own, `contract.toml`, or in `pyproject.toml` under
`[tool.ledger-audit]`. What they may be is said by the classes of `continuity.contract`.
"""

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from ledger_audit.continuity.contract import Contract
from ledger_audit.contract_file.checking import checked
from ledger_audit.errors import UsageError
from ledger_audit.printable import counted

CONTRACT, PROJECT = "contract.toml", "pyproject.toml"
TABLE = ("tool", "ledger-audit")
"""Where the terms stand in a `pyproject.toml`."""

MOST_BYTES = 1 << 24
"""More than the ranks of the largest job take, one by one; what a path gives is not read on."""

MOST_MISTAKES = 50
"""Mistakes that are told; the rest is counted."""

_HINT = "docs/contract.md describes every term; `ledger-audit init LEDGER -o -` writes them all"
_NAMES_TABLE = re.compile(
    r"^\s*\[{0,2}\s*[\"']?tool[\"']?\s*\.\s*[\"']?ledger-audit\b", re.MULTILINE
)
_LOCATED = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


def read_contract(path: Path) -> Contract:
    """
    Read a contract.

    Relative paths in it are relative to its folder; `Contract.file` is the path as given.

    Raises:
        UsageError: the file cannot be read or is no TOML, or terms are wrong: `details` has one
            line for each mistake, unless there is only one.
    """
    terms = _parsed(_text(path), path)
    table = TABLE if path.name == PROJECT else ()
    terms = _within(terms, table)
    if terms is None:
        raise UsageError(
            f"{path}: has no table [tool.ledger-audit]",
            hint=f"put the terms there, or name a file that has them at its top: {CONTRACT}",
        )
    contract, mistakes = checked(terms, path.parent, table)
    lines = [f"{path}: {one}" for one in mistakes]
    if contract is None or lines:
        head = lines.pop() if len(lines) == 1 else f"{path}: {counted(len(lines), 'mistake')}"
        if len(lines) > MOST_MISTAKES:
            lines[MOST_MISTAKES:] = [f"and {len(lines) - MOST_MISTAKES:,} more"]
        raise UsageError(head, hint=_HINT, details=lines)
    return replace(contract, file=str(path))


def find_contract() -> Path | None:
    """
    Find the contract of the working directory; null: there is none.

    Raises:
        UsageError: there are two, or the `pyproject.toml` that holds it is no TOML.
    """
    own, project = Path(CONTRACT), Path(PROJECT)
    terms = project_terms()
    if not own.exists():
        return None if terms is None else project
    if terms:
        raise UsageError(
            f"{own} and [tool.ledger-audit] in {project} both hold terms",
            hint=f"keep one of the two, or name one: --contract {own}",
        )
    return own


def project_terms() -> Any:
    """
    Give what the `pyproject.toml` of the working directory has under `[tool.ledger-audit]`.

    Null: nothing, or the file cannot be read. Other tools have it for theirs: if it is no TOML,
    that is told only where a line of it names the table.

    Raises:
        UsageError: it is no TOML, and names the table.
    """
    path = Path(PROJECT)
    if not path.is_file():
        return None
    try:
        text = _text(path)
    except UsageError:
        return None
    try:
        return _within(_parsed(text, path), TABLE)
    except UsageError:
        if _NAMES_TABLE.search(text) is None:
            return None
        raise


def _within(terms: Any, table: tuple[str, ...]) -> Any:
    for name in table:
        terms = terms.get(name) if isinstance(terms, dict) else None
    return terms


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            found = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as problem:  # a path with a NUL in it is no value
        why = getattr(problem, "strerror", None) or "it is no path"
        raise UsageError(
            f"{path}: cannot be read: {why}",
            hint="--contract names a TOML file; `ledger-audit init LEDGER` writes one",
        ) from problem
    if len(found) > MOST_BYTES:
        raise UsageError(
            f"{path}: is longer than {MOST_BYTES >> 20} MiB",
            hint="a contract is a few lines of TOML: this is another file",
        )
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = found.count(b"\n", 0, problem.start) + 1
        raise UsageError(
            f"{path}: line {line}: is not UTF-8", hint="TOML is UTF-8: save the file as such"
        ) from problem


def _parsed(text: str, path: Path) -> Any:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        located = _LOCATED.fullmatch(str(problem))
        what = "is nested too deep, or holds a number that is too long"
        if located is not None:
            lines = text.replace("\r\n", "\n").split("\n")
            line, column = located[2] or len(lines), located[3] or len(lines[-1]) + 1
            what = (
                f"line {line}, column {column}: no TOML: {located[1][:1].lower()}{located[1][1:]}"
            )
        raise UsageError(
            f"{path}: {what}", hint="mend it there: docs/contract.md has examples"
        ) from problem
