"""Applies the terms of a contract that are about more than what each record did."""

from collections.abc import Sequence
from dataclasses import replace

from ledger_audit.continuity.beside import Beside, faults, limits
from ledger_audit.continuity.classify import Classified
from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.draws import MOST_DEVIATIONS
from ledger_audit.continuity.facts import Facts
from ledger_audit.continuity.limit_codes import limit
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.windows import Source, Windows, whole_through
from ledger_audit.model import ClauseName, Draws, Expected, Limit, Resumed
from ledger_audit.printable import counted

ABOUT_A_REFERENCE = frozenset(
    {
        "no-whole-reference-step",
        "undecided",
        "order-undecided",
        "repeat-unexplained",
        "lane-without-evidence",
        "fewer-micro-batches-than-workers",
        "no-later-epoch",
        "epoch-size-unknown",
        "column-left-out",
        "epoch-label-changed",
    }
)
"""Limits that say nothing where samples are drawn anew: there is no order to go on in."""


def asked_of(source: Source, contract: Contract) -> Source:
    """Ask those ranks for a ledger that the contract samples, and those that left one."""
    sampled = contract.ranks.sampled
    if sampled is None:
        return source

    def asked(attempt: Attempt) -> Attempt:
        known = replace(attempt, peers=attempt.peers | frozenset(sampled))
        return replace(known, logged=(known.seen | {*sampled}) & known.everyone)

    lineage = source.lineage
    return replace(
        source,
        lineage=replace(
            lineage,
            chain=tuple(asked(one) for one in lineage.chain),
            outside=tuple(asked(one) for one in lineage.outside),
        ),
    )


def limits_of_terms(
    facts: Facts,
    classified: Classified,
    draws: Draws | None,
    contract: Contract,
    beside: Beside | None,
) -> list[Limit]:
    """List what the contract asks for and this ledger cannot show."""
    return [
        *_of_length(facts, contract),
        *_of_tokens(facts, classified, contract),
        *_of_draws(draws),
        *_of_skips(classified, contract),
        *_of_ranks(facts.known.windows, contract),
        *([] if beside is None else limits(beside, contract)),
    ]


def sorted_limits(limits: Sequence[Limit], contract: Contract) -> tuple[Limit, ...]:
    """Give the limits that say something under this contract, blocking ones first."""
    found = [one for one in limits if not (contract.draws_anew and one.code in ABOUT_A_REFERENCE)]
    return tuple(sorted(found, key=lambda one: not one.blocks))


def other_faults(
    windows: Windows, contract: Contract, beside: Beside | None
) -> dict[ClauseName, tuple[str, ...]]:
    """Find what breaks the clauses that are about more than the records of the windows."""
    found = {} if beside is None else faults(beside, contract)
    before, after = last_before(windows), windows.resumed.attempts[-1]
    if contract.ranks.may_change or before is None:
        return found
    if before.world_size is not None and after.world_size is not None:
        sizes = before.world_sizes[-1], after.world_sizes[0]
        if sizes[0] != sizes[1]:
            told = f"{counted(sizes[0], 'rank')} before the resume, {sizes[1]:,} after it"
            found[ClauseName.RANKS] = (told,)
    return found


def last_before(windows: Windows) -> Attempt | None:
    """Give the attempt that was resumed from; of a whole stream, the one that it is compared to."""
    for side in (windows.committed, windows.reference):
        if side.attempts:
            return side.attempts[-1]
    return None


def _of_length(facts: Facts, contract: Contract) -> list[Limit]:
    windows = facts.known.windows
    after = windows.checkpoint_step
    found = []
    for name, through, wanted in (
        ("reference", facts.whole_through, contract.minimum.reference_steps),
        ("resumed", whole_through(windows.resumed, after), contract.minimum.resumed_steps),
    ):
        there = 0 if through is None else through - after
        if wanted is not None and there < wanted:
            text = f"{counted(there, f'whole {name} step')}; the contract asks for {wanted}"
            found.append(limit("window-too-short", text))
    return found


def _of_tokens(facts: Facts, classified: Classified, contract: Contract) -> list[Limit]:
    bound = contract.bounded_replay
    if bound is None or bound.tokens is None or "token_start" in facts.known.columns:
        return []
    if not (classified.resumed["worst"] == Resumed.REPLAYED).any():
        return []
    text = f"a replay of up to {counted(bound.tokens, 'token')} is allowed, and no span is logged"
    return [limit("tokens-not-logged", text)]


def _of_skips(classified: Classified, contract: Contract) -> list[Limit]:
    """A skip that the contract allows and that leaves nothing of the reference proves nothing."""
    outcomes = classified.expected["worst"]
    allows = any(one.finding == Expected.SKIPPED for one in contract.allow)
    if not (allows or contract.shuffle_buffer) or not (outcomes == Expected.SKIPPED).any():
        return []
    if (outcomes == Expected.MATCHED).any():
        return []
    text = "nothing of the reference came again: what may be skipped leaves nothing to prove by"
    return [limit("skip-hides-reference", text)]


def _of_draws(draws: Draws | None) -> list[Limit]:
    if draws is None:
        return []
    found = []
    if draws.may_reproduce is not None:
        text = (
            f"the {counted(draws.records, 'draw')} so far are those of the start of attempt "
            f"{draws.may_reproduce}: too few to tell from chance"
        )
        found.append(limit("draws-too-few", text))
    if draws.most_within is not None and draws.repeats_within > draws.most_within:
        text = f"{draws.repeats_within:,} of {counted(draws.records, 'draw')} repeat a resumed one"
        found.append(limit("draws-repeat", f"{text}: weighted draws, or a stuck loader"))
    told = f"{draws.repeats:,} of {counted(draws.records, 'draw')} repeat a sample"
    if draws.expected_repeats is None or draws.deviation is None:
        text = f"{told}; nothing says how many chance would"
        return [*found, limit("draws-not-measured", text)]
    if draws.repeats > draws.expected_repeats + MOST_DEVIATIONS * draws.deviation:
        expected = f"{draws.expected_repeats:,.1f} expected: weighted draws, or the same again"
        found.append(limit("draws-repeat", f"{told}, {expected}"))
    return found


def _of_ranks(windows: Windows, contract: Contract) -> list[Limit]:
    before, after = last_before(windows), windows.resumed.attempts[-1]
    blind = [one.label for one in (before, after) if one is not None and one.world_size is None]
    if contract.ranks.may_change or not blind:
        return []
    text = f"no start event of attempt {', '.join(blind)} says how many ranks it has"
    return [limit("world-size-not-logged", text)]
