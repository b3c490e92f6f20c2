"""A job that dies and is resumed, told by frames: what each of its attempts used, and said."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ledger_audit.continuity.contract import DIFF, Contract
from ledger_audit.planting.stretch import PLACE, Stretch

FEWEST_OF_A_PASS = 5
"""Steps of a pass that a job can be killed in."""


class CannotPlant(Exception):  # noqa: N818  # it is no error: the ledger does not show such a thing
    """A ledger that does not say enough, or is too short; tells what it lacks."""


@dataclass(frozen=True)
class Leg:
    """One attempt."""

    records: pl.DataFrame
    """As of a stretch; `stream` where it is not training."""
    fingerprint: Mapping[str, Any]
    world_size: int
    after: int | None = None
    """The step of the checkpoint that it resumed from, of the attempt before it."""
    logged: frozenset[int] | None = None
    """The ranks that write a ledger, on purpose; null: all."""
    saves: tuple[int, ...] = ()
    """Steps whose checkpoint it writes."""
    late: int = 0
    """Updates that it makes before it begins to write each of them."""
    void: frozenset[int] = frozenset()
    """Steps whose update it throws away."""
    skips: tuple[tuple[int, tuple[Any, ...]], ...] = ()
    """Step and sample ids of each deliberate skip that it declares."""
    has_end: bool = False


@dataclass(frozen=True)
class Planted:
    """A job, and what is promised of it."""

    legs: tuple[Leg, ...]
    contract: Contract = DIFF


Plant = Callable[[Stretch], Planted]
"""Makes a faulty job of a stretch."""


@dataclass(frozen=True)
class Script:
    """The job that a stretch is cut into: it saves after a step, dies later, and is resumed."""

    stretch: Stretch
    checkpoint: int
    """The last step that the loaded checkpoint holds."""
    died: int
    """The last step of the attempt that died."""
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    """Of the resumed attempt, where it differs."""

    @property
    def used(self) -> dict[int, int]:
        """Sequences of each rank up to the checkpoint."""
        return self.stretch.used(self.checkpoint)

    def first(self, **changes: Any) -> Leg:
        """Give the attempt that dies."""
        told: dict[str, Any] = {
            "records": self.stretch.records.filter(pl.col("step") <= self.died),
            "fingerprint": self.stretch.fingerprint,
            "world_size": _world_size(self.stretch),
            "logged": self.stretch.attempt.logged,
            "saves": (self.checkpoint,),
        }
        return Leg(**told | changes)

    def resumed(
        self, order: pl.DataFrame, places: pl.DataFrame | None = None, **changes: Any
    ) -> Leg:
        """
        Give the attempt that is resumed, with what its loaders give it.

        Args:
            order: rank, lane, n: which sequences each rank uses, in its order.
            places: rank, step, slot, row: where; null: where the stretch used them.
            changes: what else is different.
        """
        if places is None:
            places = self.stretch.sequences.filter(pl.col("step") > self.checkpoint)
        told: dict[str, Any] = {
            "records": dealt(self.stretch.records, places, order),
            "fingerprint": {**self.stretch.fingerprint, **self.fingerprint},
            "world_size": _world_size(self.stretch),
            "logged": self.stretch.attempt.logged,
            "after": self.checkpoint,
        }
        return Leg(**told | changes)

    def going_on(self, begins: Mapping[int, int], lanes: Mapping[int, int] | None = None) -> Leg:
        """
        Give the attempt that is resumed, each rank at a place of a lane.

        Args:
            begins: rank → the sequence of the lane that comes first.
            lanes: rank → lane; null: its own.
        """
        return self.resumed(lane_order(self.stretch, begins, lanes))

    def planted(self, resumed: Leg, **changes: Any) -> Planted:
        """Give the whole job, with one resume."""
        return Planted((self.first(**changes), resumed))


def lane_order(
    stretch: Stretch, begins: Mapping[int, int], lanes: Mapping[int, int] | None = None
) -> pl.DataFrame:
    """
    Let each rank go through a lane from a place on.

    Returns:
        rank, lane, n.
    """
    own = lanes or {rank: rank for rank in begins}
    parts = [
        stretch.sequences.filter(pl.col("rank") == own[rank], pl.col("n") >= begin).select(
            pl.lit(rank, pl.Int32).alias("rank"), pl.col("rank").alias("lane"), "n"
        )
        for rank, begin in begins.items()
    ]
    return pl.concat(parts)


def dealt(records: pl.DataFrame, places: pl.DataFrame, order: pl.DataFrame) -> pl.DataFrame:
    """
    Fill places with sequences, each rank's in turn, up to the first step that is not full.

    Args:
        records: of all sequences.
        places: rank, step, slot, row, in any order.
        order: rank, lane, n, in the order of use.
    """
    in_turn = pl.int_range(pl.len()).over("rank").alias("turn")
    wanted = places.select(PLACE).sort(PLACE)
    filled = wanted.with_columns(in_turn).join(
        order.select("rank", "lane", pl.col("n").alias("held")).with_columns(in_turn),
        on=["rank", "turn"],
        how="left",
    )
    short = filled.filter(pl.col("held").is_null())["step"].min()
    if isinstance(short, int):
        filled = filled.filter(pl.col("step") < short)
    content = records.drop("step", "slot", "row").rename({"rank": "lane", "n": "held"})
    return (
        filled.join(content, on=["lane", "held"], how="inner", maintain_order="left_right")
        .with_columns(n=pl.col("turn"))
        .select(records.columns)
    )


def script(
    stretch: Stretch,
    at: float = 0.4,
    died: float | None = None,
    changed: Mapping[str, object] | None = None,
) -> Script:
    """
    Save after a share of the stretch, and die after another; at least one step is lost.

    Where several passes are logged, the shares are of the first.

    Of the fingerprint keys in `changed`, those that the ledger has are others after the resume.
    """
    bound = steps_of_a_pass(stretch)
    checkpoint = max(3, int(bound * at))
    last = min(stretch.steps - 1, max(checkpoint + 1, int(bound * (died or stretch.dies_at))))
    if checkpoint >= last:
        raise CannotPlant("more steps")
    known = {key: new for key, new in (changed or {}).items() if key in stretch.fingerprint}
    return Script(stretch, checkpoint, last, known)


def needs(*told: tuple[object, str]) -> None:
    """
    See that a ledger says what a fault can be told by.

    Raises:
        CannotPlant: something is missing; names all of it.
    """
    lacking = [what for is_there, what in told if not is_there]
    if lacking:
        raise CannotPlant(", ".join(lacking))


def several_ranks(stretch: Stretch) -> tuple[bool, str]:
    """Ask for more than one rank."""
    return len(stretch.ranks) > 1, "a second rank"


def shifted(begins: Mapping[int, int], by: Mapping[int, int] | int) -> dict[int, int]:
    """Give the places so much later, or earlier."""
    each = dict.fromkeys(begins, by) if isinstance(by, int) else by
    return {rank: max(0, begin + each[rank]) for rank, begin in begins.items()}


def reaches(begins: Mapping[int, int], stretch: Stretch, steps: int = 1) -> bool:
    """Tell whether every lane goes on for some steps from a place on."""
    step = max(1, stretch.steps)
    lanes = stretch.used(stretch.steps)
    return all(
        begin + steps * (lanes[rank] // step) <= lanes[rank] for rank, begin in begins.items()
    )


def steps_of_a_pass(stretch: Stretch) -> int:
    """Count the steps up to the end of the first pass, if it is long enough to fail in."""
    if len(stretch.passes) > 1:
        first = stretch.sequences.filter(pl.col("epoch") == stretch.passes[0])["step"].max()
        if isinstance(first, int) and first >= FEWEST_OF_A_PASS:
            return first
    return stretch.steps


def _world_size(stretch: Stretch) -> int:
    return stretch.attempt.world_size or max(stretch.ranks) + 1
