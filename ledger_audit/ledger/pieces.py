"""
Files of pieces: what one process found of its share, for another to add up.

A piece is a zip archive: `head.json` says of what it is, and each table is an Arrow file.
"""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ledger_audit.errors import UnreadableError, UsageError
from ledger_audit.ledger.staging import put_whole

SCHEMA = "ledger-audit/piece/1"
_HEAD, _TABLE = "head.json", ".arrow"
_MOST_HEAD = 1 << 24
"""Bytes beyond which a head is none of ours."""


@dataclass(frozen=True)
class Answer:
    """What the samples of one bucket came to."""

    head: Mapping[str, Any]
    """What was asked, for JSON."""
    tables: Mapping[str, pl.DataFrame]
    """By their names."""
    done: str
    """What was counted or looked up, for people."""


def write_piece(path: Path, head: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> None:
    """
    Write a piece whole or not at all; the same piece is the same bytes.

    Raises:
        UsageError: the folder is not there or cannot be written to.
    """
    with put_whole(path, "--output") as whole, zipfile.ZipFile(whole, "w") as archive:
        told = json.dumps({"schema": SCHEMA, **head}, sort_keys=True, ensure_ascii=True)
        archive.writestr(zipfile.ZipInfo(_HEAD), told)
        for name, table in tables.items():
            packed = io.BytesIO()
            table.write_ipc(packed, compression="zstd")
            archive.writestr(zipfile.ZipInfo(f"{name}{_TABLE}"), packed.getvalue())


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


def read_pieces(
    paths: Sequence[Path], told: Mapping[str, Any]
) -> list[tuple[str, dict[str, pl.DataFrame]]]:
    """
    Read the pieces of all buckets.

    Args:
        paths: in any order.
        told: what the head of each must say, as JSON gives it back.

    Returns:
        The name of each, for messages, and its tables.

    Raises:
        UnreadableError: a piece is damaged, or was made of something else.
        UsageError: a piece is missing, or there twice.
    """
    found, numbers, of = [], [], 0
    for path in paths:
        head, tables = read_piece(path)
        number, of = bucket_in(head, path)
        for key, value in told.items():
            if head.get(key) != value:
                raise UnreadableError(
                    f"{path}: {key!r} is {head.get(key)!r:.200}, and now it is {value!r:.200}",
                    hint="make all pieces with one command, and merge them where that still holds",
                )
        numbers.append((number, of))
        found.append((str(path), tables))
    missing = {(number, of) for number in range(1, of + 1)} - {*numbers}
    if missing or len(numbers) != of:
        absent = ", ".join(f"{number}/{total}" for number, total in sorted(missing)[:8])
        raise UsageError(
            f"these are not all pieces of one run: {absent} is missing"
            if missing
            else "a piece is there twice",
            hint="name the piece of every bucket once",
        )
    return found


def bucket_in(head: Mapping[str, Any], path: Path) -> tuple[int, int]:
    """
    Read which bucket a piece is of: its number, and how many there are.

    Raises:
        UnreadableError: the head does not say it.
    """
    told = head.get("bucket")
    is_pair = isinstance(told, list) and len(told) == 2 and all(type(one) is int for one in told)
    if not is_pair or not 1 <= told[0] <= told[1]:  # type: ignore[index]  # it is a pair
        raise UnreadableError(
            f"{path}: 'bucket' is {told!r:.200}", hint="make the piece anew with --bucket"
        )
    return told[0], told[1]  # type: ignore[index]  # it is a pair
