"""
The places at which the program gives a cause, an outcome, a limit or a clause that does not hold.

Whatever passes there is noted; one of them can be disabled, and is then never given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from ledger_audit.continuity import causes, classify, conclusion, resume
from ledger_audit.continuity.causes.case import Case
from ledger_audit.continuity.limit_codes import LIMITS
from ledger_audit.model import Clause, ClauseName, Expected, Overlay, Resumed, Verdict
from ledger_audit.model.forbidden import Forbidden, Unseen

Mutant = tuple[str, str]
"""Kind and name of what is disabled."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "cause": tuple(causes.CAUSES),
    "outcome": tuple(str(one) for one in (*Resumed, *Expected, *Overlay)),
    "limit": tuple(LIMITS),
    "broken clause": tuple(str(one) for one in ClauseName),
    "unproven clause": tuple(str(one) for one in ClauseName),
}
"""Kind → all that there are of it."""

HIDDEN = "forbidden-unseen"
"""The one limit that the whole report asks for beside those of its resumes."""


@dataclass
class Watch:
    """What was given since this was last emptied, and what is not given any more."""

    disabled: Mutant | None = None
    met: set[Mutant] = field(default_factory=set)

    def passes(self, kind: str, name: str) -> bool:
        """Note that something is given; false: it is disabled."""
        self.met.add((kind, str(name)))
        return (kind, str(name)) != self.disabled


def watch_all(watch: Watch) -> None:
    """Stand at every seam, for the rest of this process."""
    _causes(watch)
    for step, severity in (
        ("_resumed", classify.WORST_RESUMED),
        ("_expected", classify.WORST_EXPECTED),
    ):
        _wrap(classify, step, _outcomes(watch, [str(one) for one in severity]))
    _wrap(classify, "_resumed", _misplaced(watch))
    for step, overlay in (("out_of_order", Overlay.OUT_OF_ORDER), ("_hits", Overlay.FORBIDDEN)):
        _wrap(resume, step, _rows(watch, overlay))
    _wrap(resume, "sorted_limits", _limits(watch))
    _wrap(Forbidden, "blocking", _hidden(watch))
    _wrap(resume, "judge", lambda clauses: tuple(_clause(watch, one) for one in clauses))
    _wrap(conclusion, "_forbidden", lambda clause: _clause(watch, clause))


def _wrap(room: Any, name: str, after: Callable[[Any], Any]) -> None:
    """Let whatever a function gives pass by another function."""
    step = getattr(room, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return after(step(*args, **kwargs))

    setattr(room, name, wrapped)


def _causes(watch: Watch) -> None:
    """The list keeps its slugs: a test that only compares lists has seen nothing."""

    def watched(slug: str, sign: causes.Sign) -> causes.Sign:
        def told(case: Case) -> Any:
            found = sign(case)
            return found if found is None or watch.passes("cause", slug) else None

        return told

    known: Any = causes.CAUSES
    for slug, sign in tuple(known.items()):
        known[slug] = watched(slug, sign)


def _outcomes(watch: Watch, severity: list[str]) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """A record whose outcome is disabled is called the least alarming other one."""

    def told(rows: pl.DataFrame) -> pl.DataFrame:
        for name in rows["outcome"].unique().to_list():
            if not watch.passes("outcome", name):
                mildest = next(one for one in reversed(severity) if one != name)
                rows = rows.with_columns(outcome=pl.col("outcome").replace(name, mildest))
        return rows

    return told


def _misplaced(watch: Watch) -> Callable[[pl.DataFrame], pl.DataFrame]:
    def told(rows: pl.DataFrame) -> pl.DataFrame:
        if not rows["misplaced"].any() or watch.passes("outcome", Overlay.MISPLACED):
            return rows
        return rows.with_columns(misplaced=pl.lit(value=False))

    return told


def _rows(watch: Watch, overlay: Overlay) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda rows: (
        rows if rows.is_empty() or watch.passes("outcome", overlay) else rows.clear()
    )


def _limits(watch: Watch) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    return lambda limits: tuple(one for one in limits if watch.passes("limit", one.code))


def _hidden(watch: Watch) -> Callable[[tuple[Unseen, ...]], tuple[Unseen, ...]]:
    return lambda unseen: unseen if not unseen or watch.passes("limit", HIDDEN) else ()


def _clause(watch: Watch, clause: Clause) -> Clause:
    """A clause that is never broken, or never unproven, holds instead."""
    is_fine = clause.verdict == Verdict.CONTINUOUS
    if is_fine or watch.passes(f"{clause.verdict} clause", clause.clause):
        return clause
    return replace(clause, verdict=Verdict.CONTINUOUS, because="nothing found")
