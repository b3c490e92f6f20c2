"""
Checks a plan: consumed and planned records make up the stream, each once, and in its order.

Nothing of how a plan is made is used: records are counted against the stream one by one, and their
digests are added up beside it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ledger_audit.ledger.digest import signed
from ledger_audit.ledger.spent import Identity, Spent
from ledger_audit.ledger.tables import hash_frame
from ledger_audit.model.plan import Amounts, Check
from ledger_audit.printable import counted as told_count
from ledger_audit.stream.consumed import Compared, Consumed, unmatched
from ledger_audit.stream.cursor_file import Stated
from ledger_audit.stream.ordered import CONTENT, Ordered

MOST_OPEN = 1 << 20
"""Records of the stream, neither consumed nor planned as a whole, that are looked at."""
MOST_EXAMPLES = 8

_DOCUMENT = ("source", "epoch", "sample_id")


@dataclass(frozen=True)
class _Seen:
    """The stream beside what was consumed and what is planned."""

    expected: Amounts
    open: Amounts
    """Records of the stream that are neither."""
    rows: pl.DataFrame
    """The first of them: CONTENT."""
    is_ordered: bool
    """What is planned comes in the order of the stream."""


def check(
    stream: Ordered, consumed: Consumed, plan: Ordered, stated: Stated, asked: Compared, memory: int
) -> Check:
    """
    Check a plan.

    Args:
        stream: what is expected.
        consumed: at the checkpoint of the plan.
        plan: its records.
        stated: what it says of itself.
        asked: how records are compared.
        memory: bytes that may be used.
    """
    planned, amounts = _spent(plan, asked, memory)
    seen = _compare(stream, consumed.spent, planned, plan, asked.identity)
    left, again = stated.forbidden, stated.replayed
    missing, surplus = seen.open.records - left.records, planned.left - again.records
    is_halved = asked.identity.has_spans and consumed.spent.left > stated.unmatched
    doubts = [*_doubts(stated)]
    if is_halved and (left.records or again.records):
        doubts.append("parts of records were consumed, and others left out: not told apart")
    if is_halved and _is_level(seen.rows, consumed, plan, planned):
        missing, surplus = 0, 0
    broken = [*_contradictions(consumed, amounts, stated, seen)]
    if missing > 0:
        broken.append(f"{told_count(missing, 'record')} of the stream not consumed and not planned")
    if surplus > 0:
        broken.append(f"{told_count(surplus, 'planned record')} consumed already, or planned twice")
    if missing < 0 or surplus < 0:
        broken.append("the plan says that it leaves out, or replays, more than it does")
    if not is_halved:
        if not missing and seen.open.digest != left.digest:
            broken.append("what is left out has another digest than the plan says")
        if not again.records and not missing and not surplus and not seen.is_ordered:
            broken.append("what is planned does not come in the order of the stream")
    verdict: Literal["continuous", "broken", "unproven"] = (
        "broken" if broken else "unproven" if doubts else "continuous"
    )
    right = "consumed and planned records are the stream, each once, by set and by digest"
    return Check(
        inputs={},
        verdict=verdict,
        because=tuple(broken or doubts or [right]),
        consumed=consumed.amounts,
        planned=amounts,
        expected=seen.expected,
        missing=max(0, missing),
        missing_examples=_examples(seen.rows) if missing > 0 else (),
        surplus=max(0, surplus),
    )


def _spent(plan: Ordered, asked: Compared, memory: int) -> tuple[Spent, Amounts]:
    """Note what is planned."""
    spent = Spent(asked.identity, None, memory, 0)
    count, mixed = 0, 0
    for piece in plan.pieces():
        spent.see((None, None), piece.select("step", spent.key))
        count += piece.height
        mixed += int(hash_frame(piece).sum())
    spent.freeze()
    return spent, Amounts(count, None, None, signed(mixed))


def _compare(
    stream: Ordered, consumed: Spent, planned: Spent, plan: Ordered, identity: Identity
) -> _Seen:
    """Strike out of the stream what was consumed, then what is planned."""
    order = _Order(plan, identity)
    totals, counts = [0, 0], [0, 0]
    rows = [pl.DataFrame(schema=_content(stream))]
    kept = 0
    for piece in stream.pieces():
        hashes = hash_frame(piece)
        is_rest = ~consumed.strike(piece)
        rest = piece.filter(is_rest)
        is_planned = planned.strike(rest)
        order.follow(rest.filter(is_planned))
        is_open = ~is_planned
        counts[0] += piece.height
        counts[1] += int(is_open.sum())
        totals[0] += int(hashes.sum())
        totals[1] += int(hashes.filter(is_rest).filter(is_open).sum())
        if kept < MOST_OPEN and is_open.any():
            rows.append(rest.filter(is_open).select(CONTENT))
            kept += rows[-1].height
    expected, is_open_of = (
        Amounts(count, None, None, signed(total))
        for count, total in zip(counts, totals, strict=True)
    )
    return _Seen(expected, is_open_of, pl.concat(rows), order.is_kept)


class _Order:
    """Follows a plan beside the stream."""

    def __init__(self, plan: Ordered, identity: Identity) -> None:
        self._key = identity.key
        self._pieces = iter(plan.pieces())
        self._next: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.is_kept = True

    def follow(self, rows: pl.DataFrame) -> None:
        """See whether the plan goes on with these records."""
        keys = rows.select(self._key).to_series().to_numpy()
        while self.is_kept and len(keys):
            if not len(self._next):
                piece = next(self._pieces, None)
                if piece is None:
                    self.is_kept = False
                    return
                self._next = piece.select(self._key).to_series().to_numpy()
            most = min(len(keys), len(self._next))
            self.is_kept = bool((keys[:most] == self._next[:most]).all())
            keys, self._next = keys[most:], self._next[most:]


def _contradictions(
    consumed: Consumed, planned: Amounts, stated: Stated, seen: _Seen
) -> Iterator[str]:
    """Say where the plan says something else than what is there."""
    own = consumed.amounts
    if (own.records, own.digest) != (stated.consumed.records, stated.consumed.digest):
        yield "the ledger proves another cursor at this checkpoint than the plan begins at"
    if (planned.records, planned.digest) != (stated.planned.records, stated.planned.digest):
        yield "the records of the plan are not those that its cursor tells of"
    if seen.expected.digest != stated.reference_digest:
        yield "the reference is not the one that the plan was made from"


def _doubts(stated: Stated) -> Iterator[str]:
    if stated.extent != "reference":
        yield "the plan goes only as far as the work that the failure rolled back"
    if stated.unmatched:
        yield f"{told_count(stated.unmatched, 'consumed record')} not in the reference"


def _is_level(rows: pl.DataFrame, consumed: Consumed, plan: Ordered, planned: Spent) -> bool:
    """Tell whether parts of records that were consumed, and planned, cover those of the stream."""
    parts = [unmatched(consumed).select(*_DOCUMENT, "token_start", "token_end")]
    for piece in plan.pieces():
        parts.append(planned.left_of(piece).select(parts[0].columns))
    ends = pl.concat([_ends(rows, 1), *(_ends(part, -1) for part in parts)])
    level = ends.group_by(*_DOCUMENT, "token").agg(pl.col("n").sum())
    return not (level["n"] != 0).any()


def _ends(rows: pl.DataFrame, sign: int) -> pl.DataFrame:
    """Give where spans begin and end, counted up and down."""
    columns = [pl.col(name) for name in _DOCUMENT]
    return pl.concat(
        rows.select(*columns, token=at, n=pl.lit(sign * up, pl.Int64))
        for at, up in (("token_start", 1), ("token_end", -1))
    )


def _content(stream: Ordered) -> dict[str, pl.DataType]:
    types = {"source": pl.String(), "epoch": pl.Int32(), "sample_id": stream.id_type}
    return {name: types.get(name, pl.Int64()) for name in CONTENT}


def _examples(rows: pl.DataFrame) -> tuple[str, ...]:
    return tuple(str(one) for one in rows["sample_id"].head(MOST_EXAMPLES).to_list())
