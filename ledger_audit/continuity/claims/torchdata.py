"""
The state of torchdata's StatefulDataLoader, with and without workers.

`samples_yielded` counts the indices that the batch sampler handed out. For a data set that is
read by its index these are samples; for an iterable one they are the samples that were asked
for, a short batch in full, so only batches are compared there.
"""

from collections.abc import Iterable
from itertools import islice

from ledger_audit.continuity.claims.claim import Claim
from ledger_audit.continuity.claims.values import Numbers, State, natural, number, within

READER = "torchdata StatefulDataLoader"
MOST_WORKERS = 1024

UNORDERED = "the order is not in the state: the sampler must be seeded as before"
UNSEEDED = "the sampler's state is its position only: seed and epoch must be set as before"
OWN = "it holds the places of this rank's own loader: every rank must get its own state back"
EMPTY_PASS = "it stands at its pass's end, not beyond: the restored loader first yields no batch"


def read(state: State) -> Claim | None:
    """Read a loader's state, or give null: it is none."""
    if isinstance(state.get("_snapshot"), dict) and "_steps_since_snapshot" in state:
        return _of_workers(state)
    if "_num_yielded" in state and "_sampler_iter_state" in state:
        return _of_process(state)
    return None


def _of_process(state: State) -> Claim:
    sampler = within(state, "_sampler_iter_state")
    kept = [state.get("dataset_state"), within(state, "fetcher_state").get("dataset_iter_state")]
    is_iterable = isinstance(state.get("fetcher_state"), dict)
    numbers = number("_num_yielded", state.get("_num_yielded"), "rank", "epoch", "micro-batches")
    if not is_iterable:
        numbers = _samples("_sampler_iter_state", sampler) + numbers
    return Claim(
        READER,
        numbers.counts,
        workers=0,
        notes=numbers.notes + _needs(state, sampler, kept, is_iterable),
        # without workers, a sampler that has been restored at its end stays there
        end_note=_at_end(state, starts_anew="sampler_state" not in sampler),
    )


def _of_workers(state: State) -> Claim:
    snapshot = within(state, "_snapshot")
    main = within(snapshot, "_main_snapshot")
    sampler = within(main, "_sampler_iter_state")
    workers = [
        one
        for one in islice(within(snapshot, "_worker_snapshots").values(), MOST_WORKERS)
        if isinstance(one, dict)
    ]
    fetchers = [within(one, "fetcher_state") for one in workers]
    kept = [one.get("dataset_state") for one in workers]
    kept += [one.get("dataset_iter_state") for one in fetchers]
    is_iterable = any(isinstance(one.get("fetcher_state"), dict) for one in workers)
    numbers = _batches(state, snapshot)
    if not is_iterable and natural(state.get("_steps_since_snapshot")) == 0:
        numbers = _samples("_snapshot._main_snapshot._sampler_iter_state", sampler) + numbers
    return Claim(
        READER,
        numbers.counts,
        workers=natural(main.get("_num_workers")),
        notes=numbers.notes + _needs(main, sampler, kept, is_iterable),
        end_note=_at_end(state, starts_anew=True),
    )


def _samples(path: str, sampler: State) -> Numbers:
    value = sampler.get("samples_yielded")
    return number(f"{path}.samples_yielded", value, "rank", "epoch", "sequences")


def _batches(state: State, snapshot: State) -> Numbers:
    """Add the batches since the newest snapshot to those that it holds."""
    key = "_snapshot._snapshot_step"
    held, since = snapshot.get("_snapshot_step"), state.get("_steps_since_snapshot")
    one, other = natural(held), natural(since)
    if one is None or other is None:
        return number(key, held, "rank", "epoch", "micro-batches") + Numbers(
            notes=("_steps_since_snapshot is no count and was left out",) if other is None else ()
        )
    if other:
        key += " + _steps_since_snapshot"
    return number(key, one + other, "rank", "epoch", "micro-batches")


def _needs(
    main: State, sampler: State, kept: Iterable[object], is_iterable: bool
) -> tuple[str, ...]:
    """Tell what a resume needs beside the state."""
    has_data_state = any(one is not None for one in kept)
    if is_iterable:
        return (OWN,) if has_data_state else ()
    if within(sampler, "sampler_iter_state").get("generator") is not None:
        return ()
    if "sampler_iter_state" in sampler or main.get("_index_sampler_state") is not None:
        return ()
    if "sampler_state" in sampler:
        return (UNSEEDED,)
    return () if has_data_state else (UNORDERED,)


def _at_end(state: State, *, starts_anew: bool) -> str | None:
    return None if state.get("_iterator_finished") is True and starts_anew else EMPTY_PASS
