"""
Finds the files of a ledger and says which of them count.

A segment number of one writer counts once: the sealed copy wins over the open one, and a merged
file wins over the segments that it names in its `replaces` metadata.
"""

import json
import os
import re
import sys
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger import remote
from ledger_audit.ledger.address import Address, check_name, place_of

Kind = Literal["parquet", "arrow", "jsonl", "csv", "tsv"]

SUFFIXES: Mapping[str, Kind] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
}

PACKED = ".gz"
"""A second suffix that text formats may have; the others pack their columns themselves."""

INDEX = ".index.arrows"
"""An aid in an attempt's folder, see index.py; by its dot all readers of format 1 pass over it."""

LOOKS = 20
"""Times that what is being sealed is listed anew before that is given up."""

_QUIET = 10 * 10**9
"""Nanoseconds after which what happens in a folder shows in its time, however coarse that is."""

SEGMENT = re.compile(
    r"(?P<table>samples|events)-(?P<writer>.+)-(?P<number>\d{6,})\.(parquet|arrows)"
)
"""How the files of a writer are named."""


class Segment(NamedTuple):
    """One file that a writer of ours left behind; a ledger may have millions."""

    file: str | Path
    """Its path; where it was listed, the text of it."""
    attempt: str
    table: Literal["samples", "events"]
    writer: str
    number: int
    size: int | None = None
    """Bytes that it had when it was listed, in an object store; elsewhere it is not asked."""

    @property
    def path(self) -> Path:
        """Where it is."""
        if isinstance(self.file, Path):
            return self.file
        return Path(self.file) if self.size is None else place_of(self.file)

    @property
    def name(self) -> str:
        """The name of the file."""
        return os.path.basename(self._text)

    @property
    def folder(self) -> str:
        """The path of the folder that it is in, as text."""
        return os.path.dirname(self._text)

    @property
    def is_sealed(self) -> bool:
        """A sealed segment is Parquet; an open one is an Arrow IPC stream."""
        return self._text.endswith(".parquet")

    @property
    def _text(self) -> str:
        return self.file if isinstance(self.file, str) else str(self.file)


def kind_of(path: Path) -> Kind:
    """Name the format that a file's suffix promises."""
    is_packed = path.suffix.lower() == PACKED
    suffix = Path(path.stem).suffix if is_packed else path.suffix
    try:
        kind = SUFFIXES[suffix.lower()]
    except KeyError:
        raise UnreadableError(
            f"{path}: the suffix {path.suffix or '(none)'} says nothing about the format",
            hint=f"name it with one of {_suffixes()}",
        ) from None
    if is_packed and kind in ("parquet", "arrow"):
        raise UnreadableError(
            f"{path}: gzip around {suffix} cannot be read, it packs its columns itself",
            hint="unpack it with gunzip",
        )
    return kind


def _suffixes() -> str:
    text = [suffix for suffix, kind in SUFFIXES.items() if kind in ("jsonl", "csv", "tsv")]
    return ", ".join([*sorted(SUFFIXES), *(f"{suffix}{PACKED}" for suffix in sorted(text))])


def natural(path: Path) -> list[list[tuple[int, str]]]:
    """Give a sort key under which `part-9` precedes `part-10`, in every part of a path."""
    return [
        [
            (int(one), one) if one.isascii() and one.isdecimal() else (-1, one)
            for one in re.findall(r"[0-9]{1,18}|[^0-9]+", part)
        ]
        for part in path.parts
    ]


def is_ledger_folder(path: Path) -> bool:
    """Tell whether a folder has the layout that our writer makes."""
    if isinstance(path, Address):  # what is there is listed once, and later
        return Path(path.name.lower().removesuffix(PACKED)).suffix not in SUFFIXES
    return path.is_dir() and any(path.glob("attempt=*"))


def check_regular(path: Path) -> None:
    """
    Refuse what is no file: a pipe or a device never ends, a broken link holds nothing.

    Raises:
        UnreadableError: it is not a regular file.
    """
    if isinstance(path, Address):
        raise UnreadableError(
            f"{path}: of an object store ledgers are read, and no plain logs",
            hint="copy it to a local disk: aws s3 cp; or make it a ledger: ledger-audit convert",
        )
    if not path.is_file():
        raise UnreadableError(
            f"{path}: is not a regular file", hint="give the file itself, or move this away"
        )


