"""
Tries the audit on a ledger: plants each fault into a copy of it, and sees whether it is found.

The copy is in memory; the ledger is only read.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ledger_audit.continuity.causes.around import with_reasons
from ledger_audit.continuity.judging import judge
from ledger_audit.model import Reading, Resume, Verdict
from ledger_audit.model.selftest import Selftest, Shown, Trial, Untouched
from ledger_audit.planting import FAULTS, CannotPlant, Planted, cut, ledger_of, plant, untouched
from ledger_audit.planting.stretch import Stretch
from ledger_audit.sources import forbidden_in, open_source, source_of

MOST_STEPS = 64
"""Of the copy, unless more are asked for."""


def selftest(
    roots: Sequence[Path],
    reading: Reading = Reading(),  # noqa: B008  # frozen
    *,
    faults: Iterable[str] = tuple(FAULTS),
    most_steps: int = MOST_STEPS,
    tell: Callable[[str], None] = lambda _: None,
) -> Selftest:
    """
    Plant faults into a copy of a ledger's first steps, one at a time, and audit each.

    Args:
        roots: of the ledger.
        reading: how it is to be read.
        faults: which; the causes that should be named.
        most_steps: of the copy.
        tell: takes a few words on what is being done now.
    """
    tell("copying a stretch of the ledger")
    stretch = cut(open_source(roots, reading), most_steps)
    (clean,) = judged(untouched(stretch), stretch)
    trials = []
    for fault in faults:
        tell(f"planting {fault}")
        trials.append(tried(fault, stretch))
    return Selftest(
        inputs={"ledger": [str(root) for root in roots]},
        options={"steps": most_steps, "columns": dict(reading.columns)},
        attempt=stretch.attempt.label,
        steps=stretch.steps,
        records=stretch.records.height,
        untouched=Untouched(clean.verdict, clean.causes, _broken(clean), _lacks(clean)),
        trials=tuple(trials),
    )


def tried(fault: str, stretch: Stretch) -> Trial:
    """Plant one fault and see what is said of it."""
    try:
        planted = plant(fault, stretch)
    except CannotPlant as lacking:
        return Trial(fault, Shown.NOT_PLANTED, None, lacks=(str(lacking),))
    resume = judged(planted, stretch)[-1]
    if resume.verdict == Verdict.UNPROVEN:
        return Trial(fault, Shown.UNPROVEN, resume.verdict, lacks=_lacks(resume))
    return Trial(fault, _shown(fault, resume), resume.verdict, resume.causes)


def _shown(fault: str, resume: Resume) -> Shown:
    if resume.verdict == Verdict.CONTINUOUS:
        return Shown.MISSED
    own = [one.code for one in resume.causes if not one.is_older]
    older = [one.code for one in resume.causes if one.is_older]
    if fault in {*own[:1], *older}:
        return Shown.FIRST
    return Shown.BESIDE if fault in own else Shown.OTHER


def judged(planted: Planted, stretch: Stretch) -> list[Resume]:
    """Audit every resume of a job as `diff --full` would."""
    source = source_of(ledger_of(planted, has_commits=stretch.has_commits))
    forbidden = forbidden_in(source, planted.contract)
    reading = Reading(full=True)
    return [
        with_reasons(
            judge(source, index, planted.contract, reading, forbidden),
            source,
            index,
            source.archive,
        )
        for index in range(1, len(source.lineage.chain))
    ]


def _broken(resume: Resume) -> tuple[str, ...]:
    return tuple(one.because for one in resume.clauses if one.verdict == Verdict.BROKEN)


def _lacks(resume: Resume) -> tuple[str, ...]:
    """Name what would settle what blocks a proof."""
    blocking = [one for one in resume.limits if one.blocks and not one.is_waived]
    return tuple(dict.fromkeys(f"{one.settled_by} [{one.code}]" for one in blocking))
