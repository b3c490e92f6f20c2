"""One number of a claim beside what was found, and what would explain that they differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ledger_audit.continuity.claims.claim import Count
from ledger_audit.continuity.claims.proven import Cell, Proven, Used, measure
from ledger_audit.continuity.claims.wording import amount, ranks_told

SAMPLE_UNITS = (None, "records", "sequences", "documents")


@dataclass(frozen=True)
class Gap:
    """A number that is not what committed and void updates used."""

    count: Count
    """Its value is what the claim says."""
    rank: int | None
    """Null: the number counts the use of all ranks."""
    label: int | None
    """The pass that it is about, where it counts a pass and the ledger labels them."""
    committed: int
    voided: int
    known: Proven

    @property
    def extra(self) -> int:
        """How far it is ahead of what was used."""
        return self.count.value - self.committed - self.voided

    @property
    def more(self) -> int | None:
        """
        How much more may count: void uses of samples that were used again.

        0 where they were replayed; without epochs they may have come round in the next pass.
        Null: it is not known in this unit.
        """
        if not self.known.may_have_come_round:
            return 0
        thrown = self.found(self.known.thrown, self.rank)
        if thrown is None:
            return None
        used = self.committed + self.voided
        batches = 0
        for one in (self.known.committed, self.known.thrown):
            batches += self.cell(one, self.rank).micro_batches * (self.count.batch or 0)
        committed = self.found(self.known.committed, self.rank) or 0
        return max(0, committed + thrown - used, batches - used)

    @property
    def share(self) -> int | None:
        """A rank's share of a pass, padding included; null: it is of all, or there are none."""
        return None if self.rank is None else self.known.share

    @property
    def left(self) -> int | None:
        """How much is left to skip in its pass, in its unit; null: not known, or no pass's."""
        if self.count.since == "run":
            return None
        left, share = self.known.passes.left(self.label), self.share
        if left is None:
            return None
        if share is not None:
            used = (self.cell(one, self.rank) for one in (self.known.committed, self.known.voided))
            left = min(left, share - sum(one.sequences for one in used))
        if self.is_samples:
            return left
        size = self.known.micro_batch
        return -(-left // size) if size and self.count.unit == "micro-batches" else None

    @property
    def is_samples(self) -> bool:
        """It counts samples, not batches, tokens or steps."""
        return self.count.unit in SAMPLE_UNITS

    def found(self, used: Used, rank: int | None) -> int | None:
        """Give what a rank used of the same passes, in the same unit; null: it cannot be told."""
        is_one = self.known.is_one(rank)
        found = measure(self.cell(used, rank), self.count.unit, is_one_rank=is_one)
        return found if isinstance(found, int) else None

    def used_by(self, rank: int | None) -> int | None:
        """Give what committed and void updates of a rank used; null: it cannot be told."""
        parts = [self.found(one, rank) for one in (self.known.committed, self.known.voided)]
        return None if None in parts else sum(one or 0 for one in parts)

    def cell(self, used: Used, rank: int | None) -> Cell:
        """Give what a rank used of the same passes."""
        is_run = self.count.since == "run" or self.known.passes.sizes is None
        return used.cell(rank, self.label, is_run=is_run)

    def sum(self, why: str) -> str:
        """Show how far it is ahead, and what that is."""
        void = f" - {self.voided:,} void" if self.voided else ""
        return f"{self.count.value:,} claimed - {self.committed:,} committed{void} = {why}"


def explanations(gap: Gap) -> list[str]:
    """Give everything that explains the difference; none: nothing does."""
    return list(dict.fromkeys(told for rule in RULES if (told := rule(gap)) is not None))


def impossible(gap: Gap) -> str | None:
    """More is claimed than a pass can hold."""
    samples = gap.known.passes.samples
    if gap.count.since == "run" or not gap.is_samples or samples is None:
        return None
    if gap.count.value > samples:
        return f"more than the data set holds ({samples:,}): impossible"
    if gap.share is not None and gap.count.value > gap.share:
        return f"more than a rank's share of the data set ({gap.share:,} of {samples:,})"
    return None


def group_begun(gap: Gap) -> str | None:
    """Slots of the next step are counted, and no update holds them."""
    begun = gap.found(gap.known.open, gap.rank)
    if not begun or gap.extra != begun:
        return None
    step = gap.known.tally.step + 1
    return gap.sum(
        f"{amount(begun, gap.known.noun(gap.count.unit))} of step {step:,}, which had begun and "
        "is in no update"
    )


def queue_claimed(gap: Gap) -> str | None:
    """The claim itself says that so many are queued."""
    queued = gap.known.queued
    if not gap.is_samples or not queued or gap.extra <= 0:
        return None
    told = (
        {queued.get(gap.rank)} if gap.rank is not None else {*queued.values(), sum(queued.values())}
    )
    return gap.sum(f"{gap.extra:,} queued, as the claim says") if gap.extra in told else None


def queue_logged(gap: Gap) -> str | None:
    """As many are logged as queued, or as read, and were not used."""
    if gap.rank is not None and len(gap.known.ranks) > 1:
        return None  # the log's amounts are those of all ranks
    if not gap.is_samples or gap.extra <= 0:
        return None
    for stage in ("queued", "read"):
        if gap.extra == gap.known.unused(stage):
            return gap.sum(f"{gap.extra:,} {stage} and not used, as the ledger logs")
    return None


def prefetched(gap: Gap) -> str | None:
    """The loader's workers had read so far ahead."""
    tally, size = gap.known.tally, gap.known.micro_batch
    if not tally.workers or not tally.prefetch_factor or gap.extra <= 0:
        return None
    workers = "worker" if tally.workers == 1 else "workers"
    factors = [(tally.workers, workers), (tally.prefetch_factor, "prefetched")]
    if gap.rank is None and len(gap.known.ranks) > 1:
        factors.insert(0, (len(gap.known.ranks), "ranks"))
    if gap.is_samples and size:
        factors.append((size, "a batch"))
    elif gap.count.unit != "micro-batches":
        return None
    product = 1
    for factor, _ in factors:
        product *= factor
    if product != gap.extra:
        return None
    return gap.sum(f"{gap.extra:,} = {' x '.join(f'{one:,} {what}' for one, what in factors)}")


def since_last_resume(gap: Gap) -> str | None:
    """The count began anew at the last resume, or has stood still since."""
    if gap.known.before is None:
        return None
    before = gap.found(gap.known.before, gap.rank)
    if not before:
        return None
    if gap.count.value == gap.committed - before:
        return f"it counts since the last resume only ({gap.committed:,} - {before:,} before it)"
    if gap.count.value == before:
        return "it has not moved since the last resume"
    return None


def of_one_rank(gap: Gap) -> str | None:
    """A rank's own count is given as everyone's."""
    if gap.rank is not None or len(gap.known.ranks) < 2 or gap.count.unit == "steps":
        return None
    owners = [one for one in gap.known.ranks if gap.used_by(one) == gap.count.value]
    if not owners or not gap.count.value:
        return None
    return f"a rank's own count given as everyone's (it is that of {ranks_told(owners)})"


def of_all_ranks(gap: Gap) -> str | None:
    """Everyone's count is given as a rank's own."""
    if gap.rank is None or len(gap.known.ranks) < 2 or not gap.count.value:
        return None
    is_all = gap.used_by(None) == gap.count.value
    return "everyone's count given as a rank's own" if is_all else None


RULES: tuple[Callable[[Gap], str | None], ...] = (
    impossible,
    group_begun,
    queue_claimed,
    queue_logged,
    prefetched,
    since_last_resume,
    of_one_rank,
    of_all_ranks,
)


def shared(values: Mapping[int, int], used: Mapping[int, int | None]) -> dict[int, str]:
    """
    Tell of ranks that say another rank's count.

    Args:
        values: rank → what it says.
        used: rank → what it used; null: it cannot be told.

    Returns:
        rank → explanation, of ranks that say what another used and they did not.
    """
    owners: dict[int, list[int]] = {}
    for rank, amount_used in used.items():
        if amount_used is not None:
            owners.setdefault(amount_used, []).append(rank)
    sayers: dict[int, list[int]] = {}
    for rank, value in values.items():
        sayers.setdefault(value, []).append(rank)
    told: dict[int, str] = {}
    for value, ranks in sayers.items():
        wrong = [rank for rank in ranks if used.get(rank) not in (None, value)]
        within = [rank for rank in owners.get(value, []) if rank in ranks]
        owner = within or owners.get(value, [])
        if not wrong or not owner or not value:
            continue
        who = "all ranks say" if len(ranks) == len(values) > 1 else f"{ranks_told(ranks)} say"
        if len(ranks) == 1:
            who = f"{ranks_told(ranks)} says"
        told |= dict.fromkeys(wrong, f"{who} the count of {ranks_told(owner)}")
    return told
