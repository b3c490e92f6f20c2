"""
Proves whole passes by digests alone: the sum of what commits tell is that of a list of samples.

A sum is evidence for equality and no defence against forgery; it is asked for, or it is all that
is left where writers did not keep their records.
"""

from collections.abc import Callable, Iterator

import polars as pl

from ledger_audit.continuity.exposure.legs import legs_of
from ledger_audit.continuity.exposure.library import Library
from ledger_audit.model.exposure import Generation

ROWS_AT_ONCE = 1 << 20
"""Samples that are hashed at once."""

_ALL = 1 << 64


def passes_by_digest(library: Library, manifest: pl.DataFrame) -> tuple[Generation, ...] | None:
    """
    Judge the passes of a run whose every pass is the whole manifest.

    Args:
        library: the ledger.
        manifest: sample_id, source, token_start, token_end: all samples of a pass, each once.

    Returns:
        Each whole pass, and what follows the last; null where a commit tells no digest, a pass
        does not end with a step, or its digest is another: then the records are to be counted.
    """
    hashed = library.archive.source.hashed
    steps = _steps(library)
    size = manifest.height
    if hashed is None or steps is None or not size or steps.is_empty():
        return None
    found: list[Generation] = []
    records, digest, first = 0, 0, int(steps["step"][0])
    expected = _Expected(hashed, manifest)
    for step, samples, summed in steps.iter_rows():
        records, digest = records + samples, (digest + summed) % _ALL
        if records < size:
            continue
        epoch = expected.epoch_of(digest, len(found)) if records == size else "none"
        if isinstance(epoch, str):
            return None
        found.append(_generation(epoch, first, step, size, size))
        records, digest, first = 0, 0, step + 1
    if records:
        last = int(steps["step"][-1])
        label = found[-1].epoch if found else None
        rest = None if label is None else label + 1
        found.append(_generation(rest, first, last, size, records))
    return tuple(found)


def _steps(library: Library) -> pl.DataFrame | None:
    """Sum up the commits of each step of the newest weights: step, samples, digest."""
    source = library.archive.source
    found = [
        pl.DataFrame(schema={"step": pl.Int64(), "samples": pl.Int64(), "digest": pl.UInt64()})
    ]
    for place in range(len(source.lineage.chain)):
        for leg in legs_of(library, place):
            attempt = leg.attempt
            commits = leg.tries.filter(
                pl.col("kind") == "commit", ~pl.col("step").is_in(leg.left_out.implode())
            )
            is_told = commits["samples"].null_count() + commits["digest"].null_count() == 0
            is_whole = not (attempt.is_sampled or attempt.missing or attempt.is_absent)
            is_once = not commits.select("rank", "step").is_duplicated().any()
            is_ours = attempt.digest_columns == source.digest_columns
            there = commits["step"].n_unique() == leg.last - leg.first + 1 - len(leg.left_out)
            starts = leg.first == 0 and commits["step"].n_unique() == leg.last
            if not (is_told and is_whole and is_once and is_ours and (there or starts)):
                return None
            digest = pl.col("digest").reinterpret(signed=False).sum()
            found.append(commits.group_by("step").agg(pl.col("samples").sum(), digest))
    return pl.concat(found).sort("step")


class _Expected:
    """The digests that a pass over the manifest has, by the epoch that its records name."""

    def __init__(self, hashed: Callable[[pl.DataFrame], pl.Series], manifest: pl.DataFrame) -> None:
        self._hashed, self._manifest = hashed, manifest
        self._known: dict[int | None, int] = {}

    def epoch_of(self, digest: int, nth: int) -> int | str | None:
        """Name the epoch under which the n-th pass has a digest; `none`: it is another's."""
        for epoch in (nth, nth + 1, None):
            if self._of(epoch) == digest:
                return epoch
        return "none"

    def _of(self, epoch: int | None) -> int:
        if epoch not in self._known:
            self._known[epoch] = sum(self._sums(epoch)) % _ALL
        return self._known[epoch]

    def _sums(self, epoch: int | None) -> Iterator[int]:
        for start in range(0, self._manifest.height, ROWS_AT_ONCE):
            rows = self._manifest.slice(start, ROWS_AT_ONCE)
            yield int(self._hashed(rows.with_columns(epoch=pl.lit(epoch, pl.Int32))).sum())


def _generation(epoch: int | None, first: int, last: int, size: int, records: int) -> Generation:
    is_over = records == size
    return Generation(
        source=None,
        epoch=epoch,
        first_step=first,
        last_step=last,
        is_over=is_over,
        size=size,
        size_from="manifest",
        records=records,
        samples=records,
        tokens=None,
        spans=None,
        exposures=((1, records),) if is_over else (),
        missing=size - records,
        declared=0,
        voided=0,
        dropped=0,
        doubted=0,
        unlisted=0 if is_over else None,
        repeats=(),
        missing_examples=(),
        unlisted_examples=(),
        by_digest=is_over,
    )
