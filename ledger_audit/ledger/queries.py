"""Runs queries: whatever a file turns out to hold is the input's fault, and says so."""

from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl

from ledger_audit.errors import UnreadableError, VanishedError
from ledger_audit.ledger import remote

BATCH = 1 << 18
"""Rows that are looked at at once."""


def collect(frame: pl.LazyFrame, name: str, *, streams: bool = False) -> pl.DataFrame:
    """Run a query; whatever a file turns out to hold is the input's fault, and says so."""
    with readable(name):
        # a result of the size of a window: to set up the engine that streams would take longer
        return frame.collect(engine="streaming" if streams else "in-memory")


def gathered(frame: pl.LazyFrame, name: str) -> pl.DataFrame:
    """
    Run a query that keeps few of the rows that it reads, and hold nothing but these.

    Text is not copied by a filter: one row would keep alive all that was read together with it.
    """
    found = collect(frame, name, streams=True)
    return found.with_columns(
        pl.Series(one.name, one.to_arrow(compat_level=pl.CompatLevel.oldest()))
        for one in found
        if one.dtype == pl.String
    )


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Let what goes wrong in a query be said of the ledger that it reads."""
    try:
        yield
    except FileNotFoundError as problem:
        raise VanishedError.of(f"{name}: {problem}") from problem
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as problem:
        if remote.is_of_store(problem):
            raise remote.complaint(name, problem) from problem
        raise UnreadableError(
            f"{name}: cannot be read: {problem}",
            hint="check the file that the message names, and the types of its columns",
        ) from problem


def batches(rows: pl.LazyFrame, name: str) -> Iterator[pl.DataFrame]:
    """Run a query a batch at a time; whatever a file turns out to hold is the input's fault."""
    with readable(name):
        yield from rows.collect_batches(
            chunk_size=BATCH, maintain_order=False, engine="streaming", lazy=True
        )
