"""Makes text fit to show: nothing in it steers a terminal; amounts and ranges read like words."""

import re
import unicodedata
from collections.abc import Sequence

LONGEST_ID = 48
"""Characters of a sample id that are shown; the rest is counted."""
LONGEST_TEXT = 1_000
"""Characters of a sentence that is told where room is short: names within it may be long."""
MOST_RANGES = 6
"""Ranges that are named unless more are asked for; the rest is counted."""

_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_OBEYED, _TOLD = "##[", "#\\x23["
_PLAIN = re.compile(r"[^\s,;'\"\\]+")


def printable(text: str) -> str:
    """
    Give text with every character that is not printable written as an escape.

    That covers control characters, escape sequences, marks that turn the direction of writing,
    and letters of scripts that are written from right to left: they would pull the figures beside
    them to another place. Line breaks too, so that one value stays on its line. And `##[`, after
    which GitHub's runner obeys what it finds, wherever in a line of a job's log that is.
    """
    if text.isascii() and text.isprintable():
        return text.replace(_OBEYED, _TOLD)
    told = "".join(
        one
        if one.isprintable() and unicodedata.bidirectional(one) not in _RIGHT_TO_LEFT
        # an escape of its own length: what it stands for can be told from it
        else one.encode("unicode_escape").decode("ascii")
        for one in text
    )
    return told.replace(_OBEYED, _TOLD)


def as_said(line: str) -> str:
    """
    Give a line of a report so that no runner of a job takes it for a command.

    GitHub's obeys lines that begin with `::`, after blanks or without: a line that is broken before
    an id may begin with anything. The second colon is escaped then, and blanks make room for that.
    """
    told = line.lstrip()
    if not told.startswith("::"):
        return line
    return " " * max(0, len(line) - len(told) - 3) + ":\\x3a" + told[2:]


def quoted(sample_id: str) -> str:
    """
    Give a sample id so that it ends where it ends, among others in a line.

    What holds a space, a comma or a quote is put in quotes; what is too long is cut, and says by
    how many characters: `...(+952)`.
    """
    cut = sample_id[:LONGEST_ID]
    told = printable(cut)
    if _PLAIN.fullmatch(cut) is None:
        told = "'" + printable(cut.replace("\\", "\\\\").replace("'", "\\'")) + "'"
    return told + _rest(len(sample_id) - len(cut))


def shortened(text: str, most: int = LONGEST_TEXT) -> str:
    """Give text of at most so many characters; what is cut says by how many: `...(+952)`."""
    return text[:most] + _rest(len(text) - most)


def _rest(left: int) -> str:
    return f"...(+{left})" if left > 0 else ""


def counted(number: int, noun: str) -> str:
    """Give a number and its noun, in the plural where there is not exactly one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def several(noun: str, ranges: Sequence[tuple[int, int]], most: int = MOST_RANGES) -> str:
    """Name places by their closed ranges, in the singular where it is one: `ranks 0-3,7`."""
    is_one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return f"{noun if is_one else noun + 's'} {ranges_of(ranges, most)}"


def ranges_of(ranges: Sequence[tuple[int, int]], most: int = MOST_RANGES) -> str:
    """Give closed ranges as `0-3,7`; after `most` of them, say how many are left out."""
    shown = [f"{first}" if first == last else f"{first}-{last}" for first, last in ranges[:most]]
    left = len(ranges) - len(shown)
    return ",".join(shown) + (f" and {counted(left, 'more range')}" if left else "")
