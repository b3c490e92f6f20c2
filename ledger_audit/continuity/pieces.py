"""Takes stock of the evidence that the newest attempt leaves, and of what its lack blocks."""

from dataclasses import dataclass

import polars as pl

from ledger_audit.continuity.contract import Contract
from ledger_audit.continuity.lineage import Attempt
from ledger_audit.model import ClauseName, Piece, Resume
from ledger_audit.model.ranges import closed_ranges


@dataclass(frozen=True)
class _Wanted:
    """A kind of evidence: what it is for, and the limits that its lack may lead to."""

    purpose: str
    limits: tuple[str, ...] = ()


_SIZE = ("repeat-unexplained", "draws-not-measured", "epoch-size-unknown")
_REACH = ("no-whole-reference-step", "fewer-micro-batches-than-workers", "lane-without-evidence")

EVENTS: dict[str, _Wanted] = {
    "start": _Wanted("says who resumed from where", ("lineage-assumed", "world-size-not-logged")),
    "commit": _Wanted("says which steps are in the weights", ("commits-assumed",)),
    "checkpoint": _Wanted("says where a resume begins, and carries the claim that is compared"),
    "restore": _Wanted("says when the loader's state was restored", ("restore-not-logged",)),
    "iterator": _Wanted("says when the iterator was made", ("restore-not-logged",)),
}
COLUMNS: dict[str, _Wanted] = {
    "epoch": _Wanted("tells a replay from another pass", ("repeat-unexplained",)),
    "position": _Wanted("proves the stream without lost work to compare with", _REACH),
    "source": _Wanted("keeps equal ids of several data sets apart"),
    "token_start": _Wanted("counts tokens, and compares spans", ("tokens-not-logged",)),
}
KEYS: dict[str, _Wanted] = {
    "dataset_samples": _Wanted("says where a pass ends, and what padding explains", _SIZE),
    "workers": _Wanted("says how much lost work is enough to judge by"),
}
RANKS = _Wanted(
    "every rank's lane is judged by its own records",
    ("rank-missing", "lane-without-evidence", "ranks-not-logged"),
)
FINGERPRINT = _Wanted("the contract wants it to match", ("fingerprint-not-logged",))


def take_stock(
    acts: pl.DataFrame,
    tries: pl.DataFrame,
    records: pl.DataFrame,
    attempt: Attempt,
    resume: Resume,
    contract: Contract,
) -> tuple[Piece, ...]:
    """
    Say of every kind of evidence whether it is there, and what its lack would block.

    Args:
        acts: EVENTS of the attempt that are neither commits nor voids.
        tries: its commits and voids in the steps that were looked at.
        records: its RECORDS there.
        attempt: the newest attempt.
        resume: what a right resume would be judged.
        contract: what the stream promises.
    """
    expected = attempt.everyone if attempt.logged is None else attempt.logged & attempt.everyone
    by_kind = {
        kind: frozenset(acts.filter(kind=kind)["rank"].to_list())
        for kind in EVENTS
        if kind != "commit"
    }
    by_kind["commit"] = frozenset(tries.filter(kind="commit")["rank"].to_list())
    if attempt.resumed_at is None and not by_kind["restore"]:
        # a first launch has nothing to restore: its iterator says that it tells such things
        by_kind["restore"] = by_kind["iterator"]
    found = [_of_ranks(attempt, resume)]
    for kind, wanted in EVENTS.items():
        present = by_kind[kind] & expected
        is_one_enough = kind == "checkpoint" and bool(present)
        lacking = frozenset() if is_one_enough else expected - present
        found.append(_piece("event", kind, lacking, expected, wanted, resume))
    for name, wanted in COLUMNS.items():
        have = records.filter(pl.col(name).is_not_null())["rank"].unique().to_list()
        used = frozenset(records["rank"].unique().to_list())
        found.append(_piece("column", name, used - {*have}, used, wanted, resume))
    keys = {**KEYS, **{key: FINGERPRINT for key in contract.fingerprint.must_match if key != "*"}}
    for name, wanted in keys.items():
        is_there = attempt.fingerprint.get(name) is not None
        presence = frozenset[int]() if is_there else expected
        found.append(_piece("key", name, presence, expected, wanted, resume, of_ranks=False))
    return tuple(found)


def _of_ranks(attempt: Attempt, resume: Resume) -> Piece:
    absent = attempt.everyone - attempt.seen
    return _piece("ranks", "ledgers", absent, attempt.everyone, RANKS, resume)


def _piece(  # what a piece is made of
    kind: str,
    name: str,
    lacking: frozenset[int],
    expected: frozenset[int],
    wanted: _Wanted,
    resume: Resume,
    *,
    of_ranks: bool = True,
) -> Piece:
    is_absent = bool(expected) and lacking >= expected
    judged = [clause.clause for clause in resume.clauses]
    blocked: set[ClauseName] = set()
    for one in resume.limits:
        if lacking and one.code in wanted.limits and not one.is_waived:
            blocked |= {name for name in one.blocks if name in judged}
    return Piece(
        kind=kind,  # type: ignore[arg-type]  # the callers name the four kinds
        name=name,
        presence="absent" if is_absent else "partly" if lacking else "there",
        ranks=closed_ranges(lacking) if of_ranks else (),
        blocks=tuple(name for name in ClauseName if name in blocked),
        purpose=wanted.purpose,
    )
