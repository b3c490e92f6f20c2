"""
Frames Arrow IPC messages with a checksum over all of each, and finds the sound ones in a file.

The checksum lies in the padding after a message's metadata, where every Arrow reader skips it:
four bytes of mark, then CRC-32 of the whole message without these eight bytes.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

MARK = b"LACS"
_CONTINUES = b"\xff\xff\xff\xff"
_HEAD, _TAIL = 8, 8
"""Bytes of the length before the metadata, and of mark and checksum after it."""
_ALIGNED = 8
"""Every message begins at a multiple of it."""
_LEAST_LOOK, _MOST_LOOK = 1 << 9, 1 << 20
"""Bytes that are looked through at once for the next message."""


def frame(message: pa.Buffer) -> bytes:
    """Give an encapsulated message (as `serialize()` makes it) with its checksum."""
    raw = memoryview(message).cast("B")
    length = int.from_bytes(raw[4:_HEAD], "little")
    head = _CONTINUES + (length + _TAIL).to_bytes(4, "little")
    metadata, body = raw[_HEAD : _HEAD + length], raw[_HEAD + length :]
    return b"".join((head, metadata, MARK, _sum(head, metadata, body), body))


def _sum(head: bytes, metadata: memoryview, body: memoryview) -> bytes:
    return zlib.crc32(body, zlib.crc32(metadata, zlib.crc32(head))).to_bytes(4, "little")


@dataclass(frozen=True)
class Found:
    """One stretch of a file: a sound message, or bytes that are none."""

    start: int
    end: int
    message: pa.Message | None
    """Null: damaged, or cut, or no message at all."""


def messages(data: pa.Buffer, *, is_checked: bool) -> Iterator[Found]:
    """
    Walk a file, message by message, past what is damaged.

    What is unsound is given once, from where it begins to where the next sound message does, or to
    the end.

    Args:
        data: the file.
        is_checked: as `has_checksums` tells; where one message has a checksum, all must.
    """
    at, end = 0, data.size
    lost_at: int | None = None
    while at + _HEAD <= end:
        found = _message_at(data, at, is_checked=is_checked)
        if found is None:
            lost_at = at if lost_at is None else lost_at
            at = _next_start(data, at)
            continue
        if lost_at is not None:
            yield Found(lost_at, at, None)
            lost_at = None
        yield found
        at = found.end
    if lost_at is not None or at < end:
        yield Found(at if lost_at is None else lost_at, end, None)


def has_checksums(data: pa.Buffer) -> bool:
    """Tell whether the messages of a file carry checksums; one with the mark tells for all."""
    at = 0
    while at + _HEAD <= data.size:
        plain = _message_at(data, at, is_checked=False)
        if plain is not None and _has_mark(memoryview(data).cast("B")[at:]):
            return True
        at = _next_start(data, at) if plain is None else plain.end
    return False


def _message_at(data: pa.Buffer, at: int, *, is_checked: bool) -> Found | None:
    raw = memoryview(data).cast("B")[at:]  # Arrow calls its bytes signed
    if bytes(raw[:4]) != _CONTINUES:
        return None
    length = int.from_bytes(raw[4:_HEAD], "little", signed=True)
    if not 0 < length <= len(raw) - _HEAD:
        return None
    try:
        message = pa.ipc.read_message(data.slice(at))
    except (pa.ArrowException, OSError):
        return None
    body = 0 if message.body is None else message.body.size
    size = _HEAD + length + body
    if size > len(raw):
        return None
    if is_checked and not _has_its_sum(raw[:size], length):
        return None
    return Found(at, at + size, message)


def _has_mark(raw: memoryview) -> bool:
    end = _HEAD + int.from_bytes(raw[4:_HEAD], "little")
    return bytes(raw[end - _TAIL : end - _TAIL + len(MARK)]) == MARK


def _has_its_sum(raw: memoryview, length: int) -> bool:
    if not _has_mark(raw):
        return False  # before anything is summed: most that seems a message is none
    metadata, told = raw[_HEAD : _HEAD + length - _TAIL], raw[_HEAD + length - _TAIL :]
    found = _sum(bytes(raw[:_HEAD]), metadata, raw[_HEAD + length :])
    return bytes(told[len(MARK) : _TAIL]) == found


def _next_start(data: pa.Buffer, at: int) -> int:
    """Give the next place where a message may begin."""
    at += _ALIGNED - at % _ALIGNED
    look = _LEAST_LOOK
    while at + _HEAD <= data.size:
        count = min(look, data.size - at) // _ALIGNED
        words = np.frombuffer(data, dtype="<i4", count=2 * count, offset=at)
        starts = np.flatnonzero((words[::2] == -1) & (words[1::2] > 0))
        if len(starts):
            return at + int(starts[0]) * _ALIGNED
        at += count * _ALIGNED
        look = min(2 * look, _MOST_LOOK)
    return at
