"""Judges one number of a claim by what committed and void updates used."""

from ledger_audit.continuity.claims.elements import judge_elements
from ledger_audit.continuity.claims.gap import SAMPLE_UNITS, Gap, explanations, prefetched
from ledger_audit.continuity.claims.number import EACH, WHOSE, Judged, Number
from ledger_audit.continuity.claims.passes import Ending
from ledger_audit.continuity.claims.places import by_place, may_be_place, other_place
from ledger_audit.continuity.claims.proven import measure
from ledger_audit.continuity.claims.wording import amount, going_on, was


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
    return judge_elements(number) if number.count.unit == "elements" else _amount(number)


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
    again = _used_again(number, gap)
    if again is not None:
        return again
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


def _used_again(number: Number, gap: Gap) -> Judged | None:
    """
    Leave a number alone that may be right if void samples came round in the next pass.

    Null: it is wrong in any case, or none did. Where places are logged, these decide.
    """
    more = 0 if may_be_place(gap) else gap.more
    if more == 0 or gap.extra < 0:
        return None
    dropped = number.known.tally.dropped or 0 if gap.is_samples else 0
    if more is not None and gap.extra > more + dropped:
        return None
    what = "void updates used more that was"
    if more is not None:
        what = was(more, number.known.noun(number.count.unit), "of void updates")
    why = f"{_found(gap)}, and {what} used again: whether in the next pass, no epoch is logged"
    return number.not_compared(f"{why} to tell", gap.committed)


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
    more = 0 if may_be_place(gap) else gap.more or 0
    extra = gap.extra - more if gap.extra > 0 else gap.extra
    skipped = extra if gap.left is None else min(extra, gap.left)
    text = f", {_found(gap)}{because}: {_going(skipped, extra, noun)}"
    if more:
        text += f" at least: {was(more, noun, 'of void updates')} used again"
    elif gap.voided and gap.count.value == gap.committed:
        text += ", which void updates used"
    is_known = gap.is_samples and number.count.unit != "documents" and not more
    return number.judged(
        "contradicts", text, found=gap.committed, ahead=skipped if is_known else None
    )


def _going(skipped: int, extra: int, noun: str) -> str:
    """Tell what a resume will do, which cannot skip more than is left of its pass."""
    if not skipped:
        return "nothing is left of its pass to skip"
    rest = ", all that is left of its pass" if skipped < extra else ""
    return f"{going_on(skipped, noun)}{EACH}{rest}"


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
        most = passes.samples if number.gap().share is None else number.gap().share
        ahead = rest + (value if most is None else min(value, most))
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
        note = (
            f"it is not known whether {_named(newest)} was over: no size of the data set is logged"
        )
    elif left:
        note = f"{was(left, 'samples', f'of {_named(newest)}')} left out, as drop_last does"
    text = f", and {_named(newest)} is over" if ending == "over" else f", after {_named(newest)}"
    return number.judged("agrees", text, found=0, ahead=0, note=note)


def _is_samples(number: Number) -> bool:
    return number.count.unit in SAMPLE_UNITS


def _named(label: int | None) -> str:
    return "the first pass" if label is None else f"pass {label:,}"
