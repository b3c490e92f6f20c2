"""
Helps a trainer to say what decides the order of its stream: digests, and versions of libraries.

A digest is `sha256:` and 64 hex digits, the same in every process, on every platform. How a value
becomes bytes is specified in docs/fingerprints.md, with test vectors. Nothing is pickled, and
nothing is taken from `repr`: both change where the value does not.
"""

import errno
import hashlib
import importlib.metadata
import math
import os
import platform
import struct
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path, PurePath
from typing import Any

from ledger_audit.errors import UnreadableError, UsageError
from ledger_audit.model.fingerprints import DATA_LIBRARIES
from ledger_audit.printable import printable

MOST_NESTED = 64
"""Levels of a state; more are most likely a state that holds itself."""

_STATES = ("state_dict", "getstate", "get_state")
"""What an object may give its state by: loaders, `random.Random`, `torch.Generator`."""

_AS_LISTS = "OTUS"
"""Kinds of arrays that are digested as lists: of objects, and of text of whatever width."""

_SIZES = {"f": (2, 4, 8), "c": (8, 16)}
"""Bytes of the floats that are the same on every platform."""


def manifest_digest(entries: Iterable[Any]) -> str:
    """
    Digest what a data set is made of, in its order.

    Args:
        entries: one for each file, shard or source: its name, or a tuple or dictionary of what
            else tells one build from another (size, digest, weight). A dictionary gives its items.

    Raises:
        UsageError: there are none, or one cannot be digested.
    """
    if isinstance(entries, str | bytes):
        raise UsageError("manifest_digest: the entries are one text", hint="give a list of entries")
    listed = entries.items() if isinstance(entries, Mapping) else entries
    digest, count = hashlib.sha256(b"l"), 0
    for entry in listed:
        for part in _encoded(entry, f"entries[{count}]"):
            digest.update(part)
        count += 1
    if not count:
        raise UsageError(
            "manifest_digest: there are no entries",
            hint="a pattern may match nothing, or an iterator may be used up",
        )
    digest.update(b"e")
    return f"sha256:{digest.hexdigest()}"


def file_digest(path: str | os.PathLike[str]) -> str:
    """
    Digest the bytes of a file, without holding them in memory.

    Raises:
        UnreadableError: it is not there, no regular file, or cannot be read.
    """
    file = Path(path)
    problem: Exception
    try:
        if file.exists() and not file.is_file():
            raise OSError(errno.EINVAL, "is no regular file")  # a pipe would wait for ever
        with file.open("rb") as stream:
            return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
    except OSError as error:
        problem, told = error, error.strerror or type(error).__name__
    except ValueError as error:
        problem, told = error, str(error)
    raise UnreadableError(
        f"{printable(str(file))}: {told}",
        hint="mend the path, or wait until the file is written",
    ) from problem


def index_files(paths: Iterable[str | os.PathLike[str]]) -> dict[str, str]:
    """
    Digest index files, each under its name.

    A name is the last part of a path, and as many parts before it as tell it from the others: it
    stays the same where the folder is moved.

    Raises:
        UsageError: there are no paths.
        UnreadableError: a file is not there, or cannot be read.
    """
    if isinstance(paths, str | bytes | os.PathLike):
        raise UsageError("index_files: the paths are one path", hint="give a list of paths")
    files = list(dict.fromkeys(PurePath(os.path.abspath(path)) for path in paths))
    if not files:
        raise UsageError(
            "index_files: there are no paths",
            hint="a pattern may match nothing; leave the key out where there are no index files",
        )
    return {name: file_digest(path) for name, path in sorted(_named(files).items())}


def state_digest(state: Any) -> str:
    """
    Digest a state of whatever shape: of a generator, a sampler, a loader.

    Dictionaries are blind to order, lists and tuples are alike; 1, 1.0 and True are three things.
    Arrays count with type, shape and content; a tensor counts as the array that it holds; an
    object as what its `state_dict()`, `getstate()` or `get_state()` gives, a numpy generator as
    its `bit_generator.state`.

    Raises:
        UsageError: it holds something else; the message says where.
    """
    digest = hashlib.sha256()
    for part in _encoded(state, "state"):
        digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def worker_states(states: Iterable[Any] | Mapping[Any, Any]) -> dict[str, str]:
    """
    Digest the state of each loader worker.

    Args:
        states: worker → its state; a list counts its workers from 0.

    Raises:
        UsageError: two workers have one name, or a state cannot be digested.
    """
    named = states.items() if isinstance(states, Mapping) else enumerate(states)
    found: dict[str, str] = {}
    for worker, state in named:
        if str(worker) in found:
            raise UsageError(
                f"worker_states: two workers are named {printable(str(worker))}",
                hint="name workers by numbers or by text, not by both",
            )
        digest = hashlib.sha256()
        for part in _encoded(state, f"states[{_key(worker)}]"):
            digest.update(part)
        found[str(worker)] = f"sha256:{digest.hexdigest()}"
    return found


def library_versions(*names: str) -> dict[str, str]:
    """
    Tell which versions of libraries are installed.

    Args:
        names: of distributions, as pip knows them, or `python`; none: all those known to shuffle,
            deal or pack samples, as far as they are installed, and Python.

    Raises:
        UsageError: one that is named is not installed.
    """
    if not names:
        known = {name: _version(name) for name in ("python", *DATA_LIBRARIES)}
        return {name: version for name, version in known.items() if version is not None}
    found = {}
    for name in names:
        version = _version(name)
        if version is None:
            raise UsageError(
                f"library_versions: {printable(name)} is not installed",
                hint="name the distribution as pip does, for instance mosaicml-streaming",
            )
        found[name] = version
    return found


