"""
Shares samples out by a hash of their ids, the same on every machine and in every version.

Of an integer, it is the first 24 bits of its product with an odd constant, modulo 2^64; of a text,
its XXH64 as digests hash it.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from ledger_audit.ledger.digest import hash_records
from ledger_audit.ledger.schema import SAMPLE_ID

_FACTOR = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: neighbours and strides are spread evenly."""
_KEPT = 1 << 40


@dataclass(frozen=True)
class Bucket:
    """One share of all samples."""

    number: int
    """From 1."""
    of: int

    def holds(self, id_type: pl.DataType) -> pl.Expr:
        """Tell the records of its samples, whose ids have a type."""
        ids = pl.col(SAMPLE_ID)
        if id_type.is_integer():
            # an id that is null is nobody's: all pieces read it, and say so
            hashed = ids.reinterpret(signed=False) * pl.lit(_FACTOR, pl.UInt64) // _KEPT
            return (hashed % self.of == self.number - 1).fill_null(value=True)
        return ids.map_batches(self._holds, return_dtype=pl.Boolean(), is_elementwise=True)

    def _holds(self, ids: pl.Series) -> pl.Series:
        hashes = hash_records([ids.rechunk().to_arrow()])
        return pl.Series(ids.name, hashes % np.uint64(self.of) == np.uint64(self.number - 1))
