"""The state of OLMo-core's data loader: batches and tokens of all ranks in the pass."""

from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.values import State, natural, number


def read(state: State) -> Claim | None:
    """Read a loader's state, or give null: it is none."""
    if "batches_processed" not in state or "epoch" not in state:
        return None
    numbers = number("tokens_processed", state.get("tokens_processed"), "all", "epoch", "tokens")
    numbers += number("batches_processed", state["batches_processed"], "all", "epoch", "steps")
    return Claim(
        "OLMo-core",
        numbers.counts,
        epoch=natural(state["epoch"]),
        first_epoch=1,
        seed=natural(state.get("seed")),
        notes=(
            *numbers.notes,
            "with another global batch it goes on at a whole batch: the remainder is replayed",
        ),
    )