def _version(name: str) -> str | None:
    if name == "python":
        return platform.python_version()
    try:
        version: str | None = importlib.metadata.version(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    return version


def _named(files: Iterable[PurePath]) -> dict[str, PurePath]:
    """Name each path by as few of its last parts as tell it from the others."""
    named: dict[str, PurePath] = {}
    left, parts = list(files), 1
    while left:
        tails = [PurePath(*path.parts[-parts:]).as_posix() for path in left]
        alone = {tail for tail, count in Counter(tails).items() if count == 1}
        named |= {tail: path for tail, path in zip(tails, left, strict=True) if tail in alone}
        left = [path for tail, path in zip(tails, left, strict=True) if tail not in alone]
        parts += 1
    return named


def _encoded(state: Any, path: str, depth: int = 0) -> Iterator[bytes]:
    """Give the bytes that a value is digested as, part by part."""
    if depth > MOST_NESTED:
        raise UsageError(
            f"{path[:200]}: is nested deeper than {MOST_NESTED}, or holds itself",
            hint="digest the part of the state that decides the order",
        )
    scalar = _scalar(state)
    if scalar is not None:
        yield scalar
    elif isinstance(state, Mapping):
        pairs = [(b"".join(_encoded(key, f"a key of {path}", depth + 1)), key) for key in state]
        yield b"m"
        for encoded, key in sorted(pairs, key=lambda pair: pair[0]):
            yield encoded
            yield from _encoded(state[key], f"{path}[{_key(key)}]", depth + 1)
        yield b"e"
    elif isinstance(state, list | tuple | deque | range):
        yield b"l"
        for place, item in enumerate(state):
            scalar = _scalar(item)
            if scalar is not None:  # most items of long lists: no generator for each
                yield scalar
            else:
                yield from _encoded(item, f"{path}[{place}]", depth + 1)
        yield b"e"
    elif isinstance(state, Set):
        yield b"s"
        yield from sorted(b"".join(_encoded(one, f"{path}{{}}", depth + 1)) for one in state)
        yield b"e"
    else:
        yield from _object(state, path, depth)


def _scalar(state: Any) -> bytes | None:
    """Encode what holds nothing else; null: it does."""
    encoded = None
    match state:
        case None:
            encoded = b"n"
        case bool():
            encoded = b"t" if state else b"f"
        case int():
            encoded = b"i%x;" % state
        case float():
            encoded = b"d" + struct.pack(">d", math.nan if math.isnan(state) else state)
        case str():
            text = state.encode("utf-8", "surrogatepass")
            encoded = b"u%d:" % len(text) + text
        case bytes() | bytearray() | memoryview():
            octets = bytes(state)
            encoded = b"b%d:" % len(octets) + octets
    return encoded


def _object(state: Any, path: str, depth: int) -> Iterator[bytes]:
    """Encode an array, a tensor, or an object that gives its state."""
    if all(hasattr(state, name) for name in ("detach", "cpu", "numpy")):
        try:
            state = state.detach().cpu().numpy()
        except (TypeError, RuntimeError, ValueError) as problem:
            raise _unknown(state, path) from problem
    is_array = all(hasattr(state, name) for name in ("dtype", "shape", "tobytes", "__array__"))
    if is_array and not hasattr(state, "mask"):  # what a mask hides is no part of the value
        yield from _array(state.__array__(), path, depth)
        return
    if not isinstance(state, type):
        inner = getattr(getattr(state, "bit_generator", None), "state", None)
        if isinstance(inner, Mapping):
            yield from _encoded(inner, f"{path}.bit_generator.state", depth + 1)
            return
        for name in _STATES:
            if callable(give := getattr(state, name, None)):
                yield from _encoded(give(), f"{path}.{name}()", depth + 1)
                return
    raise _unknown(state, path)


def _array(array: Any, path: str, depth: int) -> Iterator[bytes]:
    """Encode type, shape and content, little-endian and row by row."""
    dtype = array.dtype
    if dtype.kind in _AS_LISTS:
        yield from _encoded(array.tolist(), path, depth + 1)
    elif dtype.names is not None:  # field by field: between them lies what nobody wrote
        fields = {name: array[name] for name in dtype.names}
        yield from _encoded(fields, path, depth + 1)
    elif dtype.itemsize not in _SIZES.get(dtype.kind, (dtype.itemsize,)):
        raise _unknown(array, path)
    else:
        little = array.astype(dtype.newbyteorder("<"))
        octets = little.tobytes()
        shape = ",".join(str(size) for size in array.shape)
        yield f"a{little.dtype.str}:{shape}:{len(octets)}:".encode()
        yield octets


def _unknown(state: Any, path: str) -> UsageError:
    kind = type(state)
    of = f" of {state.dtype}" if hasattr(state, "dtype") else ""
    return UsageError(
        f"{path}: a {printable(f'{kind.__module__}.{kind.__qualname__}')}{of} cannot be digested",
        hint="give numbers, text, bytes, lists, dictionaries, arrays, or an object with "
        "state_dict(); turn the rest into one of these",
    )


def _key(key: Any) -> str:
    """Name a key in a message."""
    told = repr(key) if isinstance(key, str | int | bytes) else type(key).__name__
    return printable(told[:60])
