"""
A slow oracle for `verify`, in lists and loops: written from docs/verify.md, not from the product.

Which attempts made the newest weights, which steps were committed and which tries were void is
read by the slow oracle of the windows; what each pass came to is counted here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle_plain.lineage import Link, lineage
from oracle_plain.reading import Attempt, Row, read

Pass = tuple[str | None, int | None]
Use = tuple[int, Row]
"""The place of an attempt in the lineage, and what it used."""

WHOLE = 1 << 62
"""Where a whole sample ends."""


@dataclass(frozen=True)
class Told:
    """What the oracle says of a run."""

    passes: dict[Pass, dict[str, Any]]
    unused: dict[tuple[str, str, str | None, int | None], dict[str, Any]]
    """By attempt, fate, source and epoch."""
    losses: list[dict[str, Any]]
    """Of the lineage."""
    survival: dict[str, dict[str, Any]]
    shares: dict[tuple[str, str | None, int | None], int]


def expose(
    folder: Path,
    samples: Mapping[str | None, int] | None = None,
    *,
    repeats: int = 1,
    overlap: int = 1,
    stream: str | None = None,
) -> Told:
    """
    Count what the newest weights of a run used.

    Args:
        folder: of JSON Lines.
        samples: source → samples of a pass; null: of the only one.
        repeats: uses of a sample that a pass promises.
        overlap: tokens that neighbouring spans may share.
        stream: the audited one; null: training.
    """
    attempts = read(folder, stream)
    chain = lineage(attempts)
    uses = [
        (place, row)
        for place, link in enumerate(chain)
        for row in own_rows(chain, place)
        if link.attempt.committed(row.step) and not row.void
    ]
    by_pass: dict[Pass, list[Use]] = defaultdict(list)
    for place, row in uses:
        by_pass[row.source, row.epoch].append((place, row))
    passes = {of: count(rows, repeats, overlap) for of, rows in by_pass.items()}
    for of, told in passes.items():
        size = size_of(of, by_pass, chain, samples or {})
        later = any(
            source == of[0] and None not in (epoch, of[1]) and epoch > of[1]  # type: ignore[operator]
            for source, epoch in passes
        )
        told["size"] = size
        told["missing"] = None
        if size is not None:
            reached = sum(min(n, repeats) * how_many for n, how_many in told["exposures"].items())
            told["missing"] = max(0, size * repeats - reached)
        told["is_over"] = later or told["missing"] == 0
        if any(act.kind == "skip" for link in chain for act in link.attempt.acts):
            told["is_over"] = None  # what was declared to be left out is not looked at here
    used = {(row.source, row.epoch, row.sample_id) for _, row in uses}
    return Told(
        passes=passes,
        unused=dict(unused(attempts, chain, used)),
        losses=[loss(chain, place, used) for place in range(1, len(chain))],
        survival={
            str(link.attempt.label): totals([row for at, row in uses if at == place])
            for place, link in enumerate(chain)
        },
        shares=Counter(
            (str(chain[place].attempt.label), row.source, row.epoch) for place, row in uses
        ),
    )


def own_rows(chain: Sequence[Link], place: int) -> list[Row]:
    """Give what an attempt of the lineage used between its checkpoint and the next one's."""
    link = chain[place]
    after = link.at if link.parent is not None else -1
    upto = chain[place + 1].at if place + 1 < len(chain) else WHOLE
    return [row for row in link.attempt.rows if after < row.step <= upto]


def count(uses: Sequence[Use], repeats: int, overlap: int) -> dict[str, Any]:
    """Count the uses of one pass."""
    by_sample: dict[int | str, list[Use]] = defaultdict(list)
    for place, row in sorted(uses, key=lambda use: (use[0], use[1].order)):
        by_sample[row.sample_id].append((place, row))
    exposures: Counter[int] = Counter()
    again = between = late = extra = 0
    for rows in by_sample.values():
        spans = [span_of(row) for _, row in rows]
        if all(row.token_start is None for _, row in rows):
            exposures[len(rows)] += 1
            extra += max(0, len(rows) - repeats)
            continue
        exposures[depth(spans, overlap)] += 1
        extra += sum(
            sum(shared(span, before) > overlap for before in spans[:nth]) >= repeats
            for nth, span in enumerate(spans)
        )
        ordered = sorted(spans)
        late += ordered[0][0] > 0
        reach = ordered[0][1]
        for start, end in ordered[1:]:
            common = min(end, reach) - start
            again += common if common > overlap else 0
            between += max(0, start - reach)
            reach = max(reach, end)
    return {
        "records": len(uses),
        "samples": len(by_sample),
        "tokens": tokens_of(row for _, row in uses),
        "exposures": dict(exposures),
        "repeats": extra,
        "again": again,
        "between": between,
        "late": late,
        "first_step": min(row.step for _, row in uses),
        "last_step": max(row.step for _, row in uses),
    }


def span_of(row: Row) -> tuple[int, int]:
    """Give the tokens of a record; a whole sample has no end."""
    start = 0 if row.token_start is None else row.token_start
    return start, WHOLE if row.token_end is None else row.token_end


