"""Every bit of an open segment is under a checksum: what is damaged is left out, and no more."""

import random
from itertools import pairwise

import pyarrow as pa
import pytest

from ledger_audit.ledger.message import Found, frame, has_checksums, messages

SCHEMA = pa.schema([("rank", pa.int32()), ("sample_id", pa.string())])


def _file(batches: int = 6) -> bytes:
    parts = [frame(SCHEMA.serialize())]
    for number in range(batches):
        rows = {"rank": [number] * 3, "sample_id": [f"doc-{number}-{n}" for n in range(3)]}
        parts.append(frame(pa.RecordBatch.from_pydict(rows, SCHEMA).serialize()))
    return b"".join(parts)


def _sound(data: bytes) -> list[tuple[int, int]]:
    return [(one.start, one.end) for one in _walk(data) if one.message is not None]


def _walk(data: bytes) -> list[Found]:
    buffer = pa.py_buffer(data)
    return list(messages(buffer, is_checked=has_checksums(buffer)))


def test_others_read_what_is_written() -> None:
    """Arrow's own reader passes over the checksums."""
    assert 18 == pa.ipc.open_stream(_file()).read_all().num_rows


def test_a_flipped_bit_costs_its_own_message_alone() -> None:
    """Wherever it is: in a length, the metadata, the checksum or the body."""
    data = _file()
    whole = _sound(data)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << (place % 8)
        expected = [(start, end) for start, end in whole if not start <= place < end]
        assert expected == _sound(bytes(damaged)), place


def test_a_cut_file_has_all_that_is_before_the_cut() -> None:
    """At every byte."""
    data = _file()
    whole = _sound(data)
    for size in range(len(data)):
        assert [(start, end) for start, end in whole if end <= size] == _sound(data[:size])
        assert sum(one.end - one.start for one in _walk(data[:size])) == size


def test_zeros_at_the_end_are_no_messages() -> None:
    """A crash of the storage fills with zeros what it had not written."""
    data = _file()
    schema, *batches = _sound(data)
    for start in range(0, len(data), 64):
        damaged = data[:start] + bytes(len(data) - start)
        assert [one for one in batches if one[1] <= start] == [
            one for one in _sound(damaged) if one != schema
        ]
        assert (damaged == data) == all(one.message is not None for one in _walk(damaged))


@pytest.mark.parametrize("seed", range(30))
def test_rubbish_is_no_message(seed: int) -> None:
    """Whatever the bytes are, the walk ends, and covers every byte once."""
    rng = random.Random(seed)
    data = bytearray(_file())
    for _ in range(rng.randint(1, 30)):
        start = rng.randrange(len(data))
        data[start : start + rng.randint(1, 40)] = rng.randbytes(rng.randint(0, 40))
    found = _walk(bytes(data))

    assert all(one.end == after.start for one, after in pairwise(found))
    assert (0, len(data)) == (found[0].start, found[-1].end)


def test_files_without_checksums_are_taken_as_arrow_reads_them() -> None:
    """Other writers of the format need none."""
    data = SCHEMA.serialize().to_pybytes()
    rows = pa.RecordBatch.from_pydict({"rank": [1], "sample_id": ["a"]}, SCHEMA)
    data += rows.serialize().to_pybytes() * 3

    assert 4 == len(_sound(data))
