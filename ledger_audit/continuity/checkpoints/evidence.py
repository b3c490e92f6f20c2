"""Brings together what the checkpoints of a ledger are judged by, each attempt read once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.checkpoints.archive import Archive
from ledger_audit.continuity.checkpoints.branch import edges_of, loaders
from ledger_audit.continuity.checkpoints.case import Case
from ledger_audit.continuity.checkpoints.digests import Starts
from ledger_audit.continuity.checkpoints.documents import at, documents_of
from ledger_audit.continuity.checkpoints.places import passed_by
from ledger_audit.continuity.checkpoints.saves import Told, first_start
from ledger_audit.continuity.checkpoints.stages import staged
from ledger_audit.continuity.checkpoints.tallies import Known
from ledger_audit.continuity.checkpoints.walk import SNAPSHOTS, Walk, walk
from ledger_audit.continuity.checkpoints.weights import ends_of
from ledger_audit.continuity.checkpoints.wholeness import (
    Habits,
    loaded,
    newest_of,
    wholeness_of,
)
from ledger_audit.continuity.identity import IDENTITY
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.model.checkpoints import Wholeness


@dataclass(frozen=True)
class Evidence:
    """All that the checkpoints of a ledger are judged by."""

    archive: Archive
    known: Mapping[str, Attempt]
    starts: Starts
    habits: Mapping[str, Habits]
    walks: Mapping[str, Walk]
    ends: Mapping[str, Mapping[int, pl.DataFrame]]
    """Attempt → checkpoint → where its snapshots stand among commits and voids."""
    summed: Known
    loaded: Mapping[tuple[str, int], tuple[str, ...]]
    """(attempt, step) → the attempts that resumed from there."""
    _documents: Mapping[str, pl.DataFrame]
    _went_on: Mapping[tuple[str, int], tuple[int, tuple[str, ...]]]
    """(attempt, step) → which save of it was loaded, and the attempts that went on from it."""

    def wholeness(self, told: Told) -> Wholeness:
        """Tell whether a checkpoint is whole."""
        place, label = (told.attempt, told.step), told.attempt
        start = first_start(self.starts, label)
        found = wholeness_of(told, self.known[label], self.habits[label], start)
        if self._went_on.get(place, (0, ()))[0] != told.nth or found.is_whole:
            return found
        return loaded(found, self._went_on[place][1])

    def documents(self, case: Case) -> pl.DataFrame | None:
        """Give how many distinct documents a checkpoint's lineage had used; null: nobody asks."""
        if not case.own or not case.asks(DISTINCT):
            return None
        return at(self._documents[case.own[-1].attempt.label], case.own[-1].last)

    def is_in_lineage(self, told: Told) -> bool:
        """Tell whether what a checkpoint holds is in the newest weights."""
        chain = self.archive.source.lineage.chain
        for index, attempt in enumerate(chain):
            if attempt.label == told.attempt:
                until = self.archive.source.lineage.until(index, len(chain) - 1)
                return until is None or told.step <= until
        return False


DISTINCT: set[str | None] = {"documents", None}
"""Units of a claim for which it matters how many are distinct."""


def gathered(
    archive: Archive,
    cases: Sequence[Case],
    said: Sequence[Told],
    known: Mapping[str, Attempt],
    starts: Starts,
) -> Evidence:
    """
    Read what is needed, each attempt once.

    Args:
        archive: the ledger.
        cases: the checkpoints that are judged.
        said: all checkpoints.
        known: all attempts.
        starts: their start events.
    """
    walks = _walks(archive, cases, known)
    asking = [case.own for case in cases if case.own and case.asks(DISTINCT)]
    of_attempt: dict[str, list[Told]] = {}
    for one in said:
        of_attempt.setdefault(one.attempt, []).append(one)
    habits = {label: Habits.of(own) for label, own in of_attempt.items()}
    loaded_by = loaders(known)
    return Evidence(
        archive,
        known,
        starts,
        habits=habits,
        walks=walks,
        ends={label: ends_of(one) for label, one in walks.items()},
        summed=_known(archive, cases, walks),
        loaded=loaded_by,
        _documents=documents_of(archive, walks, asking) if asking else {},
        _went_on=_went_on(said, loaded_by, known, habits, starts),
    )


