"""
The cursor that the ledger's own writer hands out: what one rank's committed updates consumed.

It counts as far as it was handed down: another world size, or another rank's cursor, begins anew.
"""

from dataclasses import replace

from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.values import State, natural, number

KEYS = {"run", "attempt", "step", "rank", "world_size", "records", "digest"}


def read(state: State) -> Claim | None:
    """Read a cursor, or give null: it is none."""
    if not state.keys() >= KEYS:
        return None
    numbers = number("records", state["records"], "rank", "run", "records")
    numbers += number("tokens", state.get("tokens"), "rank", "run", "tokens")
    counts = tuple(replace(one, may_restart=True) for one in numbers.counts)
    steps = number("step", state["step"], "rank", "run", "steps")
    return Claim(
        "cursor",
        counts + steps.counts,
        world_size=natural(state["world_size"]),
        notes=(
            *numbers.notes,
            *steps.notes,
            "a cursor says what was consumed; the loader needs a state of its own",
        ),
    )
