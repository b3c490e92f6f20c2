"""
Shares samples out by a hash of their ids, the same on every machine and in every version.

The bucket of a sample is the XXH64 of its id, as digests hash it, modulo the number of buckets.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from ledger_audit.ledger.digest import hash_records
from ledger_audit.ledger.schema import SAMPLE_ID

MOST = 1 << 16
"""Buckets that a run can be shared out into."""


@dataclass(frozen=True)
class Bucket:
    """One share of all samples."""

    number: int
    """From 1."""
    of: int

    @property
    def holds(self) -> pl.Expr:
        """Tell the records of its samples."""
        return pl.col(SAMPLE_ID).map_batches(
            self._holds, return_dtype=pl.Boolean(), is_elementwise=True
        )

    def _holds(self, ids: pl.Series) -> pl.Series:
        hashes = hash_records([ids.rechunk().to_arrow()])
        return pl.Series(ids.name, hashes % np.uint64(self.of) == np.uint64(self.number - 1))
