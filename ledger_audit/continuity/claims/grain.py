"""
The states of Grain: of its DataLoader, and of the iterators of its data sets.

The DataLoader's is JSON text. It keeps, for each worker, the index that the worker used last in
the sampler's global order: worker w of W on shard s of n has s + (w + kW)n for k = 0, 1, ...
"""

import re

from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.values import LARGEST, LONGEST_TEXT, State, natural, number

READER = "Grain"
LAST = "last_seen_indices"
NEXT = "next_index"
MOST_WORKERS = 1024

SHARD = re.compile(r"shard_index=(\d{1,9}), shard_count=(\d{1,9})\b")
SEED = re.compile(r"\bseed=(\d{1,18})\b")


def read(state: State) -> Claim | None:
    """Read a loader's or an iterator's state, or give null: it is neither."""
    if isinstance(state.get(LAST), dict):
        return _loader(state)
    if "iterators_in_use_states" in state:
        return Claim(READER, silence="its workers' iterators are counted apart: not compared")
    if NEXT in state:
        numbers = number(NEXT, state[NEXT], "rank", "run", "elements")
        note = "seed, shards and stages are not in the state: they must stay"
        return Claim(READER, numbers.counts, notes=(*numbers.notes, note))
    return None


def _loader(state: State) -> Claim:
    sampler = state.get("sampler")
    told = sampler[:LONGEST_TEXT] if isinstance(sampler, str) else ""
    shard, seed = SHARD.search(told), SEED.search(told)
    if shard is None:
        return Claim(READER, silence="its sampler does not tell the shard: not compared")
    index, count = int(shard[1]), int(shard[2])
    workers = natural(state.get("worker_count", 0))
    used = None if workers is None else _used(state[LAST], index, count, max(1, workers))
    if used is None:
        return Claim(READER, silence=f"{LAST} are no indices of its workers and shard")
    return Claim(
        READER,
        number(LAST, used, "rank", "run", "sequences").counts,
        seed=None if seed is None else int(seed[1]),
        workers=workers,
        world_size=count,
    )


def _used(last: object, shard: int, shards: int, workers: int) -> int | None:
    """
    Count what a shard's workers used, over all passes.

    Before its first, a worker's last index is the one that the pattern gives for k = -1, which
    is negative. Null: an index is none of the pattern.
    """
    if not isinstance(last, dict) or shards < 1 or not 0 < len(last) <= MOST_WORKERS:
        return None
    # how many workers there are is only said: as many are counted up as have an index
    if len(last) != workers or last.keys() != {str(worker) for worker in range(workers)}:
        return None
    used = 0
    for name, index in last.items():
        if type(index) is not int or abs(index) > LARGEST:
            return None
        place, rest = divmod(index - shard - int(name) * shards, shards * workers)
        if rest or place < -1:
            return None
        used += place + 1
    return used
