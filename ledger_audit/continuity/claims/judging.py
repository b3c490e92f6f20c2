"""Judges one number of a claim by what committed and void updates used."""

from dataclasses import dataclass

from ledger_audit.continuity.claims.claim import Count
from ledger_audit.continuity.claims.gap import SAMPLE_UNITS, Gap, explanations, prefetched
from ledger_audit.continuity.claims.passes import Ending, Pass
from ledger_audit.continuity.claims.places import by_place, may_be_place, other_place
from ledger_audit.continuity.claims.proven import Proven, measure
from ledger_audit.continuity.claims.wording import amount, going_on, was
from ledger_audit.model.claims import Agreement

WHOSE = "{whose}"
"""Where a story names the ranks, once it is known for which it is the same."""
EACH = "{each}"
"""Where it says that an amount is that of each of them."""


@dataclass(frozen=True)
class Judged:
    """What one number is worth."""

    claimed: int
    found: int | None
    agreement: Agreement
    story: str
    """What comes after `the claim says`."""
    ahead: int | None = None
    """Sequences of those whose use it counts that a resume would skip; negative: replay; null:
    it does not say."""
    note: str | None = None


@dataclass(frozen=True)
class Number:
    """One number, as one rank says it."""

    count: Count
    rank: int | None
    """Null: it counts the use of all ranks."""
    where: Pass
    known: Proven
    shared: str | None = None
    """That it is another rank's number, if it is."""

    @property
    def what(self) -> str:
        """Say the number: how many of what, whose and since when."""
        since = "since the run began"
        if self.count.since == "epoch":
            label = self.where.label
            since = f"in the {'next' if self.where.place == 'next' else 'first'} pass"
            since = since if label is None else f"in pass {label:,}"
        told = amount(self.count.value, self.known.noun(self.count.unit))
        # a step is that of all ranks, whoever says it
        return f"{told} {since}" if self.count.unit == "steps" else f"{told} {WHOSE} {since}"

    def gap(self, committed: int = 0, voided: int = 0) -> Gap:
        """Put it beside what was found."""
        label = self.where.label
        return Gap(self.count, self.rank, label, committed, voided, self.known)

    def judged(
        self,
        agreement: Agreement,
        text: str,
        *,
        found: int | None = None,
        ahead: int | None = None,
        note: str | None = None,
    ) -> Judged:
        """Give what it is worth."""
        return Judged(self.count.value, found, agreement, f"{self.what}{text}", ahead, note)

    def not_compared(self, why: str, found: int | None = None) -> Judged:
        """Leave it alone, and say why."""
        return self.judged("not-compared", f"; not compared: {why}", found=found)


def judge(number: Number) -> Judged:
    """Judge one number."""
    if number.count.stage != "consumed":
        return _inform(number)
    if number.count.since == "epoch" and number.where.place not in ("newest", "whole"):
        return _of_another_pass(number)
    if number.count.unit == "steps":
        return _steps(number)
    if number.rank is not None and not number.known.is_known(number.rank):
        return number.not_compared("the rank left no record in the ledger")
    return _elements(number) if number.count.unit == "elements" else _amount(number)


def _inform(number: Number) -> Judged:
    """Tell a number of what waits, or was read: it explains others and proves nothing."""
    known, stage = number.known, number.count.stage
    logged = known.tally.read
    if stage == "queued":
        begun = sum(cell.records for cell in known.open.of_pass.values())
        waiting = known.unused("queued")
        logged = None if waiting is None else max(0, waiting - begun)
    beside = (
        "the ledger logs none" if logged is None else f"the ledger logs {logged:,} of all ranks"
    )
    told = amount(number.count.value, known.noun(number.count.unit))
    text = f"{told} {WHOSE} {stage}, {beside}; that is no position"
    return Judged(number.count.value, logged, "not-compared", text)


def _amount(number: Number) -> Judged:
    gap = number.gap()
    cells = [gap.cell(one, number.rank) for one in (number.known.committed, number.known.voided)]
    is_one_rank = number.known.is_one(number.rank)
    found = [measure(cell, number.count.unit, is_one_rank=is_one_rank) for cell in cells]
    committed, voided = found
    if isinstance(committed, str) or isinstance(voided, str):
        why = committed if isinstance(committed, str) else str(voided)
        return number.not_compared(why)
    documents = sum(cell.documents for cell in cells)
    value = number.count.value
    if number.count.unit is None and value == documents != committed + voided:
        why = f"it is the number of documents ({documents:,}), and the claim has no unit"
        return number.not_compared(why, committed)
    gap = number.gap(committed, voided)
    place = by_place(gap)
    if place is not None and place.agreement == "not-compared":
        return number.not_compared(place.text, committed)
    if place is not None:
        text = f", {place.text}"
        return number.judged(place.agreement, text, found=committed, ahead=place.ahead)
    return _compared(number, gap)


