"""
Finds samples in the newest weights that must not be there: forbidden, held out, or not allowed.

Every training record of the lineage is looked at; whatever may hide such a sample is said.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import polars as pl

from ledger_audit.continuity.findings import MAX_EXAMPLES, ranges
from ledger_audit.continuity.forbidden.held_out import Held, held_out_of, marked
from ledger_audit.continuity.forbidden.id_matching import LISTED
from ledger_audit.continuity.forbidden.searching import KEPT, Rule, Search, Wanted, look
from ledger_audit.continuity.frames import ORDER, SAMPLE
from ledger_audit.continuity.lineage import Attempt, Lineage
from ledger_audit.continuity.unseen import unseen_of
from ledger_audit.continuity.windows import Source
from ledger_audit.model.forbidden import (
    Forbidden,
    ForbiddenExample,
    ForbiddenHits,
    ForbiddenList,
)
from ledger_audit.printable import counted, quoted

ROWS_AT_ONCE = 1 << 21
"""Rows that are looked at at once: with them a gigabyte is enough, if they must all be read."""

MOST_SOURCES = 4
"""Sources that a note names of each side."""


@dataclass(frozen=True)
class Found:
    """What was found, and the records behind it."""

    report: Forbidden
    hits: pl.DataFrame
    """One row a record and list, of committed updates of the lineage, list by list in the order of
    steps: KEPT, list (place in `report.lists`), place (of the attempt in the lineage), against
    (tokens of the record that the list forbids; null without a span), since and former (see
    `ForbiddenList`). Without a list there is no column."""


def find_forbidden(
    source: Source,
    search: Search,
    lists: Sequence[Rule],
    *,
    held_out: Sequence[str] = (),
    token_overlap: int | None = None,
    rows_at_once: int = ROWS_AT_ONCE,
) -> Found:
    """
    Look for forbidden samples in every training record of the lineage.

    Args:
        source: the ledger, opened for training.
        search: of the same ledger.
        lists: of forbidden ids, and of those that are allowed.
        held_out: streams whose samples are forbidden in training.
        token_overlap: tokens that neighbouring spans share by design; null: none.
        rows_at_once: about how many rows of an attempt to look at at once, if its steps are about
            equally long: what bounds the memory, beside the lists and what is found.

    Returns:
        What committed updates used, list by list and attempt by attempt. What void tries and
        uncommitted steps used is counted apart, and so is what cannot be told.
    """
    search = replace(search, put_away=cache(search.put_away))
    overlap = token_overlap or 0
    held, unseen = held_out_of(source, search, held_out)
    rules = _rules(lists, held)
    chain = source.lineage.chain
    found = []
    for place in range(len(chain)) if rules else ():
        looked = look(source, search, place, Wanted(tuple(rules), overlap, rows_at_once))
        found.append(looked.rows)
        unseen += [*unseen_of(looked.stretch, source.unread, search.put_away), *looked.unseen]
    if not found:
        return Found(Forbidden((), tuple(unseen), ()), pl.DataFrame())
    rows = pl.concat(found)
    told, hits, notes = [], [], []
    for nth, rule in enumerate(rules):
        own = _since(rows.filter(list=nth), rule, held, source.lineage, overlap)
        told.append(_redrawn(_told(rule, own, chain), held))
        hits.append(own.filter(status="hit").drop("status"))
        notes += [
            *_of_amounts(rule, told[-1], hits[-1]),
            *_of_sources(rule, told[-1], search, chain),
        ]
    report = Forbidden(tuple(told), tuple(dict.fromkeys(unseen)), tuple(notes))
    return Found(report, pl.concat(hits))


def hits_of(
    found: Found, attempt: str | None = None, first_step: int = 0, last_step: int | None = None
) -> pl.DataFrame:
    """
    Give the records that are against any list, each once.

    Args:
        found: what was found.
        attempt: whose records to give; null: of the whole lineage.
        first_step: of the records to give.
        last_step: of the records to give; null: to the end.

    Returns:
        In the order of steps: the columns of KEPT, tokens (that are forbidden, by the list that
        forbids most of them; null without a span), lists (the names of the lists), order and record
        (the place of the record, from 0). So `findings` measures them as it does records.
    """
    if found.hits.is_empty():
        rows = pl.DataFrame(schema={**_LIKE_RECORDS, "sample_id": pl.String()})
    else:
        within = pl.col("step") >= first_step
        if last_step is not None:
            within &= pl.col("step") <= last_step
        if attempt is not None:
            within &= pl.col("attempt") == attempt
        names = pl.Series([one.name for one in found.report.lists], dtype=pl.String)
        rows = (
            found.hits.filter(within)
            .with_columns(name=names.gather(found.hits.filter(within)["list"]))
            .group_by(KEPT, maintain_order=True)
            .agg(tokens=pl.col("against").max(), lists="name")
        )
    nth = pl.int_range(pl.len(), dtype=pl.Int64)
    return rows.sort(*ORDER, "attempt").with_columns(order=nth, record=nth)


_LIKE_RECORDS = {
    **dict.fromkeys(("step", "seq", "token_start", "token_end", "tokens"), pl.Int64()),
    **dict.fromkeys(("slot", "rank", "row"), pl.Int32()),
    **dict.fromkeys(("attempt", "source"), pl.String()),
    "lists": pl.List(pl.String()),
}


def _rules(lists: Sequence[Rule], held: Sequence[Held]) -> list[Rule]:
    """Join the lists of allowed ids to one, and give each stream as a list."""
    forbid = [one for one in lists if one.kind != "only"]
    allowed = [one for one in lists if one.kind == "only"]
    if allowed:
        lines = pl.concat([one.listed for one in allowed])
        forbid.append(Rule(", ".join(one.name for one in allowed), "only", lines))
    rules = [*forbid, *(Rule(one.name, "held-out", one.rows.select(LISTED)) for one in held)]
    return [replace(one, listed=one.listed.select(LISTED).unique()) for one in rules]


def _since(
    rows: pl.DataFrame, rule: Rule, held: Sequence[Held], lineage: Lineage, overlap: int
) -> pl.DataFrame:
    """Say of each record since which attempt it is against its list: `since` and `former`."""
    if rule.kind != "held-out":
        return rows.with_columns(since="place", former=pl.lit(value=False))
    return marked(rows, next(one for one in held if one.name == rule.name), lineage, overlap)


def _told(rule: Rule, rows: pl.DataFrame, chain: Sequence[Attempt]) -> ForbiddenList:
    """Tell what was used against one list."""
    hits = rows.filter(status="hit")
    fresh = hits.unique(SAMPLE, keep="first", maintain_order=True)
    new = dict(fresh.group_by("place").len().iter_rows())
    since = hits["since"].min()
    statuses = dict(rows.group_by("status").len().iter_rows())
    return ForbiddenList(
        name=rule.name,
        kind=rule.kind,
        ids=rule.listed.select(pl.struct(SAMPLE).n_unique()).item(),
        hits=tuple(
            _of_attempt(part, new.get(part["place"][0], 0))
            for part in hits.partition_by("place", maintain_order=True)
        ),
        since=since if isinstance(since, int) else None,
        since_attempt=chain[since].label if isinstance(since, int) else None,
        voided=statuses.get("voided", 0),
        uncommitted=statuses.get("uncommitted", 0),
        undecided=statuses.get("undecided", 0),
    )


def _of_attempt(hits: pl.DataFrame, new: int) -> ForbiddenHits:
    """Tell what one attempt used against one list; `new` samples of it no earlier one had."""
    against = hits["against"]
    shown = hits.unique(LISTED, keep="first", maintain_order=True).head(MAX_EXAMPLES)
    return ForbiddenHits(
        attempt=hits["attempt"][0],
        records=hits.height,
        samples=hits.select(pl.struct(SAMPLE).n_unique()).item(),
        tokens=int(against.sum()) if against.null_count() < against.len() else None,
        new_samples=new,
        former=hits.filter("former").select(pl.struct(SAMPLE).n_unique()).item(),
        ranks=ranges(hits["rank"]),
        slots=ranges(hits["slot"]),
        first_step=hits["step"][0],
        last_step=hits["step"][-1],
        examples=tuple(
            ForbiddenExample(
                str(sample), source, None if start is None or end is None else (start, end)
            )
            for sample, source, start, end in shown.select(LISTED).iter_rows()
        ),
    )


def _redrawn(one: ForbiddenList, held: Sequence[Held]) -> ForbiddenList:
    """Add the attempts that drew a held-out stream anew."""
    if one.kind != "held-out":
        return one
    return replace(one, redrawn=next(each.redrawn for each in held if each.name == one.name))


def _of_amounts(rule: Rule, told: ForbiddenList, hits: pl.DataFrame) -> Iterator[str]:
    """Tell what of a list broke nothing, and what may be a matter of how ids are written."""
    if told.voided:
        some = counted(told.voided, "record")
        yield f"{some} in void tries against {rule.told}: no weights changed"
    if told.uncommitted:
        some = counted(told.uncommitted, "record")
        yield f"{some} in steps that are not committed against {rule.told}"
    for attempt in told.redrawn:
        former = sum(one.former for one in told.hits if one.attempt == attempt)
        used = f"; it used {counted(former, 'sample')} that were held out before" if former else ""
        yield f"attempt {attempt} drew the samples of {rule.told} anew{used}"
    has_spans = rule.listed["token_start"].null_count() < rule.listed.height
    without = hits["token_start"].is_null() | hits["token_end"].is_null()
    if has_spans and rule.kind != "only" and without.any():
        some = counted(int(without.sum()), "record")
        yield f"{some} against {rule.told} have no span: whole samples were compared"
    used = hits.select(pl.struct(SAMPLE).n_unique()).item()
    if rule.kind == "held-out" and told.ids > 1 and used >= told.ids:
        yield (
            f"training used every sample of {rule.told}: if each stream counts its ids anew, log a "
            "source that tells them apart"
        )


def _of_sources(
    rule: Rule, told: ForbiddenList, search: Search, chain: Sequence[Attempt]
) -> Iterator[str]:
    """Tell where a list and the ledger name their sources so that they never, or always, meet."""
    if rule.listed["source"].null_count():
        return
    theirs = frozenset(rule.listed["source"].unique())
    ours = frozenset().union(*(search.sources(one.label) for one in chain))
    named = ours - {None}
    if not named and told.hits and rule.kind != "only":
        yield f"the ledger names no sources: {rule.told} was compared by ids alone"
    elif named and not named & theirs:
        yield (
            f"no source of {rule.told} ({_some(theirs)}) is among those of the ledger "
            f"({_some(named)})"
        )


def _some(names: frozenset[str | None]) -> str:
    shown = sorted(name for name in names if name is not None)
    told = ", ".join(quoted(name) for name in shown[:MOST_SOURCES])
    more = len(shown) - MOST_SOURCES
    return f"{told} and {more:,} more" if more > 0 else told