def foreign_files(path: Path) -> list[Path]:
    """List the readable files of a folder that our writer did not make, in natural order."""
    try:
        files = sorted((file for file in path.iterdir() if _is_known(file)), key=natural)
    except OSError as problem:
        raise UnreadableError(
            f"{path}: cannot be listed: {problem.strerror}", hint="check the folder's permissions"
        ) from problem
    for file in files:
        check_regular(file)
    if not files:
        raise UnreadableError(
            f"{path}: holds neither attempt=… folders nor a file of a known format",
            hint=f"point at a ledger, or at a folder or file with {_suffixes()}",
        )
    return files


def _is_known(file: Path) -> bool:
    if file.name == INDEX:
        return False
    stem = file.name.lower().removesuffix(PACKED)
    return Path(stem).suffix in SUFFIXES


def check_unpacked_once(files: Iterable[Path]) -> None:
    """
    Refuse a log beside its packed copy: its records would count twice.

    Raises:
        UnreadableError: both `X` and `X.gz` are there.
    """
    known = set(files)
    for file in known:
        if file.suffix.lower() == PACKED and file.with_suffix("") in known:
            raise UnreadableError(
                f"{file}: is there packed and unpacked",
                hint=f"remove one of the two, or give {file.with_suffix('').name} alone",
            )


def segments(root: Path) -> list[Segment]:
    """
    List every segment under a ledger's root, in the order of their names.

    Raises:
        UnreadableError: a file in an attempt's folder is not named like a segment.
    """
    if isinstance(root, Address):
        return _in_store(root, remote.listed(root))
    return [segment for folder in sorted(root.glob("attempt=*")) for segment in in_attempt(folder)]


def label_of(folder: Path) -> str | None:
    """Give the label of the attempt whose folder it is; null: its name is none of such a folder."""
    name = folder.name
    return unquote(name.removeprefix("attempt=")) if name.startswith("attempt=") else None


def in_attempt(folder: Path) -> list[Segment]:
    """
    List every segment in the folder of one attempt, in the order of their names.

    Raises:
        UnreadableError: it is no such folder, or a file in it is not named like a segment.
    """
    if isinstance(folder, Address):
        found_there = remote.listed(folder).items()
        named_there = {f"{folder.name}/{name}": size for name, size in found_there}
        return _in_store(folder.parent, named_there)
    attempt = label_of(folder)
    if not attempt or not folder.is_dir():
        raise UnreadableError(
            f"{folder}: is not the folder of an attempt with a label",
            hint="an attempt's folder is named attempt=LABEL; move this out of the ledger",
        )
    with os.scandir(folder) as entries:
        named = [one for one in entries if not _is_unnamed(one.name)]
    found = []
    for entry in sorted(named, key=lambda one: one.name):
        match = SEGMENT.fullmatch(entry.name)
        if match is None or not entry.is_file():
            if match is not None and not os.path.lexists(entry.path):
                continue  # a seal has removed it since the folder was listed
            raise _unnamed(entry.path)
        found.append(_segment(entry.path, attempt, match))
    return found


def _segment(file: str, attempt: str, match: re.Match[str], size: int | None = None) -> Segment:
    check_name(file)
    table: Literal["samples", "events"] = "samples" if match["table"] == "samples" else "events"
    return Segment(file, attempt, table, sys.intern(match["writer"]), int(match["number"]), size)


def _unnamed(file: str) -> UnreadableError:
    return UnreadableError(
        f"{file}: not a file that is named like a segment",
        hint="move it out of the ledger, or name it TABLE-WRITER-NNNNNN.parquet",
    )


def _in_store(root: Address, listed: Mapping[str, int]) -> list[Segment]:
    """Find the segments among the objects below a ledger's root."""
    found, is_ledger = list[Segment](), False
    for name, size in listed.items():
        folder, _, inner = name.partition("/")
        attempt = label_of(Path(folder))
        if attempt is None:
            continue  # beside the attempts, as on a local disk
        is_ledger = True
        if not inner or _is_unnamed(inner):
            continue  # a store may mark a folder by an empty object
        match = SEGMENT.fullmatch(inner)
        if match is None or not attempt:
            raise _unnamed(f"{root}/{name}")
        found.append(_segment(f"{root}/{name}", attempt, match, size))
    if not is_ledger:
        raise UnreadableError(
            f"{root}: holds objects, and no attempt=… folder: it is no ledger",
            hint="name the folder that holds attempt=…; plain logs are read from local disks",
        )
    return found


