"""
The columns on disk, format 1: name, type, whether null is allowed, and what null means.

`docs/ledger-format.md` tells the same for people; a test compares the two.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal

FORMAT = "1"

USED = "used"
"""The stage of a record that entered a backward pass; a null stage means the same."""


@dataclass(frozen=True)
class Column:
    """One column of a table on disk."""

    name: str
    type: Literal["int32", "int64", "string"] | None
    """None for `sample_id`: int64 or string, one type per ledger."""
    null: str | None
    """What null means; None where null is an error. A nullable column may be left out of a file."""
    unit: str = ""


SAMPLE_ID = "sample_id"

SAMPLES: tuple[Column, ...] = (
    Column("attempt", "string", None),
    Column("rank", "int32", None),
    Column("step", "int64", "not used in a step (stage is not `used`)"),
    Column("slot", "int32", "not used in a step (stage is not `used`)"),
    Column("row", "int32", "the order of writing gives it"),
    Column(SAMPLE_ID, None, None),
    Column("token_start", "int64", "the whole sample", "tokens"),
    Column("token_end", "int64", "the whole sample", "tokens"),
    Column("source", "string", "not logged"),
    Column("epoch", "int32", "not logged"),
    Column("position", "int64", "not logged", "sequences"),
    Column("stream", "string", "training"),
    Column("worker", "int32", "not logged"),
    Column("stage", "string", "used"),
    Column("seq", "int64", None),
)

EVENTS: tuple[Column, ...] = (
    Column("attempt", "string", None),
    Column("rank", "int32", None),
    Column("seq", "int64", None),
    Column("time_ns", "int64", "not logged", "nanoseconds since 1970"),
    Column("kind", "string", None),
    Column("step", "int64", "the event belongs to no step"),
    Column("data", "string", "no data"),
)
"""`data` is a JSON object as text."""

EVENT_KINDS = (
    "start",
    "restore",
    "iterator",
    "commit",
    "void",
    "checkpoint",
    "membership",
    "declare",
    "lost",
    "recovered",
    "end",
)

FOREIGN_REQUIRED = ("rank", "step", "slot", SAMPLE_ID)
"""What a log that was not written by us must have."""

CLAIM_KEYS = (
    "consumed_samples",
    "rank_samples",
    "epoch",
    "epoch_samples",
    "rank_epoch_samples",
    "read_samples",
    "queued_samples",
    "queued_batches",
    "slot",
    "unit",
)
"""Keys of a claim that have a fixed meaning."""

DIGEST_COLUMNS = ("sample_id", "token_start", "token_end", "source", "epoch")
"""What a record's hash covers, in this order."""


def event_data(text: str | None) -> dict[str, Any]:
    """Give the `data` of an event; what is no JSON object says nothing."""
    try:
        told = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
