"""The `trainer_state.json` of Hugging Face's Trainer: a step, and no position."""

from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.values import State, number


def read(state: State) -> Claim | None:
    """Read a Trainer's state, or give null: it is none."""
    if "global_step" not in state or "max_steps" not in state:
        return None
    if "num_train_epochs" not in state and "train_batch_size" not in state:
        return None
    numbers = number("global_step", state["global_step"], "all", "run", "steps")
    return Claim(
        "Hugging Face Trainer",
        numbers.counts,
        notes=(
            *numbers.notes,
            "the position is computed from the step: it is right only while batch size, "
            "accumulation and ranks stay, and in the first pass of an iterable data set",
        ),
    )
