"""Audits one resume, from its windows to its verdict: the steps of the reasoning in their order."""

from dataclasses import dataclass, replace
from typing import TypeVar

import polars as pl

from ledger_audit.continuity import limits as limit_rules
from ledger_audit.continuity import settled
from ledger_audit.continuity.align import align
from ledger_audit.continuity.beside import remarks
from ledger_audit.continuity.causes.clues import clues_of
from ledger_audit.continuity.circumstances import Circumstances
from ledger_audit.continuity.classify import Classified, classify
from ledger_audit.continuity.clauses import Evidence, judge
from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.draws import measure
from ledger_audit.continuity.facts import Facts, gather, sequences
from ledger_audit.continuity.findings import amount, outcome_amounts, runs
from ledger_audit.continuity.first_place import first_place
from ledger_audit.continuity.frames import IS_USED, SEQUENCE
from ledger_audit.continuity.identity import identify
from ledger_audit.continuity.later_epochs import audit_later_epochs
from ledger_audit.continuity.order import disorder, out_of_order
from ledger_audit.continuity.order_plot import plot
from ledger_audit.continuity.picture import draw
from ledger_audit.continuity.positions import audit_positions, positions_prove_through
from ledger_audit.continuity.spans import cut_into_pieces, packing_changed
from ledger_audit.continuity.terms import limits_of_terms, other_faults, sorted_limits
from ledger_audit.continuity.windows import Windows, whole_through
from ledger_audit.model import (
    Amount,
    ClauseName,
    Coverage,
    Draws,
    Expected,
    Finding,
    LaterEpoch,
    Overlay,
    Positions,
    Resume,
    Resumed,
    Shift,
    SourceDamage,
    Verdict,
)

Outcome = TypeVar("Outcome", Resumed, Expected)

_FOUND: dict[str, ClauseName] = {
    Resumed.REPLAYED: ClauseName.PROMISE,
    Resumed.DUPLICATED: ClauseName.PROMISE,
    Resumed.REPEAT_UNEXPLAINED: ClauseName.PROMISE,
    Resumed.UNEXPECTED: ClauseName.UNEXPECTED,
    Resumed.MOVED: ClauseName.ORDER,
    Expected.SKIPPED: ClauseName.PROMISE,
    Expected.UNDECIDED: ClauseName.PROMISE,
    Expected.REPEAT_MISSING: ClauseName.PROMISE,
    Expected.DECLARED: ClauseName.PROMISE,
}
"""Outcomes that become findings, and the clause that they concern."""


@dataclass(frozen=True)
class Audited:
    """One resume with the frames behind its report."""

    report: Resume
    facts: Facts
    classified: Classified
    disordered: pl.DataFrame
    """Rows of the resumed window that are out of order."""

    def told(self) -> Resume:
        """Give the report with its picture, which no audit on the way needs."""
        windows = self.facts.known.windows
        return replace(
            self.report,
            picture=draw(windows, self.classified, self.disordered),
            plot=plot(self.facts, self.classified),
            first_place=first_place(self.classified, self.facts, self.report.positions),
            clues=clues_of(self.facts, self.classified) if self.asks_why else None,
        )

    @property
    def asks_why(self) -> bool:
        """It is broken, or repeats have no explanation; and the order of all before may tell."""
        codes = {one.code for one in self.report.limits if one.blocks}
        is_open = self.report.verdict == Verdict.UNPROVEN and "repeat-unexplained" in codes
        is_broken = self.report.verdict == Verdict.BROKEN
        return "too-large-to-hold" not in codes and (is_broken or is_open)

    @property
    def needs_more(self) -> bool:
        """
        The windows do not explain what they hold: more than a window of steps must be read.

        A record repeats a sample and is neither matched nor void, or has its match beyond the
        window.
        """
        rows, expected = self.classified.resumed, self.classified.expected
        repeat = pl.col("consumed") | pl.col("used_before") | pl.col("in_reference")
        beyond = self.facts.resumed.filter("beyond")["order"]
        return (
            rows.filter(IS_USED, pl.col("ref").is_null(), repeat).height > 0
            or rows.filter("ref_beyond").height > 0
            or expected.filter(pl.col("resumed").is_in(beyond.implode())).height > 0
        )


