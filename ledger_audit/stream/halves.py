"""
Takes the tokens that were consumed out of records of which only a part was.

What is left of such a record goes on where the consumed part stopped.
"""

from collections.abc import Sequence

import polars as pl

from ledger_audit.ledger.schema import SAMPLE_ID

Key = tuple[str | None, int | None, object]
Interval = tuple[int, int]


class Halves:
    """
    Consumed spans that are no whole record of the reference, by document.

    Args:
        rows: source, epoch, sample_id, token_start, token_end: the consumed records.
        labels: those of `source` and `epoch` that tell documents apart.
    """

    def __init__(self, rows: pl.DataFrame, labels: Sequence[str]) -> None:
        self._labels = labels
        self._rows = rows.drop_nulls(["token_start", "token_end"])
        self._ids = self._rows[SAMPLE_ID].unique()
        self._left: dict[Key, list[Interval]] = {}
        self.renew()

    @property
    def is_empty(self) -> bool:
        """No such span is known."""
        return self._rows.is_empty()

    def renew(self) -> None:
        """Begin anew: every consumed token is to be taken out once."""
        self._left = {}
        for key, start, end in self._keyed(self._rows):
            self._left.setdefault(key, []).append((start, end))
        for spans in self._left.values():
            spans.sort()

    def cut(self, rows: pl.DataFrame) -> pl.DataFrame:
        """
        Take what was consumed out of records that are left of the stream.

        Args:
            rows: in the order of the stream, each not consumed as a whole.

        Returns:
            nth (of the row), token_start, token_end: what is left of each row of which a part was
            consumed; null in both where nothing is left of it.
        """
        found: list[tuple[int, int | None, int | None]] = []
        if not self.is_empty:
            touched = rows.with_row_index("nth").filter(
                pl.col(SAMPLE_ID).is_in(self._ids.implode()), pl.col("token_start").is_not_null()
            )
            for nth, (key, start, end) in zip(touched["nth"], self._keyed(touched), strict=True):
                rest = self._taken(key, start, end)
                if rest != [(start, end)]:
                    found += [(nth, *one) for one in rest] or [(nth, None, None)]
        schema = {"nth": pl.Int64(), "token_start": pl.Int64(), "token_end": pl.Int64()}
        return pl.DataFrame(found, schema=schema, orient="row")

    @property
    def left(self) -> list[object]:
        """Give the ids of consumed spans, or of parts, that no record of the reference holds."""
        return [key[2] for key, spans in self._left.items() for _ in spans]

    def _keyed(self, rows: pl.DataFrame) -> list[tuple[Key, int, int]]:
        of = ["source", "epoch", SAMPLE_ID, "token_start", "token_end"]
        return [
            (
                (
                    source if "source" in self._labels else None,
                    epoch if "epoch" in self._labels else None,
                    sample,
                ),
                start,
                end,
            )
            for source, epoch, sample, start, end in rows.select(of).iter_rows()
        ]

    def _taken(self, key: Key, start: int, end: int) -> list[Interval]:
        """Take the consumed spans of a document out of one of its records."""
        rest, kept, at = [], [], start
        for begin, stop in self._left.get(key, []):
            low, high = max(begin, at), min(stop, end)
            if low >= high:  # another record's
                kept.append((begin, stop))
                continue
            if low > at:
                rest.append((at, low))
            at = high
            kept += [one for one in ((begin, low), (high, stop)) if one[0] < one[1]]
        if key in self._left:
            self._left[key] = kept
        return [*rest, (at, end)] if at < end else rest
