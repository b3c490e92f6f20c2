"""The cursor that belongs in a checkpoint: what one rank's committed updates had consumed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ledger_audit.errors import LedgerWriteError
from ledger_audit.ledger.schema import DIGEST_COLUMNS
from ledger_audit.ledger.writer import launcher


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
    ancestors: tuple[str, ...] = ()
    """The attempts that it resumed from, oldest first."""
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
        found = Cursor(**{**known, "ancestors": tuple(known.get("ancestors", ()))})
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


def restored_from(
    told: Cursor | Mapping[str, Any] | None, *, strict: bool
) -> tuple[Cursor | None, str | None]:
    """
    Read the cursor that the loaded checkpoint held, and what is wrong with it.

    Raises:
        LedgerWriteError: it is no cursor, and the writer is strict.
    """
    try:
        return cursor_of(told), None
    except LedgerWriteError as problem:
        if strict:
            raise
        return None, problem.message


def first_cursor(
    parent: Cursor | None,
    resumed_from: tuple[str, int] | None,
    place: tuple[int, int],
    attempt: str | None,
    run: str | None,
) -> Cursor:
    """
    Give what a launch has consumed when it begins.

    It goes on counting only where the cursor of this very rank, in the same world, ended. A label
    that an attempt before it has already is told apart, alike on all ranks.

    Args:
        parent: the cursor that was loaded.
        resumed_from: attempt and step, where no cursor was.
        place: rank and world size.
        attempt: label that was asked for; null: the launcher's.
        run: name of the run; null: the parent's, else the label.
    """
    rank, world_size = place
    generation = 0 if parent is None else parent.generation + 1
    label = str(attempt or launcher.attempt_label(generation, world_size))
    if parent is not None and label in (parent.attempt, *parent.ancestors):
        label = f"{label}-g{generation}"
    elif parent is None and resumed_from is not None and label == str(resumed_from[0]):
        label = f"{label}-from-{resumed_from[1]}"
    is_known = parent is not None and (parent.rank, parent.world_size) == (rank, world_size)
    known = parent if parent is not None and is_known else None
    return Cursor(
        run=str(run or (label if parent is None else parent.run)),
        attempt=label,
        step=0 if parent is None else parent.step,
        rank=rank,
        world_size=world_size,
        records=0 if known is None else known.records,
        tokens=None if known is None else known.tokens,
        digest="0" if known is None else known.digest,
        generation=generation,
        ancestors=() if parent is None else (*parent.ancestors, parent.attempt),
    )


def start_of(
    own: Cursor,
    parent: Cursor | None,
    resumed_from: tuple[str, int] | None,
    known: Mapping[str, Any],
) -> dict[str, Any]:
    """
    Give what the start event of a launch says.

    Args:
        own: its first cursor.
        parent: the cursor that was loaded; it is believed before `resumed_from`.
        resumed_from: attempt and step that was loaded.
        known: more keys of the event; null ones are left out.
    """
    if parent is not None:
        resumed_from = (parent.attempt, parent.step)
    told = None
    if resumed_from is not None:
        told = {"attempt": str(resumed_from[0]), "step": int(resumed_from[1])}
    return {
        "world_size": own.world_size,
        "resumed_from": told,
        "restored": None if parent is None else parent.told(),
        "launcher": launcher.variables(),
        "digest_columns": [*DIGEST_COLUMNS],
        **{name: value for name, value in known.items() if value is not None},
    }