def audit_resume(
    windows: Windows,
    contract: Contract,
    around: Circumstances,
    *,
    from_attempt: str | None,
    to_attempt: str,
) -> Audited:
    """Follow the records of one resume from its windows to a verdict."""
    facts = gather_facts(windows, contract.token_overlap)
    classified = classify(facts, contract, knows_passes=around.too_large is None)
    disordered = out_of_order(classified.resumed, facts.known.windows)
    evidence = _evidence(facts, classified, disordered, contract, around)
    clauses = judge(contract, evidence)
    report = replace(
        _report(facts, classified, disordered, evidence, around),
        from_attempt=from_attempt,
        to_attempt=to_attempt,
        clauses=clauses,
        verdict=Verdict.worst([clause.verdict for clause in clauses]),
    )
    return Audited(report, facts, classified, disordered)


def _evidence(
    facts: Facts,
    classified: Classified,
    disordered: pl.DataFrame,
    contract: Contract,
    around: Circumstances,
) -> Evidence:
    """Collect what a verdict is made of."""
    rows, expected = classified.resumed, classified.expected
    positions, later, draws = _further_evidence(facts, contract, around)
    moved = rows.filter(pl.col("worst") == Resumed.MOVED)["record"].n_unique()
    order = contract.order or "relative"
    unordered = disorder(order, moved, disordered["record"].n_unique(), facts)
    limits = (
        *limit_rules.find_limits(facts, classified, positions, later, unordered, around),
        *limits_of_terms(facts, classified, draws, contract, around.beside),
    )
    columns = facts.known.columns
    hits = _hits(classified, around)
    windows = facts.known.windows
    replayed = rows.filter(pl.col("worst") == Resumed.REPLAYED)
    skipped = expected.filter(pl.col("worst") == Expected.SKIPPED)
    by_rank = skipped.group_by("rank").agg(pl.struct(SEQUENCE).n_unique()).iter_rows()
    return Evidence(
        resumed=settled.add_resumed(_amounts(rows, Resumed, columns), windows),
        expected=settled.add_expected(_amounts(expected, Expected, columns), windows),
        overlays=settled.add_overlays(_overlays(classified, disordered, hits, columns), windows),
        positions=positions,
        later_epochs=later,
        disorder=unordered,
        did_nothing=_did_nothing(windows),
        limits=contract.waive(sorted_limits(limits, contract)),
        replayed_steps=replayed["step"].n_unique(),
        is_resume=bool(windows.committed.attempts),
        ranks=len(windows.resumed.attempts[-1].everyone) or 1,
        skipped_by_rank=dict(by_rank),
        draws=draws,
        others=other_faults(windows, contract, around.beside),
        remarks={} if around.beside is None else remarks(around.beside),
    )


def _further_evidence(
    facts: Facts, contract: Contract, around: Circumstances
) -> tuple[Positions | None, tuple[LaterEpoch, ...], Draws | None]:
    """Look at positions and later epochs; where samples are drawn anew, at the draws instead."""
    if contract.draws_anew:
        return None, (), measure(facts)
    if around.later_epochs is not None:
        return audit_positions(facts), around.later_epochs, None
    later = audit_later_epochs(
        facts,
        is_narrow=around.is_narrow,
        skipped_before=around.skipped_before,
        repeats=contract.repeats,
    )
    return audit_positions(facts), later, None


