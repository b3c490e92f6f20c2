"""Writes ledgers of two attempts event by event, for what fingerprints and their order tell."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from native import Line, write_ledger

from ledger_audit.continuity.contract import Allowance, Contract, Fingerprints
from ledger_audit.continuity.fingerprints import audit_fingerprints, restoring
from ledger_audit.continuity.lineage import Lineage, reconstruct
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.model.fingerprints import Change, FingerprintFacts, Restoring

NOTHING = Contract()


def must(*keys: str, allow: Mapping[str, str] | None = None, **terms: Any) -> Contract:
    """Give a contract under which keys must match, but for those that may change."""
    allowances = tuple(Allowance(why, change=key) for key, why in (allow or {}).items())
    return Contract(fingerprint=Fingerprints(must_match=keys, **terms), allow=allowances)


class Job:
    """A ledger of two attempts, written event by event: attempt 1 resumes from step 2 of 0."""

    def __init__(self, ranks: int = 2, after: int | None = None) -> None:
        self.sizes = (ranks, ranks if after is None else after)
        self.lines: list[Line] = []

    def say(self, kind: str, attempt: int, rank: int, step: int | None = None, **data: Any) -> None:
        """Let a rank write one event."""
        line = {"kind": kind, "attempt": attempt, "rank": rank, "step": step, "data": data}
        self.lines.append({key: value for key, value in line.items() if value is not None})

    def start(self, attempt: int, rank: int, fingerprint: Any = None, **data: Any) -> None:
        """Let a rank begin."""
        origin = None if attempt == 0 else {"attempt": 0, "step": 2}
        told = {"world_size": self.sizes[attempt], "resumed_from": origin, **data}
        self.say("start", attempt, rank, **told, fingerprint=fingerprint or {})

    def use(self, attempt: int, rank: int, step: int) -> None:
        """Let a rank use and commit one sample."""
        place = {"attempt": attempt, "rank": rank, "step": step, "slot": 0, "row": 0}
        self.lines.append({"kind": "sample", **place, "sample_id": step * 10 + rank})
        self.say("commit", attempt, rank, step, samples=1)

    def run(self, attempt: int, rank: int, *kinds: str, fingerprint: Any = None) -> None:
        """Say the kinds of events in their order; `use` is the first record."""
        for kind in kinds:
            if kind == "use":
                self.use(attempt, rank, 3)
            else:
                data = {} if fingerprint is None else {"fingerprint": fingerprint}
                self.say(kind, attempt, rank, **data)

    def opened(self, folder: Path) -> tuple[pl.DataFrame, pl.DataFrame, Lineage]:
        """Give the acts, the first records of attempt 1, and the lineage."""
        ledger = open_ledger([write_ledger(self.lines, folder / "ledger")])
        acts = ledger.acts()
        first = ledger.records("1", 0).group_by("attempt", "rank").agg(pl.col("seq").min())
        return acts, first, reconstruct(acts, ledger.extents())

    def restoring(self, folder: Path) -> tuple[Restoring, ...]:
        """Tell how attempt 1 began."""
        acts, first, lineage = self.opened(folder)
        return restoring(acts, first, lineage.chain[-1])

    def changes(self, folder: Path, contract: Contract = NOTHING) -> tuple[Change, ...]:
        """Tell what changed between attempt 0 and 1."""
        return self.facts(folder, contract).changes

    def facts(self, folder: Path, contract: Contract = NOTHING) -> FingerprintFacts:
        """Tell all of it."""
        acts, first, lineage = self.opened(folder)
        return audit_fingerprints(acts, first, *lineage.chain, contract)
