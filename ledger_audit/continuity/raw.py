"""Lays out what a ledger holds around a checkpoint, or in one step, without judging it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import polars as pl

from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.tries import with_fates
from ledger_audit.continuity.windows import Source
from ledger_audit.errors import UsageError
from ledger_audit.model.raw import RawRecord, RawTry, RawWindow
from ledger_audit.printable import counted

_TRY = ("step", "rank", "try_seq")
_LAST = 1 << 62
"""The try that nothing ended comes after those that something did."""


def raw_window(
    source: Source, index: int | None, ranks: Sequence[int], *, before: int, after: int
) -> RawWindow:
    """
    Give the records around one resume: committed, rolled back, resumed.

    Args:
        source: the ledger.
        index: the place of the resumed attempt in the lineage; null: the last steps of the
            newest attempt, where nothing was resumed.
        ranks: only these; none: all.
        before: steps before the checkpoint.
        after: steps after it.

    Raises:
        UsageError: there is no record at all, or none of a rank.
    """
    chain = source.lineage.chain
    if not any(one.seen for one in chain):
        raise UsageError("the ledger holds no record", hint="point at a ledger with records")
    if index is None:
        newest = chain[-1]
        last = newest.last_step or 0
        return _laid_out(source, [(newest, "newest", last - before + 1, last)], None, ranks)
    checkpoint = chain[index].resumed_at or 0
    parts = [
        (one, "committed", max(checkpoint - before + 1, _begin(one)), until)
        for position, one in enumerate(chain[:index])
        if (until := source.lineage.until(position, index)) is not None
    ]
    parts.append((chain[index - 1], "rolled back", checkpoint + 1, checkpoint + after))
    parts.append((chain[index], "resumed", checkpoint + 1, checkpoint + after))
    return _laid_out(source, parts, checkpoint, ranks)


def raw_step(source: Source, step: int, ranks: Sequence[int]) -> RawWindow:
    """
    Give what every attempt recorded for one step, in the lineage or not.

    Raises:
        UsageError: none recorded anything for it.
    """
    chain = source.lineage.chain
    parts = []
    for index, one in enumerate(chain):
        until = source.lineage.until(index, len(chain) - 1)
        is_lost = until is not None and step > until
        parts.append((one, "rolled back" if is_lost else "in the newest weights", step, step))
    parts += [(one, "not in the newest weights", step, step) for one in source.lineage.outside]
    window = _laid_out(source, parts, None, ranks)
    tries = list(window.tries)
    if not tries:
        raise UsageError(f"--step {step}: no record of it is there", hint=_what_is_there(source))
    return replace(window, tries=tries)


def _begin(attempt: Attempt) -> int:
    return 0 if attempt.resumed_at is None else attempt.resumed_at + 1


def _laid_out(
    source: Source,
    parts: Sequence[tuple[Attempt, str, int, int]],
    checkpoint: int | None,
    ranks: Sequence[int],
) -> RawWindow:
    seen = frozenset().union(*(attempt.seen for attempt, *_ in parts))
    unknown = sorted(set(ranks) - seen)
    if unknown:
        raise UsageError(
            f"--rank {unknown[0]}: left nothing in these attempts", hint=_what_is_there(source)
        )

    def tries() -> Iterator[RawTry]:
        for attempt, part, first, last in parts:
            yield from _tries(source, attempt, part, ranks, steps=(first, last))

    return RawWindow(checkpoint, tries())


def _tries(
    source: Source,
    attempt: Attempt,
    part: str,
    ranks: Sequence[int],
    *,
    steps: tuple[int, int],
) -> Iterator[RawTry]:
    first, last = steps
    if first > last:
        return
    records = with_fates(
        source.records(attempt.label, first, last), source.tries(attempt.label, first, last)
    )
    if ranks:
        records = records.filter(pl.col("rank").is_in(list(ranks)))
    records = records.with_columns(pl.col("try_seq").fill_null(_LAST))
    rows = records.sort(*_TRY, "slot", "row", "seq").iter_rows(named=True)
    for (step, rank, _), lines in groupby(rows, key=lambda row: tuple(row[key] for key in _TRY)):
        slots: dict[int, list[RawRecord]] = {}
        fate = None
        for row in lines:
            fate = row["fate"]
            slots.setdefault(row["slot"], []).append(
                RawRecord(
                    sample_id=str(row["sample_id"]),
                    span=None
                    if row["token_start"] is None
                    else (row["token_start"], row["token_end"]),
                    source=row["source"],
                    epoch=row["epoch"],
                    position=row["position"],
                )
            )
        yield RawTry(
            attempt=attempt.label,
            part=part,
            step=step,
            rank=rank,
            fate=fate if source.has_commits or fate == "void" else "unknown",
            slots={slot: tuple(found) for slot, found in slots.items()},
        )


def _what_is_there(source: Source) -> str:
    told = []
    for one in (*source.lineage.chain, *source.lineage.outside):
        if one.first_step is not None and one.seen:
            ranks = counted(len(one.seen), "rank")
            told.append(
                f"attempt {one.label} has steps {one.first_step} to {one.last_step} of {ranks}"
            )
    return "; ".join(told) or "the ledger holds no record"