def _report(
    facts: Facts,
    classified: Classified,
    disordered: pl.DataFrame,
    evidence: Evidence,
    around: Circumstances,
) -> Resume:
    """Tell what was found, before it is judged."""
    windows = facts.known.windows
    return Resume(
        from_attempt=None,
        to_attempt="",
        checkpoint_step=windows.checkpoint_step,
        verdict=Verdict.UNPROVEN,
        through_step=_through(facts, classified.expected)
        if evidence.draws is None
        else whole_through(windows.resumed, windows.checkpoint_step),
        clauses=(),
        reference_kind=windows.reference_kind,
        reference_through=facts.whole_through,
        identity=facts.known.columns,
        windows=_sizes(facts),
        coverage=_coverage(facts),
        resumed=evidence.resumed,
        expected=evidence.expected,
        overlays=evidence.overlays,
        shift=_shift(facts, classified, evidence, disordered.is_empty()),
        positions=evidence.positions,
        later_epochs=evidence.later_epochs,
        findings=tuple(
            _findings(classified, disordered, _hits(classified, around), facts.known.columns)
        ),
        limits=evidence.limits,
        fingerprints=None if around.beside is None else around.beside.fingerprints,
        draws=evidence.draws,
        by_source=_by_source(classified, windows),
    )


def _amounts(
    rows: pl.DataFrame, outcomes: type[Outcome], columns: tuple[str, ...]
) -> dict[Outcome, Amount]:
    """Measure every outcome; tokens only where spans were compared."""
    found = outcome_amounts(rows, outcomes, spans="token_start" in columns)
    return {one: found[one] for one in outcomes}


def _hits(classified: Classified, around: Circumstances) -> pl.DataFrame:
    """Give the records of forbidden samples."""
    hits = None if around.beside is None else around.beside.hits
    return classified.resumed.clear() if hits is None else hits


def _overlays(
    classified: Classified,
    disordered: pl.DataFrame,
    hits: pl.DataFrame,
    columns: tuple[str, ...],
) -> dict[Overlay, Amount | None]:
    rows = {
        Overlay.MISPLACED: classified.resumed.filter("misplaced"),
        Overlay.OUT_OF_ORDER: disordered,
        Overlay.FORBIDDEN: hits,
    }
    has_spans = "token_start" in columns
    return {
        name: amount(found) if has_spans else replace(amount(found), tokens=None)
        for name, found in rows.items()
    }


def gather_facts(windows: Windows, overlap: int | None) -> Facts:
    """
    Key and pair the records of the windows, piece by piece where the packing changed.

    `overlap` tokens are shared by neighbouring spans by design; null: nothing says how many.
    """
    known = identify(windows)
    pairs = align(known.windows.reference.records, known.windows.resumed.records)
    if packing_changed(known, pairs, overlap):
        known = cut_into_pieces(known, overlap)
        pairs = align(known.windows.reference.records, known.windows.resumed.records)
    return gather(known, pairs)


def _did_nothing(windows: Windows) -> bool:
    newest = windows.resumed.attempts[-1]
    reached = windows.resumed.records["step"].max()
    after = reached if isinstance(reached, int) else windows.checkpoint_step
    left = windows.reference.records.filter(pl.col("step") > after)
    return newest.has_end and not newest.seen and left.height > 0


def _sizes(facts: Facts) -> dict[str, int]:
    committed, reference, resumed = facts.known.windows.sides
    there = {
        "committed": committed.within.filter(IS_USED),
        "reference": reference.within,
        "resumed": resumed.within,
    }
    return {
        name: rows["record"].n_unique() + int(side.known["n"].sum())
        for (name, rows), side in zip(there.items(), (committed, reference, resumed), strict=True)
    }


def _through(facts: Facts, expected: pl.DataFrame) -> int | None:
    """
    Give the last resumed step that is proven: null if none is.

    By the reference: it covers the step, and everything that it holds before its first record
    still awaited is no less than was used. By positions: every place up to the step's largest was
    used. The further of the two counts.
    """
    awaited = expected.filter(pl.col("worst").is_in([Expected.PENDING, Expected.UNDECIDED]))
    windows = facts.known.windows
    unopened = windows.reference.known
    is_reached = pl.col("step").is_in(windows.resumed.known["step"].implode())
    first = pl.concat([awaited["step"], unopened.filter(~is_reached)["step"]]).min()
    proven = facts.coverage.filter("covered")
    if first is not None:
        is_before = pl.col("step") < first
        opened = facts.reference.filter(is_before)
        before = int(sequences(opened)["n"].sum()) + int(unopened.filter(is_before)["n"].sum())
        proven = proven.filter(pl.col("used") <= before)
    reached = [proven["step"].max(), positions_prove_through(facts)]
    return max((step for step in reached if isinstance(step, int)), default=None)


