"""The texts that explain causes, outcomes, limits and words: for reports, `explain` and pages."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources

KINDS = ("outcomes", "limits")
"""What is explained in sections of one page."""

_ROW = re.compile(r"^\| (.+?) \| (.+) \|$", re.MULTILINE)
_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
_SECTION = re.compile(r"^## `([a-z-]+)`\n+(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)


@cache
def causes() -> Mapping[str, Mapping[str, str]]:
    """Give slug → title, what, why, shows, fix, alike, remedy, in the order of the documents."""
    return tomllib.loads(text_of("causes.toml"))


@cache
def sections(kind: str) -> Mapping[str, str]:
    """Give slug → what its section says, of `outcomes` or `limits`."""
    return {slug: text.strip() for slug, text in _SECTION.findall(text_of(f"{kind}.md"))}


@cache
def words() -> Mapping[str, Mapping[str, str]]:
    """Give word → entry of the glossary that has it → what the entry says."""
    found: dict[str, dict[str, str]] = {}
    for entry, meaning in _ROW.findall(text_of("glossary.md")):
        if (entry, meaning) != ("word", "meaning"):
            for word in re.sub(r" \(.*?\)", "", entry).split(", "):
                found.setdefault(_plain(word), {})[entry] = _LINK.sub(r"\1", meaning)
    return found


def _plain(word: str) -> str:
    """Give a word as it is looked up: `Committed window` and `committed-window` are one."""
    return word.lower().replace("-", " ").strip()


def text_of(name: str) -> str:
    """Read a text of this folder."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def names() -> Iterator[tuple[str, str, str]]:
    """Give kind, slug and first sentence of everything that is explained."""
    for slug, told in causes().items():
        yield "cause", slug, told["title"]
    for kind in KINDS:
        for slug, text in sections(kind).items():
            yield kind.removesuffix("s"), slug, text.splitlines()[0]


def pages(slug: str) -> list[str]:
    """Give what is told of a slug or word, as Markdown; it may be of several kinds, or of none."""
    found = [page(slug)] if slug in causes() else []
    for kind in KINDS:
        if slug in sections(kind):
            found.append(f"# {kind.removesuffix('s').title()} `{slug}`\n\n{sections(kind)[slug]}\n")
    for entry, meaning in words().get(_plain(slug), {}).items():
        found.append(f"# Word `{entry}`\n\n{meaning[:1].upper()}{meaning[1:]}.\n")
    return found


def page(slug: str) -> str:
    """Give the page of a cause, as Markdown."""
    told = causes()[slug]
    parts = [f"# {told['title'].rstrip('.')}", f"`{slug}`", told["what"], *_parts(told)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _parts(told: Mapping[str, str]) -> list[str]:
    return [
        f"## {title}\n\n{told[key].strip()}"
        for key, title in (
            ("why", "Why it matters"),
            ("shows", "How the ledger shows it"),
            ("fix", "How to fix it"),
            ("alike", "What looks alike"),
        )
    ]
