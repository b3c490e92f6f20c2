"""
Says where the files of one writer lie, where they go, and whether anybody is at it.

Its lock belongs to the writer and to the shipper that it started, so that a waybill that nobody
holds is that of a writer that is dead, with a shipper that is dead too.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ledger_audit.errors import UsageError
from ledger_audit.ledger.address import place_of

_NAME = ".waybill-{}.json"


@dataclass(frozen=True)
class Waybill:
    """The way of one writer's files."""

    spool: Path
    root: Path
    folder: str
    """The name of the attempt's folder, below both."""
    writer: str
    keeps: bool
    """Local files stay when they have arrived."""

    @property
    def path(self) -> Path:
        """The file that tells it."""
        return self.spool / _NAME.format(self.writer)

    @property
    def source(self) -> Path:
        """The folder that the writer writes into."""
        return self.spool / self.folder

    @property
    def target(self) -> Path:
        """The folder that its files go to."""
        return self.root / self.folder

    @property
    def arrived(self) -> Path:
        """A file that is there once the root was reached; it names the mount that it is on."""
        return self.spool / f".arrived-{self.writer}"

    @property
    def log(self) -> Path:
        """The file that says what went wrong; there is none if nothing did."""
        return self.spool / f"shipper-{self.writer}.log"

    def place(self) -> int:
        """
        Write it, locked from its first moment on.

        Returns:
            The handle that holds the lock, as long as anybody has it open.
        """
        self.spool.mkdir(parents=True, exist_ok=True)
        told = {
            "root": str(self.root),
            "folder": self.folder,
            "writer": self.writer,
            "keeps": self.keeps,
        }
        part = self.path.with_suffix(".part")
        file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(file, json.dumps(told).encode())
            os.replace(part, self.path)
        except BaseException:
            os.close(file)
            raise
        return file

    def clear(self, known: os.stat_result) -> None:
        """Take it away, if it is the one that is known: everything has arrived."""
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self.path), known):
                self.arrived.unlink(missing_ok=True)
                self.path.unlink()
        if not self.keeps:
            with suppress(OSError):  # another writer's files are there
                os.rmdir(self.source)


def read(path: Path) -> Waybill:
    """
    Read a waybill.

    Raises:
        ValueError: it is none.
        OSError: it cannot be read.
    """
    told = json.loads(path.read_text())
    try:
        folder, writer = str(told["folder"]), str(told["writer"])
        found = Waybill(path.parent, place_of(told["root"]), folder, writer, bool(told["keeps"]))
    except (TypeError, KeyError, UsageError) as problem:
        raise ValueError(f"{path}: is no waybill: {problem}") from problem
    if os.sep in folder or os.sep in writer or found.path != path:
        raise ValueError(f"{path}: names files that are not beside it")
    return found


def unclaimed(spool: Path) -> Iterator[tuple[Waybill, int]]:
    """Claim the waybills of dead writers, one after the other; each is held until the next."""
    for path in sorted(spool.glob(_NAME.format("*"))):
        with suppress(OSError, ValueError):
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file), os.stat(path)):
                    yield read(path), file
            finally:
                os.close(file)