def _coverage(facts: Facts) -> Coverage:
    lanes = limit_rules.lanes(facts)
    silent = frozenset().union(*(one.missing for one in facts.known.windows.resumed.attempts))
    proven = lanes & limit_rules.lanes_seen(facts) - silent
    return Coverage(len(lanes), len(proven) if facts.whole_through is not None else 0)


def _shift(facts: Facts, classified: Classified, evidence: Evidence, is_ordered: bool) -> Shift:
    skipped = evidence.expected[Expected.SKIPPED]
    replayed = evidence.resumed[Resumed.REPLAYED]
    is_one_way = is_ordered and not (skipped.records and replayed.records)
    speaks = is_one_way and facts.whole_through is not None
    tokens = None
    if speaks and skipped.tokens is not None and replayed.tokens is not None:
        tokens = skipped.tokens - replayed.tokens
    gone = classified.expected.filter(pl.col("worst") == Expected.SKIPPED)
    again = classified.resumed.filter(pl.col("worst") == Resumed.REPLAYED)
    by_rank: dict[int, int] = {}
    for rows, sign in ((gone, 1), (again, -1)):
        for rank, count in rows.group_by("rank").agg(pl.col("record").n_unique()).iter_rows():
            by_rank[rank] = by_rank.get(rank, 0) + sign * int(count)
    positions = evidence.positions
    return Shift(
        records=skipped.records - replayed.records if speaks else None,
        tokens=tokens,
        positions=None if positions is None else positions.shift,
        by_rank=dict(sorted(by_rank.items())),
        is_lower_bound=speaks and _reaches_the_end(classified.expected),
    )


def _by_source(classified: Classified, windows: Windows) -> tuple[SourceDamage, ...]:
    """Measure each data set of a blend apart."""
    rows, expected = classified.resumed, classified.expected
    unopened = windows.resumed.passes.group_by("source").agg(pl.col("n").sum())
    every = [rows["source"], expected["source"], windows.reference.passes["source"]]
    sources = pl.concat(every).unique().sort().to_list()
    if len(sources) < 2:
        return ()
    counts = {
        name: dict(found.group_by("source").agg(pl.col("record").n_unique()).iter_rows())
        for name, found in (
            ("resumed", rows),
            ("replayed", rows.filter(pl.col("worst") == Resumed.REPLAYED)),
            ("skipped", expected.filter(pl.col("worst") == Expected.SKIPPED)),
        )
    }
    for source, more in unopened.iter_rows():
        counts["resumed"][source] = counts["resumed"].get(source, 0) + more
    return tuple(
        SourceDamage(one, *(counts[name].get(one, 0) for name in counts)) for one in sources
    )


def _reaches_the_end(expected: pl.DataFrame) -> bool:
    """Tell whether the last thing that the reference shows of a lane is skipped: more may be."""
    last = expected.sort("order").group_by("rank").agg(pl.col("worst").last())
    return bool((last["worst"] == Expected.SKIPPED).any())


def _findings(
    classified: Classified,
    disordered: pl.DataFrame,
    hits: pl.DataFrame,
    columns: tuple[str, ...],
) -> list[Finding]:
    found: list[Finding] = []
    for code, clause in _FOUND.items():
        rows = classified.resumed if code in set(Resumed) else classified.expected
        found += runs(rows.filter(pl.col("worst") == code), str(code), clause)
    found += runs(disordered, str(Overlay.OUT_OF_ORDER), ClauseName.ORDER)
    misplaced = classified.resumed.filter("misplaced")
    found += runs(misplaced, str(Overlay.MISPLACED), ClauseName.PLACEMENT)
    found += runs(hits, str(Overlay.FORBIDDEN), ClauseName.FORBIDDEN)
    if "token_start" in columns:
        return found
    return [replace(one, amount=replace(one.amount, tokens=None)) for one in found]
