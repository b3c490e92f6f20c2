"""
Answers questions about all samples of a ledger by streams: what is kept is only what was found.

Each is asked of one attempt, or of a stretch of its steps, so that the caller bounds the memory.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.queries import collect
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.schema import SAMPLE_ID

_PAIR = [SAMPLE_ID, "source"]
_SPAN = ["token_start", "token_end"]
_SOME_RECORDS = re.compile(r"(\d{1,18}) records")


@dataclass(frozen=True)
class Search:
    """Questions about the samples of one ledger; a record is a used one of the ledger's stream."""

    ledger: Ledger

    @property
    def id_type(self) -> pl.DataType | None:
        """Integers or text; null: the ledger holds no sample that would tell."""
        return self.ledger.id_type if self.ledger._samples else None

    def size(self, attempt: str) -> int:
        """Count the rows of an attempt, of all streams and stages, without reading sealed files."""
        count = 0
        for part in self.ledger._samples.get(attempt, ()):
            if part.groups is not None:
                count += int(part.groups.rows.sum())
            else:
                count += int(collect(part.rows.select(pl.len()), self.ledger.name).item())
        return count

    def among(self, attempt: str, ids: pl.Series, first: int, last: int | None) -> pl.DataFrame:
        """Give the records from one step to another whose `sample_id` is among `ids`."""
        rows = self.ledger.scanned(attempt, first, last)
        return self.ledger.found(rows.filter(pl.col(SAMPLE_ID).is_in(ids.implode())))

    def strangers(
        self, attempt: str, listed: pl.DataFrame, first: int, last: int | None
    ) -> pl.DataFrame:
        """
        Give the records from one step to another that are not listed.

        Args:
            attempt: its label.
            listed: sample_id, source; a null source, on either side, is any.
            first: step.
            last: step; null: to the end.
        """
        rows = self.ledger.scanned_used(attempt, first, last)
        is_any = listed["source"].is_null()
        if is_any.any():
            rows = rows.filter(~pl.col(SAMPLE_ID).is_in(listed[SAMPLE_ID].filter(is_any).implode()))
        if not is_any.all():
            known = listed.filter(~is_any).select(_PAIR)
            is_known = pl.col("source").is_null() & pl.col(SAMPLE_ID).is_in(
                known[SAMPLE_ID].implode()
            )
            rows = rows.filter(~is_known).join(known.lazy(), on=_PAIR, how="anti")
        return self.ledger.found(rows)

    def counts(
        self, attempt: str, ends: pl.DataFrame, first: int, last: int | None
    ) -> pl.DataFrame:
        """
        Count the records of each rank and step, and those before each end of a try.

        Args:
            attempt: its label.
            ends: rank, step, seq of its commits and voids in these steps.
            first: step.
            last: step; null: to the end.

        Returns:
            rank, step, try_seq, n: the records with a `seq` below `try_seq`, those of earlier
            tries included; where no try of the rank and step ended, one row with a null try_seq.
        """
        rows = self.ledger.scanned_used(attempt, first, last)
        tries = ends.lazy().select("rank", "step", try_seq="seq")
        joined = rows.select("rank", "step", "seq").join(tries, on=["rank", "step"], how="left")
        before = pl.col("try_seq").is_null() | (pl.col("seq") < pl.col("try_seq"))
        # two files may hold the same rows: each `seq` counts once
        counted = joined.filter(before).group_by("rank", "step", "try_seq")
        return collect(
            counted.agg(pl.col("seq").n_unique().cast(pl.Int64).alias("n")),
            self.ledger.name,
            streams=True,
        )

    def sources(self, attempt: str) -> frozenset[str | None]:
        """List the sources of an attempt's records; null: some have none."""
        rows = self.ledger.scanned_used(attempt)
        found = collect(rows.select("source").unique(), self.ledger.name, streams=True)
        return frozenset(found["source"].to_list())

    def stream(self, name: str) -> pl.DataFrame:
        """Give what any attempt has in a stream: attempt, sample_id, source and span, each once."""
        columns = ["attempt", *_PAIR, *_SPAN]
        frames = [
            self.ledger.scanned(attempt).filter(pl.col("stream") == name).select(columns).unique()
            for attempt in self.ledger.attempts
        ]
        nothing = self.ledger.scanned("").select(columns)
        found = collect(pl.concat([nothing, *frames]), self.ledger.name, streams=True)
        if found[SAMPLE_ID].null_count():
            raise UnreadableError(
                f"{self.ledger.name}: a record of stream {name!r} has a null 'sample_id'",
                hint="every record needs a sample_id",
            )
        return found.sort(columns)

    def put_away(self) -> Mapping[str, tuple[int, int]]:
        """
        Find what writers did not keep, on purpose (`retain`).

        Returns:
            attempt → segments, and the records that they held as far as they say how many.
        """
        found: dict[str, tuple[int, int]] = {}
        for attempt, parts in self.ledger._samples.items():
            told = [one for part in parts for text in part.dropped for one in _each(text)]
            if told:
                numbers = [_SOME_RECORDS.fullmatch(text) for text in told]
                found[attempt] = (len(told), sum(int(one[1]) for one in numbers if one is not None))
        return found


def _each(said: str) -> list[str]:
    """Tell apart what a segment says of segments, itself or merged into it, that were not kept."""
    try:
        told = json.loads(said)
    except (ValueError, RecursionError):
        return [said]
    return [str(one) for one in told.values()] if isinstance(told, dict) and told else [said]
