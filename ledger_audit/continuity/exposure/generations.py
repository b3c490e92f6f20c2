"""Says of each pass how large it should be, whether it is over, and what of it is amiss."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.declared import named_ids, restarted, skipped_places
from ledger_audit.continuity.epochs import Recipe, recipe_of
from ledger_audit.continuity.exposure.counting import Counted
from ledger_audit.continuity.exposure.library import PASS, Library, is_of
from ledger_audit.continuity.exposure.promised import (
    Promised,
    check_sources,
    listed_of,
    logged_size,
    size_of,
)
from ledger_audit.continuity.exposure.summary import Summary
from ledger_audit.continuity.findings import MAX_EXAMPLES, MAX_RUNS
from ledger_audit.continuity.frames import SEQUENCE, Side
from ledger_audit.continuity.repeats import times
from ledger_audit.continuity.windows import END, attempt_window
from ledger_audit.model.exposure import Generation, Repeats, Tokens
from ledger_audit.model.ranges import closed_ranges

MOST_GAPS = 100
"""Epochs that never came of which each is told."""


@dataclass(frozen=True)
class Doubt:
    """What of a run is not known."""

    places: tuple[int, ...]
    """Of attempts in the lineage whose epochs may be labelled wrongly."""
    is_complete: bool
    """Every record that committed updates used was there to be counted."""


def generations_of(
    library: Library,
    counted: Counted,
    summary: Summary,
    promised: Promised,
    contract: Contract,
    doubt: Doubt,
) -> tuple[Generation, ...]:
    """
    Judge each pass, in the order of sources and epochs.

    Raises:
        UsageError: the samples of a pass are given for a source that the ledger has not, or for
            no source where it has several.
    """
    of_pass = counted.used.group_by(PASS, maintain_order=True).agg(
        pl.col("records", "tokens", "spans", "inner").sum(),
        pl.col("first_step").min(),
        pl.col("last_step").max(),
        pl.col("place").last(),
    )
    rows = list(of_pass.iter_rows(named=True))
    is_packed = _is_packed(library, rows)
    check_sources(promised, rows)
    found = tuple(
        _Looked(
            library, counted, summary, promised, contract, rows, row, is_packed, doubt
        ).generation()
        for row in (rows if doubt.places else _with_gaps(rows))
    )
    return _without_contradiction(found)


def _without_contradiction(found: Sequence[Generation]) -> tuple[Generation, ...]:
    """Doubt that a pass dropped its last batch where another one of its source did not."""
    kept = {
        (one.source, one.size)
        for one in found
        if one.is_over and one.records and one.missing == 0 and not one.doubted
    }
    return tuple(
        replace(one, dropped=0, doubted=one.doubted + one.dropped)
        if one.dropped and (one.source, one.size) in kept
        else one
        for one in found
    )


def _is_packed(library: Library, rows: Sequence[Mapping[str, Any]]) -> bool:
    if not rows or any(row["inner"] for row in rows):
        return bool(rows)
    records = _step_of(library, max(rows, key=lambda row: int(row["last_step"]))).records
    return bool(records.select(pl.struct(SEQUENCE).n_unique()).item() < records.height)


def _step_of(library: Library, row: Mapping[str, Any]) -> Side:
    """Give the last step of a pass."""
    source = library.archive.source
    step = row["last_step"]
    return attempt_window(source, source.lineage.chain[row["place"]], step, step)


def _with_gaps(rows: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Give the passes, and the empty ones between them: an epoch that never came is over."""
    before: Mapping[str, Any] | None = None
    for row in rows:
        if before is not None and before["source"] == row["source"] and before["epoch"] is not None:
            for epoch in range(before["epoch"] + 1, min(row["epoch"], before["epoch"] + MOST_GAPS)):
                yield {**dict.fromkeys(row, 0), "source": row["source"], "epoch": epoch}
        before = row
        yield row


