"""JSON text as the standard has it: no number that is none, and nothing but ASCII."""

import json
import math
from collections.abc import Mapping
from typing import Any

from ledger_audit import __version__
from ledger_audit.model.ranges import Ranges


def text_of(told: Mapping[str, Any]) -> str:
    """
    Give a report as JSON text; NaN and infinities, which JSON has not, become strings.

    `##[` stands as an escape that JSON reads as the same: GitHub's runner obeys what follows it.
    """
    try:
        text = json.dumps(told, indent=1, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(told), indent=1, allow_nan=False)
    return text.replace("##[", "#\\u0023[") + "\n"  # only strings hold that sign


def head(
    schema: str, command: str, inputs: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Give what every report begins with: its shape, who made it, and from what."""
    return {
        "schema": schema,
        "tool": {"name": "ledger-audit", "version": __version__},
        "command": command,
        "inputs": dict(inputs),
        "options": dict(options),
    }


def pairs(ranges: Ranges) -> list[list[int]]:
    """Give closed ranges as pairs: first and last."""
    return [list(pair) for pair in ranges]


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)  # "NaN", "Infinity", "-Infinity"
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
