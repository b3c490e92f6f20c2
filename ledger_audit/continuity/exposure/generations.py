"""Says of each pass how large it should be, whether it is over, and what of it is amiss."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.declared import left_out, restarted
from ledger_audit.continuity.epochs import Recipe, recipe_of
from ledger_audit.continuity.exposure.counting import Counted
from ledger_audit.continuity.exposure.library import PASS, Library
from ledger_audit.continuity.exposure.repeats import Again
from ledger_audit.continuity.findings import MAX_EXAMPLES, MAX_RUNS
from ledger_audit.continuity.frames import SEQUENCE, Side
from ledger_audit.continuity.repeats import times
from ledger_audit.continuity.windows import END, attempt_window
from ledger_audit.model.exposure import Generation, Repeats, SizeFrom, Tokens
from ledger_audit.model.ranges import closed_ranges

MOST_GAPS = 100
"""Epochs that never came of which each is told."""


@dataclass(frozen=True)
class Promised:
    """What a pass should hold, as far as the user says it."""

    samples: Mapping[str | None, int]
    """Source → samples of one pass; null: of the only source."""
    manifest: pl.DataFrame | None
    """sample_id, source (null: any): all samples of a pass, each once; null: there is no list."""
    trusts_digests: bool = False
    """What commits tell is taken for what was used, as far as it proves whole passes."""


def generations_of(
    library: Library,
    counted: Counted,
    again: Again,
    promised: Promised,
    contract: Contract,
    doubtful: Sequence[int],
) -> tuple[Generation, ...]:
    """Judge each pass, in the order of sources and epochs; `doubtful`: attempts by `labels`."""
    of_pass = counted.used.group_by(PASS, maintain_order=True).agg(
        pl.col("records", "tokens", "spans", "inner").sum(),
        pl.col("first_step").min(),
        pl.col("last_step").max(),
        pl.col("place").last(),
    )
    rows = list(of_pass.iter_rows(named=True))
    is_packed = _is_packed(library, rows)
    return tuple(
        _Looked(
            library, counted, again, promised, contract, rows, row, is_packed, doubtful
        ).generation()
        for row in (rows if doubtful else _with_gaps(rows))
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


def listed_of(promised: Promised, source: str | None) -> pl.Series | None:
    """Give the ids that the manifest lists for a source; null: there is no manifest."""
    if promised.manifest is None:
        return None
    name = pl.lit(source, pl.String)
    own = promised.manifest.filter(pl.col("source").is_null() | (pl.col("source") == name))
    return own["sample_id"].unique()


@dataclass(frozen=True)
class _Looked:
    """One pass, and all that is known beside it."""

    library: Library
    counted: Counted
    again: Again
    promised: Promised
    contract: Contract
    rows: Sequence[Mapping[str, Any]]
    """Of all passes."""
    row: Mapping[str, Any]
    """Of this one."""
    is_packed: bool
    """Documents are used in parts, or share sequences: nobody counts them."""
    doubtful: Sequence[int]
    """Places of attempts whose epochs may be labelled wrongly."""

    def generation(self) -> Generation:
        row = self.row
        listed = listed_of(self.promised, self.row["source"])
        size, size_from = self._size(listed)
        several = self._own(self.again.several)
        twice = several.row(0, named=True) if several.height else None
        samples = row["records"] - (twice["records"] - twice["samples"] if twice else 0)
        exposures = self._exposures(samples)
        is_over = self._is_over(samples, size)
        met = None if listed is None else self.counted.seen.met(self._key, listed, MAX_EXAMPLES)
        most = times(self.contract.repeats, row["source"])
        missing = None
        if size is not None:
            reached = sum(min(uses, most) * count for uses, count in exposures)
            known = reached if met is None else reached - (samples - met.samples)
            missing = max(0, size * most - known)
        short = (missing or 0) if is_over else 0
        declared = min(short, self._left_out)
        rest = short - declared
        dropped, doubted = self._left(rest, size)
        if self.doubtful or self._repeats_by_itself:  # nobody knows what belongs to the pass
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
            dropped=dropped,
            doubted=doubted,
            unlisted=None if met is None else samples - met.samples,
            repeats=tuple(self._repeats(size, is_over=is_over)),
            missing_examples=() if met is None or not is_over else met.missing,
            unlisted_examples=(),
            by_digest=False,
        )

    @property
    def _key(self) -> tuple[str | None, int | None]:
        return self.row["source"], self.row["epoch"]

    def _own(self, rows: pl.DataFrame) -> pl.DataFrame:
        source, epoch = self._key
        return rows.filter(
            pl.col("source").eq_missing(pl.lit(source, pl.String)),
            pl.col("epoch").eq_missing(pl.lit(epoch, pl.Int32)),
        )

    def _size(self, listed: pl.Series | None) -> tuple[int | None, SizeFrom | None]:
        source = self.row["source"]
        if listed is not None:
            return len(listed), "manifest"
        is_only = len({row["source"] for row in self.rows}) == 1
        said = self.promised.samples.get(source)
        said = self.promised.samples.get(None) if said is None and is_only else said
        if said is not None:
            return said, "samples"
        if not is_only or self.is_packed:
            return None, None
        told = {
            one.fingerprint.get("dataset_samples")
            for one in self.library.archive.source.lineage.chain
        } - {None}
        size = told.pop() if len(told) == 1 else None
        return (size, "dataset_samples") if type(size) is int and size > 0 else (None, None)

    def _is_over(self, samples: int, size: int | None) -> bool:
        """Tell whether a later pass over the source began, or all its samples were used."""
        if size is not None and samples + self._left_out >= size:
            return True
        source, epoch = self._key
        later = [row["epoch"] for row in self.rows if row["source"] == source]
        return epoch is not None and any(one is not None and one > epoch for one in later)

    @property
    def _left_out(self) -> int:
        return left_out(self.library.archive.source.lineage.chain, 0)

    def _exposures(self, samples: int) -> tuple[tuple[int, int], ...]:
        counts: dict[int, int] = {}
        for uses, count in self._own(self.again.uses).select("uses", "samples").iter_rows():
            counts[uses] = count
        once = samples - sum(counts.values())
        if once:
            counts[1] = counts.get(1, 0) + once
        return tuple(sorted(counts.items()))

    def _tokens(self, twice: Mapping[str, Any] | None) -> Tokens | None:
        if not self.row["spans"]:
            return None
        own = self._own(self.again.tokens)
        told = own.row(0, named=True) if own.height else dict.fromkeys(own.columns, 0)
        inner = self.row["inner"] - (twice["inner"] if twice else 0)
        return Tokens(told["again"], told["between"], told["late"] + inner)

    def _repeats(self, size: int | None, *, is_over: bool) -> Iterator[Repeats]:
        """Give the repeats of the pass, run by run of steps, each explained if it can be."""
        extra = self._own(self.again.extra)
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
            restarted(chain, self.row["source"], step) for step in extra["step"].to_list()
        ]
        in_tail = pl.col("step") == self.row["last_step"]
        tail = int(extra.filter(in_tail)["records"].sum())
        return extra.select(
            pl.when(pl.Series(is_declared))
            .then(pl.lit("declared"))
            .when(pl.col("place") >= min(self.doubtful, default=END))
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
        if (size is None or not is_over) and tail <= recipe.largest_padding(None):
            return "unexplained"
        return self._kind(size)

    def _kind(self, size: int | None) -> str:
        """Say what other repeats are: faults, where the records are known to be of one pass."""
        is_told = self.row["epoch"] is not None
        is_told |= size is not None and self.row["records"] <= size
        return "repeated" if is_told else "unexplained"

    def _left(self, missing: int, size: int | None) -> tuple[int, int]:
        """
        Say how many missing uses the end of a pass leaves on purpose, and how many it may.

        What does not fill a row of ranks, a micro-batch of each or a global batch is dropped, of
        the pass or of the rest that an attempt was dealt. Fewer than a global batch may be
        dropped by workers, each on its own.
        """
        if not missing or size is None or missing >= max(1, self.counted.largest):
            return 0, 0
        units = recipe_of(self._end).units
        if any(missing == rest % unit for rest in self._rests(size) for unit in units):
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
        extra = self.again.extra.filter(
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
