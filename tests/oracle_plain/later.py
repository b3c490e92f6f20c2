"""Faults that wait for the next epoch, and a control that was never the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from oracle_plain.case import Case
from oracle_plain.epochs import Epochs, Key, pick
from oracle_plain.lineage import END, Part, held, owner, solid
from oracle_plain.matching import past_missing
from oracle_plain.reading import Act, Attempt, Row


def later_epochs_broken(case: Case) -> bool:
    """Compare every later finished epoch with the first whole one, or with `dataset_samples`."""
    # Reading: what is repeated beyond padding is `replayed` or `duplicated` already; an epoch that
    # the reference holds to its end is judged by the reference; amounts are compared, since
    # drop_last drops other samples in each epoch.
    epochs = case.window_epochs
    over = [e for e in epochs.last if epochs.over(e) and epochs.last[e][0] > case.at]
    if not over:
        case.notes.add("no-later-epoch")
    elif frozen(case, over):
        case.notes.add("frozen-epochs")
    if case.sampled:
        return False
    lost = permitted(case) + case.missing + sum(past_missing(part) for part in case.past)
    # Reading: `dataset_samples` says nothing about one source of a blend.
    size = case.to.fact("dataset_samples") if len({e[0] for e in epochs.last}) == 1 else None
    batch = max(Counter(row.step for row in case.resumed).values(), default=1)
    # Decision: whatever `drop_last` says, less than one global batch may be dropped.
    slack = lost + batch - 1
    packed = len({row.sequence for row in epochs.rows}) < len(epochs.rows)
    names = (
        ("source", "sample_id") if packed else ("source", "sample_id", "token_start", "token_end")
    )
    amount: dict[Key, set[Key]] = defaultdict(set)
    for row in epochs.rows:
        if (epoch := epochs.of(row)) is not None:
            amount[epoch].add(pick(row, names))
    for epoch in over:
        if any(anew(act, epoch[0]) for act in all_acts(case)):
            continue
        full = whole_before(case, epoch)
        target = len(amount[full]) if full else None if packed else size
        in_reference = epoch in case.ref_epochs.last and case.ref_epochs.over(epoch)
        if target is not None and not in_reference and target - len(amount[epoch]) > slack:
            return True
    return False


def all_acts(case: Case) -> list[Act]:
    """Give what was declared in the lineage: an epoch under way at C may have begun before."""
    return [act for attempt in {case.to, *(part[0] for part in case.past)} for act in attempt.acts]


def anew(act: Act, source: str | None) -> bool:
    """Whether an act leaves the epochs of a source without a promise."""
    bare = act.ids is None and act.positions is None
    return bare and (source is None or act.names(source, None, None))


def permitted(case: Case) -> int:
    """Count the ids and positions that were skipped by declaration."""
    ids, places = set[int | str](), set[int]()
    for act in all_acts(case):
        ids |= set(act.ids or [])
        for item in act.positions or []:
            places |= set(range(*item)) if isinstance(item, list) else {item}
    return len(ids) + len(places)


def whole_before(case: Case, epoch: Key) -> Key | None:
    """Find the first epoch of the same source that was over before C, seen from its start."""
    epochs = Epochs(case.columns, case.before, case.past)
    done = sorted(e for e in epochs.last if e[0] == epoch[0] and e[1] < epoch[1] and epochs.over(e))
    if case.before and case.before[0].step > 1:
        done = done[1:]
    return done[0] if done else None


def frozen(case: Case, over: Iterable[Key]) -> bool:
    """Whether a finished epoch has an earlier one's exact order."""
    order: dict[Key, list[Key]] = defaultdict(list)
    for row in solid(case.window_epochs.rows):
        if (epoch := case.window_epochs.of(row)) is not None:
            order[epoch].append((row.sample_id, row.token_start, row.token_end))
    pairs = [(e, o) for e in over for o in list(order) if o[0] == e[0] and o[1] < e[1]]
    return any(order[o] == order[e] for e, o in pairs)


def control_differs(case: Case, control: list[Part]) -> bool:
    """Whether the control differs from the lineage in any step up to C, padding aside."""
    # Reading: what one side is known to lack (missing or unlogged ranks, lost records) is no
    # difference.
    theirs = held([(attempt, lo, min(hi, case.at)) for attempt, lo, hi in control])
    left, right = per_step(case, case.before, case.past), per_step(case, theirs, control)
    for step in {*left, *right}:
        more, less = left[step] - right[step], right[step] - left[step]
        here, there = owner(case.past, step), owner(control, step)
        if sum(more.values()) > lack(there, step) or sum(less.values()) > lack(here, step):
            return True
    return False


def lack(attempt: Attempt, step: int) -> float:
    """How many records of a step may be absent without that meaning anything."""
    return END if attempt.sampled(step) else attempt.missing(step)


def per_step(case: Case, rows: list[Row], parts: list[Part]) -> dict[int, Counter[Key]]:
    """Give the identities committed in each step, less the repeats that end an epoch."""
    without = Epochs(case.columns, rows, parts).repeats
    steps: dict[int, Counter[Key]] = defaultdict(Counter)
    for row in solid(rows):
        if row not in without:
            steps[row.step][case.key(row)] += 1
    return steps
