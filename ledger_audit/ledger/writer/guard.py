"""
Watches, while a resumed job trains, that it redoes the steps that the failure rolled back.

Each step, the digests of all ranks are summed and compared with the sum that the dead attempt's
ranks had for it. Every rank takes part in every exchange, with a flag that says whether it has
anything to say, and decides by the sums alone: all ranks decide the same, at the same step, so that
nothing hangs and no part of a job goes on without the rest.
"""

import logging
import shlex
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from ledger_audit.errors import DivergedError, UsageError
from ledger_audit.ledger.writer.cursor import Cursor
from ledger_audit.model.rolled_back import RolledBack, Used, global_batch_of

Mode = Literal["warn", "stop"]

AllReduce = Callable[[list[int]], Sequence[int]]
"""Gives, for each place of a list, the sum over all ranks; every rank gets the same."""

_log = logging.getLogger("ledger_audit")
_HALF = 1 << 32
_FARTHEST = 1 << 62
"""A step beyond it would not fit into what is summed."""

_SAME, _UNKNOWN, _OTHER = range(3)
"""What became of the global batch."""


@dataclass(frozen=True)
class Place:
    """Who a process is, and what it resumed from."""

    world_size: int
    records: bool
    """False: it writes no ledger, and only listens."""
    leads: bool
    """It reads for all; one process of the job does."""
    parent: tuple[str, int] | None
    """Attempt and step that were loaded; null: the run begins."""
    global_batch: int | None
    """Sequences of a step, by the fingerprint; null: it does not say."""
    logged: frozenset[int] | None = None
    """The ranks that write a ledger; null: all."""
    is_resumed: bool = False
    """A checkpoint was loaded, even if its cursor could not be read."""
    open_step: int | None = None
    """A step of which the loaded checkpoint held a part; null: none."""


@dataclass(frozen=True)
class _Expected:
    """What the leader told all ranks."""

    after: int
    steps: dict[int, Used] = field(default_factory=dict)
    same_world: bool = False
    global_batch: int = _UNKNOWN


