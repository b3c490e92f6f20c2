"""Turns what each pass came to into limits and clauses."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import polars as pl

from ledger_audit.continuity.clauses import decided
from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.exposure.counting import Counted
from ledger_audit.continuity.exposure.generations import Doubt
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.continuity.limit_codes import limit
from ledger_audit.continuity.limits import (
    commits_assumed,
    digest_mismatch,
    limits_of_attempts,
)
from ledger_audit.continuity.tolerance import Tolerance
from ledger_audit.continuity.unseen import unseen_of
from ledger_audit.model import Amount, Clause, ClauseName, Limit
from ledger_audit.model.exposure import Generation, Holes
from ledger_audit.printable import counted as told_count
from ledger_audit.printable import quoted


@dataclass(frozen=True)
class Whole:
    """A whole run, counted."""

    generations: tuple[Generation, ...]
    holes: Holes | None
    counted: Counted
    library: Library
    doubt: Doubt
    unseen: tuple[Limit, ...]
    """Why records may have been used that are not there."""


def name_of(one: Generation) -> str:
    """Name a pass for people."""
    epoch = "the pass" if one.epoch is None else f"epoch {one.epoch}"
    return epoch if one.source is None else f"{epoch} of {quoted(one.source)}"


def unseen_limits(library: Library, counted: Counted) -> tuple[Limit, ...]:
    """Say why records may have been used that are not there: skips are then not proven."""
    unread = library.archive.source.unread
    return tuple(
        limit("records-unseen", one.text)
        for stretch in counted.stretches
        for one in unseen_of(stretch, unread, library.put_away)
    )


def limits_of(whole: Whole) -> tuple[Limit, ...]:
    """List what cannot be known of a whole run, blocking limits first."""
    source = whole.library.archive.source
    chain = source.lineage.chain
    found = limits_of_attempts(chain, whole.counted.relaunched, resumed=chain[1:])
    found += whole.unseen
    found += digest_mismatch(whole.counted.mismatched)
    if not whole.counted.records:
        found.append(limit("nothing-used", "no update of the newest weights has a record"))
    if not source.has_commits:
        found.append(commits_assumed())
    found += _of_labels(whole)
    found += _of_passes(whole)
    return tuple(sorted(dict.fromkeys(found), key=lambda one: not one.blocks))


def _of_labels(whole: Whole) -> Iterator[Limit]:
    """Say where records cannot be compared, because only some of them are labelled."""
    used = whole.counted.used
    for name in ("epoch", "source"):
        if 0 < used[name].null_count() < used.height:
            text = f"some records name no {name}, others do: they were not compared"
            yield limit("passes-not-told", text)
    chain = whole.library.archive.source.lineage.chain
    for place in whole.doubt.places:
        text = f"attempt {chain[place].label} does not go on with the epochs before it"
        yield limit("passes-not-told", f"{text}: its labels may be wrong")
    spans, records = int(used["spans"].sum()), int(used["records"].sum())
    if 0 < spans < records:
        text = "some records have no span, others do: they were compared as whole samples"
        yield limit("passes-not-told", text)


def _of_passes(whole: Whole) -> Iterator[Limit]:
    for one in whole.generations:
        name = name_of(one)
        if one.is_over and one.size is None:
            text = f"{name} is over, and nothing says how many samples it has"
            yield limit("pass-size-unknown", text)
        if one.size is not None and one.samples > one.size and one.unlisted is None:
            text = (
                f"{name} used {one.samples:,} different samples, and is said to have {one.size:,}"
            )
            yield limit("pass-too-large", text)
        yield from _of_documents(one)
        yield from _outside(whole, one)
        is_whole = (
            whole.doubt.is_complete
            and not whole.doubt.places
            and not any(each.kind == "unexplained" for each in one.repeats)
        )
        if one.doubted and is_whole:
            text = (
                f"{told_count(one.doubted, 'use')} of {name} never came: fewer than one global "
                "batch, and not what does not fill the last one"
            )
            yield limit("few-missing", text)
        if not one.is_over and whole.holes is None:
            yield _not_over(one)
        doubted = sum(each.records for each in one.repeats if each.kind == "unexplained")
        if doubted:
            text = (
                f"{told_count(doubted, 'record')} of {name} with a sample used before: padding, "
                "another pass or a replay, nothing tells"
            )
            yield limit("repeat-unexplained", text)


def _of_documents(one: Generation) -> Iterator[Limit]:
    """Say what of the documents of a pass that is over never came, or is not known to have."""
    spans, name = one.spans, name_of(one)
    if spans is None or not one.is_over:
        return
    if spans.between or spans.late:
        text = (
            f"in {name}, {told_count(spans.between, 'token')} between parts of documents never "
            f"came, and {told_count(spans.late, 'document')} began late"
        )
        yield limit("tokens-never-used", text)


def _outside(whole: Whole, one: Generation) -> Iterator[Limit]:
    """Say that ids which begin with 0 go beyond the size: one may stand in another's place."""
    bounds = whole.library.bounds()
    is_only = len({each.source for each in whole.generations}) == 1
    if bounds is None or one.size is None or one.unlisted is not None or not is_only:
        return
    if bounds[0] not in (0, 1) or bounds[1] <= one.size:
        return
    is_beyond = pl.col("sample_id") > one.size
    if any(len(whole.library.lowest(leg.plain, is_beyond, 1)) for leg in whole.counted.legs):
        text = f"ids reach {bounds[1]}, and {name_of(one)} is said to have {one.size:,} samples"
        found = limit("id-outside-dataset", f"{text}: they were counted, not compared with a list")
        yield replace(found, ids=(str(bounds[1]),))


