"""Which resumed record meets which expected one, and how far amounts and epochs reach."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from itertools import product

from oracle_plain.case import Case
from oracle_plain.epochs import Epochs, Key
from oracle_plain.lineage import Part, solid
from oracle_plain.reading import Attempt, Row


def match(case: Case) -> None:
    """Three rounds for tries that stand, and only then the same rounds for void tries."""
    # Reading: records that stand are served before void ones, on both sides: of a batch voided and
    # tried again, one side would else be called a duplicate or a skip.
    resumed, reference = case.resumed, case.reference
    for void_resumed, void_reference in product((False, True), repeat=2):
        rounds: list[Callable[[Row], Key]] = [
            lambda row: (case.key(row), row.step, row.rank, row.slot),
            lambda row: (case.key(row), row.step),
            case.key,
        ]
        for by in rounds:
            taken = set(case.mate.values())
            free: dict[Key, deque[Row]] = defaultdict(deque)
            for row in reference:
                if row.void == void_reference and row not in taken:
                    free[by(row)].append(row)
            for row in resumed:
                if row.void == void_resumed and row not in case.mate and free[by(row)]:
                    case.mate[row] = free[by(row)].popleft()


def met(case: Case, row: Row) -> bool:
    """Whether an expected record is matched, or void and its identity used again."""
    return row in case.met or (row.void and case.key(row) in case.used)


def declared(case: Case, row: Row) -> bool:
    """Whether a declaration of the resumed attempt names a record."""
    return any(act.names(row.source, row.position, row.sample_id) for act in case.acts)


def freed(case: Case, row: Row) -> bool:
    """Whether a resumed record's source was reset, reshuffled or blended by declaration."""
    acts = [act for act in case.acts if act.kind != "skip"]
    return any(act.names(row.source, None, None) for act in acts)


def reference_amount(case: Case) -> int:
    """Sequences of the reference through its last whole step, less repeats that end an epoch."""
    rows = [row for row in case.reference if row.step <= case.whole_through]
    # Reading: a void try whose batch came again is the same stretch of stream and counts once.
    again = {case.key(row) for row in solid(rows)}
    counted = [
        row
        for row in rows
        if row not in case.ref_epochs.repeats and not (row.void and case.key(row) in again)
    ]
    return len({row.sequence for row in counted})


def covered_steps(case: Case) -> set[int]:
    """Find the resumed steps through which no more was used than the whole reference holds."""
    # Reading: on the resumed side every void try counts as used.
    # Decision: so does, from the first step on, what was skipped by declaration.
    room, covered = reference_amount(case), set[int]()
    passed = [row for row in case.reference if not met(case, row) and declared(case, row)]
    used_so_far = len({row.sequence for row in passed})
    sequences: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for row in case.resumed:
        if row not in case.to_epochs.repeats:
            sequences[row.step].add(row.sequence)
    for step in case.steps:
        used_so_far += len(sequences[step]) + case.lacking(step)
        if used_so_far <= room:
            covered.add(step)
    return covered


def fits_one_pass(case: Case) -> dict[int, bool]:
    """Whether all records so far, through each resumed step, fit into `dataset_samples`."""
    # Reading: missing records, void tries and the share of ranks that are not logged count too.
    size, total, fits = case.to.fact("dataset_samples"), 0.0, dict[int, bool]()
    for attempt, lo, hi in case.past:
        for step in steps_of(attempt, lo, hi):
            seen = len(attempt.by_step.get(step, ())) + attempt.missing(step)
            total += seen * whole_share(attempt, step)
    held_now = Counter(row.step for row in case.resumed)
    for step in case.steps:
        total += (held_now[step] + case.lacking(step)) * whole_share(case.to, step)
        fits[step] = size is not None and total <= size
    return fits


def steps_of(attempt: Attempt, lo: int, hi: float) -> set[int]:
    """Give the steps of a stretch of an attempt, those too whose records are all lost."""
    return {
        step for step in {*attempt.by_step, *(at for _, at in attempt.commits)} if lo < step <= hi
    }


def whole_share(attempt: Attempt, step: int) -> float:
    """By how much a step is larger than what its logged ranks hold."""
    return len(attempt.members(step)) / (len(attempt.logged(step)) or 1)


def repeats_by_design(case: Case) -> bool:
    """Whether committed window and reference repeat more often than padding explains."""
    # Decision: the reference counts too, less what the last step that it shows of a generation
    # may hold as padding; each generation that is over in either window explains the largest
    # padding (none where `dataset_samples` is not logged).
    epochs, now = case.ref_epochs, case.window_epochs
    repeats, seen = list[Row](), set(case.consumed)
    for row in solid(case.reference):
        if case.key(row) in seen:
            repeats.append(row)
        seen.add(case.key(row))
    ends = {epochs.of(row): row.step for row in case.reference}
    closing = Counter(
        epoch
        for row in repeats
        if (epoch := epochs.of(row)) is not None and row.step == ends[epoch]
    )
    spared = sum(n for epoch, n in closing.items() if n <= epochs.most(ends[epoch]))
    over = {e for e in epochs.last if epochs.over(e)} | {e for e in now.last if now.over(e)}
    # Reading: recipes may differ along the lineage; the one that pads most counts.
    recipes = [(part, step) for part in (case.past, case.source) for _, step, _ in part]
    largest = max(
        (n for part, lo in recipes for n in Epochs(case.columns, [], part).paddings(lo + 1)),
        default=0,
    )
    count = len(case.committed) - len(case.consumed) + len(repeats) - spared
    return count > len(over) * largest


def past_missing(part: Part) -> int:
    """Count records known to be missing in one stretch of the committed window."""
    attempt, lo, hi = part
    return sum(attempt.missing(step) for step in steps_of(attempt, lo, hi))
