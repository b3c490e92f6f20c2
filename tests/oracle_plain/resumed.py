"""The outcome of every resumed record."""

from __future__ import annotations

from oracle_plain.case import Case
from oracle_plain.epochs import Epochs, Key
from oracle_plain.lineage import END, solid
from oracle_plain.matching import (
    covered_steps,
    fits_one_pass,
    freed,
    past_missing,
    repeats_by_design,
)
from oracle_plain.reading import Row


def classify_resumed(case: Case) -> None:
    """Give every resumed record the first outcome that fits."""
    covered, fits = covered_steps(case), fits_one_pass(case)
    known = "epoch" in case.columns
    by_design = repeats_by_design(case)
    in_reference = {case.key(row) for row in case.reference}
    lost_through, lost = {}, 0
    for step in case.steps:
        lost += case.lacking(step)
        lost_through[step] = lost
    earlier: set[Key] = set()
    for row in case.resumed:
        key = case.key(row)
        # Reading: covered, or else (generation known and no repeats by design).
        proven = row.step in covered or ((known or fits[row.step]) and not by_design)
        if row.void:
            case.outcome[row] = "void"
            continue
        if row in case.mate:
            case.outcome[row] = "in-place" if case.mate[row].step == row.step else "moved"
        elif (as_padding := padding(case, row, row.step in covered)) is not None:
            case.outcome[row] = as_padding
        elif key in case.consumed:
            case.outcome[row] = "replayed" if proven else "repeat-unexplained"
        elif key in earlier or key in in_reference:
            case.outcome[row] = "duplicated" if proven else "repeat-unexplained"
        elif row.step in covered and not lost_through[row.step] and may_surprise(case, row):
            # Decision: what was reset, reshuffled or blended anew surprises nobody.
            case.outcome[row] = "fresh" if freed(case, row) else "unexpected"
        else:
            case.outcome[row] = "fresh"
        earlier.add(key)


def may_surprise(case: Case, row: Row) -> bool:
    """Not where ranks are unlogged, not under order `none`, not beyond the reference's end."""
    places = [other.position for other in case.reference if other.position is not None]
    beyond = (
        row.position is not None
        and len(places) == len(case.reference)
        and row.position > max(places, default=END)
    )
    return not case.sampled and case.order != "none" and not beyond


def padding(case: Case, row: Row, covered: bool) -> str | None:
    """Judge an unmatched repeat at an epoch's end: padding, unexplained, or neither (None)."""
    epochs = case.to_epochs
    epoch = epochs.of(row)
    if epoch is None or epochs.last[epoch][0] != row.step or not repeats_in(case, row):
        return None
    size, allowed = case.to.fact("dataset_samples"), epochs.paddings(row.step)
    if size is not None:
        allowed = allowed | rest_paddings(case, row, int(size))
    count = epochs.repeat_count[epoch]
    if epochs.over(epoch) and size is None:
        return "repeat-unexplained"
    if epochs.over(epoch) and count in allowed:
        return "padding"
    # Reading: a rank, a record or `dataset_samples` taken away must not make a verdict broken. So
    # where records are missing or unlogged the count need not be exact, and the epoch may be over
    # unseen.
    # Decision: where N is not logged, the epoch may be over with any padding, unless the reference
    # covers the step.
    if size is None:
        # Decision: a reference that is dealt otherwise pads otherwise, and vouches for no end.
        vouched = covered and not is_redealt(case, row)
        return "repeat-unexplained" if count <= epochs.most(row.step) and not vouched else None
    unseen = END if case.to.sampled(row.step) else case.missing + sum(map(past_missing, case.past))
    share = len(case.to.members(row.step)) / (len(case.to.logged(row.step)) or 1)
    perhaps = len(epochs.distinct[epoch]) * share + (unseen if unseen < END else 0) >= size
    doubtful = unseen and perhaps and any(count <= n <= count + unseen for n in allowed)
    return "repeat-unexplained" if doubtful else None


def is_redealt(case: Case, row: Row) -> bool:
    """Whether the resumed attempt deals to other ranks, micro-batches or slots than before."""
    rounds = case.to_epochs.rounds(row.step)
    before_it = Epochs(case.columns, [], list(case.past))
    return any(before_it.rounds(other.step) != rounds for other in case.committed)


def rest_paddings(case: Case, row: Row, size: int) -> set[int]:
    """How many repeats a sampler adds to what is left of an epoch, where it deals otherwise."""
    # Decision: after a restart with other ranks, micro-batches or slots, what is padded may be the
    # rest of the epoch, not the whole.
    if not is_redealt(case, row):
        return set()
    epochs = case.to_epochs
    rounds = epochs.rounds(row.step)
    before = {case.key(other) for other in case.committed if epochs.of(other) == epochs.of(row)}
    return {-(size - len(before)) % each for each in rounds} - {0}


def repeats_in(case: Case, row: Row) -> bool:
    """Whether an unmatched record of an epoch's last step repeats an earlier or a matched one."""
    # Reading: of two uses in one step, the unmatched one is the repeat, whichever came first.
    key = case.key(row)
    twins = [other for other in case.mate if other.step == row.step and case.key(other) == key]
    return row in case.to_epochs.repeats_at_end or bool(solid(twins))
