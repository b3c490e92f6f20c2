"""Says what cannot be known about one resume, from the windows and what happened in them."""

from collections.abc import Iterable, Sequence

import polars as pl

from ledger_audit.continuity.circumstances import Circumstances
from ledger_audit.continuity.classify import Classified
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.holding import needed
from ledger_audit.continuity.limit_codes import limit
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.order import Disorder
from ledger_audit.continuity.positions import positions_prove_through
from ledger_audit.continuity.suspicions import suspicions
from ledger_audit.continuity.windows import whole_through
from ledger_audit.model import Expected, LaterEpoch, Limit, Positions, Resumed
from ledger_audit.printable import counted


def find_limits(
    facts: Facts,
    classified: Classified,
    positions: Positions | None,
    later: tuple[LaterEpoch, ...],
    disordered: Disorder,
    around: Circumstances,
) -> tuple[Limit, ...]:
    """List what cannot be known about one resume, blocking limits first."""
    found = [
        *_of_attempts(facts),
        *_of_windows(facts, positions),
        *_of_expected(around),
        *_of_size(around),
        *_of_waiting(facts, around),
        *_of_outcomes(classified),
        *_of_order(disordered),
        *_of_lanes(facts, positions),
        *_of_epochs(facts, later, around),
        *_of_identity(facts, around),
    ]
    return tuple(sorted(found, key=lambda one: not one.blocks))


def _of_attempts(facts: Facts) -> list[Limit]:
    windows = facts.known.windows
    every = {one.label: one for side in windows.sides for one in side.attempts}
    relaunched = dict.fromkeys(text for side in windows.sides for text in side.relaunched)
    return limits_of_attempts(every.values(), relaunched, resumed=windows.resumed.attempts)


def limits_of_attempts(
    attempts: Iterable[Attempt], relaunched: Iterable[str], *, resumed: Iterable[Attempt]
) -> list[Limit]:
    """Say of which attempts one cannot even know where their work belongs."""
    found = []
    for attempt in attempts:
        if attempt.is_absent:
            text = f"attempt {attempt.label}, which was resumed from, left nothing in this ledger"
            found.append(limit("parent-missing", text))
        if attempt.disagreement is not None:
            text = f"attempt {attempt.label} contradicts itself on {attempt.disagreement}"
            found.append(limit("mixed-attempt", text))
        if attempt.is_assumed:
            text = f"no start event says where attempt {attempt.label} resumed from"
            found.append(limit("lineage-assumed", text))
    found += [limit("mixed-attempt", text) for text in relaunched]
    for attempt in resumed:
        first, after = attempt.first_step, attempt.resumed_at
        if first is not None and after is not None and first <= after:
            text = (
                f"attempt {attempt.label} says it resumed at step {after}, but its first record is "
                f"of step {first}: its records fit the checkpoint at step {first - 1}"
            )
            found.append(limit("resume-step-mismatch", text))
    return found


def digest_mismatch(wrong: Sequence[str]) -> list[Limit]:
    """Say that tries have another digest than their commit tells, if there are any."""
    if not wrong:
        return []
    tries = "1 try" if len(wrong) == 1 else f"{len(wrong):,} tries"
    text = f"records of {tries} have another digest than was committed: {wrong[0]}"
    return [limit("digest-mismatch", text)]


def commits_assumed() -> Limit:
    """Say what is taken for committed where no event says it."""
    text = (
        "the ledger has no commit event: what every rank reached counts as committed, "
        "except the last step of an attempt without an end"
    )
    return limit("commits-assumed", text)


def _of_windows(facts: Facts, positions: Positions | None) -> list[Limit]:
    windows = facts.known.windows
    found = []
    after = windows.checkpoint_step
    proven = positions is not None and positions_prove_through(facts) is not None
    if facts.whole_through is None and not proven:
        text = f"no step after {after} is whole in the reference: nothing to judge skips by"
        found.append(limit("no-whole-reference-step", text))
    if not windows.resumed.steps["whole"].any():
        text = f"no step after {after} is committed with records of every rank"
        newest = windows.resumed.attempts[-1]
        if not newest.seen:
            text = f"attempt {newest.label} resumed at step {after} and has left no record yet"
        found.append(limit("no-whole-resumed-step", text))
    if positions is not None and 0 < (positions.holes or 0) <= positions.lost:
        text = f"{counted(positions.holes or 0, 'position')} not seen may be in what is missing"
        found.append(limit("undecided", text))
    found += digest_mismatch([one for side in windows.sides for one in side.mismatched])
    torn = dict.fromkeys((*windows.committed.torn, *windows.resumed.torn))
    found += [
        limit("unread-segment", f"{file} is missing or torn, and a window needs it")
        for file in torn
    ]
    return found


def _of_expected(around: Circumstances) -> list[Limit]:
    if around.departs_at is None:
        return []
    if around.departs_from == "recipe":
        text = (
            f"the order that the fingerprint states differs from committed step {around.departs_at}"
        )
        return [limit("recipe-departs", f"{text}: it was not used")]
    text = f"the reference differs from committed step {around.departs_at}, before the resume"
    return [limit("reference-departs", f"{text}: the resume was judged without it")]


def _of_size(around: Circumstances) -> list[Limit]:
    if around.too_large is None:
        return []
    text = (
        f"the window does not explain all that it holds, and all {around.too_large:,} records "
        f"need {needed(around.too_large)}"
    )
    return [limit("too-large-to-hold", text)]


