"""How a run can end, and what can go wrong with us rather than with the data stream."""

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns; a crash never returns 1."""

    CONTINUOUS = 0
    BROKEN = 1
    USAGE = 2
    UNPROVEN = 3
    UNREADABLE = 4
    INTERNAL = 70


class LedgerAuditError(Exception):
    """
    An error that the person in front of the screen can mend.

    Args:
        message: what is wrong, with the file and the field.
        hint: what to do about it.
        details: what else is wrong, each on a line of its own below the message.
    """

    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, *, hint: str, details: Sequence[str] = ()) -> None:
        super().__init__("\n".join((message, *details)))
        self.message = message
        self.hint = hint
        self.details = tuple(details)


class UsageError(LedgerAuditError):
    """The options contradict each other or name something that is not there."""

    exit_code = ExitCode.USAGE


class TooLargeError(Exception):
    """What one way of counting would need is more than the memory allowed: another is taken."""


class UnreadableError(LedgerAuditError):
    """An input is missing, damaged, or not what it says it is."""

    exit_code = ExitCode.UNREADABLE


class ClusterError(LedgerAuditError):
    """The cluster that was to read the input failed: nothing is said of it."""

    exit_code = ExitCode.UNREADABLE


class UnprovenError(LedgerAuditError):
    """The ledger does not prove what the command would have to build on: nothing was made."""

    exit_code = ExitCode.UNPROVEN


class LedgerWriteError(LedgerAuditError):
    """A record or an event could not be written; raised only by a strict writer."""

    exit_code = ExitCode.INTERNAL


class DivergedError(LedgerAuditError):
    """A resumed job does not redo the steps that the failure rolled back: its guard stops it."""

    exit_code = ExitCode.BROKEN


class VanishedError(UnreadableError):
    """A file that was listed is gone: the ledger is being sealed, and is to be listed again."""

    @classmethod
    def of(cls, name: object) -> "VanishedError":
        """Say which file, or whose."""
        return cls(
            f"{name}: was there and has vanished", hint="something removes files: try again later"
        )
