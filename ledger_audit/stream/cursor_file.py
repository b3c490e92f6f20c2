"""
Writes and reads `cursor.json`, which lies beside the records of a plan: `ledger-audit/cursor/1`.

`docs/cursor.schema.json` is its published schema. It is only ever added to; digests are strings.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger_audit.errors import UnreadableError
from ledger_audit.model.plan import Amounts, Pass, Plan

NAME = "cursor.json"
SCHEMA = "ledger-audit/cursor/1"


@dataclass(frozen=True)
class Stated:
    """What a plan says of itself, as far as it is checked."""

    checkpoint_step: int
    extent: str
    consumed: Amounts
    planned: Amounts
    replayed: Amounts
    forbidden: Amounts
    unmatched: int
    reference_digest: int


def text_of(plan: Plan, reference_digest: int) -> str:
    """Give the text of the file, in ASCII: the same plan, the same bytes."""
    cursor, deal = plan.cursor, plan.deal
    flight = cursor.in_flight
    told = {
        "schema": SCHEMA,
        "checkpoint_step": cursor.checkpoint_step,
        "attempt": cursor.attempt,
        "consumed": _amounts(cursor.consumed),
        "before_reference": cursor.before_reference,
        "unmatched": cursor.unmatched,
        "halved": cursor.halved,
        "unit": cursor.unit,
        "generations": [_pass(one) for one in plan.passes],
        "in_flight": {
            "attempt": flight.attempt,
            "steps": flight.steps,
            "committed_steps": flight.committed_steps,
            "records": flight.records,
            "stages": dict(flight.stages),
        },
        "plan": {
            "extent": plan.extent,
            "reference_digest": str(reference_digest),
            "through_step": plan.through_step,
            "world_size": deal.world_size,
            "micro_batch": deal.micro_batch,
            "accumulation": deal.accumulation,
            "first_step": deal.first_step,
            "last_step": deal.last_step,
            "records": deal.records,
            "sequences": deal.sequences,
            "digest": str(deal.digest),
            "differs_from": deal.differs_from,
            "differs_because": deal.differs_because,
            "ragged_steps": deal.n_ragged,
        },
        "replayed": {"records": plan.replay.records, "digest": str(plan.replay.digest)},
        "forbidden": {"records": plan.forbidden.records, "digest": str(plan.forbidden.digest)},
        "limits": [one.code for one in plan.limits],
    }
    return json.dumps(told, indent=1, ensure_ascii=True) + "\n"


def read(folder: Path) -> Stated:
    """
    Read the cursor of a plan.

    Raises:
        UnreadableError: the folder is no plan, or its cursor is damaged.
    """
    path = folder / NAME
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["schema"] != SCHEMA:
            raise _bad(path, f"its 'schema' is {told['schema']!r}, not {SCHEMA!r}")
        plan = told["plan"]
        return Stated(
            checkpoint_step=int(told["checkpoint_step"]),
            extent=str(plan["extent"]),
            consumed=_read(told["consumed"]),
            planned=_read(plan),
            replayed=_read(told["replayed"]),
            forbidden=_read(told["forbidden"]),
            unmatched=int(told["unmatched"]),
            reference_digest=int(plan["reference_digest"]),
        )
    except OSError as problem:
        raise _bad(path, problem.strerror or str(problem)) from problem
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise _bad(path, f"it is damaged: {problem}") from problem


def _bad(path: Path, problem: str) -> UnreadableError:
    return UnreadableError(
        f"{path}: cannot be read as the cursor of a plan: {problem}",
        hint="point at a folder that `ledger-audit plan -o` made",
    )


def _amounts(amounts: Amounts) -> dict[str, Any]:
    return {
        "records": amounts.records,
        "samples": amounts.samples,
        "tokens": amounts.tokens,
        "digest": str(amounts.digest),
    }


def _read(told: dict[str, Any]) -> Amounts:
    return Amounts(int(told["records"]), None, None, int(told["digest"]))


def _pass(one: Pass) -> dict[str, Any]:
    return {
        "source": one.source,
        "epoch": one.epoch,
        "consumed": one.consumed,
        "matched": one.matched,
        "matched_digest": str(one.matched_digest),
        "expected": one.expected,
        "planned": one.planned,
        "forbidden": one.forbidden,
        "ranges": [list(each) for each in one.ranges],
        "ranges_in_all": one.n_ranges,
        "holes": one.holes,
    }
