"""
The state of an IterableDataset of Hugging Face's `datasets`: one inside another.

The outermost stage that rebatches counts what it has handed on in this pass, whatever that is:
before a filter, behind a shuffle buffer, or in batches it is another number than was used.
"""

from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.values import State, natural, number, within

READER = "Hugging Face datasets"
STAGE = "examples_iterable"
MOST_NESTED = 32

NEEDS = (
    "set_epoch must be called as before, or the state is ignored",
    "what a shuffle buffer held is not in the state",
    "every rank must get its own state back",
)
AT_END = "at its pass's end, set_epoch must name the next pass, or the data set yields nothing"


def read(state: State) -> Claim | None:
    """Read a data set's state, or give null: it is none."""
    if "epoch" not in state or not isinstance(state.get(STAGE), dict):
        return None
    path, stage, silence = STAGE, within(state, STAGE), None
    for _ in range(MOST_NESTED):
        if stage.get("type") == "RebatchedArrowExamplesIterable" or "shard_example_idx" in stage:
            break
        if stage.get("repeat_index") not in (None, 0):
            silence = "it repeats its data set, and counts the newest round only: not compared"
            break
        path, stage = f"{path}.{STAGE}", within(stage, STAGE)
    key = "batch_idx" if "batch_idx" in stage else "shard_example_idx"
    if silence is None and natural(stage.get("shard_idx", 0)) != 0:
        silence = "it stands in a later shard, and does not tell the size of those before it"
    elif silence is None and stage.get(key) is None:
        silence = "its parts are counted apart: not compared"
    if silence is not None:
        return Claim(READER, silence=silence, notes=NEEDS)
    numbers = number(f"{path}.{key}", stage[key], "rank", "epoch", "elements")
    return Claim(
        READER,
        numbers.counts,
        # 0 is also what stands there if set_epoch was never called
        epoch=natural(state["epoch"]) or None,
        notes=(*numbers.notes, *NEEDS),
        end_note=AT_END,
    )
