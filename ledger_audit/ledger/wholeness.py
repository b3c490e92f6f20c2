"""Looks whether the segments that count are whole: none stands twice, and no number is missing."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.address import place_of
from ledger_audit.ledger.store import SEGMENT, Segment


def check_replaced_once(kept: Iterable[Segment], replaced: Mapping[Path, frozenset[str]]) -> None:
    """
    Refuse two merged files that both count and hold the same rows: they would count twice.

    Raises:
        UnreadableError: both name one segment that they stand for.
    """
    said = {str(path): names for path, names in replaced.items() if names}
    owners: dict[tuple[str, str], Segment] = {}
    for segment in kept if said else ():
        for name in said.get(str(segment.file), ()):
            other = owners.setdefault((segment.attempt, name), segment)
            if other != segment:
                raise UnreadableError(
                    f"{segment.path} and {other.path} both stand for {name}",
                    hint="remove one of the two; roots with copies of a file are sealed as one",
                )


def gaps(kept: Iterable[Segment], replaced: Mapping[Path, frozenset[str]]) -> list[Segment]:
    """
    List the segments that a writer must have written and that are not there.

    A writer numbers its segments from 0 without a gap, so a hole below the largest number is a
    lost file. A run of missing numbers is one entry; its path is the sealed file that was
    expected, with the first and the last number.
    """
    said = {str(path): names for path, names in replaced.items() if names}
    numbers: dict[tuple[str, str, str, str], set[int]] = {}
    for segment in kept:
        key = (segment.folder, segment.attempt, segment.table, segment.writer)
        numbers.setdefault(key, set()).add(segment.number)
        for name in said.get(str(segment.file), ()):
            match = SEGMENT.fullmatch(name)
            if match is not None:
                other = (segment.folder, segment.attempt, match["table"], match["writer"])
                numbers.setdefault(other, set()).add(int(match["number"]))
    missing = []
    for (folder, attempt, table, writer), present in sorted(numbers.items()):
        kind: Literal["samples", "events"] = "samples" if table == "samples" else "events"
        expected = 0
        for number in sorted(present):
            if number > expected:
                names = f"{expected:06d}" + (f"..{number - 1:06d}" if number - 1 > expected else "")
                path = place_of(folder) / f"{table}-{writer}-{names}.parquet"
                missing.append(Segment(path, attempt, kind, writer, expected))
            expected = number + 1
    return missing
