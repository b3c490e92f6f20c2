"""Makes text fit to show: nothing in it steers a terminal, and amounts read like a sentence."""

import re
import unicodedata

LONGEST_ID = 48
"""Characters of a sample id that are shown; the rest is counted."""

_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_PLAIN = re.compile(r"[^\s,;'\"\\]+")


def printable(text: str) -> str:
    """
    Give text with every character that is not printable written as an escape.

    That covers control characters, escape sequences, marks that turn the direction of writing,
    and letters of scripts that are written from right to left: they would pull the figures beside
    them to another place. Line breaks too, so that one value stays on its line.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one
        if one.isprintable() and unicodedata.bidirectional(one) not in _RIGHT_TO_LEFT
        # an escape of its own length: what it stands for can be told from it
        else one.encode("unicode_escape").decode("ascii")
        for one in text
    )


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
    left = len(sample_id) - len(cut)
    return f"{told}...(+{left})" if left else told


def counted(number: int, noun: str) -> str:
    """Give a number and its noun, in the plural where there is not exactly one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