def _compared(number: Number, gap: Gap) -> Judged:
    unseen = number.known.tally.unseen
    same = _equal(gap)
    if same is not None and unseen is not None and number.rank is None:
        return number.not_compared(f"as many were found, but {unseen}", gap.committed)
    if same is not None:
        text = f": {_found(gap)}{same}" if gap.voided else f", as committed updates consumed{same}"
        return number.judged("agrees", text, found=gap.committed, ahead=0)
    if gap.extra > 0 and unseen is not None:
        why = f"{gap.committed:,} were found{_void(gap)}, but {unseen}"
        return number.not_compared(why, gap.committed)
    if gap.extra < 0 and number.count.may_restart:
        why = f"{_found(gap)}, but it may have begun anew at a resume"
        return number.not_compared(why, gap.committed)
    reasons = [*([number.shared] if number.shared else []), *explanations(gap)]
    dropped = _with_dropped(number, gap, reasons)
    return _wrong(number, gap, reasons) if dropped is None else dropped


def _found(gap: Gap) -> str:
    return f"committed updates consumed {gap.committed:,}{_void(gap)}"


def _void(gap: Gap) -> str:
    return f" and void ones {gap.voided:,} more" if gap.voided else ""


def _with_dropped(number: Number, gap: Gap, reasons: list[str]) -> Judged | None:
    """
    Judge a number that is ahead by samples that were dropped; null: it is not.

    They were not used, and the stream went on. Where places are logged, these decide.
    """
    known, logged = number.known, number.known.tally.dropped
    is_counted = gap.is_samples and known.whole.records == known.whole.sequences
    if not logged or not is_counted or gap.extra <= 0 or may_be_place(gap):
        return None
    passes = known.passes.sizes or {}
    is_whole = gap.rank is None or len(known.ranks) < 2
    is_whole &= gap.count.since == "run" or len(passes) < 2
    if known.before is not None or (not is_whole and gap.extra <= logged):
        which = "of which rank and pass" if known.before is None else "how many before the resume"
        why = f"{_found(gap)}, and {which} samples were dropped is not counted"
        return None if reasons else number.not_compared(why, gap.committed)
    if gap.extra != logged or not is_whole:
        return None
    text = f"{_found(gap)}, and {logged:,} were dropped, as the ledger logs"
    if reasons:
        return number.not_compared(f"{text}; or {'; or '.join(reasons)}", gap.committed)
    return number.judged("agrees", f": {text}", found=gap.committed, ahead=0)


def _wrong(number: Number, gap: Gap, reasons: list[str]) -> Judged:
    """Tell of a number that is not what was used, what explains it, and what a resume would do."""
    noun, other = number.known.noun(number.count.unit), other_place(gap)
    if other is not None and gap.count.value and not reasons:
        # as a count it is ahead of one number or behind it, and as a place of another
        text = f", {_found(gap)}, and the place that comes next is {other:,}: it is neither"
        return number.judged("contradicts", text, found=gap.committed)
    because = f"; {'; or '.join(reasons)}" if reasons else ""
    text = f", {_found(gap)}{because}: {going_on(gap.extra, noun)}{EACH}"
    if gap.voided and gap.count.value == gap.committed:
        text += ", which void updates used"
    ahead = gap.extra if gap.is_samples and number.count.unit != "documents" else None
    return number.judged("contradicts", text, found=gap.committed, ahead=ahead)


def _equal(gap: Gap) -> str | None:
    """
    Tell how a number is that of what was used: empty, if plainly; null: it is not.

    Passes that are over may be counted at the data set's size, without what padding added or
    drop_last left out, and batches at their nominal size.
    """
    if gap.extra == 0:
        return ""
    batch = gap.count.batch
    if batch:
        cells = [gap.cell(one, gap.rank) for one in (gap.known.committed, gap.known.voided)]
        if gap.count.value == sum(cell.micro_batches for cell in cells) * batch:
            return f", each batch counted as {batch:,}"
    passes = gap.known.passes
    if not gap.is_samples or gap.rank is not None or passes.samples is None or not passes.sizes:
        return None
    is_run = gap.count.since == "run" or gap.label is None
    nominal = sum(passes.nominal(one) for one in passes.sizes if is_run or one == gap.label)
    return f", each pass counted as {passes.samples:,}" if gap.count.value == nominal else None


def _steps(number: Number) -> Judged:
    """Compare steps with the checkpoint's own."""
    sizes, step, value = number.known.passes.sizes, number.known.tally.step, number.count.value
    if number.count.since == "epoch" and sizes is not None and len(sizes) > 1:
        return number.not_compared("steps are not counted by pass")
    if value == step:
        return number.judged("agrees", ", as the checkpoint holds", found=step, ahead=0)
    if value > step and number.known.tally.unseen is not None:
        return number.not_compared(f"it is that of step {step:,}, but {number.known.tally.unseen}")
    text = f", the checkpoint is that of step {step:,}: {going_on(value - step, 'steps')}"
    return number.judged("contradicts", text, found=step)


