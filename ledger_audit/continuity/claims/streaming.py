"""The state of MosaicML Streaming's data set: samples of all ranks in the pass."""

from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.values import State, natural, number


def read(state: State) -> Claim | None:
    """Read a data set's state, or give null: it is none."""
    if "sample_in_epoch" not in state or "num_canonical_nodes" not in state:
        return None
    if "num_samples_yielded" in state:
        return None  # LitData's has these keys too
    numbers = number("sample_in_epoch", state["sample_in_epoch"], "all", "epoch", "sequences")
    return Claim(
        "MosaicML Streaming",
        numbers.counts,
        epoch=natural(state.get("epoch")),
        first_epoch=0,
        seed=natural(state.get("shuffle_seed")),
        notes=(
            *numbers.notes,
            "the shuffle algorithm and its block size are not in the state: they must stay",
        ),
    )
