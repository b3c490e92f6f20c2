"""The digest is the one of the specification, whatever the columns hold."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash
from conftest import FIXTURES
from emitting import emit_ledger
from native import read_lines
from running import ledger_audit

from ledger_audit.ledger.digest import digest, hash_records, signed
from ledger_audit.ledger.segment import OpenSegment

MASK = (1 << 64) - 1


@pytest.mark.parametrize(
    ("sample_id", "start", "end", "expected"),
    [
        (1, 0, 4096, 2862844028149230920),
        (-5, None, None, -5259934538394028452),
        ("doc-000001", 0, 4096, -2077757283275887020),
    ],
)
def test_the_vectors_of_the_specification(
    sample_id: int | str, start: int | None, end: int | None, expected: int
) -> None:
    """Signed 64-bit integers; source and epoch null."""
    spans = [pa.array([one], pa.int64()) for one in (start, end)]

    assert expected == digest([pa.array([sample_id]), *spans, None, None])


def _reference(values: tuple[int | str | None, ...]) -> int:
    """Chain XXH64 as the specification says, by a library that is not ours."""
    seed = 42
    for value in values:
        if value is not None:
            octets = value.encode() if isinstance(value, str) else _octets(value)
            seed = xxhash.xxh64(octets, seed=seed).intdigest()
    return seed


def _octets(value: int) -> bytes:
    return (value & MASK).to_bytes(8, "little")


def test_any_record_hashes_as_another_library_says() -> None:
    """Integers, text of every length, nulls anywhere, epochs of 32 bits."""
    rng = random.Random(5)
    rows = []
    for size in range(400):
        text = "".join(rng.choice("abcß日\x00") for _ in range(size % 90))
        rows.append(
            (
                text,
                rng.choice([None, rng.randrange(-(2**63), 2**63)]),
                rng.choice([None, rng.randrange(2**40)]),
                rng.choice([None, "web", text]),
                rng.choice([None, rng.randrange(-3, 2**31)]),
            )
        )
    types = (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.int32())
    columns = [
        pa.array(values, dtype)
        for values, dtype in zip(zip(*rows, strict=True), types, strict=True)
    ]

    expected = [_reference(row) for row in rows]

    assert expected == hash_records(columns).tolist()
    assert signed(sum(expected)) == digest(columns)
    assert expected[10:20] == hash_records([one.slice(10, 10) for one in columns]).tolist()
    encoded = [one.dictionary_encode() if one.type == pa.string() else one for one in columns]
    assert expected == hash_records(encoded).tolist()


def test_a_digest_is_a_sum() -> None:
    """Blind to order, sensitive to repeats; nothing sums to nothing."""
    one, two = pa.array([3, 9, 9]), pa.array([9, 3, 9])

    assert digest([one, None, None, None, None]) == digest([two, None, None, None, None])
    assert digest([one, None, None, None, None]) != digest(
        [pa.array([3, 9]), None, None, None, None]
    )
    assert 0 == digest([pa.array([], pa.int64()), None, None, None, None])


def _forge(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Write an open segment anew, with sound checksums and other rows."""
    table = pa.ipc.open_stream(path.read_bytes()).read_all()
    rows = table.to_pylist()
    change(rows)
    path.unlink()
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    segment = OpenSegment(path, table.schema.remove_metadata(), metadata)
    segment.append_batch(pa.RecordBatch.from_pylist(rows, schema=table.schema))
    segment.close()


def _other_id(rows: list[dict[str, Any]]) -> None:
    rows[0]["sample_id"] += 1_000_000


def _other_span(rows: list[dict[str, Any]]) -> None:
    rows[0]["token_end"] += 1


def _swapped(rows: list[dict[str, Any]]) -> None:
    """Within a step the order is no part of the digest."""
    rows[0]["sample_id"], rows[1]["sample_id"] = rows[1]["sample_id"], rows[0]["sample_id"]
    rows[0]["token_end"], rows[1]["token_end"] = rows[1]["token_end"], rows[0]["token_end"]


def _one_missing(rows: list[dict[str, Any]]) -> None:
    """What is missing is told by the count, not by the digest."""
    del rows[0]


@pytest.mark.parametrize(
    ("change", "is_told"),
    [(_other_id, True), (_other_span, True), (_swapped, False), (_one_missing, False)],
)
def test_a_record_that_was_changed_is_noticed(
    change: Callable[[list[dict[str, Any]]], None], is_told: bool, tmp_path: Path
) -> None:
    """The audit computes the digest of each whole try anew: a changed file proves nothing."""
    run = FIXTURES / "zoo" / "torch-ddp-correct" / "run"
    root = emit_ledger(read_lines(run), tmp_path / "ledger")
    assert 0 == ledger_audit("diff", root).code
    _forge(sorted((root / "attempt=1").glob("samples-*"))[0], change)

    ran = ledger_audit("diff", root, "--format", "json")

    limits = {one["code"] for one in ran.report["resumes"][0]["limits"]}
    assert is_told == ("digest-mismatch" in limits)
    assert ran.code == (0 if change is _swapped else 3)
