"""
The stream of Megatron-core: packed sequences in the order of its index files.

A sequence at position p of the stream is number `shuffle_index[p]` of its data set. It reaches from
`sample_index` of that number to the next: two places, each a place in `document_index` and a token
of the document there. In a blend, two arrays name data set and position in it for each position.
Source: the index files that megatron-core 0.16 writes, and its batch size ramp.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ledger_audit.errors import UnreadableError, UsageError
from ledger_audit.stream.index_files import Description, Lengths, array_of
from ledger_audit.stream.pieces import Derived, Integers, Leg, Sharding, piece, sharded


@dataclass(frozen=True)
class Ramp:
    """How the global batch grows: from `start`, by `increment`, over `samples` sequences."""

    start: int
    increment: int
    samples: int


def derive(
    description: Path,
    sharding: Sharding,
    batch: int,
    *,
    ramp: Ramp | None = None,
    samples: int | None = None,
    prefixes: tuple[Path, ...] = (),
) -> Derived:
    """
    Work out the stream of a data set, or of a blend, from its index files.

    Args:
        description: the `…-description.txt` of a `GPTDataset` or a `BlendedDataset`; its arrays,
            and in a blend those of its data sets, stand beside it.
        sharding: to how many ranks, in micro-batches of what size.
        batch: sequences of a step; under a ramp, of its end.
        ramp: how it grows to that; null: it does not.
        samples: sequences of the whole run; null: as many as the data set was built for.
        prefixes: of the `.idx` files, where they are not at the paths that the descriptions name.

    Raises:
        UnreadableError: an index file is missing, or does not fit the others.
        UsageError: the ranks cannot share a batch, or there are fewer sequences than asked for.
    """
    told = Description.read(description)
    order: _Blend | _Packed
    if told.kind == "BlendedDataset":
        order = _Blend.open(told, prefixes)
    else:
        order = _Packed.open(told, prefixes)
    wanted = told.samples if samples is None else samples
    if wanted > len(order):
        raise UsageError(
            f"{wanted:,} sequences are asked for, and {description} has {len(order):,}",
            hint="give the number that the run trains on, or the index of a longer one",
        )
    legs = list(legs_of(wanted, batch, sharding, ramp))
    recipe = {
        "index": told.hash,
        "samples": wanted,
        "global_batch": batch,
        "micro_batch": sharding.micro_batch,
        "rampup": None if ramp is None else [ramp.start, ramp.increment, ramp.samples],
    }
    pieces = (order.spans(positions, places) for positions, places in sharded(iter(legs), sharding))
    known = {"index_hash": told.hash, "micro_batch_size": sharding.micro_batch}
    return Derived("megatron", recipe, sharding.world_size, pieces, known)


def legs_of(samples: int, batch: int, sharding: Sharding, ramp: Ramp | None) -> Iterator[Leg]:
    """
    Give the steps of a run as stretches of one batch size; what fills no batch is not trained on.

    Raises:
        UsageError: a batch size of the ramp cannot be shared by the ranks, or the ramp does not
            lead to the batch.
    """
    sharding.slots(batch)
    consumed, step = 0, 1
    if ramp is not None:
        growth = _increments(ramp, batch)
        while consumed <= ramp.samples:
            size = ramp.start + int(consumed / (ramp.samples / growth)) * ramp.increment
            sharding.slots(size)
            below = ramp.samples if size == batch else _until(size, ramp, growth)
            steps = max(1, -(-(below - consumed) // size))  # the size is looked up before a step
            steps = min(steps, (samples - consumed) // size)
            if not steps:
                return
            yield Leg(step, consumed, size, steps * size)
            consumed, step = consumed + steps * size, step + steps
    if samples - consumed >= batch:
        yield Leg(step, consumed, batch, (samples - consumed) // batch * batch)


def _increments(ramp: Ramp, batch: int) -> int:
    """Count the steps of a ramp."""
    growth, rest = divmod(batch - ramp.start, ramp.increment)
    if growth < 1 or rest or ramp.samples < 1:
        raise UsageError(
            f"a ramp from {ramp.start:,} by {ramp.increment:,} over {ramp.samples:,} samples does "
            f"not lead to {batch:,}",
            hint="give start, increment and samples as the run does, and the batch of its end",
        )
    return growth


def _until(size: int, ramp: Ramp, growth: int) -> int:
    """Give the smallest number of consumed samples from which the batch is larger than a size."""
    number = (size - ramp.start) // ramp.increment + 1
    least = max(0, number * ramp.samples // growth - 1)
    while int(least / (ramp.samples / growth)) < number:  # in floats, as the framework reckons
        least += 1
    return least


@dataclass(frozen=True)
class _Packed:
    """One data set: documents, cut into sequences of one length."""

    documents: Any
    """int, place → document."""
    cuts: Any
    """(sequences + 1, 2): place in `documents`, token."""
    shuffled: Any
    """int, position → sequence."""
    lengths: Integers
    """Tokens of each document."""
    name: str

    def __len__(self) -> int:
        return len(self.shuffled)

    @staticmethod
    def open(told: Description, prefixes: tuple[Path, ...]) -> "_Packed":
        """Open the arrays beside a description, and the lengths of the documents."""
        documents = array_of(told.beside("document_index"), dimensions=1)
        cuts = array_of(told.beside("sample_index"), dimensions=2)
        shuffled = array_of(told.beside("shuffle_index"), dimensions=1)
        lengths = Lengths.of(told, prefixes).read()
        if cuts.shape[1] != 2 or len(cuts) < 2 or len(shuffled) > len(cuts) - 1:
            raise UnreadableError(
                f"{told.beside('sample_index')}: has the shape {cuts.shape}, which does not fit "
                f"{len(shuffled):,} sequences",
                hint="the arrays beside a description belong together: copy them all again",
            )
        if len(documents) and int(documents.max()) >= len(lengths):
            raise UnreadableError(
                f"{told.beside('document_index')}: names document {int(documents.max()):,}, and "
                f"the .idx file has {len(lengths):,}",
                hint="give the prefix of the .idx file that the index was built from",
            )
        return _Packed(documents, cuts, shuffled, lengths, told.name)

    def spans(self, positions: Integers, places: dict[str, Integers]) -> pl.DataFrame:
        """Give the spans of documents in the sequences at some positions of the stream."""
        return self.spans_at(positions, {**places, "position": positions}, source=None)

    def spans_at(
        self, own: Integers, columns: dict[str, Integers], source: str | None
    ) -> pl.DataFrame:
        """Give the same of positions in this data set, with other columns of each sequence."""
        numbers = np.asarray(self.shuffled[own], dtype=np.int64)
        first, start = np.asarray(self.cuts[numbers], dtype=np.int64).T
        last, end = np.asarray(self.cuts[numbers + 1], dtype=np.int64).T
        counts = last - first + 1
        sequence = np.repeat(np.arange(len(own)), counts)
        nth = np.arange(len(sequence)) - np.repeat(np.cumsum(counts) - counts, counts)
        place = first[sequence] + nth
        is_last = place == last[sequence]
        # a cut may stand at the end of all documents: nothing of what follows is used
        document = np.asarray(self.documents[np.minimum(place, len(self.documents) - 1)])
        begins = np.where(nth == 0, start[sequence], 0)
        ends = np.where(is_last, end[sequence], self.lengths[document])
        kept = ends > begins
        sequence, document = sequence[kept], document[kept]
        found = {name: column[sequence] for name, column in columns.items()}
        return piece(
            {
                **found,
                "sample_id": document.astype(np.int64),
                "token_start": begins[kept],
                "token_end": ends[kept],
                **(
                    {}
                    if source is None
                    else {"source": pl.Series([source]).new_from_index(0, len(document))}
                ),
            }
        )


@dataclass(frozen=True)
class _Blend:
    """Several data sets, of which each position names one."""

    numbers: Any
    """int, position → data set."""
    positions: Any
    """int, position → position in it."""
    parts: tuple[_Packed, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    @staticmethod
    def open(told: Description, prefixes: tuple[Path, ...]) -> "_Blend":
        """Open the arrays of a blend, and its data sets."""
        numbers = array_of(told.beside("dataset_index"), dimensions=1)
        positions = array_of(told.beside("dataset_sample_index"), dimensions=1)
        parts = tuple(_Packed.open(part, prefixes) for part in told.parts())
        if len(numbers) != len(positions) or int(numbers.max(initial=-1)) >= len(parts):
            raise UnreadableError(
                f"{told.beside('dataset_index')}: does not fit the other index files of the blend",
                hint="the arrays beside a description belong together: copy them all again",
            )
        return _Blend(numbers, positions, parts)

    def spans(self, positions: Integers, places: dict[str, Integers]) -> pl.DataFrame:
        """Give the spans of documents in the sequences at some positions of the stream."""
        numbers = np.asarray(self.numbers[positions])
        own = np.asarray(self.positions[positions], dtype=np.int64)
        found = []
        for number, part in enumerate(self.parts):
            ours = numbers == number
            columns = {name: column[ours] for name, column in places.items()}
            columns["position"] = positions[ours]
            found.append(part.spans_at(own[ours], columns, source=part.name))
        return pl.concat(found).sort("position", maintain_order=True)
