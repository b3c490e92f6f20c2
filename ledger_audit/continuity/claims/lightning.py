"""
The fit loop of a Lightning checkpoint: how many batches it ran, and its loader's state.

The loader's own state is read by the reader that knows it. Of a plain loader there is none: then
the restored loop counts on from where it was, over a pass that begins again.
"""

from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.values import State, natural, number, within

READER = "Lightning"
PROGRESS = "epoch_loop.batch_progress"
PREFIXES = ("", "fit_loop.", "loops.fit_loop.")

BEGINS_AGAIN = "batch progress is restored, the loader's position is not: its pass will begin again"
RANK_0 = "it is saved by rank 0 only, and every rank restores it"


def read(state: State) -> Claim | None:
    """Read a fit loop's state, nested or with dotted keys; null: it is none."""
    for prefix in PREFIXES:
        if isinstance(state.get(prefix + PROGRESS), dict):
            return _read(
                prefix, within(state, prefix + PROGRESS), within(state, prefix + "state_dict")
            )
    return None


def _read(prefix: str, progress: State, loop: State) -> Claim:
    loaders = loop.get("combined_loader")
    held = [one for one in loaders if one] if isinstance(loaders, list) else [loaders]
    if any(held):
        silence = "the state of its loader is of no known kind: compared by equality only"
        return Claim(READER, silence=silence, notes=(RANK_0,))
    current = within(progress, "current")
    if natural(current.get("processed")) != 0 and progress.get("is_last_batch") is not True:
        return Claim(READER, silence=BEGINS_AGAIN)
    path = prefix + PROGRESS
    total = within(progress, "total").get("processed")
    numbers = number(f"{path}.total.processed", total, "rank", "run", "micro-batches")
    numbers += number(
        f"{path}.current.processed", current.get("processed"), "rank", "epoch", "micro-batches"
    )
    return Claim(READER, numbers.counts, notes=(*numbers.notes, RANK_0))
