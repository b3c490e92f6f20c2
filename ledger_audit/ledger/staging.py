"""Puts things in their place whole or not at all; an attempt never over one that is there."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from urllib.parse import unquote

from ledger_audit.errors import UsageError
from ledger_audit.ledger.address import is_text


def check_target(target: Path, labels: set[str]) -> None:
    """
    Refuse to write attempts where something stands in the way.

    Args:
        target: a ledger's folder, or where one is to be.
        labels: the attempts that it is to get.

    Raises:
        UsageError: it is no ledger, or it has such an attempt already.
    """
    if not is_text(target.absolute()):
        raise UsageError(
            f"{target}: the name is no UTF-8, which Parquet's writer asks for",
            hint="name the ledger, and the folders that it is in, in UTF-8",
        )
    if not target.parent.is_dir():
        raise UsageError(
            f"{target}: its folder does not exist", hint="make the folder that holds the ledger"
        )
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise UsageError(f"{target}: is no folder", hint="name a new ledger")
    entries = [path.name for path in target.iterdir() if not path.name.startswith(".")]
    there = {unquote(name.removeprefix("attempt=")) for name in entries if "attempt=" in name[:8]}
    if entries and not there:
        raise UsageError(
            f"{target}: is no ledger: it holds {entries[0]}",
            hint="name a new folder, or a ledger that is to get another attempt",
        )
    if twice := sorted(there & labels):
        raise UsageError(
            f"{target}: has the attempt {twice[0]} already, and nothing is overwritten",
            hint="give another label with --attempt, or name a new ledger",
        )


@contextmanager
def put_whole(path: Path, flag: str) -> Iterator[Path]:
    """
    Give a file in a hidden folder to write, which is then put in the place of another, or is gone.

    Args:
        path: of the file that is to be there, whole or not at all.
        flag: the option that named it, for messages.

    Raises:
        UsageError: the folder is not there or cannot be written to.
    """
    try:
        with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            whole = Path(folder) / "whole"
            yield whole
            whole.chmod(0o644)
            whole.replace(path)
    except OSError as problem:
        raise UsageError(
            f"{flag}: cannot write {path}: {problem.strerror}",
            hint="name a file in a folder that exists and may be written to",
        ) from problem


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """
    Give a hidden folder beside the target to write attempts into; it is gone afterwards.

    Raises:
        UsageError: it cannot be written to.
    """
    stage = target.parent / f".{target.name[:40]}.{token_hex(8)}.part"  # known before it is there
    try:
        (stage / "ledger").mkdir(parents=True)
        yield stage / "ledger"
    except OSError as problem:
        raise UsageError(
            f"{target}: cannot be written: {problem.strerror or problem}",
            hint="nothing was left behind; make room, or name a folder that may be written to",
        ) from problem
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def publish(folder: Path, target: Path) -> None:
    """Move all attempts from a staged folder into the target, or none of them."""
    if not os.path.lexists(target):
        folder.rename(target)
        return
    names = sorted(path.name for path in folder.iterdir())
    try:
        for name in names:
            (folder / name).rename(target / name)  # fails where an attempt with files is
    except BaseException:
        for name in names:
            if not (folder / name).exists():  # it was moved already
                shutil.rmtree(target / name, ignore_errors=True)
        raise
