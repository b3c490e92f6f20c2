"""Writes text as Markdown in which nothing is markup, mention, link, HTML or the end of a cell."""

import re

from ledger_audit.printable import printable, quoted, shortened

_WORD = re.compile(r"([(\"']*)(.*?)([)\"'.,;:]*)")
_SAFE = re.compile(r"[A-Za-z0-9.,;:()'\"/+=%?-]*")
"""Characters that are no markup within a line."""
_LINKED = re.compile(
    r"://|^www\.|^GH-[0-9]|%\w|:[\w+-]+:|(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])", re.IGNORECASE
)
"""What code hosts make a link or a picture of: addresses, issues, milestones, emoji, commits."""
_BEGINS = re.compile(r"[A-Za-z(\"']|[0-9](?!\d*[.)](?:\s|$))")
"""What may begin a line: no sign of a list, a heading or a quotation."""


def code(text: str) -> str:
    """
    Give text as code: nothing in it is obeyed, and no host makes a mention or a link of it.

    A grave accent and a bar, which would end the code or the cell of a table, are escaped like
    what is not printable.
    """
    told = shortened(printable(text)).replace("`", "\\x60").replace("|", "\\x7c")
    return f"`{told}`" if told.strip() else f"`'{told}'`"


def name(text: str) -> str:
    """Give an id or a label as code, cut and quoted as everywhere else."""
    return code(quoted(text))


def prose(text: str) -> str:
    """Give a sentence; words in it that may be more than words stand as code."""
    words = shortened(printable(text)).split(" ")
    told = [_word(one) for one in words if one]
    if told and _BEGINS.match(told[0]) is None and not told[0].startswith("`"):
        told[0] = code(told[0])
    return " ".join(told)


def _word(word: str) -> str:
    found = _WORD.fullmatch(word)
    if found is None or (_SAFE.fullmatch(word) and not _LINKED.search(word)):
        return word
    before, middle, after = found.groups()
    return f"{before}{code(middle)}{after}"
