"""Numbers what a rank wrote in the order of writing, across the files of a log without `seq`."""

import polars as pl

from ledger_audit.errors import UnreadableError


class Numbering:
    """The next number of each attempt and rank, and the launches of each rank, file after file."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int | None], int] = {}
        self._launches: dict[int, int] = {}

    def take(self, attempt: str, rank: int, seq: int | None) -> int:
        """Number one line: with its own `seq`, or with the number after the last."""
        following = self._next.get((attempt, rank), 0)
        number = following if seq is None else seq
        self._next[attempt, rank] = max(following, number + 1)
        return number

    def numbered(self, samples: pl.DataFrame, name: str) -> pl.DataFrame:
        """
        Number the rows of a table, which stand in the order of writing; their own `seq` stays.

        Args:
            samples: SAMPLES of one file; `seq` is null throughout where the file has none.
            name: the file, for messages.

        Raises:
            UnreadableError: some rows have a `seq` and some do not.
        """
        without = samples["seq"].null_count()
        if 0 < without < samples.height:
            raise UnreadableError(
                f"{name}: 'seq' is null in {without:,} of {samples.height:,} records",
                hint="give every record its 'seq', or leave the column out",
            )
        place = ["attempt", "rank"]
        ends = samples.group_by(place).agg(pl.len().alias("n"), pl.col("seq").max()).sort(place)
        firsts = []
        for attempt, rank, n, last in ends.iter_rows():
            first = self._next.get((attempt, rank), 0)
            firsts.append(first)
            self._next[attempt, rank] = first + n if without else max(first, last + 1)
        if not without:
            return samples
        nth = pl.int_range(pl.len(), dtype=pl.Int64).over(place)
        return (
            samples.join(
                ends.select(*place, pl.Series("first", firsts, pl.Int64)),
                on=place,
                how="left",
                nulls_equal=True,
                maintain_order="left",
            )
            .with_columns(seq=pl.col("first") + nth)
            .drop("first")
        )

    def launch(self, rank: int) -> int:
        """Count another launch of a rank, from 0."""
        number = self._launches.get(rank, -1) + 1
        self._launches[rank] = number
        return number
