"""Writes TOML: values and comments that end where they end, whatever a ledger put into them."""

from collections.abc import Iterable
from textwrap import wrap

from ledger_audit.printable import printable

WIDTH = 100
"""Characters in a line; a word or a value that is longer has a line of its own."""

_NAME = 20
"""Characters that the name of a term may take before its value."""

_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def text(value: str) -> str:
    """
    Write text as a TOML string of one line; what does not print is an escape.

    Half of a surrogate pair, which TOML has no way to write, becomes a question mark.
    """
    sound = value.encode("utf-8", "replace").decode("utf-8")
    return '"' + "".join(_SHORT.get(one) or _escaped(one) for one in sound) + '"'


def many(values: Iterable[str]) -> str:
    """Write a list of values that are TOML already; a long one takes several lines."""
    written = list(values)
    line = f"[{', '.join(written)}]"
    if len(line) <= WIDTH - _NAME:
        return line
    lines = [" "]
    for one in written:
        if len(lines[-1]) + len(one) + 2 > WIDTH and lines[-1] != " ":
            lines.append(" ")
        lines[-1] += f" {one},"
    return "\n".join(["[", *lines, "]"])


def comment(prose: str) -> list[str]:
    """Write a sentence or two as lines of a comment."""
    lines = wrap(
        printable(prose),
        WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or ["#"]


def aside(lines: str) -> str:
    """Turn TOML into a comment that becomes a term again where its `#` are taken away."""
    return "\n".join(f"#{line}" for line in lines.split("\n"))


def _escaped(one: str) -> str:
    if printable(one) == one:
        return one
    code = ord(one)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
