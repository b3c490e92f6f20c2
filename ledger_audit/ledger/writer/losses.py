"""Counts what had to be given up, so that the ledger can say so as soon as it can be written."""

import logging
from collections import Counter

MOST_STEPS = 10_000
"""Steps that are told apart; what is lost beyond them is counted without a step."""

_log = logging.getLogger("ledger_audit")


class Losses:
    """Records that were lost, by step, until an event about them is on disk."""

    def __init__(self, writer: str) -> None:
        self._writer = writer
        self._counts: Counter[int | None] = Counter()
        self._reason = ""
        self._is_told = False

    def add(self, step: int | None, records: int, reason: str) -> None:
        """Count records as lost, and say so once in the log of the job."""
        known = step in self._counts or len(self._counts) < MOST_STEPS
        self._counts[step if known else None] += records
        self._reason = reason
        if not self._is_told:
            self._is_told = True
            _log.warning(
                "ledger-audit: writer %s loses records (%s); training goes on, and the ledger will "
                "say what is missing as soon as it can be written",
                self._writer,
                reason,
            )

    def take(self) -> tuple[int | None, int, str] | None:
        """Give one step's losses, to be written; null: nothing was lost."""
        for step, records in self._counts.items():
            return step, records, self._reason
        return None

    def forget(self, step: int | None) -> None:
        """Let go of what is on disk now; the next loss is said in the log anew."""
        del self._counts[step]
        if not self._counts:
            self._is_told = False
