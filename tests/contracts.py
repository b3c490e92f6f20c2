"""What tests of contracts share: every term that there is."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from ledger_audit.continuity.contract import Contract


def terms_of(kind: Any = Contract) -> Iterator[str]:
    """List every term of a contract, those of its tables included."""
    for field in fields(kind):
        if (kind, field.name) == (Contract, "file"):
            continue
        yield field.name
        for inner in (field.type, *getattr(field.type, "__args__", ())):
            if is_dataclass(inner):
                yield from terms_of(inner)
