"""
Turns what frameworks save into JSON, whatever it is: a claim must never stop a job.

Bytes are told by their number, unless they are JSON text: Grain's state is.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ledger_audit.ledger.schema import CLAIM_KEYS

MOST_BYTES = 1 << 16
"""Of one value; a loader's state can be as large as the data set."""
MOST_NESTED = 50


def told(data: Any) -> str:
    """Give data as JSON text; tensors and arrays as lists, what has no JSON by its name."""
    text = json.dumps(_plain(data), separators=(",", ":"), allow_nan=False)
    if len(text) <= MOST_BYTES:
        return text
    kept = {}
    if isinstance(data, dict):
        kept = {key: _cut(value) for key, value in data.items()}
    return json.dumps({**kept, "cut": len(text)}, separators=(",", ":"), allow_nan=False)


def _cut(value: Any) -> Any:
    """Keep what is small, and of a large claim the keys that have a meaning."""
    plain = _plain(value)
    if len(json.dumps(plain)) <= MOST_BYTES // 8:
        return plain
    if isinstance(plain, dict):
        return {
            name: plain[name]
            for name in CLAIM_KEYS
            if name in plain and len(json.dumps(plain[name])) <= MOST_BYTES // 64
        } | {"cut": len(json.dumps(plain))}
    return {"cut": len(json.dumps(plain))}


def _plain(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if value is None or isinstance(value, int):
        return value if value is None or isinstance(value, bool) else int(value)
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # neither NaN nor infinite
    if isinstance(value, bytes | bytearray | memoryview):
        return _held_in(memoryview(value))
    return "..." if depth > MOST_NESTED else _plain_whole(value, depth)


def _held_in(value: memoryview) -> Any:
    """Give bytes that are JSON text, as some loaders' states are, as text; of others, how many."""
    if 1 < value.nbytes <= MOST_BYTES:
        with suppress(ValueError, RecursionError):  # neither UTF-8 nor JSON
            text = value.tobytes().decode()
            if isinstance(json.loads(text), dict | list):
                return text
    return {"bytes": value.nbytes}


def _plain_whole(value: Any, depth: int) -> Any:
    """Take apart what has parts; what has none that JSON knows is told by its type."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one, depth + 1) for one in value]
    for name in ("told", "tolist", "item"):
        method = getattr(value, name, None)
        if callable(method):
            with suppress(Exception):  # a stranger's method
                return _plain(method(), depth + 1)
    return {"type": type(value).__qualname__}
