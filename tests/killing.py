"""Seals copies of a ledger in children that are killed before the n-th change to the disk."""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ledger_audit.ledger.sealing import seal

CHANGES = {"os.link", "os.remove", "os.rename", "os.mkdir", "os.truncate"}


class _Doom:
    """Counts what changes the disk, and dies before the last change that it is granted."""

    def __init__(self, granted: int) -> None:
        self._left = granted

    def pass_by(self) -> None:
        """Count one change."""
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Hear of what the interpreter does."""
        is_new = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if event in CHANGES or is_new:
            self.pass_by()

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Count the calls of a function."""

        def counted(*arguments: Any, **options: Any) -> Any:
            self.pass_by()
            return function(*arguments, **options)

        return counted


def die(root: Path, granted: int) -> None:
    """Seal, as far as so many changes go."""
    doom = _Doom(granted)
    os.fsync = doom.before(os.fsync)
    pq.ParquetWriter.write_table = doom.before(pq.ParquetWriter.write_table)
    pq.ParquetWriter.close = doom.before(pq.ParquetWriter.close)
    sys.addaudithook(doom.hear)
    seal(root, idle=0)


def main(template: Path, target: Path) -> None:
    """Make the folders 0, 1, 2 and so on, each of a seal that came one change further."""
    granted, was_killed = 0, True
    while was_killed:
        root = target / str(granted)
        shutil.copytree(template, root)
        child = os.fork()
        if child == 0:
            die(root, granted)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        was_killed = os.WIFSIGNALED(status)
        assert was_killed or status == 0
        granted += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
