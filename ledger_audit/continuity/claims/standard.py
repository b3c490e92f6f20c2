"""The claim keys of the ledger format, whoever writes them."""

from typing import Literal

from ledger_audit.continuity.claims.claim import Claim, Unit
from ledger_audit.continuity.claims.values import Numbers, State, natural, number

READER = "claim keys"

KEYS: tuple[tuple[str, Literal["all", "rank"], Literal["run", "epoch"]], ...] = (
    ("consumed_samples", "all", "run"),
    ("rank_samples", "rank", "run"),
    ("epoch_samples", "all", "epoch"),
    ("rank_epoch_samples", "rank", "epoch"),
)
UNITS: tuple[Unit, ...] = ("records", "sequences", "documents", "tokens")


def read(state: State) -> Claim | None:
    """Read the keys that have a fixed meaning, or give null: none is there."""
    told = state.get("unit")
    unit = next((one for one in UNITS if one == told), None)
    numbers = Numbers()
    for key, of, since in KEYS:
        numbers += number(key, state.get(key), of, since, unit)
    numbers += number("read_samples", state.get("read_samples"), "rank", "run", unit, "read")
    numbers += number("queued_samples", state.get("queued_samples"), "rank", "run", unit, "queued")
    batches = state.get("queued_batches")
    numbers += number("queued_batches", batches, "rank", "run", "micro-batches", "queued")
    epoch, slot = natural(state.get("epoch")), natural(state.get("slot"))
    if not numbers.counts and not numbers.notes and epoch is None and slot is None:
        return None
    notes = numbers.notes
    if told is not None and unit is None and numbers.counts:
        notes += (f"unit is none of {', '.join(UNITS)} and was left out",)
    return Claim(READER, numbers.counts, epoch=epoch, slot=slot, notes=notes)
