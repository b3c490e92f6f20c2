"""What Megatron keeps in a checkpoint: samples of all ranks since the run began."""

from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.values import State, natural, number, within

SAMPLES = "consumed_train_samples"


def read(state: State) -> Claim | None:
    """Read a checkpoint's common state, or its arguments; null: it is neither."""
    path, args = ("", state) if SAMPLES in state else ("args.", within(state, "args"))
    if SAMPLES not in args:
        return None
    numbers = number(path + SAMPLES, args[SAMPLES], "all", "run", "sequences")
    at, kept = ("", state) if "iteration" in state else (path, args)
    numbers += number(at + "iteration", kept.get("iteration"), "all", "run", "steps")
    return Claim(
        "Megatron",
        numbers.counts,
        seed=natural(args.get("seed")),
        workers=natural(args.get("num_workers")),
        notes=(
            *numbers.notes,
            "the order is not in the state: the index files must be the same, and they change "
            "with the number of training samples, the sequence length and the split",
        ),
    )