def shared(one: tuple[int, int], other: tuple[int, int]) -> int:
    """Count the tokens that two spans share."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def depth(spans: Iterable[tuple[int, int]], overlap: int) -> int:
    """Give the most uses of one token, less what neighbours share by design."""
    shrunk = [(start, end - overlap) for start, end in spans]
    starts = [start for start, _ in shrunk]
    return max(1, *(sum(a <= at < b for a, b in shrunk) for at in starts))


def tokens_of(rows: Iterable[Row]) -> int | None:
    """Add up tokens; null: no record has a span."""
    found = [
        row.token_end - row.token_start
        for row in rows
        if row.token_start is not None and row.token_end is not None
    ]
    return sum(found) if found else None


def size_of(
    of: Pass,
    by_pass: Mapping[Pass, Sequence[Use]],
    chain: Sequence[Link],
    samples: Mapping[str | None, int],
) -> int | None:
    """Give the samples of a pass, as far as anything says it."""
    is_only = len({source for source, _ in by_pass}) == 1
    if of[0] in samples:
        return samples[of[0]]
    if is_only and None in samples:
        return samples[None]
    said = {link.attempt.fact("dataset_samples") for link in chain} - {None}
    if not is_only or len(said) != 1 or is_packed(by_pass):
        return None
    (size,) = said
    return size if type(size) is int and size > 0 else None


def is_packed(by_pass: Mapping[Pass, Sequence[Use]]) -> bool:
    """Tell whether documents are used in parts, or share a sequence."""
    places: Counter[tuple[Any, ...]] = Counter()
    for uses in by_pass.values():
        for place, row in uses:
            places[place, *row.sequence] += 1
            if (row.token_start or 0) > 0:
                return True
    return any(n > 1 for n in places.values())


def totals(rows: Sequence[Row]) -> dict[str, Any]:
    """Sum up some records."""
    return {"records": len(rows), "tokens": tokens_of(rows)}


def unused(
    attempts: Mapping[str, Attempt], chain: Sequence[Link], used: set[Any]
) -> Iterable[tuple[tuple[str, str, str | None, int | None], dict[str, Any]]]:
    """Give what changed no weights that are left, by attempt, fate and pass."""
    found: dict[tuple[str, str, str | None, int | None], list[Row]] = defaultdict(list)
    for place, link in enumerate(chain):
        label, own = str(link.attempt.label), own_rows(chain, place)
        for row in own:
            if row.void:
                found[label, "void", row.source, row.epoch].append(row)
            elif not link.attempt.committed(row.step):
                found[label, "uncommitted", row.source, row.epoch].append(row)
        if place + 1 < len(chain):
            for row in link.attempt.rows:
                if row.step > chain[place + 1].at:
                    found[label, "rolled-back", row.source, row.epoch].append(row)
    inside = {id(link.attempt) for link in chain}
    for attempt in attempts.values():
        if id(attempt) not in inside:
            for row in attempt.rows:
                found[str(attempt.label), "rolled-back", row.source, row.epoch].append(row)
    for key, rows in found.items():
        ids = {row.sample_id for row in rows}
        never = sum((key[2], key[3], one) not in used for one in ids)
        yield key, {**totals(rows), "samples": len(ids), "never": never}


def loss(chain: Sequence[Link], place: int, used: set[Any]) -> dict[str, Any]:
    """Say what the failure before a resume took back."""
    parent, at = chain[place - 1].attempt, chain[place].at
    rows = [row for row in parent.rows if row.step > at]
    ids = {(row.source, row.epoch, row.sample_id) for row in rows}
    reached = [row.step for row in rows] + [step for _, step in parent.commits | parent.voids]
    return {
        "from_attempt": str(parent.label),
        "to_attempt": str(chain[place].attempt.label),
        "checkpoint_step": at,
        "steps": max(0, max(reached, default=at) - at),
        **totals(rows),
        "samples": len(ids),
        "used_again": len(ids & used),
    }


@dataclass(frozen=True)
class Effect:
    """What one sample of a pass came to."""

    uses: int
    """Where it is used in parts: 2 if any of its tokens came again, else 1."""
    lost: frozenset[tuple[str, str]]
    """Fate and attempt of records of it that changed no weights that are left."""


def effects(folder: Path, overlap: int = 1) -> dict[tuple[Any, ...], Effect]:
    """Give the net effect on each sample that was used at all, by source, epoch and id."""
    attempts = read(folder, None)
    chain = lineage(attempts)
    uses: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    lost: dict[tuple[Any, ...], set[tuple[str, str]]] = defaultdict(set)
    inside = {id(link.attempt) for link in chain}
    outside = [one for one in attempts.values() if id(one) not in inside]
    for place, link in enumerate(chain):
        own = own_rows(chain, place)
        after = chain[place + 1].at if place + 1 < len(chain) else WHOLE
        for row in link.attempt.rows:
            key = row.source, row.epoch, row.sample_id
            if row.step > after:
                lost[key].add(("rolled-back", str(link.attempt.label)))
            elif row not in own:
                continue
            elif row.void:
                lost[key].add(("void", str(link.attempt.label)))
            elif not link.attempt.committed(row.step):
                lost[key].add(("uncommitted", str(link.attempt.label)))
            else:
                uses[key].append(row)
    for attempt in outside:
        for row in attempt.rows:
            lost[row.source, row.epoch, row.sample_id].add(("rolled-back", str(attempt.label)))
    return {
        key: Effect(times(uses.get(key, []), overlap), frozenset(lost.get(key, ())))
        for key in {*uses, *lost}
    }


def times(rows: Sequence[Row], overlap: int) -> int:
    """Count the uses of one sample."""
    if all(row.token_start is None for row in rows):
        return len(rows)
    spans = [span_of(row) for row in rows]
    pairs = ((one, other) for nth, one in enumerate(spans) for other in spans[:nth])
    return 2 if any(shared(one, other) > overlap for one, other in pairs) else 1
