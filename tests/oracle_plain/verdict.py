"""From outcomes to limits and a verdict."""

from __future__ import annotations

from collections import Counter

from oracle_plain.case import Case
from oracle_plain.later import later_epochs_broken
from oracle_plain.lineage import owner
from oracle_plain.matching import covered_steps, past_missing
from oracle_plain.order import Block
from oracle_plain.reading import Row


def limits(case: Case, block: Block, disorder: int) -> list[str]:
    """Give what cannot be known and blocks a clause."""
    found = set[str]()
    source = owner(case.source, case.at + 1)
    proof = go_on(case, block)
    if case.whole_through == case.at and not proof:
        found.add("no-reference")
    if not case.whole_resumed:
        found.add("no-resumed-step")
    for outcome in ("undecided", "repeat-unexplained"):
        if outcome in case.outcome.values():
            found.add(outcome)
    holed = block is not None and 0 < block["holes"] <= hole_allowance(case)
    if holed or 0 < strayed(case, disorder) <= case.missing:
        found.add("undecided")
    if case.sampled:
        found.add("ranks-not-logged")
    # Reading: a rank that merely had not come to C+1 yet is excused where positions prove.
    lanes = {row.rank for row in case.reference}
    bare = set(source.logged(case.at + 1)) - lanes if lanes else set()
    if bare and (not proof or bare - source.seen):
        found.add("lane-without-evidence")
    # Reading: whole reference micro-batches are those of its whole steps; the larger of both
    # worker counts.
    workers = max(int(source.fact("workers") or 0), int(case.to.fact("workers") or 0))
    whole = [row for row in case.reference if row.step <= case.whole_through]
    batches = Counter(rank for rank, _, _ in {(row.rank, row.step, row.slot) for row in whole})
    if block is None and whole and min(batches.values()) < workers:
        found.add("fewer-micro-batches-than-workers")
    return sorted(found | hopeless(case))


def go_on(case: Case, block: Block) -> bool:
    """Whether positions prove the stream: they go on without hole, repeat or drift."""
    # Reading: only where no record is known to be missing, for it could have been the largest.
    faults = ("repeated", "holes", "drift")
    return (
        block is not None
        and block["shift"] >= 0
        and not any(block[name] for name in faults)
        and not hole_allowance(case)
        and bool(case.whole_resumed)
        and all(
            gapless(case, step, block["expected"])
            for step in case.steps
            if step <= case.whole_resumed[0]
        )
    )


def gapless(case: Case, step: int, first: int) -> bool:
    """Whether every place from `first` on was used by the end of a resumed step."""
    # Decision: the last step's smallest place opens no hole, but it proves nothing either, and a
    # place that is used only later was left out in between.
    rows = [row for row in case.resumed if row.step <= step] + case.before
    places = {row.position for row in rows if row.position is not None and row.position >= first}
    return bool(places) and max(places) - first + 1 == len(places)


def strayed(case: Case, disorder: int) -> int:
    """Count what the contract's order forbids."""
    # Reading: each record known to be missing may have cost one other record its right partner, so
    # only more than these break the order; a rank taken away must not make a verdict broken.
    moved = Counter(case.outcome.values())["moved"]
    return {"step": moved, "relative": disorder}.get(case.order, 0)


def hopeless(case: Case) -> set[str]:
    """Limits under which no clause at all is proven."""
    found = set[str]()
    # Reading: a mixed parent is as bad as a mixed child: neither its windows nor its steps are one
    # stream.
    if case.to.mixed or case.parent.mixed:
        found.add("mixed-attempt")
    first: dict[int, Row] = {}
    for row in case.to.rows:
        if row.rank not in first or row.seq < first[row.rank].seq:
            first[row.rank] = row
    if any(row.step <= case.at for row in first.values()):
        found.add("resume-step-mismatch")
    return found


def hole_allowance(case: Case) -> int:
    """Holes that records known to be missing could fill."""
    return case.missing + sum(past_missing(part) for part in case.past)


def broken(case: Case, block: Block, disorder: int) -> bool:
    """Whether any clause of the default contract is broken."""
    late, counts = later_epochs_broken(case), Counter(case.outcome.values())
    if any(counts[name] for name in ("replayed", "duplicated", "unexpected", "skipped")):
        return True
    if strayed(case, disorder) > case.missing:
        return True
    if block and (block["repeated"] or block["drift"] or block["holes"] > hole_allowance(case)):
        return True
    return late


def verdict(case: Case, block: Block, disorder: int, found: list[str]) -> str:
    """`broken` beats `unproven` beats `continuous`, save where nothing at all is proven."""
    late = broken(case, block, disorder)
    if {"mixed-attempt", "resume-step-mismatch"} & set(found):
        return "unproven"
    if not any(case.to.committed(step) for step in case.steps):
        return "broken" if case.to.ended and case.reference else "unproven"
    return "broken" if late else "unproven" if found else "continuous"


def shift(case: Case, disorder: int) -> int | None:
    """Skipped minus replayed, where that means anything."""
    counts = Counter(case.outcome.values())
    both = counts["skipped"] and counts["replayed"]
    if case.whole_through == case.at or disorder or both:
        return None
    return counts["skipped"] - counts["replayed"]


def through_step(case: Case, word: str, block: Block) -> int | None:
    """Find the last resumed step through which `continuous` is proven."""
    proven: int | None = None
    covered, proof = covered_steps(case), go_on(case, block)
    for step in case.steps if word == "continuous" else []:
        if step not in case.whole_resumed or not (step in covered or proof):
            break
        proven = step
    return proven
