"""Follows one checkpoint from its snapshot until it is whole, with the ledger safe on storage."""

import random
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ledger_audit.ledger.writer.cursor import Cursor

MOST_JITTER = 0.25
"""Seconds over which the ranks of a node spread their syncing."""


class Checkpoint:
    """
    One checkpoint that is being saved.

    As a context manager it gives the cursor, and completes when the block ends well.
    """

    def __init__(
        self,
        cursor: Cursor,
        sync: Callable[[], None],
        finish: Callable[[str | None], None],
    ) -> None:
        self.cursor = cursor
        self._finish = finish
        self._is_over = False
        self._is_saved = False
        self._failure: str | None = None
        self._saved = threading.Event()
        self._helper = threading.Thread(target=self._run, args=(sync,), daemon=True)
        self._helper.start()

    def complete(self) -> None:
        """
        Say that the checkpoint is whole on storage.

        The event is written as soon as the ledger up to the snapshot is, too: by a helper, so that
        the step path does not wait for a disk.
        """
        if not self._is_over:
            self._is_over = self._is_saved = True
            self._saved.set()

    def abandon(self) -> None:
        """Say nothing more: the checkpoint was not saved."""
        if not self._is_over:
            self._is_over = True
            self._saved.set()

    @property
    def is_done(self) -> bool:
        """Nothing more is told of it."""
        return not self._helper.is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is written; tell whether it is."""
        self._helper.join(timeout)
        return not self._helper.is_alive()

    def _run(self, sync: Callable[[], None]) -> None:
        self._saved.wait(random.random() * MOST_JITTER)
        try:
            sync()
        except OSError as problem:
            self._failure = str(problem)
        self._saved.wait()
        if self._is_saved:
            self._finish(self._failure)

    def __enter__(self) -> Cursor:
        return self.cursor

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.complete()
        else:
            self.abandon()


def told_claim(claim: Any) -> Any:
    """Give a claim as it may be recorded: a state object by its dictionary."""
    return claim.state_dict() if hasattr(claim, "state_dict") else claim
