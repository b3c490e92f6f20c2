"""
Decides which files become one: of few bytes together, and with each `seq` of a rank once.

Two writers of one rank both count from 0. In one file their records could not be told apart.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from ledger_audit.ledger.sealing.source import Key, Source, spans_of

Span = tuple[int, int]


@dataclass(frozen=True)
class Item:
    """What one writer left of one table, or a part of it that is large enough by itself."""

    writer: str
    sources: tuple[Source, ...]
    told: tuple[pa.Table, ...] = ()
    """Events that are to be added: what is dropped."""
    told_of: tuple[str, ...] = ()
    """The files that they tell of."""
    spans: Mapping[int, Span] = field(default_factory=dict)
    """The first and the last `seq` of each rank."""
    key: Key | None = None
    """Null: it fits everywhere."""
    weight: int = 0

    @property
    def is_done(self) -> bool:
        """It is one sealed file already, and nothing is to be added."""
        is_whole = len(self.sources) == 1 and self.sources[0].segment.is_sealed
        return is_whole and not self.told


def items_of(
    writer: str,
    sources: Sequence[Source],
    most_bytes: int,
    told: Sequence[tuple[str, pa.Table]] = (),
    run: bytes | None = None,
) -> list[Item]:
    """
    Cut what one writer left of one table into parts that are not too large, whole files each.

    Args:
        writer: its name.
        sources: in the order of their numbers.
        most_bytes: of a part.
        told: the events to be added, each with the file that it tells of.
        run: the run id of those events.
    """
    parts: dict[tuple[Key | None, int], list[Source]] = {}
    keys = [source.key for source in sources if source.key is not None]
    current = (keys[0] if keys else None, 0)
    for source in sources:
        key = current[0] if source.key is None else source.key
        weight = sum(one.weight for one in parts.get(current, ()))
        if key != current[0] or (weight and weight + source.weight > most_bytes):
            current = (key, current[1] + 1)
        parts.setdefault(current, []).append(source)
    items = [_item(writer, part, key) for (key, _), part in parts.items()]
    if not told:
        return items
    files, events = zip(*told, strict=True)
    if not items:
        known = None if run is None else Key(run, "", ())
        return [Item(writer, (), tuple(events), tuple(files), _hull(map(spans_of, events)), known)]
    spans = _hull([items[0].spans, *map(spans_of, events)])
    first = replace(items[0], told=tuple(events), told_of=tuple(files), spans=spans)
    return [first, *items[1:]]


def _item(writer: str, sources: Sequence[Source], key: Key | None) -> Item:
    spans = _hull(source.spans for source in sources)
    weight = sum(source.weight for source in sources)
    return Item(writer, tuple(sources), spans=spans, key=key, weight=weight)


def _hull(parts: Iterable[Mapping[int, Span]]) -> dict[int, Span]:
    found: dict[int, Span] = {}
    for spans in parts:
        for rank, (low, high) in spans.items():
            known = found.get(rank, (low, high))
            found[rank] = (min(low, known[0]), max(high, known[1]))
    return found


class Bin:
    """Items that become one file, while it is filled."""

    def __init__(self, first: Item) -> None:
        self.items = [first]
        self.key, self.weight = first.key, first.weight
        self.taken: dict[int, list[Span]] = {}
        """What is there of the order of writing of each rank."""
        self._take(first)

    def takes(self, item: Item, most_bytes: int) -> bool:
        """Add an item if there is room for it."""
        fits = self.key is None or item.key is None or self.key == item.key
        fits = fits and (not self.weight or self.weight + item.weight <= most_bytes)
        if not fits or any(self._holds(rank, span) for rank, span in item.spans.items()):
            return False
        self.items.append(item)
        self.key = item.key if self.key is None else self.key
        self.weight += item.weight
        self._take(item)
        return True

    def _holds(self, rank: int, span: Span) -> bool:
        return any(low <= span[1] and span[0] <= high for low, high in self.taken.get(rank, ()))

    def _take(self, item: Item) -> None:
        for rank, span in item.spans.items():
            self.taken.setdefault(rank, []).append(span)


def plan(items: Iterable[Item], most_bytes: int) -> list[list[Item]]:
    """Gather items: each goes to the first others with which it may become one file."""
    bins: list[Bin] = []
    for item in sorted(items, key=lambda item: item.key is None):
        if not any(one.takes(item, most_bytes) for one in bins):
            bins.append(Bin(item))
    return [one.items for one in bins if len(one.items) > 1 or not one.items[0].is_done]
