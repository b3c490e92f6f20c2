"""Asks everything that an audit says of a ledger, whatever its files are called."""

import json
import os
import re
from pathlib import Path
from typing import Any

import polars as pl
from running import ledger_audit

from ledger_audit.ledger.opening import open_ledger

LONG_AGO = 1_000_000_000


def audited(root: Path) -> list[Any]:
    """Give exit codes and reports of the judging commands, without the folders of files."""
    told: list[Any] = []
    for arguments in (("diff", "--full", root), ("gate", root, root)):
        ran = ledger_audit(*arguments, "--format", "json")
        text = (ran.out or ran.err).replace(str(root), "LEDGER")
        text = re.sub(r'[^\s"]*/(samples|events)-', r"\1-", text)
        told.append((ran.code, json.loads(text) if ran.out else text))
    return told


def rows_of(root: Path) -> dict[str, tuple[list[Any], list[Any]]]:
    """Give every record and event of every attempt, but for what sealing said itself."""
    ledger = open_ledger([root])
    told = {}
    for attempt in ledger.attempts:
        samples, events = ledger.everything(attempt)
        events = events.filter(pl.col("kind") != "recovered")
        told[attempt] = (_sorted(samples), _sorted(events))
    return told


def _sorted(rows: pl.DataFrame) -> list[Any]:
    return sorted(rows.rows(), key=repr)


def age(root: Path) -> None:
    """Let every file of a ledger be written long ago."""
    for path in root.rglob("*-*.*"):
        os.utime(path, (LONG_AGO, LONG_AGO))


def segments_in(root: Path) -> list[str]:
    """Name the files of a ledger, hidden ones too."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
