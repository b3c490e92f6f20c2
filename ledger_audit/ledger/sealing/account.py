"""What a seal did to a ledger, told by attempt."""

from dataclasses import dataclass, field

from ledger_audit.ledger.segment import Table


@dataclass(frozen=True)
class Dropped:
    """Bytes of a file that were no sound message, and that an event now tells of."""

    file: str
    table: Table
    start: int
    end: int
    from_step: int | None
    """The last sound step before them: records from it on may be lost; null: from any."""


@dataclass(frozen=True)
class Merged:
    """A file that was written, and the files that it stands for and that are gone."""

    file: str
    table: Table
    sources: tuple[str, ...]
    rows: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class Live:
    """A writer whose files were left alone, and why."""

    writer: str
    why: str


@dataclass(frozen=True)
class SealedAttempt:
    """What became of one attempt."""

    attempt: str
    files_before: int
    files_after: int
    merged: tuple[Merged, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    live: tuple[Live, ...] = ()
    removed: tuple[str, ...] = ()
    """What an earlier seal had written anew and not removed any more."""
    let_go: tuple[tuple[str, str], ...] = ()
    """Files whose records their writer did not keep, and how many it says they were."""
    digests: int = 0
    """Tries whose records have the digest that their commit tells."""
    unchecked: tuple[str, ...] = ()
    """Why digests of some writers say nothing."""
    problems: tuple[str, ...] = ()
    """What is corrupt; the files that it names were left alone."""

    @property
    def is_unchanged(self) -> bool:
        """Nothing had to be done."""
        return not (self.merged or self.removed)


@dataclass(frozen=True)
class Sealing:
    """What a seal did to one ledger."""

    root: str
    attempts: tuple[SealedAttempt, ...] = field(default=())

    @property
    def is_sound(self) -> bool:
        """Nothing was found to be corrupt."""
        return not any(one.problems for one in self.attempts)
