"""Tallies: counted by hand from a zoo run, or written down as a table; and claims for them."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
from conftest import FIXTURES

from ledger_audit.continuity.claims import read_claim
from ledger_audit.continuity.claims.claim import Claim, Count
from ledger_audit.continuity.claims.compare import compare
from ledger_audit.continuity.claims.tally import TALLY, Tally
from ledger_audit.model.claims import ClaimFacts

RANKS = range(4)

Row = tuple[int, int | None, int, int, int, int | None, int]


def frame(rows: Iterable[Row] = ()) -> pl.DataFrame:
    """Give a TALLY: rank, epoch, records, sequences, documents, tokens and micro-batches."""
    return pl.DataFrame(list(rows), schema=TALLY, orient="row")


def plain(
    used: Mapping[int, int], *, epoch: int | None = 0, batch: int = 2, tokens: int | None = 8
) -> pl.DataFrame:
    """Give a TALLY of one pass, of records that are whole samples: rank → samples."""
    return frame(
        (rank, epoch, one, one, one, None if tokens is None else one * tokens, -(-one // batch))
        for rank, one in used.items()
    )


def tally(committed: pl.DataFrame, *, step: int = 8, **more: Any) -> Tally:
    """Give a tally of what was committed, and of nothing else unless it is said."""
    return Tally(
        **{"step": step, "committed": committed, "voided": frame(), "open": frame(), **more}
    )


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint of a zoo run."""

    attempt: int
    step: int
    claims: Mapping[int, object]
    """Rank → its state, as the framework saved it."""
    tally: Tally


def checkpoints(case: str) -> Iterator[Checkpoint]:
    """Count what a zoo run had consumed at each of its checkpoints, line by line."""
    attempts = _attempts(case)
    for number, lines in attempts.items():
        said: dict[int, dict[int, object]] = defaultdict(dict)
        for line in lines:
            if line["kind"] == "checkpoint":
                said[line["step"]][line["rank"]] = line["data"]["claim"]
        for step, claims in sorted(said.items()):
            yield Checkpoint(number, step, claims, _tally(attempts, number, step))


def _attempts(case: str) -> dict[int, list[dict[str, Any]]]:
    files = sorted((FIXTURES / "zoo" / case / "run").glob("attempt*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        found[line["attempt"]].append(line)
    return dict(found)


def _tally(attempts: Mapping[int, list[dict[str, Any]]], number: int, step: int) -> Tally:
    parents = [
        next(line["data"] for line in attempts[one] if line["kind"] == "start")
        for one in range(number + 1)
    ]
    resumed_at = [(one["resumed_from"] or {"step": 0})["step"] for one in parents]
    last = [*resumed_at[1:], step]
    chosen = [
        [line for line in attempts[one] if line["kind"] == "sample" and line["step"] <= last[one]]
        for one in range(number + 1)
    ]
    committed = {
        (one, line["rank"], line["step"])
        for one in range(number + 1)
        for line in attempts[one]
        if line["kind"] == "commit"
    }
    for one, lines in enumerate(chosen):
        assert all((one, line["rank"], line["step"]) in committed for line in lines)
    fingerprint = parents[number]["fingerprint"]
    return Tally(
        step=step,
        committed=_counted(line for lines in chosen for line in lines),
        voided=frame(),
        open=_counted(_begun(attempts[number], step)),
        committed_before=None if number == 0 else _counted(x for xs in chosen[:-1] for x in xs),
        dataset_samples=fingerprint["dataset_samples"],
        workers=fingerprint["workers"],
        prefetch_factor=fingerprint.get("prefetch_factor"),
        micro_batch_size=fingerprint["micro_batch_size"],
        drop_last=fingerprint.get("drop_last"),
        world_sizes=tuple(one["world_size"] for one in parents),
    )


def _begun(lines: Iterable[dict[str, Any]], step: int) -> Iterator[dict[str, Any]]:
    """Give the records after step C that a rank had logged before the checkpoint."""
    waiting: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        if line["kind"] == "sample" and line["step"] > step:
            waiting[line["rank"]].append(line)
        elif line["kind"] == "checkpoint" and line["step"] == step:
            yield from waiting.pop(line["rank"], [])


def _counted(lines: Iterable[dict[str, Any]]) -> pl.DataFrame:
    cells: dict[tuple[int, int | None], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        cells[line["rank"], line.get("epoch")].append(line)
    rows: list[Row] = []
    for (rank, epoch), found in cells.items():
        slots = {(one["attempt"], one["step"], one["slot"]) for one in found}
        sequences = {(one["attempt"], one["step"], one["slot"], one["row"]) for one in found}
        documents = {(one.get("source"), one["sample_id"]) for one in found}
        has_spans = all(one.get("token_end") is not None for one in found)
        tokens = sum(one["token_end"] - one["token_start"] for one in found) if has_spans else None
        rows.append((rank, epoch, len(found), len(sequences), len(documents), tokens, len(slots)))
    return frame(rows)


def facts(states: Mapping[int, object], found: Tally) -> ClaimFacts:
    """Compare states as they were logged."""
    return compare({rank: read_claim(state) for rank, state in states.items()}, found)


def of_all(state: object, found: Tally) -> ClaimFacts:
    """Compare one state that all ranks save."""
    return facts(dict.fromkeys(RANKS, state), found)


def used(amount: int, **more: Any) -> Any:
    """Give four ranks of one pass that used as much each."""
    return plain(dict.fromkeys(RANKS, amount), **more)


def counted(
    value: int, of: Any = "all", since: Any = "run", unit: Any = "sequences", **more: Any
) -> Claim:
    """Give a claim of one number."""
    return Claim("test", (Count("n", value, of, since, unit),), **more)


def in_pass(
    epoch: int | None,
    value: int,
    *,
    first: int | None = None,
    of: str = "all",
    unit: str = "sequences",
) -> Claim:
    """Give a claim of one number of a pass."""
    return counted(value, of, "epoch", unit, epoch=epoch, first_epoch=first)