def _not_over(one: Generation) -> Limit:
    text = f"{name_of(one)} is not over: what it still lacks may come, or was skipped"
    return limit("pass-not-over", text)


def clauses_of(
    whole: Whole, limits: tuple[Limit, ...], contract: Contract, *, has_list: bool
) -> tuple[Clause, ...]:
    """Judge each clause: each sample as often as promised, and nothing that is not listed."""
    faults = {ClauseName.PROMISE: [*_of_promise(whole, contract)]}
    if has_list:
        faults[ClauseName.UNEXPECTED] = [*_unlisted(whole, contract)]
    return _judged(faults, limits)


def limits_of_digests(library: Library, passes: tuple[Generation, ...]) -> tuple[Limit, ...]:
    """List what cannot be known where digests alone were looked at."""
    chain = library.archive.source.lineage.chain
    found = limits_of_attempts(chain, (), resumed=chain[1:])
    found += [_not_over(one) for one in passes if not one.is_over]
    return tuple(sorted(found, key=lambda one: not one.blocks))


def clauses_of_digests(limits: tuple[Limit, ...]) -> tuple[Clause, ...]:
    """Judge each clause where every whole pass has the digest of the manifest."""
    return _judged({ClauseName.PROMISE: [], ClauseName.UNEXPECTED: []}, limits)


def _judged(
    faults: Mapping[ClauseName, list[tuple[str, str | None]]], limits: tuple[Limit, ...]
) -> tuple[Clause, ...]:
    """Judge each clause by what was found, each with its excuse, and by what is not known."""
    clauses = []
    for name, found in faults.items():
        broken = [text for text, excuse in found if excuse is None]
        allowed = [f"{text}, allowed: {excuse}" for text, excuse in found if excuse is not None]
        clauses.append(decided(name, broken, limits, "; ".join(allowed) or _right(name)))
    return tuple(clauses)


def _right(name: ClauseName) -> str:
    if name == ClauseName.UNEXPECTED:
        return "every sample that was used is in the manifest"
    return "each sample was used as often as promised"


def _of_promise(whole: Whole, contract: Contract) -> Iterator[tuple[str, str | None]]:
    """Give what breaks the promise, each with its excuse; null: there is none."""
    resumes = max(1, len(whole.library.archive.source.lineage.chain) - 1)
    newest = whole.library.archive.source.lineage.chain[-1]
    tolerance = Tolerance(contract, ranks=resumes * (len(newest.everyone) or 1))
    for one in whole.generations:
        name = name_of(one)
        if one.repeated:
            text = f"{told_count(one.repeated, 'record')} of {name} used samples again"
            yield text, _excuse_of_repeats(one, contract)
        if one.skipped:
            text = f"{told_count(one.skipped, 'use')} of {name} never came, and it is over"
            yield text, tolerance.skip(one.skipped, None)
        lost = 0 if one.spans is None or not whole.doubt.is_complete else one.spans.between
        if one.is_over and lost > _tail(whole, one):
            text = (
                f"{told_count(lost, 'token')} inside documents of {name} never came, and it is over"
            )
            yield text, tolerance.skip(lost, None)
    holes = whole.holes
    if holes is not None and holes.count and whole.doubt.is_complete:
        text = f"{told_count(holes.count, 'place')} of the stream before {holes.last:,} never came"
        yield text, tolerance.skip(holes.count, None)


def _tail(whole: Whole, one: Generation) -> float:
    """Give the tokens of one global batch: what the end of a pass may leave."""
    return whole.counted.largest * (one.tokens or 0) / max(1, one.records)


def _excuse_of_repeats(one: Generation, contract: Contract) -> str | None:
    """Excuse what each attempt used again, as one resume may replay it."""
    excuses = []
    for attempt in dict.fromkeys(each.attempt for each in one.repeats):
        own = [each for each in one.repeats if each.attempt == attempt and each.kind == "repeated"]
        if not own:
            continue
        records = sum(each.records for each in own)
        tokens = [each.tokens for each in own]
        amount = Amount(
            records, records, None if None in tokens else sum(each or 0 for each in tokens)
        )
        steps = sum(each.last_step - each.first_step + 1 for each in own)
        tolerance = Tolerance(contract, replayed=amount, replayed_steps=steps)
        excuses.append(tolerance.replayed_records(records))
    return None if None in excuses else "; ".join(dict.fromkeys(filter(None, excuses)))


def _unlisted(whole: Whole, contract: Contract) -> Iterator[tuple[str, str | None]]:
    for one in whole.generations:
        if one.unlisted:
            text = f"{told_count(one.unlisted, 'sample')} of {name_of(one)} are not in the manifest"
            yield text, Tolerance(contract).of("unexpected")(one.unlisted)
