"""Claims: read whatever the framework saved, and compare it with what was committed."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from ledger_audit.continuity.claims import (
    accelerate,
    cursor,
    datasets,
    grain,
    lightning,
    litdata,
    megatron,
    olmo,
    standard,
    streaming,
    torchdata,
    trainer,
)
from ledger_audit.continuity.claims.claim import Claim, Count
from ledger_audit.continuity.claims.values import State, parsed
from ledger_audit.printable import quoted

UNKNOWN = "unknown"
NOTHING_KNOWN = "no key with a known meaning says a position: compared by equality only"

MOST_NESTED = 6
MOST_LOOKED_AT = 512
MOST_KEYS = 256
MOST_ITEMS = 8
MOST_TEXTS = 64
MOST_NOTES = 12
"""How far a state is searched, and how much of it is told: what it holds must not decide."""

TRAINING = {"train", "training"}
EVALUATION = {"val", "valid", "validation", "eval", "evaluation", "test", "dev"}
"""Words in the name of a state that tell whose loader it is."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
LONGEST_NAME = 256


@dataclass(frozen=True)
class Reader:
    """One kind of state."""

    read: Callable[[State], Claim | None]
    owns: bool = True
    """What lies inside such a state is its own, and no other reader looks there."""
    owns_epoch: bool = False
    """Its key `epoch` is not the trainer's: it numbers passes in a way of its own."""


READERS = (
    Reader(cursor.read),
    Reader(torchdata.read),
    Reader(lightning.read, owns=False),
    Reader(trainer.read),
    Reader(megatron.read, owns=False),
    Reader(litdata.read),
    Reader(streaming.read, owns_epoch=True),
    Reader(olmo.read, owns_epoch=True),
    Reader(grain.read),
    Reader(datasets.read, owns_epoch=True),
    Reader(accelerate.read, owns=False),
)
"""In the order in which they are asked, up to the first that owns a dictionary; the keys with a
fixed meaning are read whoever owns it."""


@dataclass(frozen=True)
class Found:
    """A known shape, and where it lies."""

    path: tuple[str, ...]
    claim: Claim


def read_claim(state: object) -> Claim:
    """
    Read what a state says of the data position, whoever wrote it and however it is nested.

    It never fails: what is of no known shape, or has values that are no counts, says nothing.

    Args:
        state: a framework's state as it was logged; any JSON.
    """
    found = list(_search(state))
    if not found:
        return Claim(UNKNOWN, silence=_why_unknown(state))
    told: list[Found] = []
    silences: list[str] = []
    for kind in dict.fromkeys(one.claim.reader for one in found):
        alike = [one for one in found if one.claim.reader == kind]
        speaking = _of_training([one for one in alike if one.claim.counts])
        if len(speaking) > 1:
            places = " and ".join(_dotted(one.path) or "its top" for one in speaking[:2])
            silences.append(
                f"it holds several states of {kind} ({places}): which one feeds the "
                "training cannot be told"
            )
        elif speaking:
            told.append(speaking[0])
        elif any(one.claim.counts for one in alike):
            place = next(_dotted(one.path) for one in alike if one.claim.counts)
            silences.append(f"the state in it ({place}) is named after an evaluation: not compared")
        elif kind != standard.READER:
            silences += [one.claim.silence for one in alike if one.claim.silence is not None][:1]
    return _merged(found, told, silences)


def _search(state: object) -> Iterator[Found]:
    """Look for known shapes, outermost first."""
    queue: deque[tuple[tuple[str, ...], object]] = deque([((), state)])
    looked_at = texts = 0
    while queue and looked_at < MOST_LOOKED_AT:
        path, value = queue.popleft()
        if isinstance(value, str):
            texts += 1
            value = parsed(value) if texts <= MOST_TEXTS else None
        inner: list[tuple[str, object]] = []
        if isinstance(value, dict):
            looked_at += 1
            claims, is_owned = _read(value)
            yield from (Found(path, claim) for claim in claims)
            if not is_owned:
                inner = [(str(key), one) for key, one in islice(value.items(), MOST_KEYS)]
        elif isinstance(value, list):
            inner = [(str(place), one) for place, one in enumerate(value[:MOST_ITEMS])]
        if len(path) < MOST_NESTED:
            queue.extend(((*path, key), one) for key, one in inner if _may_hold(one))


def _may_hold(value: object) -> bool:
    return isinstance(value, dict | list | str) and bool(value)


