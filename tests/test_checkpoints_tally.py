"""Sums that keep no record give what a plain count of the same records gives."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import ANY_RUNS, FIXTURES
from faults import FAULTS, make
from native import Line, read_lines
from saving import with_saves

from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.checkpoints.branch import Leg, every_attempt
from ledger_audit.continuity.checkpoints.case import case_of, launches_of
from ledger_audit.continuity.checkpoints.evidence import gathered
from ledger_audit.continuity.checkpoints.places import MOST_HOLES
from ledger_audit.continuity.checkpoints.saves import gather, starts
from ledger_audit.continuity.checkpoints.tallies import tally_of
from ledger_audit.continuity.claims.tally import Tally
from ledger_audit.continuity.frames import IS_USED
from ledger_audit.continuity.windows import Stretch, _side
from ledger_audit.model import Reading
from ledger_audit.sources import open_source

CLAIM = {"rank_samples": 0}
"""Without a unit: documents are counted, too."""
IDENTITY = ["source", "epoch", "sample_id", "token_start", "token_end"]
FOLDERS = [pytest.param(path, id=str(path.relative_to(FIXTURES))) for path in ANY_RUNS]
UNITS = ("records", "sequences", "documents", "tokens", "micro-batches")
Counts = dict[tuple[int, int | None], tuple[int | None, ...]]


@dataclass(frozen=True)
class Counted:
    """One checkpoint with its tally, and the legs that it stands on."""

    attempt: str
    step: int
    legs: tuple[Leg, ...]
    tally: Tally


def tallied(archive: Archive) -> list[Counted]:
    """Tally every checkpoint of a ledger."""
    known = every_attempt(archive.source.lineage)
    told, _ = gather(archive.source.acts)
    launches = launches_of(archive.source.acts, known)
    cases = [case_of(place, one, known, launches) for place, one in enumerate(told)]
    evidence = gathered(archive, cases, told, known, starts(archive.source.acts))
    return [
        Counted(
            case.told.attempt,
            case.told.step,
            case.legs,
            tally_of(evidence.summed, case, evidence.documents(case)),
        )
        for case in cases
    ]


def plainly(archive: Archive, legs: Iterable[Leg]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read every record of some legs: those of committed updates, and those of void tries."""
    stretches = [Stretch(leg.attempt, leg.first, leg.last) for leg in legs if leg.first <= leg.last]
    side = _side(archive.source, stretches)
    steps = side.steps.filter("committed").select("attempt", "step")
    committed = side.records.filter(IS_USED).join(steps, on=["attempt", "step"], how="semi")
    return committed, side.records.filter(~IS_USED)


def counts_of(records: pl.DataFrame) -> Counts:
    """Count records by rank and pass, one after the other."""
    found: dict[tuple[int, int | None], dict[str, Any]] = {}
    sequences: dict[tuple[Any, ...], int | None] = {}
    batches: dict[tuple[Any, ...], int | None] = {}
    for row in records.iter_rows(named=True):
        cell = found.setdefault(
            (row["rank"], row["epoch"]), {"records": 0, "documents": set(), "tokens": 0}
        )
        cell["records"] += 1
        cell["documents"].add((row["source"], row["sample_id"]))
        cell["tokens"] = (
            None if None in (cell["tokens"], row["tokens"]) else (cell["tokens"] + row["tokens"])
        )
        batch = (row["attempt"], row["rank"], row["step"], row["slot"], row["try_seq"])
        for key, seen in ((batch, batches), ((*batch, row["row"]), sequences)):
            known = seen.get(key, row["epoch"])
            seen[key] = None if None in (known, row["epoch"]) else min(known, row["epoch"])
    of_sequences = Counter((key[1], epoch) for key, epoch in sequences.items())
    of_batches = Counter((key[1], epoch) for key, epoch in batches.items())
    return {
        place: (
            cell["records"],
            of_sequences[place],
            len(cell["documents"]),
            cell["tokens"],
            of_batches[place],
        )
        for place, cell in found.items()
    }


def told(frame: pl.DataFrame) -> Counts:
    """Give a TALLY in the same shape."""
    return {
        (row["rank"], row["epoch"]): tuple(row[unit] for unit in UNITS) for row in frame.to_dicts()
    }


def left_void(committed: pl.DataFrame, void: pl.DataFrame, order: list[str]) -> pl.DataFrame:
    """Keep the void uses of what no committed update used again later."""
    kept = []
    for row in void.iter_rows(named=True):
        same = committed
        for name in IDENTITY:
            same = same.filter(pl.col(name).eq_missing(pl.lit(row[name], committed.schema[name])))
        turn = order.index(row["attempt"])
        is_again = False
        for one in same.iter_rows(named=True):
            place = (order.index(one["attempt"]), one["step"])
            is_again |= place > (turn, row["step"])
            is_again |= place == (turn, row["step"]) and (
                one["rank"] != row["rank"] or one["seq"] > row["seq"]
            )
        if not is_again:
            kept.append(row)
    return pl.DataFrame(kept, schema=void.schema, orient="row")


def check(lines: list[Line], root: Path) -> int:
    """Compare every tally of a ledger with a plain count; how many were compared."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    archive = open_source([root], Reading()).archive()
    found = tallied(archive)
    for one in found:
        where = f"attempt {one.attempt} step {one.step}"
        committed, void = plainly(archive, one.legs)
        assert counts_of(committed) == told(one.tally.committed), where
        order = [leg.attempt.label for leg in one.legs]
        left = counts_of(left_void(committed, void, order))
        # what several tries share is counted apart, and how many are distinct is not asked
        assert {place: cell[:2] for place, cell in left.items()} == {
            place: cell[:2] for place, cell in told(one.tally.voided).items()
        }, where
        placed = committed["position"]
        if one.tally.places is not None:
            used = {*placed.to_list(), *void["position"].to_list()}
            next_place = max(placed.to_list()) + 1
            assert next_place == one.tally.places.next, where
            holes = sorted(set(range(next_place)) - used)
            excused = any(leg.attempt.declares for leg in one.legs) or archive.stages
            assert set(one.tally.places.holes) <= set(holes), where
            if not excused:
                assert one.tally.places.holes == tuple(holes[:MOST_HOLES]), where
                assert one.tally.places.hole_count == len(holes), where
    return len(found)


@pytest.mark.parametrize("folder", FOLDERS)
def test_tallies_of_every_fixture(folder: Path, tmp_path: Path) -> None:
    """Committed and void amounts at every step, of every attempt, are those of a plain count."""
    lines = [line for line in read_lines(folder) if line["kind"] != "checkpoint"]

    compared = check(with_saves(lines, CLAIM), tmp_path / "saved")

    assert compared > 0 or not any(line["kind"] == "sample" for line in lines)


@pytest.mark.parametrize("fault", FAULTS)
def test_tallies_of_random_jobs(fault: str, tmp_path: Path) -> None:
    """So are those of random jobs, whatever happened to them and to their logs."""
    seed = FAULTS.index(fault)
    lines = [line for line in make(fault, seed).run if line["kind"] != "checkpoint"]

    assert check(with_saves(lines, CLAIM), tmp_path), f"seed {seed}"
