"""The texts that explain causes, for reports, for `explain` and for the pages of the documents."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def causes() -> Mapping[str, Mapping[str, str]]:
    """Give slug → title, what, why, shows, fix, alike, remedy, in the order of the documents."""
    text = resources.files(__name__).joinpath("causes.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def page(slug: str) -> str:
    """Give the page of a cause, as Markdown."""
    told = causes()[slug]
    parts = [f"# {told['title'].rstrip('.')}", f"`{slug}`", told["what"], *_sections(told)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _sections(told: Mapping[str, str]) -> list[str]:
    return [
        f"## {title}\n\n{told[key].strip()}"
        for key, title in (
            ("why", "Why it matters"),
            ("shows", "How the ledger shows it"),
            ("fix", "How to fix it"),
            ("alike", "What looks alike"),
        )
    ]
