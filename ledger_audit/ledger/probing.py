"""
Looks at the files of a checkpoint: there, not empty, and the metadata beside its shards.

The paths come from a log, and may be anything. Names and sizes are looked at, and the content of
small metadata alone; no link to a folder is followed, and a listing ends where it is too long.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ledger_audit.ledger.layouts import Folder, Layout, layout_of, some
from ledger_audit.model.checkpoints import Probed

MOST_ENTRIES = 100_000
MOST_DEPTH = 12
"""Entries and levels of a folder that are looked at; checkpoints have fewer."""
MOST_BYTES = 16 << 20
"""Of a metadata file that is read; indices of the largest models have less."""

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def probe(path: str) -> Probed:
    """
    Look at what lies at a path; what is relative is relative to the working directory.

    Nothing is raised: what cannot be looked at is told.
    """
    if _REMOTE.match(path):
        return Probed(path, loadable=None, is_tried=False, kind=None, notes=("not probed: remote",))
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return _nothing(path, "nothing is there")
    except (OSError, ValueError) as problem:  # a loop of links, no permission, a null character
        return Probed(path, None, True, None, faults=(_why(problem),))
    if stat.S_ISDIR(found.st_mode):
        return _folder(path)
    if not stat.S_ISREG(found.st_mode):
        return _nothing(path, "it is neither a file nor a folder")
    faults = () if found.st_size else ("the file is empty",)
    return Probed(path, not faults, True, "plain file", 1, found.st_size, faults)


def _nothing(path: str, why: str) -> Probed:
    return Probed(path, loadable=False, is_tried=True, kind=None, faults=(why,))


def _why(problem: Exception) -> str:
    said = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return f"it cannot be looked at: {said}"


@dataclass(frozen=True)
class _Listing:
    """What a folder and those below it hold."""

    folders: list[Folder] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Entries:
    """What one folder holds."""

    files: dict[str, int] = field(default_factory=dict)
    below: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def _folder(path: str) -> Probed:
    listing = _listed(path)
    folders = _with_hollow(listing.folders)
    layouts = [(folder, layout_of(folder)) for folder in folders]
    files = sum(len(folder.files) for folder in listing.folders)
    size = sum(sum(folder.files.values()) for folder in listing.folders)
    faults = [text for one in layouts for text in _told(path, *one, "faults")]
    unknown = [
        *listing.unknown,
        *(text for one in layouts for text in _told(path, *one, "unknown")),
    ]
    if listing.broken:
        faults.append(f"links that lead nowhere: {some(listing.broken)}")
    links = [name for folder in folders for name in sorted(folder.links)]
    others = [name for folder in folders for name in sorted(folder.others)]
    if not files and (links or others):
        unknown.append(f"there is no file in it but what is not looked at: {some(links + others)}")
    elif not files and not unknown:
        faults.append("there is no file in it")
    notes = [text for one in layouts for text in _told(path, *one, "notes")]
    if links:
        notes.append(f"links to folders are not followed: {some(links)}")
    kinds = list(dict.fromkeys(kind for _, layout in layouts for kind in layout.kinds))
    loadable = False if faults else None if unknown else True
    return Probed(
        path,
        loadable,
        is_tried=True,
        kind=", ".join(kinds) or "folder",
        files=files,
        bytes=size,
        faults=tuple(faults or unknown),
        notes=tuple(notes),
    )


def _told(root: str, folder: Folder, layout: Layout, name: str) -> Iterator[str]:
    """Say in which folder below the root it is."""
    below = os.path.relpath(folder.path, root)
    for text in getattr(layout, name):
        yield text if below == "." else f"{below}: {text}"


def _listed(root: str) -> _Listing:
    """List a folder and those below it, as far as it is not too long or too deep."""
    listing = _Listing()
    waiting = [(root, 0)]
    seen = 0
    while waiting:
        path, depth = waiting.pop()
        own = _Entries()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MOST_ENTRIES:
                        listing.unknown.append(f"it holds more than {MOST_ENTRIES:,} entries")
                        return listing
                    _add(entry, own, listing)
        except OSError as problem:
            listing.unknown.append(f"{os.path.basename(path)}: {_why(problem)}")
            continue
        below, unread = frozenset(own.below), (frozenset(own.links), frozenset(own.others))
        listing.folders.append(Folder(path, own.files, below, _reader(path), *unread))
        if below and depth + 1 > MOST_DEPTH:
            listing.unknown.append(f"it is more than {MOST_DEPTH} folders deep")
        elif below:
            waiting += [(os.path.join(path, name), depth + 1) for name in sorted(below)]
    return listing


def _with_hollow(folders: list[Folder]) -> list[Folder]:
    """Say of each folder which of those in it hold no file, however deep."""
    seen = {folder.path for folder in folders}
    filled: set[str] = set()
    for folder in folders:
        is_cut = any(os.path.join(folder.path, name) not in seen for name in folder.folders)
        path = folder.path
        while (is_cut or folder.files or folder.links or folder.others) and path not in filled:
            filled.add(path)
            path = os.path.dirname(path)
    return [
        replace(
            folder,
            hollow=frozenset(
                name for name in folder.folders if os.path.join(folder.path, name) not in filled
            ),
        )
        for folder in folders
    ]


def _add(entry: "os.DirEntry[str]", own: _Entries, listing: _Listing) -> None:
    if entry.is_dir(follow_symlinks=False):
        own.below.append(entry.name)
        return
    try:
        found = entry.stat()
    except OSError:
        listing.broken.append(entry.name)
        return
    if stat.S_ISDIR(found.st_mode):
        own.links.append(entry.name)
    elif stat.S_ISREG(found.st_mode):
        own.files[entry.name] = found.st_size
    else:
        own.others.append(entry.name)


def _reader(folder: str) -> Callable[[str], str | None]:
    """Give a function that reads small files of a folder."""

    def read(name: str) -> str | None:
        try:
            # never wait for a pipe, nor read what is no file
            handle = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
                return None
            return file.read(MOST_BYTES).decode("utf-8", "replace")

    return read
