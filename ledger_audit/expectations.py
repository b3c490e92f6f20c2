"""
Finds the stream that a run is to follow: the one that is named, or the one that it states itself.

A fingerprint that names sampler, seed and sizes decides the order as a control run would. It is
asked only where nothing else tells what should have come: after a stop that rolled nothing back.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.expectation import Expectation
from ledger_audit.continuity.forbidden import Found
from ledger_audit.continuity.judging import judge
from ledger_audit.continuity.limit_codes import limit
from ledger_audit.continuity.windows import Source
from ledger_audit.errors import UsageError
from ledger_audit.ledger.opening import open_ledger, same_id_type
from ledger_audit.ledger.reader import Ledger, in_memory
from ledger_audit.ledger.tables import events_schema, samples_schema
from ledger_audit.model import Reading, Resume
from ledger_audit.sources import Opened, opened_run, source_of
from ledger_audit.stream import distributed_sampler
from ledger_audit.stream.pieces import Sharding

_STATED = ("seed", "dataset_samples", "micro_batch_size", "accumulation")
"""Numbers without which a fingerprint does not state the order of a DistributedSampler in full."""

_NOT_FOLLOWED = "no-whole-reference-step"


def named(name: str, path: Path | None) -> dict[str, list[str]]:
    """Tell an input as reports do; nothing, where it was not given."""
    return {} if path is None else {name: [str(path)]}


def open_following(
    roots: Sequence[Path], reference: Path | None, reading: Reading
) -> tuple[Opened, Expectation | None]:
    """
    Open the ledger of a run, and the stream that it is to follow.

    Raises:
        UsageError: the run is none, or the reference holds no record.
    """
    ledger = open_ledger(roots, columns=reading.columns, stream=reading.stream)
    run = opened_run(ledger, reading.engine)
    if reference is None:
        return run, None
    named_one = open_ledger([reference], columns=reading.columns, stream=reading.stream)
    same_id_type([ledger, named_one])
    expected = source_of(named_one, reading.engine)
    if not any(one.seen for one in expected.lineage.chain):
        raise UsageError(
            f"{named_one.name}: holds no record",
            hint="name what `reference` or `plan` wrote, or a control run",
        )
    return run, Expectation(expected, "reference")


def judge_by_best(
    source: Source,
    index: int,
    contract: Contract,
    reading: Reading,
    forbidden: Found | None,
    expected: Expectation | None,
) -> Resume:
    """
    Judge a resume by the stream that it is to follow, by rolled-back work, or by its own recipe.

    Args:
        source: the ledger.
        index: the place of the resumed attempt in the lineage.
        contract: what the stream promises.
        reading: how much to read around the checkpoint.
        forbidden: what was found of what the contract forbids.
        expected: the stream that was named; null: none was.
    """
    resume = judge(source, index, contract, reading, forbidden, expected)
    if expected is not None or not _rolled_nothing_back(source, index, resume):
        return resume
    recipe = _recipe(source, index)
    if recipe is None:
        return resume
    try:
        stated = _stream(source, index, recipe, reading)
    except UsageError:  # PyTorch is not there, which draws the order
        told = limit("recipe-not-derived", "the fingerprint states the order, which PyTorch draws")
        return replace(resume, limits=(*resume.limits, told))
    return judge(source, index, contract, reading, forbidden, stated)


def _rolled_nothing_back(source: Source, index: int, resume: Resume) -> bool:
    """
    Tell whether a resume has nothing to be judged by because nothing was rolled back.

    Where it is missing instead, a recipe would make a proof out of evidence that was lost.
    """
    is_unjudged = any(one.code == _NOT_FOLLOWED for one in resume.limits)
    is_lost = any(one.missing or one.is_absent for one in source.lineage.chain[:index])
    return is_unjudged and not is_lost and not resume.windows["reference"]


def _recipe(source: Source, index: int) -> distributed_sampler.Recipe | None:
    """Read the recipe that a fingerprint states in full; null: it does not."""
    attempt = source.lineage.chain[index]
    said: Mapping[str, Any] = attempt.fingerprint
    numbers = {key: said.get(key) for key in _STATED}
    if said.get("sampler") != "DistributedSampler" or attempt.world_size is None:
        return None
    if any(type(value) is not int for value in numbers.values()):
        return None
    if min(value for key, value in numbers.items() if key != "seed" and value is not None) < 1:
        return None
    is_dropped, shuffles = said.get("drop_last"), said.get("shuffle", True)
    if type(is_dropped) is not bool or type(shuffles) is not bool:
        return None
    size, batch, slots = (int(numbers[key] or 0) for key in _STATED[1:])
    share = -(-size // attempt.world_size)
    is_even = size % attempt.world_size == 0
    batches = share // batch if is_dropped else -(-share // batch)
    if (is_dropped and not is_even) or batches % slots or not batches:
        return None  # it does not say who drops, or what ends an epoch
    until = source.lineage.chain[index].last_step or 0
    return distributed_sampler.Recipe(
        samples=size,
        seed=int(numbers["seed"] or 0),
        shuffle=shuffles,
        drop_last_batch=is_dropped,
        accumulation=slots,
        epochs=until // (batches // slots) + 1,
    )


def _stream(
    source: Source, index: int, recipe: distributed_sampler.Recipe, reading: Reading
) -> Expectation:
    """Work out the steps around a resume, or all of them; UsageError: PyTorch is not installed."""
    attempt = source.lineage.chain[index]
    at, last = attempt.resumed_at or 0, attempt.last_step or 0
    first = 0 if reading.full else at - reading.before
    last = last if reading.full else min(last, at + reading.after)
    sharding = Sharding(attempt.world_size or 1, int(attempt.fingerprint["micro_batch_size"]), True)
    expected = distributed_sampler.derive(recipe, sharding)
    near = pl.col("step").is_between(first, last)
    rows = pl.concat([piece.filter(near) for piece in expected.pieces])
    return Expectation(source_of(_ledger(rows, expected.world_size)), "recipe")


def _ledger(rows: pl.DataFrame, world_size: int) -> Ledger:
    """Hold an expected stream in memory."""
    label = pl.lit("recipe", pl.String).alias("attempt")
    seq = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
    none = pl.DataFrame(schema=samples_schema(rows.schema["sample_id"]))
    samples = pl.concat([none, rows.with_columns(label, seq=seq)], how="diagonal")
    start = {"expected": {"kind": "recipe"}, "world_size": world_size}
    said = {"attempt": "recipe", "rank": 0}
    events = [
        {**said, "seq": 0, "kind": "start", "data": json.dumps(start)},
        {**said, "seq": rows.height + 1, "kind": "end"},
    ]
    told = pl.DataFrame(events, schema=events_schema())
    return in_memory("the recipe of the fingerprint", samples, told)