def _is_unnamed(name: str) -> bool:
    """Tell what has no name yet, as what a seal is writing, or is an index."""
    return name.startswith(".") or name.endswith((".tmp", ".part"))


def listed(roots: Iterable[Path]) -> list[Segment]:
    """
    List every segment of several roots as they are at one moment.

    A seal puts a file in its place and then removes others: a listing that it overlaps may hold
    neither. So it is done again until two agree.
    """
    kept = [root for root in roots if not isinstance(root, Address)]
    # one listing of a store is of one moment, but for what was sealed between two of its pages:
    # that is put before it is removed, and has the later name
    there = [one for root in roots if isinstance(root, Address) for one in segments(root)]
    return [*_listed(kept), *there] if kept else there


def _listed(kept: Sequence[Path]) -> list[Segment]:
    before = _quiet(kept)
    found = [segment for root in kept for segment in segments(root)]
    for _ in range(LOOKS):
        if before is not None and before == _quiet(kept):
            break  # nothing was named or removed meanwhile
        again = [segment for root in kept for segment in segments(root)]
        if again == found:
            break
        found = again
    return found


def _quiet(roots: Iterable[Path]) -> Mapping[str, int] | None:
    """
    Give the times of a ledger's folders, if nothing happened in them just now.

    Null: their times may not tell. They are opened, since that asks network storage anew.
    """
    times = {}
    with suppress(OSError):
        for folder in [folder for root in roots for folder in (root, *root.glob("attempt=*"))]:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                times[os.fspath(folder)] = os.fstat(handle).st_mtime_ns
            finally:
                os.close(handle)
        if all(0 < one < time.time_ns() - _QUIET for one in times.values()):
            return times
    return None


def _counts_more(one: Segment, other: Segment) -> bool:
    """Compare copies of one segment: the sealed one counts, else what was shipped further."""
    if one.is_sealed != other.is_sealed:
        return one.is_sealed
    return not one.is_sealed and _size(one) > _size(other)


def _size(segment: Segment) -> int:
    return segment.path.stat().st_size if segment.size is None else segment.size


def counting(found: Iterable[Segment], replaced: Mapping[Path, frozenset[str]]) -> list[Segment]:
    """
    Keep the segments that count.

    Args:
        found: every segment of one or several roots.
        replaced: the names that a merged file says it replaces, by the merged file.

    Returns:
        One segment for each (attempt, table, writer, number), in the order given; a segment that
        a merged file of the same attempt replaces is left out.
    """
    said = {str(path): names for path, names in replaced.items() if names}
    kept = list(found)
    gone = {
        (segment.attempt, name)
        for segment in (kept if said else ())
        for name in said.get(str(segment.file), ())
    }
    by_attempt: dict[str, list[int]] = {}
    for place, segment in enumerate(kept):
        by_attempt.setdefault(segment.attempt, []).append(place)
    counted: list[int] = []
    for places in by_attempt.values():  # one at a time: they may be many
        known: dict[tuple[str, str, int], int] = {}
        for place in places:
            segment = kept[place]
            if gone and _is_gone(segment, gone, said.get(str(segment.file), ())):
                continue
            key = (segment.table, segment.writer, segment.number)
            other = known.setdefault(key, place)
            if other != place and _counts_more(segment, kept[other]):
                known[key] = place
        counted += known.values()
    return [kept[place] for place in sorted(counted)]


def _is_gone(segment: Segment, gone: Container[tuple[str, str]], own: Container[str]) -> bool:
    """Tell whether a merged file stands for a segment; `own`: what the segment stands for."""
    stem = segment.name.rpartition(".")[0]
    names = (segment.name, f"{stem}.parquet", f"{stem}.arrows")
    return segment.name not in own and any((segment.attempt, name) in gone for name in names)


def replaced_names(metadata: Mapping[bytes, bytes] | None) -> frozenset[str]:
    """
    Read which segments a file says it replaces; none where it says nothing.

    Raises:
        ValueError: what it says is not JSON.
        TypeError: it is not a list of names.
    """
    text = (metadata or {}).get(b"replaces")
    names = [] if text is None else json.loads(text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("not a list of names")
    return frozenset(names)