def _elements(number: Number) -> Judged:
    """Compare what the loader's last stage handed out, whatever that is."""
    known, value = number.known, number.count.value
    cells = [
        known.committed.cell(number.rank, label, is_run=is_run)
        + known.voided.cell(number.rank, label, is_run=is_run)
        for label, is_run in _scopes(number)
    ]
    used = cells[0]
    if value in {cell.sequences for cell in cells}:
        text = f", as many as the {known.noun('sequences')} that committed updates consumed"
        return number.judged("agrees", text, found=value, ahead=0)
    if value in {cell.micro_batches for cell in cells}:
        return number.judged("agrees", ", as many as its micro-batches", found=value, ahead=0)
    ending = known.passes.ending(known.passes.newest_of.get(number.rank or 0))
    is_new = number.count.since == "run" and ending in ("over", "rest")
    if value == 0 and not is_new:
        consumed = amount(used.sequences, known.noun("sequences"))
        text = f", committed updates consumed {consumed}: "
        text += going_on(-used.sequences, known.noun("sequences")) + EACH
        return number.judged("contradicts", text, found=used.sequences, ahead=-used.sequences)
    return number.not_compared(
        f"it is neither its {amount(used.sequences, known.noun('sequences'))} nor its "
        f"{amount(used.micro_batches, 'micro-batches')}: a filter, a shuffle buffer or batches "
        "make it another number",
        used.sequences,
    )


def _scopes(number: Number) -> list[tuple[int | None, bool]]:
    """List what an element may count: its pass, or the run; an iterator may be made for a pass."""
    passes = number.known.passes
    if number.count.since == "epoch" and passes.sizes is not None:
        return [(number.where.label, False)]
    newest = passes.newest_of.get(number.rank or 0)
    return [(None, True)] if newest is None else [(None, True), (newest, False)]


def _of_another_pass(number: Number) -> Judged:
    if number.where.place == "unknown":
        return number.not_compared(number.where.why)
    return _older(number) if number.where.place == "older" else _later(number)


def _older(number: Number) -> Judged:
    known, label = number.known, number.where.label
    newest = max(known.passes.sizes or {0: 0})
    if number.rank is not None:
        newest = known.passes.newest_of.get(number.rank, newest)
    used: dict[int | None, int] = {}
    for one in (known.committed, known.voided):
        cells = one.of_pass if number.rank is None else one.of_rank.get(number.rank, {})
        for at, cell in cells.items():
            used[at] = used.get(at, 0) + cell.sequences
    ahead = None
    # more than its own pass holds is no place in it
    if _is_samples(number) and label is not None and number.count.value <= used.get(label, 0):
        later = sum(one for at, one in used.items() if at is not None and at >= label)
        ahead = number.count.value - later
    text = f", and committed updates are in pass {newest:,}"
    if ahead is not None:
        text += f": {going_on(ahead, known.noun('sequences'))}{EACH}"
    return number.judged("contradicts", text, ahead=ahead)


def _later(number: Number) -> Judged:
    """Judge a number of a pass that no update used anything of."""
    known, value, label = number.known, number.count.value, number.where.label
    passes, unseen = known.passes, known.tally.unseen
    newest = None if label is None else label - 1
    if number.where.place == "beyond":
        newest = max(passes.sizes or {0: 0})
        if unseen is not None:
            return number.not_compared(f"committed updates are in pass {newest:,}, but {unseen}")
        return number.judged("contradicts", f", and committed updates are in pass {newest:,}")
    ending, left = passes.ending(newest), passes.left(newest) or 0
    if value == 0 and ending != "open":
        return _begins(number, newest, ending, left)
    if unseen is not None:
        return number.not_compared(f"committed updates are in {_named(newest)}, but {unseen}")
    rest = {"over": 0, "open": left}.get(ending)
    ahead = None
    if rest is not None and (rest == 0 or number.rank is None) and _is_samples(number):
        ahead = value + rest
    text = f", and committed updates are in {_named(newest)}"
    if rest:
        text += f", of which {was(rest, known.noun('sequences'))} not used"
    why = prefetched(number.gap()) if rest == 0 else None
    text += f"; {why}" if why else ""
    if ahead is not None:
        text += f": {going_on(ahead, known.noun('sequences'))}{EACH}"
    return number.judged("contradicts", text, found=0, ahead=ahead)


def _begins(number: Number, newest: int | None, ending: Ending, left: int) -> Judged:
    """Judge the beginning of a pass, where the one before it may be over."""
    note = None
    if ending == "rest":
        rest = was(left, "samples", f"of {_named(newest)}")
        what = "it" if left == 1 else "them"
        return number.not_compared(
            f"{rest} not used, and whether drop_last leaves {what} out is not logged"
        )
    if ending == "unknown":
        note = f"whether {_named(newest)} was over is not known: the data set's size is not logged"
    elif left:
        note = f"{was(left, 'samples', f'of {_named(newest)}')} left out, as drop_last does"
    text = f", and {_named(newest)} is over" if ending == "over" else f", after {_named(newest)}"
    return number.judged("agrees", text, found=0, ahead=0, note=note)


def _is_samples(number: Number) -> bool:
    return number.count.unit in SAMPLE_UNITS


def _named(label: int | None) -> str:
    return "the first pass" if label is None else f"pass {label:,}"
