"""Shares the files of a ledger out among tasks, and gives their rows as frames of Spark."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ledger_audit.ledger.extents import used
from ledger_audit.ledger.parts import Part
from ledger_audit.ledger.queries import collect
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.whole import Scan
from ledger_audit.spark.executing import VERSIONS, Held, Reading, Share, arrow_schema, handed

_ROWS = 1 << 21
"""Rows that one task reads, at the most where row groups are not larger."""
_TYPES = {pa.int32(): "int", pa.int64(): "bigint", pa.string(): "string"}


@dataclass(frozen=True)
class Frames:
    """The used records of the stream of one ledger, read by a cluster."""

    spark: SparkSession
    ledger: Ledger

    def rows(
        self,
        scan: Scan | str,
        columns: Sequence[pl.Expr],
        where: Iterable[pl.Expr] = (),
        lowest: int | None = None,
    ) -> DataFrame:
        """
        Give the used records of some steps that fulfil conditions, not read yet.

        Args:
            scan: the steps, or an attempt whose every record is meant.
            columns: what is wanted of the `samples` table.
            where: further conditions.
            lowest: of the one column each value once, the lowest of each task; null: all rows.
        """
        attempt, of_steps = scan, []
        if isinstance(scan, Scan):
            attempt, of_steps = scan.attempt, [scan.where]
        conditions = [*used(self.ledger.stream), *of_steps, *where]
        parts = self.ledger._samples.get(str(attempt), ())
        schema = arrow_schema(self.ledger.scanned("").select(columns))
        sealed = [part for part in parts if part.groups is not None and part.scan is not None]
        shares = _shares(sealed, scan)
        found = []
        if shares:
            reading = Reading(
                name=self.ledger.name,
                scans=[part.scan for part in sealed if part.scan is not None],
                shares=shares,
                where=conditions,
                columns=columns,
                schema=schema,
                lowest=lowest,
                versions=VERSIONS,
            )
            tasks = self.spark.range(0, len(shares), 1, len(shares))
            found.append(tasks.mapInArrow(reading.read, _ddl(schema)))
        for part in parts:
            if part.groups is None or part.scan is None:
                rows = part.rows.filter(*conditions).select(columns)
                found.append(self.of(collect(rows, self.ledger.name, streams=True), schema))
        if not found:
            return self.of(pl.DataFrame(schema=dict(self._none(columns))), schema)
        return reduce(lambda one, other: one.unionAll(other), found)

    def of(self, rows: pl.DataFrame, schema: pa.Schema | None = None) -> DataFrame:
        """Hand rows of this process to the cluster."""
        schema = arrow_schema(rows.lazy()) if schema is None else schema
        # not createDataFrame: of several small tables of Arrow, Spark 4.3 was seen to drop rows
        held = Held([one.serialize().to_pybytes() for one in handed(rows, schema)], schema)
        tasks = self.spark.range(0, max(1, len(held.batches)), 1, max(1, len(held.batches)))
        return tasks.mapInArrow(held.read, _ddl(schema))

    def _none(self, columns: Sequence[pl.Expr]) -> Iterable[tuple[str, pl.DataType]]:
        return self.ledger.scanned("").select(columns).collect_schema().items()


def taken(frame: DataFrame) -> pl.DataFrame:
    """Bring the rows of a frame of Spark here."""
    found = pl.from_arrow(frame.toArrow())
    assert isinstance(found, pl.DataFrame)
    return found


def _ddl(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {_TYPES[field.type]}" for field in schema)


def _shares(parts: Sequence[Part], scan: Scan | str) -> list[list[Share]]:
    """Share the row groups that may hold some steps out into tasks of about as many rows."""
    tasks: list[list[Share]] = []
    filled = _ROWS
    for share in (one for place, part in enumerate(parts) for one in _runs(place, part, scan)):
        if filled + share.rows > _ROWS:
            tasks.append([])
            filled = 0
        tasks[-1].append(share)
        filled += share.rows
    return tasks


def _runs(place: int, part: Part, scan: Scan | str) -> Iterator[Share]:
    """Put neighbouring row groups of a file together, up to what one task reads."""
    groups = part.groups
    assert groups is not None
    chosen = np.arange(len(groups))
    if isinstance(scan, Scan):
        chosen = np.flatnonzero(groups.may_hold("step", scan.first, scan.last))
    # neighbours among all row groups have numbers that rise with their turn
    runs = groupby(
        enumerate(chosen.tolist()), key=lambda one: (one[1] - one[0], groups.file_of.item(one[1]))
    )
    for (_, file), run in runs:
        start, rows = None, 0
        for _, number in run:
            own = int(groups.rows[number])
            if start is not None and rows + own > _ROWS:
                yield Share(place, groups.files[file], start, rows)
                start, rows = None, 0
            start = int(groups.starts[number]) if start is None else start
            rows += own
        if start is not None:
            yield Share(place, groups.files[file], start, rows)
