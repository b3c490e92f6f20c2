"""Reads a page as a program would: its elements, its texts, its tables of counts."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

COUNTED = ("records", "samples", "tokens")
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """A page, taken apart."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.inside: dict[str, str] = {}
        """The texts of the style and of the script."""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that is to be closed."""
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that closes itself."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Insist that it closes what was opened last."""
        assert tag == self.open.pop(), f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        """Keep texts, the style and the script apart."""
        if self.open and self.open[-1] in ("style", "script"):
            self.inside[self.open[-1]] = data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        """All that is to be read, in one line."""
        return re.sub(r"\s+", " ", "".join(self.texts))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of every element of a kind."""
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def policy(self) -> str:
        """What the page lets a browser do."""
        metas = [one for one in self.all("meta") if "http-equiv" in one]
        return str(metas[0]["content"])


def hash_of(text: str) -> str:
    """Give the hash of a style or a script as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def counts_in(text: str, ident: str) -> dict[str, dict[str, Any]]:
    """Give the counts of a part of the page, as the JSON report has them: group.outcome."""
    block = re.search(rf'<div class="counts" id="counts-{ident}">(.*?)</div>\s*</div>', text, re.S)
    assert block is not None, ident
    found = {}
    for group, table in re.findall(r'<table data-group="(\w+)">(.*?)</table>', block[1], re.S):
        for name, row in re.findall(r'<tr data-outcome="([\w-]+)".*?>(.*?)</tr>', table, re.S):
            cells = re.findall(r'<td class="num">(.*?)</td>', row)
            values = [None if one == "-" else int(one.replace(",", "")) for one in cells]
            found[f"{group}.{name}"] = dict(zip(COUNTED, values, strict=True))
    return found


def counts_of(resume: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Give the counts of a resume of the JSON report in the same shape."""
    return {
        f"{group}.{name}": dict.fromkeys(COUNTED) if amount is None else amount
        for group, outcomes in resume["outcomes"].items()
        for name, amount in outcomes.items()
    }
