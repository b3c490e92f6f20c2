"""Says what a log does not tell, what that costs an audit of it, and what would tell it."""

from collections.abc import Sequence
from dataclasses import dataclass

from ledger_audit.model import Unread


@dataclass(frozen=True)
class Told:
    """What the log tells of one attempt."""

    attempt: str
    columns: frozenset[str]
    """Those with a value in at least one record."""
    kinds: frozenset[str]
    """Of its events."""
    start_keys: frozenset[str]
    """What its start events say, also of the fingerprint."""
    torn: tuple[Unread, ...]
    has_slots: bool
    """Slots come from the log, and are not one for the whole step."""


@dataclass(frozen=True)
class Unknown:
    """Something that the log does not tell."""

    what: str
    attempts: tuple[str, ...]
    """Of which attempts; none: of all."""
    consequence: str
    remedy: str


_COLUMNS = {
    "row": (
        "no `row`",
        "the order of writing stands for it: a step that was tried again after a void that is "
        "lost looks like a repeat",
        "log the place in the micro-batch",
    ),
    "epoch": (
        "no `epoch`",
        "a sample that is used again may be in another pass, padding or a replay "
        "(`repeat-unexplained`)",
        "log the pass over the source",
    ),
    "token_start": (
        "no spans of tokens",
        "every record is a whole sample: where samples are cut or packed, parts look like repeats",
        "log `token_start` and `token_end`",
    ),
    "source": (
        "no `source`",
        "equal ids are one sample, whatever data set they come from",
        "log the data set where several are blended",
    ),
    "position": (
        "no `position`",
        "what comes after the work that was rolled back is not known; after a planned stop, "
        "nothing is (`no-whole-reference-step`)",
        "log the place in the global stream, or audit with a control run",
    ),
    "stream": (
        "no `stream`",
        "every record counts as training",
        "log the stream of what is not training, for instance `eval`",
    ),
}
"""A column that tells → what is missing without it, what that costs, and what to do."""


def unknowns(told: Sequence[Told]) -> tuple[Unknown, ...]:
    """List what a log does not tell, what costs most first."""
    found = [_torn(part) for one in told for part in one.torn]
    found += _without(
        told,
        [one for one in told if "start" not in one.kinds],
        "no start event",
        "after another attempt, it is taken to resume at the step before its first record, and "
        "every clause is unproven (`lineage-assumed`)",
        "--resumed-from ATTEMPT:STEP",
    )
    found += _without(
        told,
        [one for one in told if "world_size" not in one.start_keys],
        "no world size",
        "the ranks that are seen are all: a rank that left no log is not missed",
        "--world-size RANKS",
    )
    found += _without(
        told,
        [one for one in told if "commit" not in one.kinds],
        "no commit events",
        "all steps before the last one that every rank reached count as committed, thrown away "
        "or not (`commits-assumed`); beside an attempt that has commits, none does",
        "log a commit for every rank and step, with `samples`",
    )
    found += _without(
        told,
        [one for one in told if not one.has_slots and one.columns],
        "no slots: a step is one list",
        "everything is in slot 0: micro-batches of a step cannot be told apart",
        "such a log has no more; a ledger of our own has",
    )
    for name, (what, consequence, remedy) in _COLUMNS.items():
        silent = [one for one in told if one.columns and name not in one.columns]
        found += _without(told, silent, what, consequence, remedy)
    found += _without(
        told,
        [one for one in told if "dataset_samples" not in one.start_keys],
        "no size of the data set",
        "padding and the ends of epochs cannot be computed (`epoch-size-unknown`)",
        "log `dataset_samples` in the fingerprint of a start event",
    )
    return tuple(found)


def _without(
    told: Sequence[Told], silent: Sequence[Told], what: str, consequence: str, remedy: str
) -> list[Unknown]:
    if not silent:
        return []
    attempts = () if len(silent) == len(told) else tuple(one.attempt for one in silent)
    return [Unknown(what, attempts, consequence, remedy)]


def _torn(part: Unread) -> Unknown:
    since = "" if part.from_step is None else f" from step {part.from_step} on"
    return Unknown(
        f"the end of {part.file}, which is cut short",
        (part.attempt,),
        f"any record{since} may be lost; the ledger keeps that in mind with a torn segment "
        "(`unread-segment`)",
        "convert a whole copy, if there is one",
    )
