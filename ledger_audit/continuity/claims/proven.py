"""What a tally holds, by rank and pass, so that each number of a claim is looked up at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import polars as pl

from ledger_audit.continuity.claims.claim import Claim, Unit
from ledger_audit.continuity.claims.passes import Passes
from ledger_audit.continuity.claims.tally import TALLY, Tally
from ledger_audit.continuity.claims.wording import amount

ALL = None
"""Where a rank is asked for: all of them."""


@dataclass(frozen=True)
class Cell:
    """Amounts of a rank and pass, or of several."""

    records: int = 0
    sequences: int = 0
    documents: int = 0
    tokens: int | None = 0
    """Null: some of it has no spans."""
    micro_batches: int = 0

    def __add__(self, other: "Cell") -> "Cell":
        no_tokens = self.tokens is None or other.tokens is None
        return Cell(
            self.records + other.records,
            self.sequences + other.sequences,
            self.documents + other.documents,
            None if no_tokens else (self.tokens or 0) + (other.tokens or 0),
            self.micro_batches + other.micro_batches,
        )

    @property
    def is_plain(self) -> bool:
        """Each record is one sequence of one sample, none of them twice in its rank and pass."""
        return self.records == self.sequences == self.documents


NOTHING = Cell()


@dataclass(frozen=True)
class Used:
    """The rows of one frame of a tally."""

    of_rank: Mapping[int, Mapping[int | None, Cell]]
    of_pass: Mapping[int | None, Cell]

    def cell(self, rank: int | None, epoch: int | None, *, is_run: bool) -> Cell:
        """
        Add up what a rank used.

        Args:
            rank: null: all ranks.
            epoch: the pass, as the ledger labels it; null: rows without a label.
            is_run: all passes.
        """
        cells = self.of_pass if rank is None else self.of_rank.get(rank, {})
        return sum(cells.values(), NOTHING) if is_run else cells.get(epoch, NOTHING)


def used(frame: pl.DataFrame) -> Used:
    """Index the rows of a TALLY by rank and pass."""
    of_rank: dict[int, dict[int | None, Cell]] = {}
    of_pass: dict[int | None, Cell] = {}
    for rank, epoch, *amounts in frame.select(list(TALLY)).iter_rows():
        cell = Cell(*amounts)
        mine = of_rank.setdefault(rank, {})
        mine[epoch] = mine.get(epoch, NOTHING) + cell
        of_pass[epoch] = of_pass.get(epoch, NOTHING) + cell
    return Used(of_rank, of_pass)


@dataclass(frozen=True)
class Proven:
    """All that the numbers of claims are compared with."""

    tally: Tally
    committed: Used
    voided: Used
    thrown: Used
    """All that void updates used, what was used again included."""
    open: Used
    before: Used | None
    """What was committed before the newest attempt; null: not known, or nothing was resumed."""
    passes: Passes
    ranks: tuple[int, ...]
    """Those that take part now."""
    whole: Cell
    """All that was committed or voided."""
    queued: Mapping[int, int] = field(default_factory=dict)
    """Rank → sequences that its claim says are waiting in its loader."""
    read: tuple[int, ...] = ()
    """Sequences that all ranks read since the run began, as the claims say beside a count of what
    all consumed: their sum, or one number that all who say it share. Empty: they do not."""
    is_read_by_all: bool = False
    """Every rank says what was read; else the one number may be that of some ranks only."""
    may_have_come_round: bool = False
    """Void samples that were used again may have come round in the next pass."""
    share: int | None = None
    """A rank's share of a pass, padding included; null: not known, or passes are not dealt out
    evenly."""
    passed_back: "Proven | None" = None
    """The same if what void updates used after the last committed step is used again; null: they
    used nothing there."""

    @property
    def is_reshaped(self) -> bool:
        """The number of ranks changed: a rank's count may have been dealt out anew."""
        return len(set(self.tally.world_sizes)) > 1

    @property
    def micro_batch(self) -> int | None:
        """Sequences of a micro-batch; null where they are neither told nor all of one size."""
        told = self.tally.micro_batch_size
        if told is not None or not self.whole.micro_batches:
            return told
        size, rest = divmod(self.whole.sequences, self.whole.micro_batches)
        return None if rest else size

    def noun(self, unit: str | None) -> str:
        """Name what is counted; people are told samples where a record is a whole sample."""
        if unit is None or (unit in ("records", "sequences", "documents") and self.whole.is_plain):
            return "samples"
        return unit

    def unused(self, stage: Literal["queued", "read"]) -> int | None:
        """
        Give how many more are logged at a stage than updates used.

        Null: none is logged, or records are not sequences.
        """
        logged = self.tally.queued if stage == "queued" else self.tally.read
        if logged is None or self.whole.records != self.whole.sequences:
            return None
        return logged - self.whole.records

    def is_one(self, rank: int | None) -> bool:
        """Whether what is asked for is the use of one rank, and of no more."""
        return rank is not None or len({*self.committed.of_rank, *self.voided.of_rank}) < 2

    def is_known(self, rank: int) -> bool:
        """Whether the ledger can say what a rank used, be it nothing."""
        if rank in self.committed.of_rank or rank in self.voided.of_rank:
            return True
        return self.tally.unseen is None and (rank in self.ranks or not self.committed.of_rank)


