"""Looks at everything that one dead writer left, before anything of it is sealed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledger_audit.errors import UnreadableError, VanishedError
from ledger_audit.ledger import store
from ledger_audit.ledger.recovery import Hole, place_told, told_of
from ledger_audit.ledger.schema import DIGEST_COLUMNS
from ledger_audit.ledger.sealing.account import Dropped
from ledger_audit.ledger.sealing.digests import Tries, tries_of
from ledger_audit.ledger.sealing.source import Source, look_at, spans_of
from ledger_audit.ledger.segment import arrow_schema

Place = tuple[str, int, int]
"""A file, and from where to where something of it was dropped."""


@dataclass(frozen=True)
class Examined:
    """What a writer left."""

    writer: str
    samples: tuple[Source, ...]
    events: tuple[Source, ...]
    overlaps: bool
    """Some of its files hold the same stretch of a rank's order of writing."""
    digests: int
    """Tries that have the digest that their commit tells."""
    unchecked: str | None
    problems: tuple[str, ...]
    """What is corrupt."""

    @property
    def run(self) -> bytes | None:
        """The run id that its files name."""
        runs = [one.metadata.get(b"run_id") for one in (*self.samples, *self.events)]
        return next((run for run in runs if run is not None), None)

    def dropped(self) -> list[Dropped]:
        """Give what is no sound message in its files."""
        return [
            Dropped(one.name, one.segment.table, hole.start, hole.end, hole.from_step)
            for one in (*self.samples, *self.events)
            for hole in one.holes
        ]

    def told(self, attempt: str, known: frozenset[Place]) -> list[tuple[str, pa.Table]]:
        """Give an event for all that is dropped and not told of yet, each with its file."""
        new = [one for one in self.dropped() if (one.file, one.start, one.end) not in known]
        spans = [span for one in (*self.samples, *self.events) for span in one.spans.items()]
        found = re.match(r"r(\d{1,9})", self.writer)
        ranks = sorted(rank for rank, _ in spans)
        rank = int(found[1]) if found else ranks[0] if ranks else 0
        after = max((end for own, (_, end) in spans if own == rank), default=-1) + 1
        schema = arrow_schema("events")
        return [
            (
                one.file,
                pa.Table.from_pylist(
                    [
                        {
                            "attempt": attempt,
                            "rank": rank,
                            "seq": after + number,
                            "kind": "recovered",
                            "step": one.from_step,
                            "data": told_of(
                                one.file, one.table, Hole(one.start, one.end, one.from_step)
                            ),
                        }
                    ],
                    schema=schema,
                ),
            )
            for number, one in enumerate(new)
        ]


def examine(
    writer: str, wanted: Sequence[store.Segment], others: Sequence[store.Segment]
) -> Examined:
    """
    Look at everything that a writer left.

    Args:
        writer: its name.
        wanted: what is to be sealed.
        others: its files that are sealed and large: they stay as they are.
    """
    events: list[Source] = []
    samples: list[Source] = []
    problems: list[str] = []
    tables: list[pa.Table] = []
    spans: list[dict[int, tuple[int, int]]] = []
    unchecked = None
    sound = 0
    try:
        for segment in (one for one in wanted if one.table == "events"):
            source, contents = look_at(segment)
            events.append(source)
            tables.append(_slim(contents.rows))
        tries = tries_of(tables)
        for segment in (one for one in wanted if one.table == "samples"):
            source, contents = look_at(segment)
            samples.append(source)
            spans.append(dict(source.spans))
            tries.add(contents.rows)
        spans += [_spans_of(one) for one in others if one.table == "samples"]
        sound, unchecked = _checked(writer, tries, problems)
    except VanishedError:
        raise
    except UnreadableError as problem:
        problems.append(f"{problem.message}; {problem.hint}")
    overlaps = _overlap(spans)
    if overlaps and any(one.table == "samples" for one in others):
        problems.append(
            f"writer {writer}: its files hold the same records, and one of them is too large to be "
            "merged; remove the copies"
        )
    return Examined(
        writer, tuple(samples), tuple(events), overlaps, sound, unchecked, tuple(problems)
    )


def _slim(events: pa.Table) -> pa.Table:
    """Keep the events that digests are compared by."""
    return events.filter(pc.is_in(events["kind"], pa.array(["start", "commit", "void"])))


def _checked(writer: str, tries: Tries, problems: list[str]) -> tuple[int, str | None]:
    sound, wrong = tries.compared()
    problems += [
        f"writer {writer}: rank {one.rank} step {one.step}: the commit tells the digest "
        f"{one.told}, and its records have {one.found}"
        for one in wrong
    ]
    if not tries.others:
        return sound, None
    ranks = ", ".join(str(rank) for rank in sorted(tries.others)[:8])
    columns = ", ".join(DIGEST_COLUMNS)
    return sound, (
        f"digests of rank {ranks} were not compared: no start event of writer {writer} says that "
        f"they cover {columns}"
    )


def _spans_of(segment: store.Segment) -> dict[int, tuple[int, int]]:
    """Read where a large sealed file stands in its ranks' order of writing."""
    found: dict[int, tuple[int, int]] = {}
    try:
        with pq.ParquetFile(segment.path) as file:
            for batch in file.iter_batches(1 << 20, columns=["rank", "seq"]):
                for rank, (low, high) in spans_of(pa.table(batch)).items():
                    known = found.get(rank, (low, high))
                    found[rank] = (min(low, known[0]), max(high, known[1]))
    except (pa.ArrowException, OSError, ValueError, KeyError) as problem:
        raise UnreadableError(
            f"{segment.path}: cannot be read: {problem}", hint="copy it again, or remove it"
        ) from problem
    return found


def _overlap(spans: Sequence[dict[int, tuple[int, int]]]) -> bool:
    """Tell whether a rank's order of writing is in two files at once."""
    by_rank: dict[int, list[tuple[int, int]]] = {}
    for one in spans:
        for rank, span in one.items():
            by_rank.setdefault(rank, []).append(span)
    return any(
        before[1] >= after[0]
        for found in by_rank.values()
        for before, after in pairwise(sorted(found))
    )


def told_before(segments: Sequence[store.Segment]) -> frozenset[Place]:
    """
    Read what sealed files tell that was dropped already.

    Raises:
        UnreadableError: a file cannot be read.
    """
    places = set()
    for segment in segments:
        if segment.table != "events" or not segment.is_sealed:
            continue
        try:
            if not {"kind", "data"} <= set(pq.read_schema(segment.path).names):
                continue
            rows = pq.read_table(
                segment.path,
                columns=["kind", "data"],
                filters=[("kind", "=", "recovered")],
                partitioning=None,
            )
        except FileNotFoundError as problem:
            raise VanishedError.of(segment.path) from problem
        except (pa.ArrowException, OSError, ValueError, KeyError) as problem:
            raise UnreadableError(
                f"{segment.path}: cannot be read: {problem}", hint="copy it again, or remove it"
            ) from problem
        for data in rows["data"].to_pylist():
            place = place_told(data)
            if place is not None:
                places.add(place)
    return frozenset(places)
