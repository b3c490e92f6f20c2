"""
Digests of records, as a sum of 64-bit hashes: blind to order, sensitive to every repeat.

The hash is XXH64 chained over columns as Spark's `xxhash64` does: seed 42, nulls skipped, integers
as 64 bits. A digest is evidence for equality and no defence against forgery.
Source: the XXH64 specification, and docs/ledger-format.md for the chain and its test vectors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_MASK = (1 << 64) - 1
_BLOCK = 1 << 15
"""Records that are hashed at once: what they need on the way stays in the processor's cache."""


def digest(columns: Sequence[pa.Array | None]) -> int:
    """
    Give the digest of records: the sum of their hashes modulo 2^64, as a signed integer.

    Args:
        columns: those of `schema.DIGEST_COLUMNS`, in their order and of one length; null where
            none is logged.
    """
    hashes = hash_records(columns)
    return signed(int(np.add.reduce(hashes, dtype=np.uint64)) if len(hashes) else 0)


def signed(value: int) -> int:
    """Give an unsigned 64-bit integer as the signed one with the same bits, as Spark prints it."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def hash_records(columns: Sequence[pa.Array | None]) -> Hashes:
    """Hash each record over its columns; a null leaves the hash as it was."""
    length = next((len(column) for column in columns if column is not None), 0)
    hashes = np.empty(length, dtype=np.uint64)
    for start in range(0, length, _BLOCK):
        block = [column if column is None else column.slice(start, _BLOCK) for column in columns]
        hashes[start : start + _BLOCK] = _hash_block(block, min(_BLOCK, length - start))
    return hashes


def _hash_block(columns: Sequence[pa.Array | None], length: int) -> Hashes:
    hashes = np.full(length, SEED, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            if column is None or column.null_count == length:
                continue
            hashed = _hash_text(column, hashes) if _is_text(column) else _hash_long(column, hashes)
            if column.null_count:
                hashed = np.where(column.is_valid().to_numpy(zero_copy_only=False), hashed, hashes)
            hashes = hashed
    return hashes


def _is_text(column: pa.Array) -> bool:
    return not pa.types.is_integer(column.type)


def _hash_long(column: pa.Array, seeds: Hashes) -> Hashes:
    """Hash a column of integers, each of eight bytes, from its seed on."""
    filled = column.fill_null(0) if column.null_count else column
    values = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False).view(np.uint64)
    hashes = seeds + np.uint64((_P5 + 8) & _MASK)
    hashes ^= _rotated(values * np.uint64(_P2), 31) * np.uint64(_P1)
    hashes = _rotated(hashes, 27) * np.uint64(_P1) + np.uint64(_P4)
    return _mixed(hashes)


def _hash_text(column: pa.Array, seeds: Hashes) -> Hashes:
    """Hash a column of text, as UTF-8, from its seed on: all of one length at once."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column = (column.fill_null("") if column.null_count else column).cast(pa.large_binary())
    length = len(column)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int64)[
        column.offset : column.offset + length + 1
    ]
    data = column.buffers()[2]
    octets = np.frombuffer(data if data is not None else b"", dtype=np.uint8)
    sizes = np.diff(offsets)
    hashes = np.empty(length, dtype=np.uint64)
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        rows = octets[offsets[chosen][:, None] + np.arange(size)]
        hashes[chosen] = _hash_rows(np.ascontiguousarray(rows), seeds[chosen])
    return hashes


def _hash_rows(rows: NDArray[np.uint8], seeds: Hashes) -> Hashes:
    """Hash texts of one length, one a row."""
    size = rows.shape[1]
    at = 0
    if size >= 32:
        lanes = [seeds + np.uint64(add & _MASK) for add in (_P1 + _P2, _P2, 0, -_P1)]
        while at + 32 <= size:
            words = rows[:, at : at + 32].copy().view("<u8")
            lanes = [_round(lane, words[:, index]) for index, lane in enumerate(lanes)]
            at += 32
        turns = (1, 7, 12, 18)
        hashes = sum(
            (_rotated(lane, turn) for lane, turn in zip(lanes, turns, strict=True)),
            np.zeros_like(seeds),
        )
        for lane in lanes:
            hashes ^= _round(np.zeros_like(lane), lane)
            hashes = hashes * np.uint64(_P1) + np.uint64(_P4)
    else:
        hashes = seeds + np.uint64(_P5)
    hashes = hashes + np.uint64(size)
    while at + 8 <= size:
        word = rows[:, at : at + 8].copy().view("<u8")[:, 0]
        hashes ^= _round(np.zeros_like(hashes), word)
        hashes = _rotated(hashes, 27) * np.uint64(_P1) + np.uint64(_P4)
        at += 8
    if at + 4 <= size:
        half = rows[:, at : at + 4].copy().view("<u4")[:, 0].astype(np.uint64)
        hashes ^= half * np.uint64(_P1)
        hashes = _rotated(hashes, 23) * np.uint64(_P2) + np.uint64(_P3)
        at += 4
    for index in range(at, size):
        hashes ^= rows[:, index].astype(np.uint64) * np.uint64(_P5)
        hashes = _rotated(hashes, 11) * np.uint64(_P1)
    return _mixed(hashes)


def _round(lane: Hashes, word: Any) -> Hashes:
    return _rotated(lane + word * np.uint64(_P2), 31) * np.uint64(_P1)


def _rotated(values: Hashes, bits: int) -> Hashes:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _mixed(hashes: Hashes) -> Hashes:
    hashes ^= hashes >> np.uint64(33)
    hashes *= np.uint64(_P2)
    hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(_P3)
    hashes ^= hashes >> np.uint64(32)
    return hashes
