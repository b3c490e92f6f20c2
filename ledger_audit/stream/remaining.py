"""
Lets an expected stream pass by and says of each of its records whether it is still to come.

One bit a record is kept, so that the stream can be dealt in a second look.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ledger_audit.ledger.spent import Spent
from ledger_audit.ledger.tables import hash_frame
from ledger_audit.stream.halves import Halves
from ledger_audit.stream.ordered import PLACE, Ordered

Mask = NDArray[np.bool_]

STEPS = {
    "step": pl.Int64(),
    "records": pl.Int64(),
    "sequences": pl.Int64(),
    "consumed": pl.Int64(),
    "consumed_digest": pl.UInt64(),
    "forbidden": pl.Int64(),
    "rest": pl.Int64(),
    "allowed": pl.Int64(),
}
"""
A step of the stream: its records and sequences; records consumed (whole, or in part) and the sum of
their hashes; forbidden ones; sequences of which something is left; sequences of which something is
not forbidden.
"""

PASSES = {
    "source": pl.String(),
    "epoch": pl.Int32(),
    "records": pl.Int64(),
    "matched": pl.Int64(),
    "matched_digest": pl.UInt64(),
    "forbidden": pl.Int64(),
}

MOST_RANGES = 1000
"""Consumed stretches of a pass that are told."""

Refused = Callable[[pl.DataFrame], Mask]
"""Records → whether the contract forbids each."""


@dataclass(frozen=True)
class Stretches:
    """Where consumed records of one pass stand, while the stream passes by."""

    found: list[list[int]] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    """Of the newest stretch: start and stop."""
    counts: list[int] = field(default_factory=lambda: [0])
    """Stretches."""
    own: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Records of the pass, those up to its last consumed one, and consumed ones."""

    @property
    def holes(self) -> int:
        """Records of the pass before its last consumed one that were not consumed."""
        return self.own[1] - self.own[2]

    def follow(self, is_spent: Mask) -> None:
        """See which of the next records of the pass were consumed."""
        consumed = np.flatnonzero(is_spent)
        if len(consumed):
            self.own[1] = self.own[0] + int(consumed[-1]) + 1
            self.own[2] += len(consumed)
        self.own[0] += len(is_spent)

    def add(self, places: NDArray[np.int64]) -> None:
        """Add places, ascending; those that go back begin a stretch of their own."""
        if not len(places):
            return
        edges = np.flatnonzero(np.diff(places) > 1) + 1
        starts = places[np.concatenate([[0], edges])]
        stops = places[np.concatenate([edges - 1, [len(places) - 1]])] + 1
        first = 0
        if self.last and self.last[0] <= starts[0] <= self.last[1]:
            self.last[1] = max(self.last[1], int(stops[0]))
            if self.found and self.found[-1][0] == self.last[0]:
                self.found[-1][1] = self.last[1]
            first = 1
        if len(starts) > first:
            self.counts[0] += len(starts) - first
            room = max(0, MOST_RANGES - len(self.found))
            pairs = zip(starts[first:].tolist(), stops[first:].tolist(), strict=True)
            self.found.extend([list(pair) for pair, _ in zip(pairs, range(room), strict=False)])
            self.last[:] = [int(starts[-1]), int(stops[-1])]


@dataclass(frozen=True)
class Survey:
    """What of an expected stream is still to come."""

    steps: pl.DataFrame
    """STEPS, in their order."""
    passes: pl.DataFrame
    """PASSES."""
    stretches: dict[tuple[Any, Any], Stretches]
    kept: tuple[NDArray[np.uint8], ...]
    """Of each piece a bit for each record: it is still to come."""
    refused: tuple[NDArray[np.uint8], ...]
    """Likewise: it is forbidden. Empty where nothing is."""
    unspent: tuple[NDArray[np.uint8], ...]
    """Likewise: it is not consumed as a whole. Empty where no record was consumed in part."""
    forbidden: tuple[int, int]
    """Records that are left out, and the sum of their hashes."""
    digest: int
    """The sum of the hashes of all records of the stream."""
    halved: int
    micro_batch: int
    """The most sequences of a rank and slot, in the first piece with something to come."""