def proven(tally: Tally, claims: Mapping[int, Claim]) -> Proven:
    """Index a tally, and what the claims themselves say is queued."""
    committed, voided = used(tally.committed), used(tally.voided)
    thrown = voided if tally.voided_all is None else used(tally.voided_all)
    whole = sum((*committed.of_pass.values(), *voided.of_pass.values()), NOTHING)
    most = sum((*committed.of_pass.values(), *thrown.of_pass.values()), NOTHING).sequences
    ranks = tuple(sorted({*committed.of_rank, *voided.of_rank}))
    if tally.world_sizes:
        ranks = tuple(range(tally.world_sizes[-1]))
    size = tally.micro_batch_size
    queued: dict[int, int] = {}
    for rank, claim in claims.items():
        for one in claim.counts:
            if one.stage == "queued" and one.unit == "micro-batches" and size is not None:
                queued.setdefault(rank, one.value * size)
            elif one.stage == "queued" and one.unit not in ("micro-batches", "tokens"):
                queued[rank] = one.value
    passes = Passes.of(tally, committed.of_rank, voided.of_rank, whole, most)
    read, is_of_all = _read(claims, ranks, is_plain=whole.records == whole.sequences)
    back = tally.passed_back()
    passed_back = None if back is None else _alike(proven(back, claims), passes, ranks)
    return Proven(
        tally=tally,
        committed=committed,
        voided=voided,
        thrown=thrown,
        open=used(tally.open),
        before=None if tally.committed_before is None else used(tally.committed_before),
        passes=passes,
        ranks=ranks,
        whole=whole,
        queued=queued,
        read=read,
        is_read_by_all=is_of_all,
        may_have_come_round=passes.may_have_turned and thrown.of_rank != voided.of_rank,
        share=_share(tally, passes, ranks, (committed, voided)),
        passed_back=passed_back,
    )


def _alike(back: Proven, passes: Passes, ranks: tuple[int, ...]) -> Proven:
    """Keep the ranks that take part, and the batch, of which void updates are evidence too."""
    slack = max(passes.slack, back.passes.slack)
    return replace(back, ranks=ranks, passes=replace(back.passes, slack=slack))


def _share(
    tally: Tally, passes: Passes, ranks: tuple[int, ...], parts: tuple[Used, ...]
) -> int | None:
    """Give how much of a pass is a rank's; null where some rank used more, or ranks changed."""
    if passes.samples is None or len(ranks) < 2 or len(set(tally.world_sizes)) > 1:
        return None
    share = -(-passes.samples // len(ranks))
    used: dict[tuple[int, int | None], int] = {}
    for part in parts:
        for rank, cells in part.of_rank.items():
            for label, cell in cells.items():
                place = (rank, None if passes.sizes is None else label)
                used[place] = used.get(place, 0) + cell.sequences
    return share if max(used.values(), default=0) <= share else None


def _read(
    claims: Mapping[int, Claim], ranks: tuple[int, ...], *, is_plain: bool
) -> tuple[tuple[int, ...], bool]:
    """
    Give what the claims say that all ranks read, and whether every rank says it.

    A trainer may write down its own number or everyone's under the same key: both are given.
    """
    units = (None, "records", "sequences") if is_plain else ("sequences",)
    counts = [(rank, one) for rank, claim in claims.items() for one in claim.counts]
    of_run = [(rank, one) for rank, one in counts if one.since == "run" and one.unit in units]
    said = {rank: one.value for rank, one in of_run if one.stage == "read"}
    if not any(one.of == "all" and one.stage == "consumed" for _, one in of_run) or not said:
        return (), False
    shared = [next(iter(said.values()))] if len(set(said.values())) == 1 else []
    if not said.keys() >= set(ranks):
        return tuple(shared), False
    return tuple(sorted({*shared, sum(said.values())})), True


def measure(cell: Cell, unit: Unit | None, *, is_one_rank: bool) -> int | str:
    """
    Give an amount in a unit, or why there is none.

    Args:
        cell: what was used.
        unit: null: the claim does not say; then all units must give one number.
        is_one_rank: only one rank used it; a document that ranks share is in each of them.
    """
    if unit == "tokens":
        return "tokens are not counted: no spans are logged" if cell.tokens is None else cell.tokens
    if unit == "micro-batches":
        return cell.micro_batches
    if unit == "documents" and not (is_one_rank or cell.is_plain):
        return "documents that several ranks used cannot be told from those that one used"
    if unit is None and cell.records != cell.sequences:
        return (
            f"the claim has no unit, and it is {amount(cell.records, 'records')}, "
            f"{amount(cell.sequences, 'sequences')} and {amount(cell.documents, 'documents')}"
        )
    return {"records": cell.records, "documents": cell.documents}.get(unit or "", cell.sequences)
