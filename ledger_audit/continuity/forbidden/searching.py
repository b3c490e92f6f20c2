"""
Looks through one attempt for records that are against a list, a stretch of steps at a time.

Reading is a set of functions that the caller hands in; what is kept is what was found.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from ledger_audit.continuity.forbidden.id_matching import LISTED, forbidden_among, strangers_among
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.tries import with_fates
from ledger_audit.continuity.unseen import (
    SEEN,
    TRIES,
    Stretch,
    compared,
    is_segment_of,
    seen_steps,
)
from ledger_audit.continuity.windows import END, Source
from ledger_audit.model.forbidden import Kind, Unseen
from ledger_audit.printable import counted

KEPT = ("attempt", "step", "slot", "rank", "row", "seq", *LISTED)
"""What is kept of a record."""

STATUS = pl.Enum(["hit", "voided", "uncommitted", "undecided"])


@dataclass(frozen=True)
class Search:
    """Questions about the samples of a ledger that are answered without keeping all of them."""

    id_type: pl.DataType | None
    """Integers or text; null: the ledger holds no sample that would tell."""
    size: Callable[[str], int]
    """Attempt → about how many rows it has."""
    among: Callable[[str, pl.Series, int, int | None], pl.DataFrame]
    """Attempt, sample ids, first and last step (null: open) → used records with one of them."""
    strangers: Callable[[str, pl.DataFrame, int, int | None], pl.DataFrame]
    """Attempt, LISTED, first and last step → used records of no id and source that is listed."""
    counts: Callable[[str, pl.DataFrame, int, int | None], pl.DataFrame]
    """Attempt, its commits and voids, first and last step → COUNTS."""
    sources: Callable[[str], frozenset[str | None]]
    """Attempt → the sources of its used records."""
    stream: Callable[[str], pl.DataFrame]
    """Stream → what any attempt has in it: attempt and LISTED."""
    put_away: Callable[[], Mapping[str, tuple[int, int]]]
    """→ attempt → segments that were not kept on purpose, and the records that were in them."""


@dataclass(frozen=True)
class Searchable(Source):
    """A ledger of which more can be asked than its windows."""

    search: Search = field(kw_only=True)


@dataclass(frozen=True)
class Rule:
    """A list of ids, ready to be looked for."""

    name: str
    kind: Kind
    listed: pl.DataFrame
    """LISTED, each line once."""

    @cached_property
    def ids(self) -> pl.Series:
        """Each id once."""
        return self.listed["sample_id"].unique()

    @property
    def told(self) -> str:
        """Name it for people."""
        what = {"forbid": "list", "only": "allowed list", "held-out": "stream"}
        return f"{what[self.kind]} {self.name}"


@dataclass(frozen=True)
class Wanted:
    """What to look for, and how much to look at at once."""

    rules: tuple[Rule, ...]
    overlap: int
    """Tokens that neighbouring spans share by design."""
    rows_at_once: int
    """About how many rows of an attempt a stretch of steps should have."""


@dataclass(frozen=True)
class Looked:
    """What an attempt holds against the lists."""

    rows: pl.DataFrame
    """One row a record and list, of each list in the order of steps: KEPT, list, place (of the
    attempt in the lineage), against (its tokens that the list forbids; null without a span), and
    status: `hit`, `voided`, `uncommitted`, or `undecided`, where what is missing may say that it
    was not used."""
    stretch: Stretch
    unseen: tuple[Unseen, ...]


def look(source: Source, search: Search, place: int, wanted: Wanted) -> Looked:
    """
    Look through what one attempt of the lineage gave to the newest weights.

    Args:
        source: the ledger.
        search: of the same ledger.
        place: of the attempt in the lineage, from 0.
        wanted: what to look for.
    """
    chain = source.lineage.chain
    attempt = chain[place]
    begin = 0 if attempt.resumed_at is None else attempt.resumed_at + 1
    until = source.lineage.until(place, len(chain) - 1)
    rows = [_nothing(search)]
    seen = [pl.DataFrame(schema=SEEN)]
    told = [pl.DataFrame(schema=TRIES)]
    thrown = [pl.Series([], dtype=pl.Int64)]
    parts = -(-search.size(attempt.label) // wanted.rows_at_once)
    for first, last in _blocks(attempt, begin, until, parts):
        tries = source.tries(attempt.label, first, last)
        counts = search.counts(attempt.label, tries, first, last)
        told.append(compared(tries, counts))
        thrown.append(_thrown_away(tries))
        seen.append(
            seen_steps(attempt, tries, counts, told[-1], has_commits=source.has_commits),
        )
        for nth, rule in enumerate(wanted.rules):
            against = _against(source, search, attempt.label, (first, last), rule, wanted.overlap)
            if against.height:
                fates = with_fates(against, tries).select(*KEPT, "try_seq", "fate", "against")
                rows.append(fates.with_columns(list=pl.lit(nth, pl.Int32)))
    steps = pl.concat(seen)
    is_thrown = pl.col("step").is_in(pl.concat(thrown).implode())
    found = _judged(
        pl.concat(rows).with_columns(is_thrown=is_thrown & pl.col("fate").is_null()),
        steps,
        pl.concat(told),
        source,
        attempt,
    )
    last_committed = steps.filter("committed")["step"].max()
    ends = until if until is not None else last_committed
    starts = 0 if begin == 0 and (steps["step"] == 0).any() else max(begin, 1)
    return Looked(
        found.drop("reason").with_columns(place=pl.lit(place, pl.Int32)),
        Stretch(attempt, starts, ends if isinstance(ends, int) else None, steps),
        tuple(_undecided(found, wanted.rules, attempt.label)),
    )


def _nothing(search: Search) -> pl.DataFrame:
    schema = {
        **dict.fromkeys(("step", "seq", "token_start", "token_end"), pl.Int64()),
        **dict.fromkeys(("slot", "rank", "row"), pl.Int32()),
        **dict.fromkeys(("attempt", "source"), pl.String()),
        "sample_id": search.id_type or pl.Int64(),
    }
    extra = {"try_seq": pl.Int64(), "fate": pl.String(), "against": pl.Int64(), "list": pl.Int32()}
    return pl.DataFrame(schema={**{name: schema[name] for name in KEPT}, **extra})


def _blocks(
    attempt: Attempt, begin: int, until: int | None, parts: int
) -> Iterator[tuple[int, int | None]]:
    """Cut the steps of an attempt into about so many stretches; the last ends with them."""
    low = begin if attempt.first_step is None else max(begin, attempt.first_step)
    reached = attempt.last_step
    high = min((one for one in (until, reached) if one is not None), default=low)
    width = max(1, -(-(high - low + 1) // max(1, parts)))
    start = begin
    for following in range(low + width, high + 1, width):
        yield start, following - 1
        start = following
    if until is None or start <= until:
        yield start, until


def _thrown_away(tries: pl.DataFrame) -> pl.Series:
    """Give the steps that some rank voided, and none committed."""
    kind = pl.col("kind")
    kinds = tries.group_by("step").agg(has=(kind == "void").any() & ~(kind == "commit").any())
    return kinds.filter("has")["step"]


def _against(
    source: Source,
    search: Search,
    label: str,
    steps: tuple[int, int | None],
    rule: Rule,
    overlap: int,
) -> pl.DataFrame:
    """Give the used records of a stretch that are against a list, with `against`."""
    if rule.kind != "only":
        records = search.among(label, rule.ids, *steps)
        return forbidden_among(records, rule.listed, overlap)
    has_spans = rule.listed["token_start"].null_count() < rule.listed.height
    # a listed id may be used beyond its listed span: then every record must be looked at
    records = (
        source.records(label, *steps) if has_spans else search.strangers(label, rule.listed, *steps)
    )
    return strangers_among(records, rule.listed, overlap)


def _judged(
    rows: pl.DataFrame, steps: pl.DataFrame, told: pl.DataFrame, source: Source, attempt: Attempt
) -> pl.DataFrame:
    """
    Say what became of each record: `status`, and `reason` where that cannot be known.

    What is known to be missing may hide a void or a commit. Where a committed try has exactly as
    many records as its commit says, neither is missing. A try that nothing ended, in a step that
    other ranks threw away, most likely was thrown away, too.
    """
    last = steps.filter("committed")["step"].max()
    doubt = pl.lit(value=False)
    for part in source.unread:
        if part.attempt == attempt.label and not is_segment_of(part, "samples"):
            end = END if part.to_step is None else part.to_step
            doubt |= pl.col("step").is_between(part.from_step or 0, end)
    is_exact = (pl.col("lost") == 0) & (pl.col("surplus") == 0)
    is_settled = pl.col("committed") & is_exact.fill_null(value=False)
    lags = pl.lit(value=False) if last is None else pl.col("step") < last
    reason = (
        pl.when((pl.col("surplus") > 0) | pl.col("is_thrown"))
        .then(pl.lit("voids-missing"))
        .when(doubt & ~is_settled)
        .then(pl.lit("unread-segment"))
        .when(~pl.col("committed") & lags)
        .then(pl.lit("commits-missing"))
    )
    is_void = pl.col("fate").eq_missing(pl.lit("void"))
    return (
        rows.join(steps.select("step", "committed"), on="step", how="left", maintain_order="left")
        .join(told, on=["rank", "step", "try_seq"], how="left", maintain_order="left")
        .with_columns(pl.col("committed").fill_null(value=False))
        .with_columns(reason=pl.when(~is_void).then(reason))
        .with_columns(
            status=pl.when(is_void)
            .then(pl.lit("voided"))
            .when(pl.col("reason").is_not_null())
            .then(pl.lit("undecided"))
            .when("committed")
            .then(pl.lit("hit"))
            .otherwise(pl.lit("uncommitted"))
            .cast(STATUS)
        )
        .drop("committed", "lost", "surplus", "is_thrown", "try_seq", "fate")
    )


def _undecided(rows: pl.DataFrame, rules: Sequence[Rule], label: str) -> Iterator[Unseen]:
    """Say which records may or may not have been used."""
    counts = rows.drop_nulls("reason").group_by("list", "reason").agg(n=pl.col("seq").len())
    for nth, reason, n in counts.sort("list", "reason").iter_rows():
        some = f"{counted(n, 'record')} of attempt {label} against {rules[nth].told}"
        yield {
            "voids-missing": Unseen(
                "voids-missing",
                label,
                f"{some}, in tries of which a void seems to be lost",
            ),
            "commits-missing": Unseen(
                "commits-missing", label, f"{some}, in steps whose commits are not all there"
            ),
            "unread-segment": Unseen(
                "unread-segment", label, f"{some}, in steps whose commits or voids may be lost"
            ),
        }[reason]
