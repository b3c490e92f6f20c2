"""What can be wrong with the terms of a contract, in words of our own."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, time
from difflib import get_close_matches

from ledger_audit.contract_file.allowed import Place, kind_at, places_of, terms_of, told_at

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_VALUE = 60


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong at one place of the terms."""

    place: Place
    text: str

    def under(self, table: Place) -> str:
        """Tell it in one line, where the terms stand in a table of a file."""
        where = dotted((*table, *self.place))
        return f"{where}: {self.text}" if where else self.text


def dotted(place: Place) -> str:
    """Write a place as TOML does; list items are counted from 0, as in `allow[1].reason`."""
    parts: list[str] = []
    for step in place:
        if isinstance(step, int):
            parts[-1:] = [f"{parts[-1] if parts else ''}[{step}]"]
        else:
            parts.append(step if _BARE_KEY.fullmatch(step) else f'"{step}"')
    return ".".join(parts)


def shown(value: object) -> str:
    """Show a value of a TOML file as it may be written there."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, date | time):
        return value.isoformat()
    text = repr(value)
    left = len(text) - _LONGEST_VALUE
    return f"{text[:_LONGEST_VALUE]}...(+{left})" if left > 0 else text


def wrong_value(place: Place, value: object) -> Mistake:
    """Say what was found at a place, and what may stand there."""
    return Mistake(place, f"is {shown(value)}, not {told_at(place, value)}")


def unknown_term(place: Place) -> Mistake:
    """Say that there is no such term, and which one may be meant."""
    name = str(place[-1])
    known = list(terms_of(kind_at(place[:-1])))
    if elsewhere := places_of(name):
        at_top = ", before the first table" if elsewhere == [name] else ""
        meant = f"it stands at {' and '.join(elsewhere)}{at_top}"
    else:
        meant = meant_or_listed(name, known)
    return Mistake(place, f"is no term here; {meant}")


def meant_or_listed(name: str, known: Iterable[str]) -> str:
    """Name the known word that is nearest to one; all of them, if none is near."""
    words = list(known)
    near = get_close_matches(name, words, n=1)
    return f"{near[0]} may be meant" if near else f"there are {', '.join(words)}"