def _read(state: State) -> tuple[list[Claim], bool]:
    """Let every reader look at one dictionary; whether one of them owns what lies inside."""
    keys = standard.read(state)
    claims = [] if keys is None else [keys]
    for reader in READERS:
        claim = reader.read(state)
        if claim is None:
            continue
        if keys is not None and reader.owns_epoch:
            claims[0] = replace(keys, epoch=claim.epoch, first_epoch=claim.first_epoch)
        claims.append(claim)
        if reader.owns:
            return claims, True
    return claims, False


def _of_training(found: list[Found]) -> list[Found]:
    """
    Leave out what lies inside another state of the same kind, and what is an evaluation's.

    Where one of several is named after training, the others are an evaluation's.
    """
    outer = [
        one
        for one in found
        if not any(other.path == one.path[: len(other.path)] for other in found if other is not one)
    ]
    if len(outer) < 2:
        return [one for one in outer if not _is_of_evaluation(one)]
    # what all of them lie in tells them not apart
    shared = 0
    while len({one.path[: shared + 1] for one in outer}) == 1:
        shared += 1
    training = [
        one
        for one in outer
        if TRAINING & _words(_last_name(one.path))
        and not any(EVALUATION & _words(name) for name in one.path[shared:])
    ]
    return training if len(training) == 1 else outer


def _is_of_evaluation(one: Found) -> bool:
    return bool(EVALUATION & _words(_last_name(one.path)))


def _last_name(path: tuple[str, ...]) -> str:
    """Give the name that a state has, which is neither a wrapper's nor a place in a list."""
    return next((name for name in reversed(path) if not name.isdecimal()), "")


def _words(name: str) -> set[str]:
    """Split a name at underscores, points, hyphens and capitals: `valLoader` is val and loader."""
    return {word.lower() for word in WORD.findall(name[:LONGEST_NAME])}


def _merged(found: list[Found], told: list[Found], silences: list[str]) -> Claim:
    """Put together what the parts of one state say; the outermost comes first."""
    parts = [one.claim for one in (told or found)]
    keys = [one for one in found if one.claim.reader == standard.READER]
    # the pass of the claim keys is the trainer's own, and so is that of what they count
    speaking = sorted(told, key=lambda one: one not in keys) or found
    numbered = [one for one in speaking if one.claim.epoch is not None]
    in_pass = _in_pass((numbered or speaking)[0], keys)
    counts = tuple(
        replace(count, key=_key(one.path, count)) for one in told for count in one.claim.counts
    )
    named = [one.claim.reader for one in found if one in told or one not in keys]
    slots = [one.claim.slot for one in keys if not _is_of_evaluation(one)]
    slot = next((one for one in slots if one is not None), None)
    return Claim(
        reader=", ".join(dict.fromkeys(named)) or UNKNOWN,
        counts=counts,
        epoch=in_pass.epoch,
        first_epoch=in_pass.first_epoch,
        slot=slot,
        seed=next((one.seed for one in parts if one.seed is not None), None),
        workers=next((one.workers for one in parts if one.workers is not None), None),
        world_size=next((one.world_size for one in parts if one.world_size is not None), None),
        silence=None if counts or slot else next(iter(silences), NOTHING_KNOWN),
        notes=tuple(dict.fromkeys(note for one in found for note in one.claim.notes))[:MOST_NOTES],
        end_note=next((one.end_note for one in parts if one.end_note is not None), None),
    )


def _in_pass(speaking: Found, keys: list[Found]) -> Claim:
    """Give whose pass a state is in: its own, or that of the keys that lie nearest around it."""
    around = [
        one
        for one in keys
        if one.claim.epoch is not None and one.path == speaking.path[: len(one.path)]
    ]
    if speaking.claim.epoch is not None or not around:
        return speaking.claim
    return max(around, key=lambda one: len(one.path)).claim


def _key(path: tuple[str, ...], count: Count) -> str:
    return ".".join(filter(None, (_dotted(path), count.key)))


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(quoted(name) for name in path)


def _why_unknown(state: object) -> str:
    """Tell why nothing is known of a state: what the writer could not keep, it says itself."""
    if state is None or state == {}:
        return "it is empty"
    if isinstance(state, dict) and state.keys() == {"bytes"}:
        return "it was bytes, and their content is not in the ledger"
    if isinstance(state, dict) and "cut" in state:
        return "it was too large for the ledger, which holds only a part of it"
    return NOTHING_KNOWN
