"""A listing of the files that accelerate's `save_state` wrote: only a loader's own state counts."""

from itertools import islice

from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.values import State

MOST_FILES = 10_000


def read(state: State) -> Claim | None:
    """Read a listing, or give null: it is none of accelerate's."""
    files = state.get("files")
    if not isinstance(files, list):
        return None
    names = [one for one in islice(files, MOST_FILES) if isinstance(one, str)]
    if not any(one.startswith("random_states_") for one in names):
        return None
    if any(one.startswith("dl_state_dict") for one in names):
        silence = "its files name a loader's state, whose content is not in the claim"
    elif any(one.startswith("sampler") for one in names):
        silence = "no data position in it: the sampler's file holds seed and epoch only"
    else:
        silence = "no data position in it"
    return Claim("accelerate", silence=silence)
