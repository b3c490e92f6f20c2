"""
Files of pieces: what one process found of its share, for another to add up.

A piece is a zip archive: `head.json` says of what it is, and each table is an Arrow file.
"""

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ledger_audit.errors import UnreadableError, UsageError

SCHEMA = "ledger-audit/piece/1"
_HEAD, _TABLE = "head.json", ".arrow"
_MOST_HEAD = 1 << 24
"""Bytes beyond which a head is none of ours."""


def write_piece(path: Path, head: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> None:
    """
    Write a piece whole or not at all; the same piece is the same bytes.

    Raises:
        UsageError: the folder is not there or cannot be written to.
    """
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
                told = json.dumps({"schema": SCHEMA, **head}, sort_keys=True, ensure_ascii=True)
                archive.writestr(zipfile.ZipInfo(_HEAD), told)
                for name, table in tables.items():
                    packed = io.BytesIO()
                    table.write_ipc(packed, compression="zstd")
                    archive.writestr(zipfile.ZipInfo(f"{name}{_TABLE}"), packed.getvalue())
            Path(part).chmod(0o644)
            Path(part).replace(path)
        finally:
            Path(part).unlink(missing_ok=True)
    except OSError as problem:
        raise UsageError(
            f"--output: cannot write {path}: {problem.strerror}",
            hint="name a file in a folder that exists and may be written to",
        ) from problem


def read_piece(path: Path) -> tuple[dict[str, Any], dict[str, pl.DataFrame]]:
    """
    Read the head and the tables of a piece.

    Raises:
        UnreadableError: it is none, or is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(_HEAD).file_size > _MOST_HEAD:
                raise ValueError("its head is too long")
            head = json.loads(archive.read(_HEAD))
            if not isinstance(head, dict) or head.get("schema") != SCHEMA:
                raise ValueError(f"its schema is not {SCHEMA}")
            tables = {
                name.removesuffix(_TABLE): pl.read_ipc(archive.read(name), use_pyarrow=False)
                for name in archive.namelist()
                if name.endswith(_TABLE)
            }
    except OSError as problem:
        raise UnreadableError(
            f"{path}: cannot be read: {problem.strerror}", hint="name what --output wrote"
        ) from problem
    except (
        zipfile.BadZipFile,
        KeyError,
        ValueError,
        RecursionError,
        RuntimeError,  # a member is encrypted
        NotImplementedError,
        EOFError,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
    ) as problem:
        raise UnreadableError(
            f"{path}: is no piece: {problem}", hint="name what --output wrote, or make it anew"
        ) from problem
    return head, tables