def survey(stream: Ordered, spent: Spent, halves: Halves, refused: Refused | None) -> Survey:
    """Look at the whole stream once."""
    look = _Look(stream, spent, halves, refused)
    for piece in stream.pieces():
        look.take(piece)
    return look.told()


class _Look:
    """What is known while the stream passes by."""

    def __init__(
        self, stream: Ordered, spent: Spent, halves: Halves, refused: Refused | None
    ) -> None:
        self._stream, self._spent, self._halves, self._refused = stream, spent, halves, refused
        self._steps: list[pl.DataFrame] = []
        self._passes: list[pl.DataFrame] = []
        self._kept: list[NDArray[np.uint8]] = []
        self._out: list[NDArray[np.uint8]] = []
        self._unspent: list[NDArray[np.uint8]] = []
        self._stretches: dict[tuple[Any, Any], Stretches] = {}
        self._passed, self._halved, self._micro_batch = 0, 0, 0
        self._digest = [0, 0]

    def take(self, piece: pl.DataFrame) -> None:
        """Look at the next piece."""
        is_spent = self._spent.strike(piece)
        rest = self._halves.cut(piece.filter(~is_spent))
        if not self._halves.is_empty:
            self._unspent.append(np.packbits(~is_spent))
        is_gone = is_spent.copy()
        own = np.flatnonzero(~is_spent)
        cut = rest["nth"].unique().to_numpy()
        gone = rest.filter(pl.col("token_start").is_null())["nth"].to_numpy()
        is_gone[own[gone]] = True
        self._halved += len(cut)
        out = np.zeros(piece.height, np.bool_)
        if self._refused is not None:
            out[:] = self._refused(piece)
            self._out.append(np.packbits(out))
        is_left = ~is_gone & ~out
        self._kept.append(np.packbits(is_left))
        is_touched = is_spent.copy()
        is_touched[own[cut]] = True
        hashes = hash_frame(piece)
        self._digest[0] += int(hashes.sum())
        lost = out & ~is_gone
        self._digest[1] += int(hashes.filter(lost).sum())
        if not self._micro_batch and is_left.any():
            first = piece.filter(is_left)["step"][0]
            own_step = piece.filter(pl.col("step") >= first)
            self._micro_batch = _largest(own_step)
        marked = piece.select(*PLACE, "source", "epoch").with_columns(
            hashes.alias("hash"),
            is_new=_begins(piece),
            spent=pl.Series(is_spent),
            touched=pl.Series(is_touched),
            left=pl.Series(is_left),
            lost=pl.Series(lost),
            may=pl.Series(~out),
        )
        self._steps.append(_by_step(marked))
        self._passes.append(_by_pass(marked))
        self._note(piece, is_spent)
        self._passed += piece.height

    def _note(self, piece: pl.DataFrame, is_spent: Mask) -> None:
        """Note where consumed records stand."""
        if self._stream.has_positions:
            place = piece["position"]
        else:
            place = pl.int_range(self._passed, self._passed + piece.height, eager=True)
        rows = piece.select("source", "epoch", place=place, spent=pl.Series(is_spent))
        for of, own in _by_label(rows):
            known = self._stretches.setdefault(of, Stretches())
            known.follow(own["spent"].to_numpy())
            places = own.filter("spent")["place"].drop_nulls()
            known.add(places.unique().sort().to_numpy())

    def told(self) -> Survey:
        """Give what is known."""
        steps = pl.concat([pl.DataFrame(schema=STEPS), *self._steps])
        passes = pl.concat([pl.DataFrame(schema=PASSES), *self._passes])
        passes = passes.group_by("source", "epoch").agg(pl.all().sum()).sort("source", "epoch")
        return Survey(
            steps=steps.sort("step"),
            passes=passes,
            stretches=self._stretches,
            kept=tuple(self._kept),
            refused=tuple(self._out),
            unspent=tuple(self._unspent),
            forbidden=(int(steps["forbidden"].sum()), self._digest[1]),
            digest=self._digest[0],
            halved=self._halved,
            micro_batch=max(1, self._micro_batch),
        )


def _by_label(rows: pl.DataFrame) -> Iterator[tuple[tuple[Any, Any], pl.DataFrame]]:
    """Cut rows into passes; most often they are of one."""
    if all(rows[name].n_unique() == 1 for name in ("source", "epoch")):
        yield (rows["source"][0], rows["epoch"][0]), rows
        return
    for of, own in rows.partition_by("source", "epoch", as_dict=True).items():
        yield (of[0], of[1]), own


