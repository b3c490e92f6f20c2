"""What is asked of a ledger to see how often each sample was used; reading is handed in."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

import polars as pl

from ledger_audit.continuity.checkpoints.archive import Archive

Pass = tuple[str | None, int | None]
"""Source and epoch."""

PASS = ["source", "epoch"]

Hashing = Literal["digest", "quick"]
"""How records are hashed: as commits tell the sum of it, or for comparison in this process only."""


def is_of(source: str | None, epoch: int | None) -> pl.Expr:
    """Tell whether a record is of one pass; null is a label like any other."""
    return pl.col("source").eq_missing(pl.lit(source, pl.String)) & pl.col("epoch").eq_missing(
        pl.lit(epoch, pl.Int32)
    )


class Met(Protocol):
    """One pass beside a list of its samples."""

    @property
    def samples(self) -> int:
        """Listed ones that were used."""

    @property
    def missing(self) -> pl.Series:
        """The first by their ids that were not, in this order."""


class Seen(Protocol):
    """Which samples of which pass were used, in bounded memory."""

    def is_clean(self, records: int) -> bool:
        """Tell whether so many noted uses were all of different samples."""

    def again(self) -> "Seen | None":
        """Give what must see all uses once more before any can be suspected; null: nothing."""

    def suspects(self, records: int, most: int) -> Iterator[pl.Expr]:
        """Give conditions on so many records, each met by some `most`, that all repeats meet."""

    def met(self, of: Pass, listed: pl.Series, most: int) -> Met:
        """Compare the uses of a pass with a list of ids, each once; `most` examples."""

    def among(self, asked: pl.DataFrame) -> pl.DataFrame:
        """Keep of some samples (source, epoch, sample_id) those that their pass used."""

    def close(self) -> None:
        """Let go of what was kept."""


@dataclass(frozen=True)
class Steps:
    """Some steps of one attempt."""

    attempt: str
    first: int
    last: int
    but: pl.Series
    """Steps among them that are left out."""


@dataclass(frozen=True)
class Looked:
    """What some steps of an attempt used."""

    counts: pl.DataFrame
    """
    rank, step, n, tokens, spans, mixed: the records of each rank and step, those handed in
    included; `mixed`, the sum of their hashes, else 0.
    """
    sums: pl.DataFrame
    """
    source, epoch, records, tokens (of those with spans), spans, inner (records that begin inside a
    document), placed (records with a position), first_step, last_step.
    """


class Look(Protocol):
    """Reads once."""

    def __call__(
        self, seen: Seen, steps: Steps, rows: Iterable[pl.DataFrame], hashing: Hashing | None
    ) -> Looked:
        """Note the uses of some steps, and of SAMPLES that are handed in; null: hash none."""


def _all(rows: pl.DataFrame) -> pl.DataFrame:
    return rows


@dataclass(frozen=True)
class Library:
    """
    One ledger, of which all records can pass by, or those of some samples.

    What is answered of some samples alone adds up to what is answered of all.
    """

    archive: Archive
    id_type: pl.DataType
    """Integers or text."""
    bounds: Callable[[], tuple[int, int] | None]
    """→ the lowest and the highest id; null: ids are text, or there is none."""
    begin: Callable[[int, bool], Seen]
    """Bytes of memory, whether ids may have bytes of their own → nothing was used yet."""
    unnoted: Callable[[], Seen]
    """→ what can be handed to `look`, and notes nothing."""
    look: Look
    """Lets the records of some steps pass by."""
    find: Callable[[Steps, pl.Expr], pl.DataFrame]
    """Steps, a condition → SAMPLES of these steps that fulfil it."""
    lowest: Callable[[Steps, pl.Expr, int], pl.Series]
    """Steps, a condition, how many → the lowest ids of the records that fulfil it."""
    sums: Callable[[Steps], pl.DataFrame]
    """Steps → source, epoch, records, tokens (of those with spans), spans."""
    ids: Callable[[Steps], pl.DataFrame]
    """Steps → source, epoch, sample_id, each once."""
    put_away: Callable[[], dict[str, tuple[int, int]]]
    """→ attempt → segments that were not kept on purpose, and the records that were in them."""
    times: Callable[[str, int | None], pl.DataFrame]
    """
    Attempt, a step (null: none) → rank, since_ns (of its commit of the step; else of its start),
    until_ns (of the last thing that it logged).
    """
    sizes: Callable[[Steps], tuple[pl.DataFrame, pl.DataFrame]]
    """
    Steps → rank, step, n: all records, also of samples that are not its own; and source, epoch: the
    passes that they are of.
    """
    own: Callable[[pl.DataFrame], pl.DataFrame] = field(default=_all)
    """Rows with `sample_id` → those of the samples that are answered for."""
