"""Says on standard error what is going on, once it takes longer than a second."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ledger_audit.printable import printable

if TYPE_CHECKING:
    from rich.status import Status

PATIENCE = 1.0
"""Seconds without a word."""


class _Progress:
    """A line with a spinner that comes late and leaves nothing behind."""

    def __init__(self) -> None:
        self._text = "working"
        self._status: Status | None = None
        self._is_over = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def tell(self, text: str) -> None:
        """Say what is being done now."""
        with self._lock:
            self._text = text
            if self._status is not None:
                self._status.update(self._told())

    def leave(self) -> None:
        """Take the line away."""
        with self._lock:
            self._is_over = True
            self._timer.cancel()
            if self._status is not None:
                self._status.stop()

    def _appear(self) -> None:
        from rich.console import Console
        from rich.status import Status

        with self._lock:
            if not self._is_over:
                self._status = Status(self._told(), console=Console(stderr=True))
                self._status.start()

    def _told(self) -> str:
        from rich.markup import escape

        return escape(printable(self._text))


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Give a function that says what is being done; where nobody watches, it says nothing."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    shown = _Progress()
    try:
        yield shown.tell
    finally:
        shown.leave()
