"""Asks the questions about all records of a ledger of a cluster."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce

import polars as pl
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls them

from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.exposure.library import Hashing, Library, Looked, Pass, Seen, Steps
from ledger_audit.ledger.counting import COUNTS, SUMS, Tally, turned_round, unnamed
from ledger_audit.ledger.digest import digest
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.schema import DIGEST_COLUMNS, SAMPLE_ID
from ledger_audit.ledger.tallying import is_gapless, ranges_by
from ledger_audit.ledger.uses import Met, Unnoted
from ledger_audit.ledger.whole import Scan, Whole
from ledger_audit.libraries import Engine, library_of
from ledger_audit.spark.frames import Frames, taken

_SAMPLE = ["source", "epoch", SAMPLE_ID]
_PLACE = ["rank", "step", "slot", "row", "seq"]
_SPAN = ["token_start", "token_end"]


@dataclass(frozen=True)
class _Seen:
    """The uses of samples: frames that are read when they are asked for."""

    frames: Frames
    _uses: list[DataFrame] = field(default_factory=list)
    _repeated: list[DataFrame] = field(default_factory=list)
    """Samples of more than one use, with `uses`; empty: not looked at yet."""
    key = pl.col(SAMPLE_ID).alias("key")

    def see(self, of: Pass, batch: pl.DataFrame) -> None:
        """Note the uses of samples that were looked at here."""
        source, epoch = pl.lit(of[0], pl.String), pl.lit(of[1], pl.Int32)
        rows = batch.select(source.alias("source"), epoch.alias("epoch"), pl.col("key"))
        self._uses.append(self.frames.of(rows.rename({"key": SAMPLE_ID})))

    def note(self, rows: DataFrame) -> None:
        """Note the uses of samples that the cluster reads."""
        self._uses.append(rows.select(_SAMPLE))

    def is_clean(self, records: int) -> bool:  # noqa: ARG002
        """Tell whether all noted uses are of different samples."""
        return self._amounts()[0] == 0

    def again(self) -> None:
        """Need no second look."""

    def suspects(self, records: int, most: int) -> Iterator[pl.Expr]:  # noqa: ARG002
        """Give the ids of the samples that some pass used more than once."""
        samples, uses = self._amounts()
        parts = max(1, -(-uses // max(1, most)))
        for number in range(parts if samples else 0):
            bucket = F.pmod(F.xxhash64(SAMPLE_ID), F.lit(parts)) == number
            ids = taken(self._again().filter(bucket).select(SAMPLE_ID).distinct())[SAMPLE_ID]
            if len(ids):
                yield pl.col(SAMPLE_ID).is_in(ids.sort().implode())

    def met(self, of: Pass, listed: pl.Series, most: int) -> Met:
        """Compare the uses of a pass with a list of ids."""
        if listed.is_empty():
            return Met(0, listed)
        source, epoch = F.col("source").eqNullSafe(of[0]), F.col("epoch").eqNullSafe(of[1])
        used = self._all().filter(source & epoch).select(SAMPLE_ID).distinct()
        rows = self.frames.of(listed.alias(SAMPLE_ID).to_frame())
        unused = rows.join(used, SAMPLE_ID, "leftanti").persist()
        try:
            missing = (
                taken(unused.orderBy(SAMPLE_ID).limit(most))[SAMPLE_ID] if most else listed[:0]
            )
            return Met(len(listed) - unused.count(), missing.cast(listed.dtype))
        finally:
            unused.unpersist()

    def among(self, asked: pl.DataFrame) -> pl.DataFrame:
        """Keep of some samples (source, epoch, sample_id) those that their pass used."""
        if asked.is_empty():
            return asked
        one, other = self.frames.of(asked.select(_SAMPLE)).alias("a"), self._all().alias("b")
        alike = [F.col(f"a.{name}").eqNullSafe(F.col(f"b.{name}")) for name in _SAMPLE]
        return _typed(taken(one.join(other, alike, "leftsemi")), asked.select(_SAMPLE).schema)

    def close(self) -> None:
        """Let go of what the cluster keeps."""
        for one in self._repeated:
            one.unpersist()
        self._repeated.clear()
        self._uses.clear()

    def _all(self) -> DataFrame:
        return reduce(lambda one, other: one.unionAll(other), self._uses)

    def _again(self) -> DataFrame:
        if not self._repeated:
            counted = self._all().groupBy(_SAMPLE).agg(F.count("*").alias("uses"))
            self._repeated.append(counted.filter("uses > 1").persist())
        return self._repeated[0]

    def _amounts(self) -> tuple[int, int]:
        """Count the samples of more than one use, and these uses."""
        if not self._uses:
            return 0, 0
        row = self._again().agg(F.count("*"), F.coalesce(F.sum("uses"), F.lit(0))).head()
        assert row is not None
        return int(row[0]), int(row[1])


@dataclass(frozen=True)
class Cluster:
    """One ledger, all records of which pass by on a cluster."""

    frames: Frames
    has_spans: bool
    has_positions: bool

    def look(
        self, seen: Seen, steps: Steps, rows: Iterable[pl.DataFrame], hashing: Hashing | None
    ) -> Looked:
        """Note the uses of some steps, and of records that are handed in; null: hash none."""
        assert isinstance(seen, _Seen | Unnoted)
        ledger = self.frames.ledger
        # the cluster has no quicker hash than the one that commits tell the sum of
        told: Hashing | None = None if hashing is None else "digest"
        tally = Tally(ledger.name, seen, self.has_spans, self.has_positions, told)
        for frame in rows:
            if frame.height:
                tally.take(frame.select(tally.columns))
        scan = scan_of(steps)
        if isinstance(seen, _Seen):
            seen.note(self.frames.rows(scan, [pl.col(name) for name in _SAMPLE]))
        found = self._counted(scan, hashes=told is not None)
        counts = pl.concat([tally.counts(), _typed(found, COUNTS)])
        of_pass = pl.concat([tally.sums(), _typed(found.select(_SUMMED), SUMS)])
        return Looked(
            counts.group_by("rank", "step").agg(pl.col("n", "tokens", "spans", "mixed").sum()),
            of_pass.group_by("source", "epoch").agg(
                pl.col("records", "tokens", "spans", "inner", "placed").sum(),
                pl.col("first_step").min(),
                pl.col("last_step").max(),
            ),
        )

    def _counted(self, scan: Scan, *, hashes: bool) -> pl.DataFrame:
        """Add up the records of each rank, step and pass."""
        names = ["rank", "step", *_SAMPLE, *(_SPAN if self.has_spans or hashes else [])]
        names += ["position"] if self.has_positions else []
        rows = self.frames.rows(scan, [pl.col(name) for name in names])
        none = F.lit(0).cast("bigint")
        span = F.col("token_end") - F.col("token_start") if self.has_spans else F.lit(None)
        span = span.cast("bigint")
        inner = F.count_if(F.col("token_start") > 0) if self.has_spans else none
        found = taken(
            rows.groupBy("rank", "step", "source", "epoch").agg(
                F.count("*").alias("n"),
                F.coalesce(F.sum(span), none).alias("tokens"),
                F.count(span).alias("spans"),
                inner.alias("inner"),
                (F.count("position") if self.has_positions else none).alias("placed"),
                (F.sum(hash_of()) if hashes else none).alias("mixed"),
                F.count_if(F.col(SAMPLE_ID).isNull()).alias("unnamed"),
                F.coalesce(F.min(span), none).alias("shortest"),
            )
        )
        _check(self.frames.ledger.name, found)
        return found.with_columns(pl.col("mixed").reinterpret(signed=False))

    def find(self, steps: Steps, where: pl.Expr) -> pl.DataFrame:
        """Give the used records of some steps that fulfil a condition."""
        return _found(self.frames, scan_of(steps), where)

    def lowest(self, steps: Steps, where: pl.Expr, most: int) -> pl.Series:
        """Give the lowest ids of the used records of some steps that fulfil a condition."""
        rows = self.frames.rows(scan_of(steps), [pl.col(SAMPLE_ID)], [where], lowest=most)
        ids = taken(rows)[SAMPLE_ID].cast(self.frames.ledger.id_type)
        return ids.unique().bottom_k(most).sort()

    def sums(self, steps: Steps) -> pl.DataFrame:
        """Add up some steps: source, epoch, records, tokens (of those with spans), spans."""
        names = [*_SAMPLE, *_PLACE, *_SPAN]
        rows = self.frames.rows(scan_of(steps), [pl.col(name) for name in names])
        span = F.col("token_end") - F.col("token_start")
        summed = rows.distinct().groupBy("source", "epoch")
        found = summed.agg(
            F.count("*").alias("records"),
            F.coalesce(F.sum(span), F.lit(0)).alias("tokens"),
            F.count(span).alias("spans"),
        )
        return _typed(taken(found), {name: SUMS[name] for name in found.columns})

    def ids(self, steps: Steps) -> pl.DataFrame:
        """Give what some steps used: source, epoch and sample_id, each once."""
        rows = self.frames.rows(scan_of(steps), [pl.col(name) for name in _SAMPLE])
        types = {"source": pl.String(), "epoch": pl.Int32(), SAMPLE_ID: self.frames.ledger.id_type}
        return _typed(taken(rows.distinct()), types)

    def places(self, attempt: str, first: int, last: int, but: pl.Series) -> pl.DataFrame:
        """Give the positions that each step of a stretch used: step, start, stop, without a gap."""
        names = [pl.col("step"), pl.col("position")]
        has_place = [pl.col("position").is_not_null()]
        rows = self.frames.rows(Scan(attempt, first, last, but), names, has_place)
        position = F.col("position")
        by_step = taken(
            rows.groupBy("step").agg(
                F.min(position).alias("start"),
                (F.max(position) + 1).alias("stop"),
                F.count("*").alias("n"),
                F.sum(F.xxhash64(position)).alias("mixed"),
            )
        )
        types = dict.fromkeys(("step", "start", "stop"), pl.Int64())
        if is_gapless(by_step, lambda every: digest([every.to_arrow()])):
            return _typed(by_step, types)
        return ranges_by(taken(rows.distinct()), "step")


_SUMMED = [
    pl.col("source", "epoch"),
    pl.col("n").alias("records"),
    pl.col("tokens", "spans", "inner", "placed"),
    pl.col("step").alias("first_step"),
    pl.col("step").alias("last_step"),
]


def spark_engine(spark: SparkSession) -> Engine:
    """Let all records pass by on a cluster."""

    def lookup(ledger: Ledger) -> Callable[[str, pl.Series], pl.DataFrame]:
        return partial(_lookup, Frames(spark, ledger))

    return Engine(partial(spark_library, spark), lookup)


def _lookup(frames: Frames, attempt: str, ids: pl.Series) -> pl.DataFrame:
    """Give every used record of an attempt whose `sample_id` is among `ids`."""
    if ids.is_empty():
        return frames.ledger.lookup(attempt, ids)
    return _found(frames, attempt, pl.col(SAMPLE_ID).is_in(ids.implode()))


def _found(frames: Frames, scan: Scan | str, where: pl.Expr) -> pl.DataFrame:
    """Give the used records of some steps, or of an attempt, that fulfil a condition."""
    schema = frames.ledger.scanned("").collect_schema()
    rows = frames.rows(scan, [pl.col(name) for name in schema], [where])
    return frames.ledger.found(_typed(taken(rows), schema).lazy())


def spark_library(spark: SparkSession, ledger: Ledger, archive: Archive) -> Library:
    """Let all records of a ledger pass by on a cluster; events are read here."""
    own = library_of(ledger, archive)
    frames, whole = Frames(spark, ledger), Whole(ledger)
    has = (whole.bounds(name) is not None for name in ("token_start", "position"))
    cluster = Cluster(frames, *has)
    return replace(
        own,
        archive=replace(archive, places=cluster.places),
        begin=lambda _memory, _direct: _Seen(frames),
        look=cluster.look,
        find=cluster.find,
        lowest=cluster.lowest,
        sums=cluster.sums,
        ids=cluster.ids,
    )


def hash_of() -> Column:
    """Give the hash of a record, of which a commit tells the sum."""
    # Spark hashes an integer of 32 bits as four bytes, the format all as eight
    names = [F.col(one).cast("bigint") if one == "epoch" else F.col(one) for one in DIGEST_COLUMNS]
    return F.xxhash64(*names)


def scan_of(steps: Steps) -> Scan:
    """Give the same steps to the reader."""
    return Scan(steps.attempt, steps.first, steps.last, steps.but)


def _typed(rows: pl.DataFrame, types: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Give the columns that are named, of the types that they have here."""
    return rows.select(pl.col(name).cast(dtype) for name, dtype in types.items())


def _check(name: str, found: pl.DataFrame) -> None:
    """Refuse what `Tally` refuses."""
    if found["rank"].null_count() or found["unnamed"].sum():
        raise unnamed(name)
    if (found["shortest"] < 0).any():
        raise turned_round(name)
