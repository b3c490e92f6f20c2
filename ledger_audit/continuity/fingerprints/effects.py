"""
What a key of the fingerprint can change: a table for people, and for the contract's `*`.

docs/fingerprints.md tells the same; a test compares the two.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ledger_audit.model.fingerprints import DATA_LIBRARIES, CanChange


@dataclass(frozen=True)
class Effect:
    """Whether another value can give another order, and why."""

    can_change_order: CanChange
    because: str


def _yes(because: str) -> Effect:
    return Effect("yes", because)


EFFECTS: Mapping[str, Effect] = {
    "dataset": _yes("another manifest is other data, or the same data in another order"),
    "index_files": _yes("index files hold the order of documents and samples"),
    "seed": _yes("another seed shuffles into another order"),
    "shuffle_state": _yes("the shuffle goes on from the state of its generator"),
    "world_size": _yes("the stream is dealt anew to another number of ranks"),
    "micro_batch_size": _yes("samples move to other steps, and loaders deal other batches"),
    "accumulation": _yes(
        "a step holds more or fewer micro-batches, so samples move to other steps"
    ),
    "dataset_samples": _yes("a shuffle of another length is another shuffle"),
    "dataset_order": _yes("sources are strung together or blended in another order"),
    "filter": _yes("what is filtered out moves all that follows"),
    "packing": _yes("documents are cut and packed into other sequences"),
    "drop_last": _yes("an epoch ends earlier or later, and the next one begins elsewhere"),
    "sampler": _yes("another sampler gives another order"),
    "workers": _yes("streamed data is dealt to the workers; only map-style data keeps its order"),
    "prefetch_factor": Effect("no", "it decides how far is read ahead, not what comes next"),
    "worker_states": _yes("each loader worker goes on from its own state"),
    "versions": _yes("libraries that shuffle, deal or pack samples may do it otherwise"),
}
"""The keys of docs/ledger-format.md."""

FURTHER: Mapping[str, Effect] = {
    "seq_length": _yes("documents are cut into sequences of another length"),
    "sequence_length": _yes("documents are cut into sequences of another length"),
    "split": _yes("other documents belong to the training split"),
    "blend": _yes("sources are drawn in other proportions"),
    "index_hash": _yes("an index with another hash was built from other settings"),
    "train_samples": _yes("indices that are built for a whole run are shuffled at its length"),
    "global_batch_size": _yes("samples move to other steps, and loaders deal other batches"),
    "shuffle": _yes("shuffled and unshuffled are two orders"),
    "shuffle_algo": _yes("another algorithm shuffles into another order"),
    "shuffle_buffer": _yes("a buffer of another size mixes otherwise"),
    "num_shards": _yes("another number of shards is shuffled and dealt otherwise"),
    "framework": _yes("another framework deals the stream in its own way"),
    "consumed_samples": Effect("no", "it is a position and no recipe: claims are about it"),
}
"""Keys that trainers log beside them."""

REQUIRED = tuple(key for key in EFFECTS if key != "prefetch_factor")
"""What `*` asks both sides to log: the keys of the format that can change the order."""

STATES = frozenset({"shuffle_state", "worker_states"})
"""Keys that change while the job runs: only the same moment can be compared."""

OF_A_RANK = STATES | {"host", "hostname", "rank", "local_rank", "node_rank", "device", "pid"}
"""Keys that each rank has for itself: they differ between the ranks of one launch by nature."""

_LIBRARY = _yes("it shuffles, deals or packs samples, and another version may do it otherwise")
_OTHER_LIBRARY = Effect("unknown", "nothing is known of what this library does to the order")
_LIBRARIES = frozenset({*DATA_LIBRARIES, "megatron", "olmo-core", "streaming"})
"""Also under the names that they are imported by."""

_UNKNOWN = Effect("unknown", "nothing is known of what this key does to the order")


def effect_of(key: str, below: str | None = None) -> Effect:
    """
    Say what a key can change.

    Args:
        key: of the fingerprint.
        below: the key within its value, where that is an object: the library of `versions`.
    """
    if key == "versions" and below is not None:
        library = re.sub(r"[-_.]+", "-", below).lower()
        return _LIBRARY if library in _LIBRARIES else _OTHER_LIBRARY
    return EFFECTS.get(key) or FURTHER.get(key) or _UNKNOWN
