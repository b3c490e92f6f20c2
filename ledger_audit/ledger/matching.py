"""
Finds what a LEDGER argument stands for: the path itself, or all that it matches as a pattern.

Symbolic links to folders are not followed by `**`, and hidden names match only what begins with
a dot, as in a shell.
"""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from pathlib import Path

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.address import Address
from ledger_audit.ledger.store import natural

MOST_MATCHES = 1 << 17
"""More than one file for each rank of the largest jobs; more is a pattern gone wrong."""

_MAGIC = re.compile(r"[*?\[]")


def located(root: Path) -> list[Path]:
    """
    Give the paths that an argument names, in natural order.

    A path that exists is itself, whatever is in its name. A folder that matches is left out where
    something inside it matches too.

    Raises:
        UnreadableError: nothing is there, a folder cannot be listed, or far too much matches.
    """
    if isinstance(root, Address):  # no pattern, and whether it is there its one listing tells
        return [root]
    try:
        if root.exists():
            return [root]
        if not _MAGIC.search(str(root)):
            raise UnreadableError(f"{root}: does not exist", hint="check the path")
        found: set[Path] = set()
        plain = 0
        while not _MAGIC.search(root.parts[plain]):
            plain += 1
        for match in _matches(Path(*root.parts[:plain]), _steps(root.parts[plain:])):
            found.add(match)
            if len(found) > MOST_MATCHES:
                raise UnreadableError(
                    f"{root}: matches more than {MOST_MATCHES:,} paths",
                    hint="narrow the pattern, or name the folder that holds the log",
                )
    except (OSError, RecursionError) as problem:
        raise UnreadableError(
            f"{root}: cannot be looked up: {problem}", hint="check the path and its permissions"
        ) from problem
    found -= {folder for match in found for folder in match.parents}
    if not found:
        raise UnreadableError(
            f"{root}: does not exist, and matches nothing as a pattern",
            hint="check the path; quote a pattern, so that the shell leaves it alone",
        )
    return sorted(found, key=natural)


def _steps(parts: Sequence[str]) -> list[str]:
    """Give the names of a pattern one by one; several `**` are one, and the last needs a name."""
    steps = [
        name
        for name, before in zip(parts, ("", *parts), strict=False)
        if not name == before == "**"
    ]
    return [*steps, "*"] if steps[-1] == "**" else steps


def _matches(folder: Path, steps: Sequence[str]) -> Iterator[Path]:
    step, *rest = steps
    if step == "**":
        yield from _matches(folder, rest)
        for inner in [name for name, is_folder in _names(folder, "*") if is_folder]:
            yield from _matches(folder / inner, steps)
        return
    for name, _ in _names(folder, step):
        if not rest:
            yield folder / name
        elif (folder / name).is_dir():
            yield from _matches(folder / name, rest)


def _names(folder: Path, step: str) -> Iterator[tuple[str, bool]]:
    """Give the names in a folder that fit, and whether each is a folder and no link to one."""
    if not _MAGIC.search(step):
        if os.path.lexists(folder / step):
            yield step, False
        return
    if not folder.is_dir():
        return
    fits = re.compile(translate(step))
    with os.scandir(folder) as entries:
        for entry in entries:
            is_hidden = entry.name.startswith(".") and not step.startswith(".")
            if fits.match(entry.name) and not is_hidden:
                yield entry.name, entry.is_dir(follow_symlinks=False)
