"""
Gives the lines of a text log, plain or gzip, one at a time, and says whether its end is missing.

A packed log is never unpacked as a whole: what is held is one line and a buffer.
"""

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger_audit.errors import UnreadableError

LONGEST_LINE = 1 << 26
"""Bytes of a line; more is no log, or a small file that unpacks to something that fills memory."""

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"


class Lines:
    """
    The lines of a text log, with their ends.

    Args:
        path: the file; with the suffix `.gz` it is unpacked, one member after the other.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_packed = path.suffix.lower() == ".gz"
        self.is_cut = False
        """Known after the last line: a packed file stops before its own end."""

    def __iter__(self) -> Iterator[bytes]:
        """
        Give each line; of a packed file that is cut short, those that are whole.

        Raises:
            UnreadableError: the file cannot be opened, is no gzip, or is damaged inside.
        """
        try:
            with self._opened() as raw:
                yield from self._packed(raw) if self.is_packed else self._lines(raw)
        except (OSError, zlib.error) as problem:
            raise UnreadableError(
                f"{self.path}: cannot be read: {problem}",
                hint="check the file and its permissions, or copy it again",
            ) from problem

    @contextmanager
    def _opened(self) -> Iterator[io.BufferedReader]:
        # the handle is ours to close: whoever stops in the middle may leave this to the collector,
        # which may meet the file first
        handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with open(handle, "rb", closefd=False) as raw:
                yield raw
        finally:
            os.close(handle)

    def _packed(self, raw: io.BufferedReader) -> Iterator[bytes]:
        head = raw.read(2)
        if not _GZIP.startswith(head):
            raise UnreadableError(
                f"{self.path}: is not gzip, whatever its name says",
                hint="give the file the suffix of its real format",
            )
        raw.seek(0)
        self.is_cut = head == b""  # even gzip of nothing is some bytes
        try:
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield from self._lines(unpacked)
        except EOFError:
            self.is_cut = True
        except (gzip.BadGzipFile, zlib.error) as problem:
            if str(problem).endswith(r"(b'\x1f')"):  # cut after the first byte of a header
                self.is_cut = True
                return
            raise UnreadableError(
                f"{self.path}: is damaged inside ({problem})",
                hint="copy it again; nothing that can be unpacked of it can be trusted",
            ) from problem

    def _lines(self, file: io.BufferedReader | gzip.GzipFile) -> Iterator[bytes]:
        is_first = True
        while line := file.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                raise UnreadableError(
                    f"{self.path}: has a line of more than {LONGEST_LINE >> 20} MiB",
                    hint="a log has one record a line; give the file the suffix of its real format",
                )
            yield line.removeprefix(_BOM) if is_first else line
            is_first = False


def shown(value: object) -> str:
    """Give a value from a log as a message quotes it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
