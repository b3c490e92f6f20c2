"""What the ranks of a simulated job write down: one attempt's lines in the zoo's dialect."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs import Ending, Fate, Leg, Line, Recipe, Try


@dataclass(frozen=True)
class Log:
    """What a job writes down."""

    has_epoch: bool = True
    first_epoch: int = 0
    has_position: bool = False
    has_source: bool = False
    has_worker: bool = False
    workers: int = 0
    has_commits: bool = True
    has_counts: bool = False
    """A commit says how many records the rank used."""
    ranks: tuple[int, ...] | None = None
    """The ranks that are logged; null means all."""
    checkpoints: str = "none"
    """Who logs them: none, first (rank 0) or all."""
    has_claims: bool = False
    eval_every: int = 0
    """Rows of the stream `eval` follow every so many steps; 0 means never."""
    fingerprint: frozenset[str] = frozenset()


def fingerprint(leg: Leg, log: Log) -> Line:
    """State the keys that the log asks for, as true at the first step of the leg."""
    facts: Line = {
        "dataset_samples": len(leg.world.sequences),
        "micro_batch_size": leg.recipe.rows,
        "accumulation": leg.recipe.slots,
        "world_size": len(leg.recipe.ranks),
        "drop_last": leg.world.ending is Ending.DROP,
        "seed": leg.world.seed,
        "workers": log.workers,
    }
    if leg.world.ending is Ending.PAD and not leg.recipe.is_blocked:
        facts["sampler"] = "DistributedSampler"
    return {key: fact for key, fact in facts.items() if key in log.fingerprint}


def start_line(number: int, rank: int, leg: Leg, log: Log) -> Line:
    """Write the start event of one rank."""
    says = leg.says or leg.parent
    data: Line = {
        "world_size": len(leg.recipe.ranks),
        "resumed_from": None if says is None else {"attempt": says[0], "step": says[1]},
        "fingerprint": fingerprint(leg, log),
    }
    if log.ranks is not None:
        data["logged_ranks"] = list(log.ranks)
    return {"kind": "start", "attempt": number, "rank": rank, "data": data}


def sample_lines(number: int, one: Try, rank: int, log: Log) -> list[Line]:
    """Write the records of one rank in one try, one line per span."""
    lines = []
    for row in one.rows:
        if row.rank != rank:
            continue
        for span in row.item.spans:
            line: Line = {"kind": "sample", "attempt": number, "rank": rank, "step": one.step}
            line |= {"slot": row.slot, "row": row.row, "sample_id": span.sample}
            if span.start is not None:
                line |= {"token_start": span.start, "token_end": span.stop}
            if log.has_source:
                line["source"] = span.source
            if log.has_epoch:
                line["epoch"] = row.item.epoch + log.first_epoch
            if log.has_position:
                line["position"] = row.item.position
            if log.has_worker and log.workers:
                line["worker"] = (one.step * one.recipe.slots + row.slot) % log.workers
            lines.append(line)
    return sorted(lines, key=lambda line: (line["slot"], line["row"]))


def event(kind: str, number: int, rank: int, step: int, data: Mapping[str, Any]) -> Line:
    """Write an event that belongs to a step."""
    return {"kind": kind, "attempt": number, "rank": rank, "step": step, "data": dict(data)}


def eval_lines(number: int, step: int, rank: int) -> list[Line]:
    """Write two rows of a held-out set that is the same at every step."""
    place_of = {"kind": "sample", "attempt": number, "rank": rank, "step": step, "slot": 0}
    return [
        {**place_of, "row": row, "sample_id": 5000 + 2 * rank + row, "stream": "eval"}
        for row in range(2)
    ]


@dataclass(frozen=True)
class Death:
    """How far each rank came in the step in which the attempt died."""

    slots: Mapping[int, int]
    voters: frozenset[int]
    """Ranks that committed it all the same: never all, and only if all had used all slots."""

    @classmethod
    def draw(cls, recipe: Recipe, rng: random.Random) -> Death:
        """Draw a death at random."""
        ranks = recipe.ranks
        voters = frozenset(rng.sample(ranks, rng.randrange(len(ranks))))
        if rng.random() < 0.3 and voters:
            return cls(dict.fromkeys(ranks, recipe.slots), voters)
        return cls({rank: rng.randint(0, recipe.slots) for rank in ranks}, frozenset())


def closing_lines(number: int, one: Try, rank: int, n_records: int, log: Log) -> list[Line]:
    """Write what a rank logs when its part of a try is done."""
    if one.fate in (Fate.VOID, Fate.RETURNED):
        return [event("void", number, rank, one.step, {"reason": "overflow"})]
    if not log.has_commits:
        return []
    data = {"samples": n_records} if log.has_counts else {}
    return [event("commit", number, rank, one.step, data)]


def checkpoint_lines(number: int, step: int, rank: int, consumed: int, log: Log) -> list[Line]:
    """Write the begin and complete of a checkpoint, if this rank logs them."""
    if log.checkpoints == "none" or (log.checkpoints == "first" and rank != 0):
        return []
    claim = {"consumed_samples": consumed, "unit": "sequences"}
    begin = {"phase": "begin"} | ({"claim": claim} if log.has_claims else {})
    return [
        event("checkpoint", number, rank, step, begin),
        event("checkpoint", number, rank, step, {"phase": "complete"}),
    ]


def try_lines(number: int, one: Try, rank: int, log: Log, death: Death) -> list[Line]:
    """Write one rank's records in one try, its commit or void, and the evaluation after it."""
    lines = sample_lines(number, one, rank, log)
    if one.fate is Fate.OPEN:
        lines = [line for line in lines if line["slot"] < death.slots[rank]]
        if rank not in death.voters:
            return lines
    lines += closing_lines(number, one, rank, len(lines), log)
    if one.fate is Fate.COMMIT and log.eval_every and one.step % log.eval_every == 0:
        lines += eval_lines(number, one.step, rank)
    return lines


def emit(
    number: int, leg: Leg, tries: Sequence[Try], n_before: int, log: Log, rng: random.Random
) -> list[Line]:
    """
    Write the ledger of one attempt, rank 0 first, in time order within a rank.

    `n_before` sequences had been used by the lineage before the leg.
    """
    death = Death.draw(leg.spells()[-1][0] if leg.spells() else leg.recipe, rng)
    lines: list[Line] = []
    for rank in leg.recipe.ranks:
        if log.ranks is not None and rank not in log.ranks:
            continue
        lines.append(start_line(number, rank, leg, log))
        consumed, noted = n_before + leg.lead, set[int]()
        for one in tries:
            if rank not in one.recipe.ranks:
                continue
            for note in leg.notes if one.step not in noted else ():
                if note.step == one.step and (note.ranks is None or rank in note.ranks):
                    lines.append(event(note.kind, number, rank, note.step, note.data))
            noted.add(one.step)
            lines += try_lines(number, one, rank, log, death)
            consumed += len(one.rows)
            if one.fate is Fate.COMMIT and one.step in leg.checkpoints:
                lines += checkpoint_lines(number, one.step, rank, consumed, log)
        if leg.has_end and (not tries or rank in tries[-1].recipe.ranks):
            end = {"kind": "end", "attempt": number, "rank": rank, "data": {"reason": "done"}}
            lines.append(end)
    return lines