def _went_on(
    said: Sequence[Told],
    loaded_by: Mapping[tuple[str, int], tuple[str, ...]],
    known: Mapping[str, Attempt],
    habits: Mapping[str, Habits],
    starts: Starts,
) -> dict[tuple[str, int], tuple[int, tuple[str, ...]]]:
    """Find the saves that attempts loaded and went on from: these were whole by that fact."""
    saves: dict[tuple[str, int], list[Told]] = {}
    for one in said:
        saves.setdefault((one.attempt, one.step), []).append(one)
    found = {}
    for place, labels in loaded_by.items():
        # without a start event it is assumed; without a record, nothing shows that it was loaded
        later = [known[label] for label in labels if not known[label].is_assumed]
        went_on = tuple(one.label for one in later if one.first_step is not None)
        if went_on and place in saves:
            label = place[0]
            start = first_start(starts, label)
            chosen = newest_of(saves[place], known[label], habits[label], start)
            found[place] = chosen.nth, went_on
    return found


def _walks(
    archive: Archive, cases: Sequence[Case], known: Mapping[str, Attempt]
) -> dict[str, Walk]:
    """Walk through every attempt that a checkpoint stands on."""
    edges = edges_of(case.legs for case in cases)
    rows: dict[str, list[tuple[int, int, int, int, bool]]] = {}
    for case in cases:
        own = rows.setdefault(case.told.attempt, [])
        for rank, save in case.told.saves.items():
            if save.snapshot is not None:
                is_begin = save.begin is not None
                own.append((case.place, rank, case.told.step, save.snapshot, is_begin))
    walks = {}
    for label in sorted({*edges, *rows}):
        if label not in known or known[label].is_absent:
            continue
        snapshots = pl.DataFrame(rows.get(label, []), schema=SNAPSHOTS, orient="row")
        walks[label] = walk(archive, known[label], edges.get(label, []), snapshots)
    return walks


def _known(archive: Archive, cases: Sequence[Case], walks: Mapping[str, Walk]) -> Known:
    """Bring together what tallies need beside the sums."""
    counts = [count for case in cases for claim in case.every_claim for count in claim.counts]
    by_stage: dict[int, Mapping[str, int]] = {}
    for label in {case.told.attempt for case in cases}:
        snapshots = walks[label].ends.select(list(SNAPSHOTS)).unique()
        by_stage |= staged(archive, label, snapshots)
    has_voids = any(one.void.height for one in walks.values())
    asks_sources = has_voids or any(one.since == "epoch" for one in counts)
    return Known(
        archive,
        walks,
        again=_again(archive, walks),
        passed={label: passed_by(archive, one) for label, one in walks.items()},
        staged=by_stage,
        sources={label: archive.sources(label) for label in walks} if asks_sources else {},
    )


def _again(archive: Archive, walks: Mapping[str, Walk]) -> pl.DataFrame:
    """Look up what committed updates used of the samples that void tries had used."""
    columns = ["attempt", "rank", "step", "seq", *IDENTITY]
    nothing = archive.source.none().select(columns)
    void = [one.void.select(columns) for one in walks.values()]
    rows = pl.concat([nothing, *void])
    if rows.is_empty():
        return nothing
    found = [nothing]
    for label, one in walks.items():
        used = archive.source.lookup(label, rows["sample_id"].unique())
        used = used.join(one.steps.filter("committed").select("step"), on="step")
        found.append(used.join(rows, on=["attempt", "rank", "seq"], how="anti").select(columns))
    return pl.concat(found)
