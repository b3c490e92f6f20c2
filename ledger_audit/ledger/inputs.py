"""Takes a digest of the files of an input, so that it can be told whether it is still the same."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from ledger_audit.errors import UnreadableError, VanishedError
from ledger_audit.ledger import remote
from ledger_audit.ledger.address import Address
from ledger_audit.ledger.matching import located
from ledger_audit.model.postmortem import Input

MOST_FILES = 20_000
MOST_BYTES = 256 << 20
"""What is read for a digest: a second's work."""
_CHUNK = 1 << 20


def inputs_of(roots: Sequence[Path]) -> tuple[Input, ...]:
    """
    Describe what lies at each root, or at what matches it.

    The digest is the SHA-256 over the lines `sha256 size name`, sorted by names within the root,
    so that a copy elsewhere has the same. Of more than MOST_FILES files or MOST_BYTES bytes there
    is none. Hidden files are left out, as they are when a ledger is opened.

    Raises:
        UnreadableError: nothing is there, or a file cannot be read.
        VanishedError: a file vanished meanwhile.
    """
    return tuple(_input(root) for root in roots)


def _input(root: Path) -> Input:
    try:
        files, sizes = _listed(root)
        total = sum(sizes)
        digest = None
        if len(files) <= MOST_FILES and total <= MOST_BYTES:
            every = hashlib.sha256()
            for (name, path), size in zip(files, sizes, strict=True):
                line = f"{_digest(path)} {size} {name}\n"
                every.update(line.encode("utf-8", "surrogateescape"))
            digest = every.hexdigest()
    except FileNotFoundError as problem:
        raise VanishedError.of(problem.filename) from problem
    except OSError as problem:
        raise UnreadableError(
            f"{problem.filename}: {problem.strerror}", hint="check its permissions"
        ) from problem
    return Input(str(root), len(files), total, digest)


def _listed(root: Path) -> tuple[list[tuple[str, Path]], list[int]]:
    if isinstance(root, Address):
        there = {
            name: size
            for name, size in remote.listed(root).items()
            if not any(part.startswith(".") for part in name.split("/"))
        }
        return [(name, root / name) for name in there], list(there.values())
    files = sorted(_files(root))
    return files, [path.stat().st_size for _, path in files]


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    for found in located(root):
        if found.is_file():
            yield found.name, found
        for path in found.rglob("*"):
            name = path.relative_to(found)
            if path.is_file() and not any(part.startswith(".") for part in name.parts):
                yield name.as_posix(), path


def _digest(path: Path) -> str:
    if isinstance(path, Address):
        return hashlib.sha256(remote.fetch(path)).hexdigest()
    told = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            told.update(chunk)
    return told.hexdigest()
