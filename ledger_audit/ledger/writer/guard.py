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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from ledger_audit.errors import DivergedError, UsageError
from ledger_audit.model.rolled_back import RolledBack, Used

Mode = Literal["warn", "stop"]

AllReduce = Callable[[list[int]], Sequence[int]]
"""Gives, for each place of a list, the sum over all ranks; every rank gets the same."""

_log = logging.getLogger("ledger_audit")
_HALF = 1 << 32


@dataclass(frozen=True)
class Place:
    """Who a process is, and what it resumed from."""

    rank: int
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


@dataclass(frozen=True)
class _Expected:
    """What the leader told all ranks."""

    after: int
    steps: dict[int, Used] = field(default_factory=dict)
    same_world: bool = False
    global_batch: int | None = None


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
        self._is_over = False
        self._same = 0
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

    def _is_open(self) -> bool:
        if not self._is_over and self._expected is None:
            self._open()
        return not self._is_over

    def _open(self) -> None:
        """Let the leader read what was rolled back, and give it to all."""
        place, found = self._place, None
        if place.leads and place.parent is not None:
            from ledger_audit.ledger.rolled_back import rolled_back  # noqa: PLC0415  # polars

            found = _alike(place, rolled_back(self._root, *place.parent))
        mine = [len(found.steps), *_shape(place, found)] if found is not None else [0] * 5
        ranks, resumed, count, after, label, same_world, batch = self._sum(
            [1, int(place.parent is not None), *mine]
        )
        rows = self._sum(_rows(found, count) if place.leads else [0] * (4 * count + 1))
        is_same = place.parent is not None and (after, label) == _parent(place.parent)
        (others,) = self._sum([int(not is_same)])
        self._expected = _Expected(after, _steps(rows, count), bool(same_world), batch or None)
        self._begin(ranks, resumed, others, found)

    def _begin(self, ranks: int, resumed: int, others: int, found: RolledBack | None) -> None:
        """Go on only where all ranks resumed alike and there is something to compare with."""
        assert self._expected is not None
        if not resumed:
            self._is_over = True  # a run that begins has nothing to redo
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
        processes, recorders, sayers, voids, total, squares, high, low, count = self._sum(
            [1, int(place.records), int(says), int(is_void), ahead, ahead * ahead, *parts]
        )
        if processes * squares != total * total:
            self._end("the ranks commit different steps")
            return
        at = after + total // processes
        if at <= after:
            self._end(f"the job went on at step {step}, and not after {after}")
        elif voids:
            if voids < processes:
                self._say(f"some ranks threw step {at} away and others did not")
        elif sayers < recorders or not recorders:
            self._say(f"{recorders - sayers} of {recorders} ranks could not digest step {at}")
        else:
            self._judge(at, count, ((high << 32) + low) % (1 << 64))
        if at >= max(self._expected.steps):
            self._finish(at)

    def _judge(self, step: int, records: int, digest: int) -> None:
        assert self._expected is not None
        expected = self._expected.steps.get(step)
        if expected is None:
            self._say(f"step {step} was not rolled back whole")
        elif expected.digest == digest and expected.records == records:
            self._same += 1
        elif expected.records != records and (unfit := self._unlike()) is not None:
            self._say(f"step {step} holds {records} records, {expected.records} before: {unfit}")
        else:
            self._differ(step)

    def _unlike(self) -> str | None:
        """Say why a step of another size may be right; null: it may not."""
        assert self._expected is not None
        before, now = self._expected.global_batch, self._place.global_batch
        if not self._expected.same_world:
            return "the number of ranks changed, and with it what pads an epoch"
        if before is None or now is None:
            return "no fingerprint says whether the global batch changed"
        return "the global batch changed" if before != now else None

    def _differ(self, step: int) -> None:
        self._is_over = True
        told = (
            f"step {step} is not the one that the failure rolled back: other samples were used "
            f"for it ({self._same} steps before it were the same)"
        )
        command = f"ledger-audit diff {shlex.quote(str(self._root))}"
        told = f"{told}; `{command}` says what was replayed or skipped"
        if self._mode == "stop":
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


def _alike(place: Place, found: RolledBack) -> RolledBack:
    """Give no steps where those ranks that log are not the same part of the job."""
    if found.because is not None or found.logged is None is place.logged:
        return found
    is_alike = found.logged == place.logged and found.world_size == place.world_size
    return found if is_alike else RolledBack(because="not all ranks log, and others did before")


def _parent(parent: tuple[str, int]) -> tuple[int, int]:
    """Give step and label as numbers that ranks can compare."""
    return parent[1], zlib.crc32(parent[0].encode())


def _shape(place: Place, found: RolledBack) -> list[int]:
    assert place.parent is not None
    is_same_world = found.world_size == place.world_size
    return [*_parent(place.parent), int(is_same_world), found.global_batch or 0]


def _rows(found: RolledBack | None, count: int) -> list[int]:
    """Give the rolled-back steps as numbers: step, both halves of the digest, records."""
    steps = {} if found is None else found.steps
    rows = [
        (step, used.digest // _HALF, used.digest % _HALF, used.records)
        for step, used in sorted(steps.items())
    ]
    return [number for row in rows[:count] for number in row] + [0]


def _steps(rows: Sequence[int], count: int) -> dict[int, Used]:
    places = [rows[4 * at : 4 * at + 4] for at in range(count)]
    return {step: Used(records, (high << 32) + low) for step, high, low, records in places}
