"""
Looks up samples in pieces: one process those of its own bucket, and notes what was asked and found.

Another answers from all such notes. What nobody was asked for is looked up as ever.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import polars as pl

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.buckets import Bucket
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.schema import SAMPLE_ID
from ledger_audit.ledger.searching import Search

Lookup = Callable[[str, pl.Series], pl.DataFrame]
"""Attempt, ids → every used record of the attempt with one of the ids."""

STATE = {"ledger": pl.String(), "attempt": pl.String(), "rows": pl.Int64()}
"""How many rows an attempt of a ledger had: with others, it is another one, or has grown."""

_WHERE = {"ledger": pl.String(), "attempt": pl.String()}
_TABLES = ("asked", "found", "state")


@dataclass(frozen=True)
class Noting:
    """Looks up the samples of one bucket, and notes them."""

    bucket: Bucket
    _ledgers: dict[str, Ledger] = field(default_factory=dict)
    _asked: list[pl.DataFrame] = field(default_factory=list)
    _found: list[pl.DataFrame] = field(default_factory=list)

    def of(self, ledger: Ledger) -> Lookup:
        """Give what looks up samples of the bucket in a ledger."""
        self._ledgers[ledger.name] = ledger
        return partial(self._look, ledger)

    def tables(self) -> dict[str, pl.DataFrame]:
        """Give what was asked and found, as tables by their names."""
        state = [_state(one) for one in self._ledgers.values()]
        asked = pl.concat(self._asked).sort(pl.all()) if self._asked else pl.DataFrame()
        found = pl.concat(self._found).sort(pl.all()) if self._found else pl.DataFrame()
        return {"asked": asked, "found": found, "state": pl.concat(state)}

    def _look(self, ledger: Ledger, attempt: str, ids: pl.Series) -> pl.DataFrame:
        where = {"ledger": pl.lit(ledger.name), "attempt": pl.lit(attempt)}
        asked = ids.alias(SAMPLE_ID).to_frame().drop_nulls().unique()
        own = asked.filter(self.bucket.holds(ledger.id_type)).with_columns(**where)
        for before in self._asked:  # another resume may have asked for it
            own = own.join(before, on=own.columns, how="anti")
        found = ledger.lookup(attempt, own[SAMPLE_ID])
        self._asked.append(own.select(*_WHERE, SAMPLE_ID))
        self._found.append(found.with_columns(ledger=where["ledger"]))
        return found


@dataclass(frozen=True)
class Noted:
    """Answers from what all pieces have found."""

    asked: Sequence[pl.DataFrame]
    """ledger, attempt, sample_id."""
    found: Sequence[pl.DataFrame]
    """SAMPLES, with `ledger`."""
    state: pl.DataFrame
    """STATE, of all ledgers."""

    @classmethod
    def of_pieces(cls, pieces: Sequence[tuple[str, Mapping[str, pl.DataFrame]]]) -> "Noted":
        """
        Put pieces together.

        Args:
            pieces: the name of each file, for messages, and its tables.

        Raises:
            UnreadableError: a table is missing, or two pieces are of different ledgers.
        """
        for name, tables in pieces:
            missing = [one for one in _TABLES if one not in tables]
            if missing or not tables["state"].equals(pieces[0][1]["state"]):
                raise UnreadableError(
                    f"{name}: has no table {missing[0]!r}"
                    if missing
                    else f"{name}: the ledger had other rows than for {pieces[0][0]}",
                    hint=_NEED,
                )
        asked, found = (
            [tables[name] for _, tables in pieces if tables[name].width]
            for name in ("asked", "found")
        )
        return cls(asked, found, pieces[0][1]["state"])

    def of(self, ledger: Ledger) -> Lookup:
        """
        Give what looks up samples in a ledger.

        Raises:
            UnreadableError: it has changed since, or a piece holds other columns.
        """
        if not self.state.filter(pl.col("ledger") == ledger.name).equals(_state(ledger)):
            raise UnreadableError(
                f"{ledger.name}: has changed since the pieces were made", hint=_NEED
            )
        nothing = ledger.lookup("", pl.Series([], dtype=ledger.id_type))
        for tables, wanted in (
            (self.found, nothing.schema),
            (self.asked, {SAMPLE_ID: ledger.id_type}),
        ):
            for one in tables:
                if dict(one.schema) != {**wanted, **_WHERE}:
                    raise UnreadableError("a piece holds other columns than the ledger", hint=_NEED)
        return partial(self._look, ledger)

    def _look(self, ledger: Ledger, attempt: str, ids: pl.Series) -> pl.DataFrame:
        is_own = (pl.col("ledger") == ledger.name) & (pl.col("attempt") == attempt)
        wanted = pl.col(SAMPLE_ID).is_in(ids.implode())
        known = [one.filter(is_own)[SAMPLE_ID] for one in self.asked]
        rest = ids.unique().to_frame(SAMPLE_ID)
        for one in known:
            rest = rest.filter(~pl.col(SAMPLE_ID).is_in(one.implode()))
        rows = [one.filter(is_own, wanted).drop("ledger") for one in self.found]
        return pl.concat([ledger.lookup(attempt, rest[SAMPLE_ID].drop_nulls()), *rows])


_NEED = "make all pieces anew, of the ledger as it is now"


def _state(ledger: Ledger) -> pl.DataFrame:
    search = Search(ledger)
    rows = [(ledger.name, label, search.size(label)) for label in sorted(ledger.attempts)]
    return pl.DataFrame(rows, schema=STATE, orient="row")
