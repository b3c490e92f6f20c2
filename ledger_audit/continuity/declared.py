"""
Reads deliberate acts: which samples a `declare` at or after the checkpoint names.

A declaration takes nothing out of the reference; it only excuses.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from ledger_audit.continuity.lineage import Attempt
from ledger_audit.continuity.windows import Windows

_REORDERING = ("reset", "reshuffle", "blend")
"""Acts after which the named sources go on in another order, or with other samples."""


def acts(attempts: Iterable[Attempt], checkpoint_step: int) -> list[Mapping[str, Any]]:
    """Give the data of every act that was declared at or after a step."""
    return [
        data
        for attempt in attempts
        for step, data in attempt.declares
        if step is None or step >= checkpoint_step
    ]


def named(attempts: Iterable[Attempt], windows: Windows) -> pl.Expr:
    """Give whether a record is named by an act: by its source, its position or its id."""
    is_named = pl.lit(value=False)
    for data in acts(attempts, windows.checkpoint_step):
        is_named |= _skipped(data, windows.resumed.records.schema["sample_id"])
        if any(data.get(kind) for kind in _REORDERING):
            is_named |= _of_sources(data)
    return is_named.fill_null(value=False)


def reordered(attempts: Iterable[Attempt], windows: Windows) -> pl.Expr:
    """Give whether a record's source was deliberately reset, reshuffled or blended anew."""
    is_reordered = pl.lit(value=False)
    for data in acts(attempts, windows.checkpoint_step):
        if any(data.get(kind) for kind in _REORDERING):
            is_reordered |= _of_sources(data)
    return is_reordered.fill_null(value=False)


def _of_sources(data: Mapping[str, Any]) -> pl.Expr:
    sources = data.get("sources")
    if sources is None:
        for kind in _REORDERING:
            said = data.get(kind)
            if isinstance(said, dict | list):
                sources = said.get("sources") if isinstance(said, dict) else said
    if not sources:
        return pl.lit(value=True)
    return pl.col("source").is_in([str(source) for source in sources])


def _skipped(data: Mapping[str, Any], id_type: pl.DataType) -> pl.Expr:
    skip = data.get("skip")
    if not isinstance(skip, dict):
        return pl.lit(value=False)
    is_named = pl.lit(value=False)
    if ids := skip.get("ids"):
        values = pl.Series([str(one) for one in ids]).cast(id_type, strict=False)
        is_named |= pl.col("sample_id").is_in(values.implode())
    for start, stop in _ranges(skip.get("positions")):
        is_named |= (pl.col("position") >= start) & (pl.col("position") < stop)
    if sources := skip.get("sources", data.get("sources")):
        of_source = pl.col("source").is_in([str(source) for source in sources])
        is_named = of_source if not (ids or skip.get("positions")) else is_named & of_source
    return is_named.fill_null(value=False)


def _ranges(positions: Any) -> list[tuple[int, int]]:
    """Read a list of single positions and of half-open pairs."""
    if not isinstance(positions, list):
        return []
    ranges = []
    for one in positions:
        if type(one) is int:
            ranges.append((one, one + 1))
        elif isinstance(one, list) and [int, int] == [type(end) for end in one]:
            ranges.append((one[0], one[1]))
    return ranges


def skipped_positions(attempts: Iterable[Attempt], checkpoint_step: int) -> list[tuple[int, int]]:
    """Give the half-open ranges of positions that were deliberately left out."""
    return [
        span
        for data in acts(attempts, checkpoint_step)
        if isinstance(data.get("skip"), dict)
        for span in _ranges(data["skip"].get("positions"))
    ]


def left_out(attempts: Iterable[Attempt], checkpoint_step: int) -> int:
    """Count the samples, by id or by position, that were deliberately left out."""
    count = sum(stop - start for start, stop in skipped_positions(attempts, checkpoint_step))
    for data in acts(attempts, checkpoint_step):
        skip = data.get("skip")
        if isinstance(skip, dict) and isinstance(skip.get("ids"), list):
            count += len(skip["ids"])
    return max(0, count)


def lengths(attempts: Iterable[Attempt], until: int) -> tuple[int, ...]:
    """Count the samples of each skip that was declared up to a step, by id or by position."""
    skips = (
        data["skip"]
        for attempt in attempts
        for step, data in attempt.declares
        if isinstance(data.get("skip"), dict) and (step is None or step <= until)
    )
    return tuple(filter(None, (_length(skip) for skip in skips)))


def _length(skip: Mapping[str, Any]) -> int:
    spans = _ranges(skip.get("positions"))
    ids = skip.get("ids")
    named = len(ids) if isinstance(ids, list) else 0
    return max(named, sum(stop - start for start, stop in spans))


def resets_positions(attempts: Iterable[Attempt], checkpoint_step: int) -> bool:
    """Tell whether positions were deliberately started anew: they compare with nothing before."""
    return any(data.get("reset") for data in acts(attempts, checkpoint_step))


def restarted(attempts: Sequence[Attempt], source: str | None, step: int, before: int) -> bool:
    """
    Tell whether a source was deliberately reset, reshuffled or blended anew between two steps.

    Args:
        attempts: of the lineage, up to the one whose step it is: what was declared before its
            checkpoint does not excuse it.
        source: whose samples.
        step: in which samples came again.
        before: the last step in which any of them had been used.
    """
    since = attempts[-1].resumed_at or 0
    name = pl.DataFrame({"source": [source]}, schema={"source": pl.String()})
    return any(
        bool(name.select(_of_sources(data).fill_null(value=False)).item())
        for attempt in attempts
        for at, data in attempt.declares
        if (at is None or max(since, before) <= at <= step)
        and any(data.get(kind) for kind in _REORDERING)
    )


def named_ids(attempts: Iterable[Attempt], source: str | None, last: int) -> list[str]:
    """Give the ids that were declared to be left out of a source up to a step, as text."""
    return [
        str(one)
        for at, data, skip in _skips(attempts)
        if (at is None or at <= last) and _is_of(source, data, skip)
        for one in skip.get("ids") or ()
    ]


def skipped_places(
    attempts: Iterable[Attempt],
    source: str | None,
    own: tuple[int, int],
    passes: Sequence[tuple[int, int]],
) -> int:
    """
    Count the places that were declared to be left out in a pass; a skip is of one pass alone.

    Args:
        attempts: of the lineage.
        source: of the pass.
        own: the first and the last step of the pass.
        passes: the same of all passes.
    """
    count = 0
    for at, data, skip in _skips(attempts):
        step = 0 if at is None else at
        ends = sorted(last for _, last in passes if last >= step)
        if not skip.get("ids") and _is_of(source, data, skip) and ends and ends[0] == own[1]:
            count += sum(stop - start for start, stop in _ranges(skip.get("positions")))
    return max(0, count)


def _skips(
    attempts: Iterable[Attempt],
) -> Iterator[tuple[int | None, Mapping[str, Any], Mapping[str, Any]]]:
    """Give the step, the data and the skip of each declaration that has one."""
    for attempt in attempts:
        for at, data in attempt.declares:
            skip = data.get("skip")
            if isinstance(skip, dict):
                yield at, data, skip


def _is_of(source: str | None, data: Mapping[str, Any], skip: Mapping[str, Any]) -> bool:
    sources = skip.get("sources", data.get("sources"))
    return not sources or source in [str(one) for one in sources]