def _of_waiting(facts: Facts, around: Circumstances) -> list[Limit]:
    after = facts.known.windows.checkpoint_step
    through = whole_through(facts.known.windows.resumed, after)
    there = 0 if through is None else through - after
    if around.awaited is None or there >= around.awaited:
        return []
    text = f"only {there} of {counted(around.awaited, 'awaited step')} came in time"
    return [limit("fewer-steps-than-awaited", text)]


def _is_sampled(facts: Facts) -> bool:
    return any(side.is_sampled for side in facts.known.windows.sides)


def _of_outcomes(classified: Classified) -> list[Limit]:
    found = []
    undecided = classified.expected.filter(pl.col("worst") == Expected.UNDECIDED)["record"]
    if count := undecided.n_unique():
        text = f"{counted(count, 'record')} not seen again may be in what is missing or not logged"
        found.append(limit("undecided", text))
    repeats = classified.resumed.filter(pl.col("worst") == Resumed.REPEAT_UNEXPLAINED)["record"]
    if count := repeats.n_unique():
        text = (
            f"{counted(count, 'record')} with a sample used before: padding, another pass or a "
            "replay, nothing tells"
        )
        found.append(limit("repeat-unexplained", text))
    return found


def _of_order(disorder: Disorder) -> list[Limit]:
    if not disorder.records or disorder.is_proven:
        return []
    text = f"{counted(disorder.records, 'record')} out of order, and as many or more are missing"
    return [limit("order-undecided", text)]


def _of_lanes(facts: Facts, positions: Positions | None) -> list[Limit]:
    windows = facts.known.windows
    found = []
    silent = frozenset().union(*(one.missing for one in windows.resumed.attempts))
    if silent:
        text = f"rank {_listed(silent)} of the resumed attempt left no ledger"
        found.append(limit("rank-missing", text))
    if _is_sampled(facts):
        logged = frozenset().union(*(one.logged or frozenset() for one in windows.resumed.attempts))
        found.append(
            limit(
                "ranks-not-logged",
                f"of all ranks, only {_listed(logged)} left a ledger, on purpose",
            )
        )
    dark = lanes(facts) - lanes_seen(facts)
    silent_before = frozenset().union(*(one.missing for one in windows.reference.attempts))
    if dark and (positions is None or dark & silent_before):
        text = f"the reference has no record of rank {_listed(dark)}"
        found.append(limit("lane-without-evidence", text))
    workers = max(
        (
            count
            for side in (windows.reference, windows.resumed)
            for one in side.attempts
            if isinstance(count := one.fingerprint.get("workers"), int)
        ),
        default=0,
    )
    seen = _micro_batches(facts)
    if positions is None and facts.whole_through is not None and seen < workers:
        text = f"a rank shows {seen} of the micro-batches that {workers} loader workers may hold"
        found.append(limit("fewer-micro-batches-than-workers", text))
    return found


def lanes(facts: Facts) -> frozenset[int]:
    """Give the logged ranks that take part in any step of the reference."""
    side = facts.known.windows.reference
    steps = side.records.select("attempt", "step").unique()
    taking_part: set[int] = set()
    for attempt in side.attempts:
        for step in steps.filter(attempt=attempt.label)["step"].to_list():
            taking_part |= attempt.participants(step)
    return frozenset(taking_part)


def lanes_seen(facts: Facts) -> frozenset[int]:
    """Give the ranks that have a record in the reference."""
    return frozenset(facts.reference["rank"].unique())


def _micro_batches(facts: Facts) -> int:
    """Count the whole micro-batches that the reference shows of the rank it shows least of."""
    if facts.whole_through is None:
        return 0
    counts = (
        facts.reference.filter(pl.col("step") <= facts.whole_through)
        .group_by("rank")
        .agg(pl.struct("step", "slot", "try_seq").n_unique().alias("n"))["n"]
    )
    least = counts.min()
    return least if isinstance(least, int) else 0


def _of_epochs(facts: Facts, later: tuple[LaterEpoch, ...], around: Circumstances) -> list[Limit]:
    found = []
    if around.unread_from is not None:
        text = f"resumed steps from {around.unread_from} on were not read"
        found.append(limit("steps-not-read", text))
    if not later:
        text = "no epoch was over after the resume" + (
            " within the steps that were read" if around.is_narrow else ""
        )
        found.append(limit("no-later-epoch", text))
    blind = [one.epoch for one in later if one.missing is None and one.repeated is None]
    if blind and facts.size is None and not around.is_narrow and not facts.repeats_by_design:
        text = f"epoch {_listed(blind)} ended after the resume, and its size is not logged"
        found.append(limit("epoch-size-unknown", text))
    for one in later:
        if one.same_order_as is not None:
            text = f"epoch {one.epoch} has exactly the order of epoch {one.same_order_as}"
            found.append(limit("frozen-epochs", text))
    return found


def _of_identity(facts: Facts, around: Circumstances) -> list[Limit]:
    known = facts.known
    found = []
    if not around.has_commits:
        found.append(commits_assumed())
    if known.left_out:
        text = f"{', '.join(known.left_out)} is not logged in every window and was not compared"
        found.append(limit("column-left-out", text))
    if known.has_wrong_labels:
        text = "the resumed attempt labels its epochs otherwise; the epoch was not compared"
        found.append(limit("epoch-label-changed", text))
    found += suspicions(facts)
    return found


def _listed(values: "frozenset[int] | list[int | None]") -> str:
    shown = sorted(value for value in values if value is not None)
    text = ", ".join(str(value) for value in shown[:8])
    return f"{text}, … ({len(shown)} in all)" if len(shown) > 8 else text
