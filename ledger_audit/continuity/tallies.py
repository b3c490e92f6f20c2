"""Pieces of a run and its control: what some samples of both amount to, for `gate` to settle by."""

from collections.abc import Mapping, Sequence

import polars as pl

from ledger_audit.continuity.exposure.amounts import (
    amounts_from,
    amounts_of,
    check_tables,
    frames_of,
    nothing_counted,
    outline,
    records_in,
)
from ledger_audit.continuity.exposure.counting import Asked
from ledger_audit.continuity.summing import MOST_AGAIN, Both, Repeated, Tally, both_used

SIDES = ("control", "run")


def count_both(both: Both) -> dict[str, pl.DataFrame]:
    """
    Count what the samples that both libraries answer for amount to: tables by their names.

    Hashes are those of digests, the same in every process that counts other samples.
    """
    outlines = [outline(library) for library in (both.control, both.run)]
    control, run = outlines
    found = both_used(both, Asked(both.memory, hashing="digest"), (control.legs, run.legs))
    tables: dict[str, pl.DataFrame] = {}
    for nth, (side, library) in enumerate(zip(SIDES, (both.control, both.run), strict=True)):
        if found is None:
            amounts, again = nothing_counted(library), MOST_AGAIN + 1
            ids = pl.Series([], dtype=library.id_type)
        else:
            amounts = amounts_of(library, outlines[nth], found[nth].counted)
            ids, again = found[nth].repeated.ids, found[nth].repeated.records
        own = frames_of(amounts) | {
            "repeated": ids.alias("sample_id").to_frame(),
            "again": pl.DataFrame({"records": [again]}, schema={"records": pl.Int64()}),
        }
        tables |= {f"{side}-{name}": frame for name, frame in own.items()}
    return tables


def tallies_from(
    pieces: Sequence[tuple[str, Mapping[str, pl.DataFrame]]], id_type: pl.DataType
) -> tuple[Tally, Tally]:
    """
    Read what was counted of a control and a run.

    Args:
        pieces: the name of each file, for messages, and its tables.
        id_type: of the ids of both.

    Raises:
        UnreadableError: a table is missing, or has other columns or types.
    """
    control, run = (_tally(side, pieces, id_type) for side in SIDES)
    return control, run


def _tally(
    side: str, pieces: Sequence[tuple[str, Mapping[str, pl.DataFrame]]], id_type: pl.DataType
) -> Tally:
    wanted: dict[str, Mapping[str, pl.DataType]] = {
        "repeated": {"sample_id": id_type},
        "again": {"records": pl.Int64()},
    }
    amounts, ids, records = [], [pl.Series([], dtype=id_type)], 0
    for name, tables in pieces:
        own = {
            table.removeprefix(f"{side}-"): frame
            for table, frame in tables.items()
            if table.startswith(f"{side}-")
        }
        check_tables(own, wanted, name)
        amounts.append(amounts_from(own, name))
        ids.append(own["repeated"]["sample_id"])
        records += records_in(own, "again", name)
    if records > MOST_AGAIN:
        return Tally(tuple(amounts), None)
    return Tally(tuple(amounts), Repeated(pl.concat(ids).unique().sort(), records))