def rest_of(
    stream: Ordered, found: Survey, halves: Halves, again: Sequence[int]
) -> Iterator[pl.DataFrame]:
    """
    Give what is still to come, in its order: COLUMNS, and `sequence`, counted from 0.

    Args:
        stream: as it was surveyed.
        found: the survey.
        halves: as at its beginning.
        again: steps that are given whole, though parts of them were consumed.
    """
    replayed = pl.Series(again, dtype=pl.Int64)
    count = 0
    for nth, piece in enumerate(stream.pieces()):

        def bits(packed: Sequence[NDArray[np.uint8]]) -> Mask:
            return np.unpackbits(packed[nth], count=piece.height).astype(np.bool_)  # noqa: B023

        is_left = bits(found.kept)
        is_again = piece["step"].is_in(replayed.implode()).to_numpy()
        if is_again.any():
            is_left |= is_again & ~bits(found.refused) if found.refused else is_again
        rest = halves.cut(piece.filter(bits(found.unspent))) if found.unspent else None
        if not is_left.any():
            continue
        if rest is None:
            rows = piece.filter(is_left)
        else:
            rows = _without(piece, rest, np.flatnonzero(bits(found.unspent)), is_left, is_again)
        begins = _begins(rows)
        yield rows.with_columns(sequence=begins.cum_sum().cast(pl.Int64) + (count - 1))
        count += int(begins.sum())


def _without(
    piece: pl.DataFrame, rest: pl.DataFrame, unspent: NDArray[np.int64], is_left: Mask, again: Mask
) -> pl.DataFrame:
    """Keep what is left of a piece; of records of which a part was consumed, the rest."""
    line = unspent[rest["nth"].to_numpy()] if rest.height else np.zeros(0, np.int64)
    cut = rest.select(line=pl.Series(line, dtype=pl.Int64), begin="token_start", end="token_end")
    cut = cut.filter(~pl.Series(again[line]))  # those are given whole
    rows = piece.with_columns(line=pl.int_range(pl.len(), dtype=pl.Int64)).filter(is_left)
    joined = rows.join(cut, on="line", how="left", maintain_order="left_right")
    return joined.with_columns(
        token_start=pl.coalesce("begin", "token_start"),
        token_end=pl.coalesce("end", "token_end"),
    ).select(piece.columns)


def _begins(rows: pl.DataFrame) -> pl.Series:
    """Tell which records begin a sequence, in the order of the stream."""
    is_same = pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in PLACE)
    return rows.select((~is_same).fill_null(value=True)).to_series()


def _largest(rows: pl.DataFrame) -> int:
    """Give the most sequences of a rank and slot in the first step of some rows."""
    first = rows.filter(pl.col("step") == rows["step"][0])
    sizes = first.unique(PLACE).group_by("rank", "slot").len()["len"].max()
    return sizes if isinstance(sizes, int) else 1


def _by_step(marked: pl.DataFrame) -> pl.DataFrame:
    """Sum up the steps of a piece."""
    sequences = marked.with_columns(nth=pl.col("is_new").cum_sum())
    of_sequence = sequences.group_by("step", "nth").agg(pl.col("left", "may").any())
    rest = of_sequence.group_by("step").agg(
        sequences=pl.len().cast(pl.Int64),
        rest=pl.col("left").sum().cast(pl.Int64),
        allowed=pl.col("may").sum().cast(pl.Int64),
    )
    sums = marked.group_by("step").agg(
        records=pl.len().cast(pl.Int64),
        consumed=pl.col("touched").sum().cast(pl.Int64),
        consumed_digest=pl.col("hash").filter("touched").sum(),
        forbidden=pl.col("lost").sum().cast(pl.Int64),
    )
    return sums.join(rest, on="step").select(list(STEPS))


def _by_pass(marked: pl.DataFrame) -> pl.DataFrame:
    return marked.group_by("source", "epoch").agg(
        records=pl.len().cast(pl.Int64),
        matched=pl.col("spent").sum().cast(pl.Int64),
        matched_digest=pl.col("hash").filter("spent").sum(),
        forbidden=pl.col("lost").sum().cast(pl.Int64),
    )
