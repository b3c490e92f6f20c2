"""Says what was used and is in no weights that are left, and what each failure took back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import polars as pl

from ledger_audit.continuity.exposure.counting import Counted
from ledger_audit.continuity.exposure.legs import Leg, looked_at
from ledger_audit.continuity.exposure.library import PASS, Library, Steps, is_of
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.continuity.lineage import Attempt, age
from ledger_audit.model.exposure import Fate, Loss, Share, Survival, Unused

_NONE = pl.Series([], dtype=pl.Int64)


@dataclass(frozen=True)
class _Wasted:
    """Records that changed no weights that are left."""

    attempt: str
    fate: Fate
    sums: pl.DataFrame
    """source, epoch, records, tokens, spans."""
    ids: pl.DataFrame
    """source, epoch, sample_id, each once."""


def unused_of(library: Library, counted: Counted) -> tuple[Unused, ...]:
    """List what changed no weights, by attempt, fate and pass."""
    found = []
    for one in _wasted(library, counted):
        for row in one.sums.sort(PASS).iter_rows(named=True):
            own = _of_pass(one.ids, row)
            met = counted.seen.met((row["source"], row["epoch"]), own, 0).samples
            found.append(
                Unused(
                    attempt=one.attempt,
                    fate=one.fate,
                    source=row["source"],
                    epoch=row["epoch"],
                    records=row["records"],
                    samples=len(own),
                    tokens=row["tokens"] if row["spans"] else None,
                    never=len(own) - met,
                )
            )
    return tuple(found)


def losses_of(library: Library, counted: Counted) -> tuple[Loss, ...]:
    """Say of each attempt but the newest what its failure took back, in the order of launches."""
    lineage = library.archive.source.lineage
    heirs: dict[str, tuple[str, int]] = {
        one.label: (heir.label, heir.resumed_at or 0) for one, heir in pairwise(lineage.chain)
    }
    failed = sorted([*lineage.chain[:-1], *lineage.outside], key=age)
    return tuple(_loss(library, counted, one, heirs.get(one.label)) for one in failed)


def _loss(
    library: Library, counted: Counted, failed: Attempt, heir: tuple[str, int] | None
) -> Loss:
    """Say what the failure of one attempt took back; without an heir, all that it did."""
    after = (failed.resumed_at or 0) if heir is None else heir[1]
    steps = _after(failed, after)
    ids = pl.DataFrame() if steps is None else library.ids(steps)
    sums = pl.DataFrame() if steps is None else library.sums(steps)
    tries = library.archive.source.tries(failed.label, after + 1, None)
    again = sum(
        counted.seen.met((row["source"], row["epoch"]), _of_pass(ids, row), 0).samples
        for row in sums.iter_rows(named=True)
    )
    reached = max(failed.last_step or after, _last(tries, after))
    return Loss(
        from_attempt=failed.label,
        to_attempt=None if heir is None else heir[0],
        checkpoint_step=after,
        steps=max(0, reached - after),
        committed_steps=_committed(failed, tries.filter(kind="commit")),
        records=int(sums["records"].sum()) if sums.width else 0,
        samples=ids.height,
        tokens=_tokens(sums),
        seconds=_seconds(library.times(failed.label, after)),
        used_again=again,
    )


def survival_of(library: Library, counted: Counted) -> tuple[Survival, ...]:
    """Say which steps of the newest weights each attempt made."""
    lineage = library.archive.source.lineage
    found = []
    for place, attempt in enumerate(lineage.chain):
        own = counted.used.filter(place=place)
        stretch = counted.stretches[place]
        committed = stretch.seen.filter("committed")["step"]
        steps = None
        if stretch.last is not None and not stretch.is_empty and len(committed):
            first = committed.min()
            assert isinstance(first, int)
            steps = (first, stretch.last)
        found.append(Survival(attempt.label, steps, int(own["records"].sum()), _tokens(own)))
    found += [Survival(one.label, None, 0, None) for one in lineage.outside]
    return tuple(found)


def shares_of(library: Library, counted: Counted) -> tuple[Share, ...]:
    """Say how large the share of each source was in what each attempt gave."""
    chain = library.archive.source.lineage.chain
    totals = dict(counted.used.group_by("place").agg(pl.col("records").sum()).iter_rows())
    ordered = counted.used.sort("place", *PASS)
    return tuple(
        Share(
            attempt=chain[row["place"]].label,
            source=row["source"],
            epoch=row["epoch"],
            records=row["records"],
            tokens=row["tokens"] if row["spans"] else None,
            share=round(row["records"] / totals[row["place"]], 6),
        )
        for row in ordered.iter_rows(named=True)
    )


def _wasted(library: Library, counted: Counted) -> Iterator[_Wasted]:
    lineage = library.archive.source.lineage
    for leg in counted.legs:
        void = [one.filter(~IS_USED) for one in looked_at(library, leg)]
        rows = pl.concat(void) if void else pl.DataFrame()
        if rows.height:
            yield _Wasted(leg.attempt.label, "void", _summed(rows), _ids(rows))
        yield from _uncommitted(library, leg)
    for place, attempt in enumerate(lineage.chain[:-1]):
        until = lineage.until(place, len(lineage.chain) - 1)
        steps = None if until is None else _after(attempt, until)
        if steps is not None:
            yield from _read(library, steps, "rolled-back")
    for attempt in lineage.outside:
        steps = _after(attempt, -1)
        if steps is not None:
            yield from _read(library, steps, "rolled-back")


def _uncommitted(library: Library, leg: Leg) -> Iterator[_Wasted]:
    """Give what the steps used that were not committed; what they voided is told as void."""
    if leg.left_out.is_empty():
        return
    plain = leg.left_out.filter(~leg.left_out.is_in(leg.odd.implode()))
    first, last = plain.min(), plain.max()
    if isinstance(first, int) and isinstance(last, int):
        every = pl.int_range(first, last + 1, eager=True)
        steps = Steps(leg.attempt.label, first, last, every.filter(~every.is_in(plain.implode())))
        yield from _read(library, steps, "uncommitted")
    odd = [
        one.filter(IS_USED, pl.col("step").is_in(leg.left_out.implode()))
        for one in looked_at(library, leg)
    ]
    rows = pl.concat(odd) if odd else pl.DataFrame()
    if rows.height:
        yield _Wasted(leg.attempt.label, "uncommitted", _summed(rows), _ids(rows))


def _read(library: Library, steps: Steps, fate: Fate) -> Iterator[_Wasted]:
    sums = library.sums(steps)
    if sums.height:
        yield _Wasted(steps.attempt, fate, sums, library.ids(steps))


def _after(attempt: Attempt, step: int) -> Steps | None:
    """Give the steps of an attempt after one of them; null: it left no record of any."""
    last = attempt.last_step
    return None if last is None or last <= step else Steps(attempt.label, step + 1, last, _NONE)


def _summed(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by(PASS).agg(
        pl.len().cast(pl.Int64).alias("records"),
        pl.col("tokens").sum(),
        pl.col("tokens").count().cast(pl.Int64).alias("spans"),
    )


def _ids(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(*PASS, "sample_id").unique()


def _of_pass(ids: pl.DataFrame, row: Mapping[str, Any]) -> pl.Series:
    return ids.filter(is_of(row["source"], row["epoch"]))["sample_id"]


def _tokens(sums: pl.DataFrame) -> int | None:
    return int(sums["tokens"].sum()) if sums.height and sums["spans"].sum() else None


def _last(tries: pl.DataFrame, least: int) -> int:
    last = tries["step"].max()
    return last if isinstance(last, int) else least


def _committed(attempt: Attempt, commits: pl.DataFrame) -> int:
    """Count the steps that all ranks that vote have committed."""
    voters = len(attempt.seen)
    ranks = commits.group_by("step").agg(pl.col("rank").n_unique())
    return ranks.filter(pl.col("rank") >= voters).height


def _seconds(times: pl.DataFrame) -> float | None:
    """Give the median over ranks of the time that each measured on its own clock."""
    spent = (times["until_ns"] - times["since_ns"]).drop_nulls()
    median = spent.filter(spent >= 0).median()
    return round(median / 1e9, 3) if isinstance(median, float) else None
