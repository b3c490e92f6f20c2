"""The cursor that belongs in a checkpoint: what one rank's committed updates had consumed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ledger_audit.errors import LedgerWriteError


@dataclass(frozen=True)
class Cursor:
    """
    What one rank's ledger proves at a step: counts, and the sum of the digests behind them.

    Counts run over the lineage as far as this rank, in this world, was told of it: a cursor of
    another rank or world size hands down only where to resume from.
    """

    run: str
    attempt: str
    step: int
    """The last committed step."""
    rank: int
    world_size: int
    records: int
    """Of the training stream, committed."""
    tokens: int | None
    """Null where no spans are logged."""
    digest: str
    """The sum of the digests of all committed tries, as a signed 64-bit integer in text."""
    generation: int = 0
    """Resumes before the attempt."""
    open_step: int | None = None
    """A step that was begun and not committed when the checkpoint was taken."""
    open_slots: Mapping[str, int] = field(default_factory=dict)
    """Its slots, and the records that each had used."""

    def told(self) -> dict[str, Any]:
        """Give it as plain values that any checkpoint format can hold."""
        return asdict(self)

    def __getstate__(self) -> dict[str, Any]:
        return self.told()

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)


def cursor_of(told: "Cursor | Mapping[str, Any] | None") -> Cursor | None:
    """
    Read a cursor back from a checkpoint.

    Raises:
        LedgerWriteError: it is no cursor.
    """
    if told is None or isinstance(told, Cursor):
        return told
    try:
        known = {name: told[name] for name in Cursor.__dataclass_fields__ if name in told}
        found = Cursor(**known)
        if not (isinstance(found.step, int) and isinstance(found.attempt, str)):
            raise TypeError("its step is no integer, or its attempt no text")
        int(found.digest)
    except (TypeError, ValueError, KeyError, AttributeError) as problem:
        raise LedgerWriteError(
            f"restored: is no cursor that a checkpoint of this writer handed out: {problem}",
            hint="give back what `with ledger.checkpoint(...) as cursor` gave, or "
            "resumed_from=(attempt, step)",
        ) from problem
    return found