class Guard:
    """
    Compares the steps of a resumed attempt with those that were rolled back, one by one.

    Args:
        mode: what to do at the first difference.
        all_reduce: sums over all ranks; called at every commit and void, until all is compared.
        root: of the ledger.
        place: of this process.
    """

    def __init__(self, mode: Mode, all_reduce: AllReduce, root: Path, place: Place) -> None:
        self._mode, self._reduce, self._root, self._place = mode, all_reduce, root, place
        self._expected: _Expected | None = None
        self._is_over = self._stops = False
        self._same = 0
        self._voids: int | None = 0
        """Updates that all ranks threw away since the checkpoint; null: some did."""
        self._has_declared = False
        self._told: set[str] = set()

    def committed(self, step: int, records: int, digest: int | None) -> None:
        """
        Compare a step that all ranks have committed.

        Args:
            step: that was committed.
            records: that this rank used for it.
            digest: of them, signed or not; null: it is not known.

        Raises:
            DivergedError: it is another step than the one that was rolled back; on every rank.
        """
        if self._is_open():
            self._meet(step, records, digest, is_void=False)

    def voided(self, step: int) -> None:
        """Take part for a step that all ranks have thrown away: there is nothing to compare."""
        if self._is_open():
            self._meet(step, 0, None, is_void=True)

    def declared(self) -> None:
        """Note that something was done on purpose: what is different may be right."""
        self._has_declared = True

    def _is_open(self) -> bool:
        if not self._is_over and self._expected is None:
            self._open()
        return not self._is_over

    def _open(self) -> None:
        """Let the leader read what was rolled back, and give it to all."""
        place, found = self._place, _found(self._root, self._place)
        mine = [len(found.steps), *_shape(place, found)] if found is not None else [0] * 5
        flags = place.is_resumed, place.leads, self._mode == "stop"
        ranks, resumed, leaders, stops, count, after, label, same_world, batch = self._sum(
            [1, *map(int, flags), *mine]
        )
        rows = self._sum(_rows(found, count))
        is_same = place.parent is not None and (after, label) == _parent(place.parent)
        (others,) = self._sum([int(not is_same)])
        self._expected = _Expected(after, _steps(rows, count), bool(same_world), batch)
        self._stops = stops == ranks
        if not resumed:
            self._is_over = True  # a run that begins has nothing to redo
        elif leaders != 1:
            self._end(f"{leaders} of {ranks} processes say that they record for rank 0")
        else:
            self._begin(ranks, others, found)

    def _begin(self, ranks: int, others: int, found: RolledBack | None) -> None:
        """Go on only where all ranks resumed alike and there is something to compare with."""
        assert self._expected is not None
        if others == ranks:
            self._end("the first process has no cursor that it can read")
        elif others:
            self._end(f"{others} of {ranks} processes did not resume from where the first one did")
        elif not self._expected.steps:
            why = None if found is None else found.because
            self._end(why or "no step was rolled back")

    def _meet(self, step: int, records: int, digest: int | None, *, is_void: bool) -> None:
        """Sum up what all ranks have to say of a step, and decide by the sums alone."""
        assert self._expected is not None
        place, after = self._place, self._expected.after
        ahead = max(0, min(step - after, 1 << 20))
        says = place.records and digest is not None
        value = (digest or 0) % (1 << 64)
        parts = [value // _HALF, value % _HALF, records] if says else [0, 0, 0]
        flags = place.records, says, is_void, self._has_declared
        processes, recorders, sayers, voids, declared, total, squares, high, low, count = self._sum(
            [1, *map(int, flags), ahead, ahead * ahead, *parts]
        )
        if declared:
            self._end("something was declared: what is different may be meant")
            return
        if processes * squares != total * total:
            self._end("the ranks commit different steps")
            return
        at, last = after + total // processes, max(self._expected.steps)
        if at <= after:
            self._end(f"the job went on at step {step}, and not after {after}")
        elif at > last:
            self._finish(last)
        elif voids:
            self._throw_away(at, voids, processes)
        elif sayers < recorders or not recorders:
            self._say(f"{recorders - sayers} of {recorders} ranks could not digest step {at}")
        else:
            self._judge(at, count, ((high << 32) + low) % (1 << 64))
        if at == last and not voids:  # what was thrown away may be tried again
            self._finish(at)

    def _throw_away(self, step: int, voids: int, processes: int) -> None:
        if voids < processes:
            self._say(f"some ranks threw step {step} away and others did not")
            self._voids = None
        elif self._voids is not None:
            self._voids += 1

    def _judge(self, step: int, records: int, digest: int) -> None:
        assert self._expected is not None
        expected = self._expected.steps.get(step)
        if expected is None:
            self._say(f"step {step} was not rolled back whole")
        elif expected.digest == digest and expected.records == records:
            self._same += 1
        elif (why := self._excuse(expected, records)) is not None:  # later steps are moved, too
            sizes = f"{records} records, {expected.records} before"
            self._end(f"step {step} holds other samples ({sizes}): {why}")
        else:
            self._differ(step)

    def _excuse(self, before: Used, records: int) -> str | None:
        """Say why a step that differs may be right; null: it may not."""
        assert self._expected is not None
        batch = self._expected.global_batch
        if batch == _OTHER:
            return "the global batch changed"
        if before.voids != self._voids:
            return "updates were thrown away in one of the attempts that were not in the other"
        if before.records == records:
            return None
        if not self._expected.same_world:
            return "the number of ranks changed, and with it what pads an epoch"
        return "no fingerprint says whether the global batch changed" if batch == _UNKNOWN else None

    def _differ(self, step: int) -> None:
        self._is_over = True
        told = (
            f"step {step} is not the one that the failure rolled back: other samples were used "
            f"for it ({self._same} steps before it were the same)"
        )
        command = f"ledger-audit diff {shlex.quote(str(self._root))}"
        told = f"{told}; `{command}` says what was replayed or skipped"
        if self._stops:
            raise DivergedError(told, hint='guard="warn" says so and lets the job go on')
        if self._place.leads:
            _log.warning("guard: %s", told)

    def _finish(self, step: int) -> None:
        if not self._is_over and self._place.leads:
            _log.info("guard: %d steps up to %d are those rolled back", self._same, step)
        self._is_over = True

    def _end(self, why: str) -> None:
        self._say(why)
        self._is_over = True

    def _say(self, why: str) -> None:
        """Say once why something cannot be judged."""
        if self._place.leads and not self._told:
            _log.warning("guard: cannot judge: %s", why)
        self._told.add(why)

    def _sum(self, values: list[int]) -> list[int]:
        return [int(value) for value in self._reduce(values)]


def place_of(
    own: Cursor,
    parent: Cursor | None,
    resumed_from: tuple[str, int] | None,
    known: Mapping[str, Any],
    *,
    is_peer: bool,
) -> Place:
    """
    Say who a process is.

    Args:
        own: its first cursor.
        parent: the cursor that was loaded.
        resumed_from: attempt and step, where no cursor was.
        known: `logged_ranks`, `fingerprint` and `restored_problem` of its start event.
        is_peer: another process records for its rank.
    """
    ranks = known["logged_ranks"]
    logged = None if ranks is None else frozenset(ranks)
    return Place(
        own.world_size,
        records=not is_peer and (logged is None or own.rank in logged),
        leads=own.rank == 0 and not is_peer,
        parent=resumed_from if parent is None else (parent.attempt, parent.step),
        global_batch=global_batch_of(known["fingerprint"] or {}, own.world_size),
        logged=logged,
        is_resumed=any(
            one is not None for one in (parent, resumed_from, known["restored_problem"])
        ),
        open_step=None if parent is None else parent.open_step,
    )


def guard_of(
    mode: Mode | None, all_reduce: AllReduce | None, root: Path, place: Place
) -> Guard | None:
    """
    Give the guard that was asked for; null: none was, or it could not do its work.

    Raises:
        UsageError: no such mode.
    """
    if mode is None:
        return None
    if mode not in get_args(Mode):
        raise UsageError(
            f"guard: {mode!r} is neither warn nor stop",
            hint='give guard="warn" or guard="stop", or leave it out',
        )
    if all_reduce is None and place.world_size > 1:
        if place.leads:
            _log.warning("guard: off: it needs all_reduce=, which sums over all processes")
        return None
    return Guard(mode, all_reduce or list, root, place)


def _found(root: Path, place: Place) -> RolledBack | None:
    """Let the leader read what was rolled back; null: it is another's to read."""
    if not place.leads or place.parent is None:
        return None
    attempt, after = str(place.parent[0]), int(place.parent[1])
    try:
        from ledger_audit.ledger.rolled_back import rolled_back  # noqa: PLC0415  # polars

        return _alike(place, rolled_back(root, attempt, after))
    except Exception as problem:  # whatever it is: all others wait for the leader
        return RolledBack(because=f"attempt {attempt} cannot be read: {problem}")


def _alike(place: Place, found: RolledBack) -> RolledBack:
    """Give no steps where those ranks that log are not the same part of the job."""
    steps = {step: used for step, used in found.steps.items() if step != place.open_step}
    found = replace(found, steps=steps)  # of a step that was saved in part, only the rest is redone
    before, now = _some(found.logged, found.world_size), _some(place.logged, place.world_size)
    if found.because is not None or before is now is None:
        return found
    is_alike = before == now and found.world_size == place.world_size
    return found if is_alike else RolledBack(because="not all ranks log, and others did before")


def _some(logged: frozenset[int] | None, world_size: int | None) -> frozenset[int] | None:
    """Give the ranks that log, where they are not all; null: they are."""
    if logged is None or sum(0 <= rank < (world_size or 0) for rank in logged) == world_size:
        return None
    return logged


def _parent(parent: tuple[str, int]) -> tuple[int, int]:
    """Give step and label as numbers that ranks can compare."""
    attempt, step = str(parent[0]), int(parent[1])
    near = max(-_FARTHEST, min(step, _FARTHEST))
    return near, zlib.crc32(attempt.encode("utf-8", "replace"))


def _shape(place: Place, found: RolledBack) -> list[int]:
    assert place.parent is not None
    is_same_world = found.world_size == place.world_size
    before, now = found.global_batch, place.global_batch
    batch = _UNKNOWN if before is None or now is None else _SAME if before == now else _OTHER
    return [*_parent(place.parent), int(is_same_world), batch]


def _rows(found: RolledBack | None, count: int) -> list[int]:
    """Give the rolled-back steps as numbers, as many on every rank: of the others all are 0."""
    steps = {} if found is None else found.steps
    numbers = [
        number
        for step, used in sorted(steps.items())
        for number in (step, *divmod(used.digest, _HALF), used.records, used.voids)
    ]
    return [*numbers, *[0] * (5 * count + 1 - len(numbers))]


def _steps(rows: Sequence[int], count: int) -> dict[int, Used]:
    places = [rows[5 * at : 5 * at + 5] for at in range(count)]
    return {
        step: Used(records, (high << 32) + low, voids) for step, high, low, records, voids in places
    }