@dataclass(frozen=True)
class _Looked:
    """One pass, and all that is known beside it."""

    library: Library
    counted: Counted
    summary: Summary
    promised: Promised
    contract: Contract
    rows: Sequence[Mapping[str, Any]]
    """Of all passes."""
    row: Mapping[str, Any]
    """Of this one."""
    is_packed: bool
    """Documents are used in parts, or share sequences: nobody counts them."""
    doubt: Doubt

    def generation(self) -> Generation:
        row, chain = self.row, self.library.archive.source.lineage.chain
        listed = listed_of(self.promised, self.row["source"])
        is_only = len({one["source"] for one in self.rows}) == 1
        logged = None if self.is_packed else logged_size(chain)
        size, size_from = size_of(self.promised, row["source"], listed, only=is_only, logged=logged)
        several = self._own(self.summary.again.several)
        twice = several.row(0, named=True) if several.height else None
        samples = row["records"] - (twice["records"] - twice["samples"] if twice else 0)
        exposures = self._exposures(samples)
        met = None if listed is None else self.summary.beside(self._key, listed)
        strangers = 0 if met is None else samples - met[0]
        most = times(self.contract.repeats, row["source"])
        reached = sum(min(uses, most) * count for uses, count in exposures) - strangers
        missing = None if size is None else max(0, size * most - reached)
        declared = 0 if missing is None else min(missing, self._left_out)
        voided = 0 if missing is None else min(missing - declared, self._voided)
        is_over = self._is_later or (missing is not None and missing <= declared + voided)
        declared, voided = (declared, voided) if is_over else (0, 0)
        rest = (missing or 0) - declared - voided if is_over else 0
        repeats = tuple(self._repeats(size, is_over=is_over))
        is_padded = any(one.kind == "padding" for one in repeats)
        dropped, doubted = self._left(rest, size, is_padded=is_padded)
        if self._is_doubtful:
            dropped, doubted = 0, rest
        return Generation(
            source=row["source"],
            epoch=row["epoch"],
            first_step=row["first_step"],
            last_step=row["last_step"],
            is_over=is_over,
            size=size,
            size_from=size_from,
            records=row["records"],
            samples=samples,
            tokens=row["tokens"] if row["spans"] else None,
            spans=self._tokens(twice),
            exposures=exposures,
            missing=missing,
            declared=declared,
            voided=voided,
            dropped=dropped,
            doubted=doubted,
            unlisted=None if met is None else strangers,
            repeats=repeats,
            missing_examples=() if met is None or not is_over else met[1],
            unlisted_examples=self.summary.strangers(self._key) if strangers else (),
            by_digest=False,
        )

    @property
    def _is_doubtful(self) -> bool:
        """Nobody knows what belongs to the pass."""
        return bool(self.doubt.places or self._repeats_by_itself or not self.doubt.is_complete)

    @property
    def _key(self) -> tuple[str | None, int | None]:
        return self.row["source"], self.row["epoch"]

    def _own(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.filter(is_of(*self._key))

    @property
    def _is_later(self) -> bool:
        """A later pass over the source began."""
        source, epoch = self._key
        later = [row["epoch"] for row in self.rows if row["source"] == source]
        return epoch is not None and any(one is not None and one > epoch for one in later)

    @property
    def _voided(self) -> int:
        """Count the samples of this pass that void tries alone used: they are no skip."""
        ids = self._own(self.counted.void)["sample_id"]
        return len(ids) - self.summary.used_among(self._key, ids)

    @property
    def _left_out(self) -> int:
        """Count the samples of this pass that were deliberately left out."""
        chain = self.library.archive.source.lineage.chain
        source = self.row["source"]
        spans = [
            (row["first_step"], row["last_step"]) for row in self.rows if row["source"] == source
        ]
        named = named_ids(chain, source, self.row["last_step"])
        ids = pl.Series(named).cast(self.library.id_type, strict=False).drop_nulls().unique()
        unused = len(ids) - self.summary.used_among(self._key, ids)
        own = self.row["first_step"], self.row["last_step"]
        return unused + skipped_places(chain, source, own, spans)

    def _exposures(self, samples: int) -> tuple[tuple[int, int], ...]:
        counts: dict[int, int] = {}
        for uses, count in self._own(self.summary.again.uses).select("uses", "samples").iter_rows():
            counts[uses] = count
        once = samples - sum(counts.values())
        if once:
            counts[1] = counts.get(1, 0) + once
        return tuple(sorted(counts.items()))

    def _tokens(self, twice: Mapping[str, Any] | None) -> Tokens | None:
        if not self.row["spans"]:
            return None
        own = self._own(self.summary.again.tokens)
        told = own.row(0, named=True) if own.height else dict.fromkeys(own.columns, 0)
        inner = self.row["inner"] - (twice["inner"] if twice else 0)
        return Tokens(told["again"], told["between"], told["late"] + inner)

    def _repeats(self, size: int | None, *, is_over: bool) -> Iterator[Repeats]:
        """Give the repeats of the pass, run by run of steps, each explained if it can be."""
        extra = self._own(self.summary.again.extra)
        if extra.is_empty():
            return
        kinds = self._kinds(extra, size, is_over=is_over)
        extra = extra.with_columns(kind=kinds)
        if self._repeats_by_itself:
            is_fault = pl.col("kind") == "repeated"
            extra = extra.with_columns(
                kind=pl.when(is_fault).then(pl.lit("unexplained")).otherwise("kind")
            )
        is_next = (
            (pl.col("step") == pl.col("step").shift(1) + 1)
            & (pl.col("place") == pl.col("place").shift(1))
            & (pl.col("kind") == pl.col("kind").shift(1))
        )
        run = (~is_next).fill_null(value=True).cum_sum().clip(upper_bound=MAX_RUNS)
        runs = extra.with_columns(run=run)  # the last few are told as one
        for part in runs.partition_by("run", "kind", "place", maintain_order=True):
            yield _run(part, has_tokens=bool(self.row["spans"]))

    def _kinds(self, extra: pl.DataFrame, size: int | None, *, is_over: bool) -> pl.Series:
        """Say what each step's repeats are."""
        chain = self.library.archive.source.lineage.chain
        is_declared = [
            restarted(chain[: place + 1], self.row["source"], step, latest)
            for place, step, latest in extra.select("place", "step", "latest").iter_rows()
        ]
        in_tail = pl.col("step") == self.row["last_step"]
        tail = int(extra.filter(in_tail)["records"].sum())
        return extra.select(
            pl.when(pl.Series(is_declared))
            .then(pl.lit("declared"))
            .when(pl.col("place") >= min(self.doubt.places, default=END))
            .then(pl.lit("unexplained"))
            .when(in_tail)
            .then(pl.lit(self._kind_of_tail(tail, size, is_over=is_over)))
            .otherwise(pl.lit(self._kind(size)))
            .alias("kind")
        )["kind"]

    def _kind_of_tail(self, tail: int, size: int | None, *, is_over: bool) -> str:
        """Say what so many repeats in the last step of the pass are."""
        if not tail or not (is_over or self._is_newest):
            return self._kind(size)
        recipe = recipe_of(self._end)
        if is_over and size is not None and tail in self._paddings(recipe, size):
            return "padding"
        is_known = size is not None and is_over and self.doubt.is_complete
        if not is_known and tail <= recipe.largest_padding(None):
            return "unexplained"
        return self._kind(size)

    def _kind(self, size: int | None) -> str:
        """Say what other repeats are: faults, where the records are known to be of one pass."""
        is_told = self.row["epoch"] is not None
        is_told |= size is not None and self.row["records"] <= size
        return "repeated" if is_told else "unexplained"

    def _left(self, missing: int, size: int | None, *, is_padded: bool) -> tuple[int, int]:
        """
        Say how many missing uses the end of a pass leaves on purpose, and how many it may.

        What does not fill a row of ranks, a micro-batch of each or a global batch is dropped, of
        the pass or of the rest that an attempt was dealt; then every step is full, and nothing is
        padded. Fewer than a global batch may be dropped by workers, each on its own.
        """
        if not missing or size is None or missing >= max(1, self.counted.largest):
            return 0, 0
        last = self._end.records.height
        chain = self.library.archive.source.lineage.chain
        keeps = any(one.fingerprint.get("drop_last") is False for one in chain)
        units = [one for one in recipe_of(self._end).units if last % one == 0]
        is_drop = any(missing == rest % unit for rest in self._rests(size) for unit in units)
        if is_drop and not is_padded and not keeps:
            return missing, 0
        return 0, missing

    def _paddings(self, recipe: Recipe, size: int) -> frozenset[int]:
        """Give how many repeats a sampler may add, to the pass or to the rest of it."""
        return frozenset().union(*(recipe.paddings(rest) for rest in self._rests(size)))

    def _rests(self, size: int) -> list[int]:
        """Give what was left of the pass when each of its attempts began."""
        own = self._own(self.counted.used).sort("place")
        before = [0, *own["records"].cum_sum().to_list()[:-1]]
        return [size - used for used in before if used < size]

    @property
    def _repeats_by_itself(self) -> bool:
        """Its source repeated samples, beyond padding, before anything was resumed."""
        if len(self.library.archive.source.lineage.chain) < 2:
            return False
        extra = self.summary.again.extra.filter(
            pl.col("source").eq_missing(pl.lit(self.row["source"], pl.String)),
            pl.col("place") == 0,
        )
        ends = [row["last_step"] for row in self.rows if row["source"] == self.row["source"]]
        return not extra.filter(~pl.col("step").is_in(ends)).is_empty()

    @property
    def _is_newest(self) -> bool:
        """The run stops in it: it may have ended there."""
        return bool(self.row["last_step"] == max(row["last_step"] for row in self.rows))

    @cached_property
    def _end(self) -> Side:
        """Give the last step of the pass."""
        return _step_of(self.library, self.row)


def _run(part: pl.DataFrame, *, has_tokens: bool) -> Repeats:
    row = part.select(
        pl.col("attempt").first(),
        pl.col("step").min().alias("first"),
        pl.col("step").max().alias("last"),
        pl.col("records", "tokens").sum(),
        pl.col("earliest").min(),
        pl.col("latest").max(),
        pl.col("kind").first(),
    ).row(0, named=True)
    examples = part["examples"].explode().unique().sort().head(MAX_EXAMPLES)
    return Repeats(
        attempt=row["attempt"],
        first_step=row["first"],
        last_step=row["last"],
        ranks=closed_ranges(part["ranks"].explode().unique().to_list()),
        records=row["records"],
        tokens=row["tokens"] if has_tokens else None,
        earlier=(row["earliest"], row["latest"]),
        kind=row["kind"],
        examples=tuple(str(one) for one in examples.to_list()),
    )
