"""Says verdicts, amounts, places and steps in words, for every reporter that people read."""

import shlex
from collections.abc import Sequence

from ledger_audit.model import (
    Amount,
    Decision,
    Expected,
    Finding,
    Overlay,
    Positions,
    Report,
    Resume,
    Resumed,
    SourceDamage,
    Verdict,
)
from ledger_audit.printable import counted, quoted, several

HEADLINE = (str(Expected.SKIPPED), str(Resumed.REPLAYED), str(Overlay.OUT_OF_ORDER))
"""The counts that everyone asks for: told even where they are zero."""


MOST_LANES = 8
"""Ranks whose records can be looked at together."""
WHOLE_STREAM = "The whole stream against the control"
"""What the stream of `gate` is called, where resumes are called by their attempts."""


def number_of(report: Report, place: int) -> int:
    """Give the number of a resume in its lineage, oldest first; it may be the only one judged."""
    asked: int | None = report.options.get("resume")
    return place if asked is None else asked


def title_of(report: Report, place: int) -> str:
    """Name a resume, the `place`-th of the report, by number, attempts and checkpoint."""
    resume, count = report.resumes[place - 1], len(report.resumes)
    if report.options.get("resume") is not None:
        count = sum(one.in_lineage for one in report.lineage) - 1
    return (
        f"Resume {number_of(report, place)} of {count}: attempt {resume.to_attempt} from attempt "
        f"{resume.from_attempt} at checkpoint step {resume.checkpoint_step}"
    )


def not_in_weights(report: Report) -> str | None:
    """Name the attempts that led to nothing; null: there are none."""
    outside = [one.attempt for one in report.lineage if not one.in_lineage]
    return f"Not in the newest weights: attempt {', '.join(outside)}" if outside else None


def side_of(resume: Resume) -> str:
    """Name what a resume is compared with, beside its picture."""
    return "rolled back" if resume.reference_kind == "rolled-back" else resume.reference_kind


def ours_of(resume: Resume) -> str:
    """Name what is compared: all that a run used, or what a resumed attempt did."""
    return "run" if resume.from_attempt is None else "resumed"


def windows_of(resume: Resume) -> list[tuple[str, str]]:
    """Tell what was compared with what, and by which columns, as labels and texts."""
    windows = resume.windows
    reference = resume.reference_kind
    if resume.reference_through is not None:
        reference += f", whole through step {resume.reference_through}"
    rows = [
        (
            "records",
            f"committed {windows['committed']:,}, reference {windows['reference']:,} "
            f"({reference}), {ours_of(resume)} {windows['resumed']:,}",
        ),
        ("identity", ", ".join(resume.identity)),
    ]
    if resume.first_divergence is not None:
        rows.append(("differs", f"from the control first in step {resume.first_divergence}"))
    if resume.positions is not None:
        rows.append(("positions", positions_of(resume.positions)))
    return rows


def worst_of(report: Report) -> Resume | None:
    """Give what the verdict rests on: the newest resume that has it, else the whole stream."""
    for one in reversed(report.resumes):
        if one.verdict == report.verdict:
            return one
    return report.stream


def reach(resume: Resume) -> str:
    """Say how far the verdict reaches, and by how many lanes."""
    lanes = f"{resume.coverage.lanes_proven:,} of {counted(resume.coverage.lanes, 'lane')}"
    if resume.through_step is None:
        return f"after {mark(resume)}; no step after it is proven"
    steps = counted(resume.through_step - resume.checkpoint_step, "step")
    if resume.verdict == Verdict.CONTINUOUS:
        return f"through step {resume.through_step}, {steps} after {mark(resume)}, {lanes}"
    return f"after {mark(resume)}; compared through step {resume.through_step}, {steps}, {lanes}"


def mark(resume: Resume) -> str:
    """Name the place from which the resume is judged."""
    return "the start" if resume.from_attempt is None else f"step {resume.checkpoint_step}"


def sentence(resume: Resume) -> str:
    """Tell one resume in one sentence."""
    if resume.verdict == Verdict.BROKEN:
        return f"After {mark(resume)}, {damage(resume)}."
    if resume.verdict == Verdict.UNPROVEN:
        blocking = [one.text for one in resume.limits if one.blocks and not one.is_waived]
        return as_sentence(blocking[0] if blocking else "there is not enough evidence")
    allowed = [one.because for one in resume.clauses if ", allowed: " in one.because]
    if allowed:
        return as_sentence("; ".join(allowed))
    if resume.draws is not None:
        return f"{counted(resume.draws.records, 'draw')}, none as at the start of an attempt."
    if resume.through_step is None:
        return "Nothing is wrong in the steps that were compared."
    return "Nothing was skipped, replayed or out of order in the steps that were compared."


def as_sentence(text: str) -> str:
    """Give a text that begins like a sentence and ends like one."""
    return f"{text[:1].upper()}{text[1:]}."


def damage(resume: Resume) -> str:
    """Tell the three counts that everyone asks for, then whatever else is broken."""
    at_least = "at least " if resume.shift.is_lower_bound else ""
    parts = [
        f"{at_least}{told(resume.expected[Expected.SKIPPED])} skipped",
        f"{told(resume.resumed[Resumed.REPLAYED])} replayed",
    ]
    disordered = resume.overlays[Overlay.OUT_OF_ORDER]
    if disordered is not None:
        parts.append(f"{told(disordered)} out of order")
    for outcome in (Resumed.DUPLICATED, Resumed.UNEXPECTED):
        if resume.resumed[outcome].records:
            parts.append(f"{told(resume.resumed[outcome])} {outcome}")
    told_above = ("skipped", "replayed", "out of order", "duplicated", "not in the reference")
    for clause in resume.clauses:
        if clause.verdict == Verdict.BROKEN:
            reasons = clause.because.split("; ")
            parts += [reason for reason in reasons if not reason.endswith(told_above)]
    text = ", ".join(parts)
    shift = resume.shift.records
    if shift is not None:
        way = "" if not shift else ": it went back" if shift < 0 else ": it jumped ahead"
        text += f"; shift {at_least}{f'{shift:+,}' if shift else 0}{way}"
    return text


def told(amount: Amount) -> str:
    """Tell an amount in samples where a record is a whole sample, else in records and tokens."""
    if amount.samples is None or amount.samples == amount.records:
        return counted(amount.records, "sample")
    text = f"{counted(amount.records, 'record')} of {counted(amount.samples, 'sample')}"
    return text if amount.tokens is None else f"{text} ({counted(amount.tokens, 'token')})"


def damage_of(decision: Decision) -> str:
    """
    Tell the damage of all resumes in samples, tokens and share of the epoch.

    Where there is none, nobody asks for a share that is not known.
    """
    parts = []
    for amount, what in ((decision.skipped, "skipped"), (decision.replayed, "replayed")):
        tokens = f" ({counted(amount.tokens, 'token')})" if amount.tokens else ""
        parts.append(f"{told(amount) if not tokens else _without_tokens(amount)}{tokens} {what}")
    is_none = not decision.skipped.records + decision.replayed.records
    share = "" if is_none and decision.epoch_share is None else f"; {_share(decision)}"
    return f"{', '.join(parts)}{share}"


def in_doubt(judged: Sequence[Resume]) -> str | None:
    """Tell how much may be damage or not, by what the ledger shows; null: nothing."""
    open_ones = {
        str(Expected.UNDECIDED): sum(one.expected[Expected.UNDECIDED].records for one in judged),
        str(Resumed.REPEAT_UNEXPLAINED): sum(
            one.resumed[Resumed.REPEAT_UNEXPLAINED].records for one in judged
        ),
    }
    told = [
        f"{counted(records, 'record')} {name}" for name, records in open_ones.items() if records
    ]
    return f"{', '.join(told)}, which may be damage" if told else None


def more_of(report: Report) -> list[tuple[str, str]]:
    """Name the commands that tell more of what is not as it should be."""
    judged = worst_of(report)
    if judged is None or report.verdict == Verdict.CONTINUOUS:
        return []
    told = []
    open_limits = [one.code for one in judged.limits if one.blocks and not one.is_waived]
    if report.verdict == Verdict.BROKEN and judged.causes:
        told.append(f"explain {judged.causes[0].code}: how to fix it")
    elif report.verdict == Verdict.UNPROVEN and open_limits:
        told.append(f"explain {open_limits[0]}: what it means")
    ledger = "RUN" if report.command == "gate" else "LEDGER"
    is_one = bool({"ledger", "run"} & report.inputs.keys())  # and not two plain logs
    if judged.first_divergence is not None:
        told.append(f"show {ledger} --step {judged.first_divergence}: the first that differs")
    elif judged is not report.stream and is_one:
        stream = report.options.get("stream")
        where = "" if stream is None else f" --stream {shlex.quote(stream)}"
        where = f"{_number(report, judged)}{_rank(judged)}{where}"
        told.append(f"show {ledger}{where}: the records around the checkpoint")
    if report.decision.safe_checkpoint is not None and is_one:
        told.append(f"checkpoints {ledger}: what each is worth")
    return [("more", f"ledger-audit {one}") for one in told]


def _rank(judged: Resume) -> str:
    """Name one rank to look at as an option, where all of them would be too many."""
    if judged.coverage.lanes <= MOST_LANES or not judged.findings:
        return ""
    return f" --rank {judged.findings[0].ranks[0][0]}"


def _number(report: Report, judged: Resume) -> str:
    """Name a resume as an option, where it is not the newest, which is shown unasked."""
    place = next(at for at, one in enumerate(report.resumes, 1) if one is judged)
    is_newest = report.options.get("resume") is None and place == len(report.resumes)
    return "" if is_newest else f" --resume {number_of(report, place)}"


def _share(decision: Decision) -> str:
    share = decision.epoch_share
    if share is None:
        return "share of the epoch unknown: dataset_samples is not logged"
    is_tiny = share < 0.00001 and decision.skipped.records + decision.replayed.records > 0
    return "less than 0.001 % of an epoch" if is_tiny else f"{100 * share:.3g} % of an epoch"


def _without_tokens(amount: Amount) -> str:
    return told(Amount(amount.records, amount.samples, None))


def places(finding: Finding) -> str:
    """Name the ranks, slots and steps of a finding."""
    return ", ".join(
        [
            several("rank", finding.ranks),
            several("slot", finding.slots),
            several("step", ((finding.first_step, finding.last_step),)),
        ]
    )


def finding(one: Finding) -> str:
    """Tell a finding in one sentence."""
    return f"{told(one.amount)} {one.code}: {places(one)}."


def positions_of(positions: Positions) -> str:
    """Tell the second line of evidence."""
    expected = "" if positions.expected is None else f"expected next {positions.expected:,}, "
    first = "none" if positions.first is None else f"{positions.first:,}"
    holes = "unknown" if positions.holes is None else f"{positions.holes:,}"
    return (
        f"{expected}first {first}, repeated {positions.repeated:,}, holes {holes}, "
        f"drift {positions.drift:,}"
    )


def has_damage(resume: Resume) -> bool:
    """Tell whether anything was replayed or skipped."""
    return bool(
        resume.resumed[Resumed.REPLAYED].records or resume.expected[Expected.SKIPPED].records
    )


def of_source(damage: SourceDamage) -> str:
    """Tell what happened to one data set of a blend."""
    name = "without a source" if damage.source is None else quoted(damage.source)
    return (
        f"{name}: {damage.replayed:,} of {counted(damage.resumed, 'resumed record')} replayed, "
        f"{damage.skipped:,} skipped"
    )


def first_cause(report: Report) -> list[tuple[str, str]]:
    """Say why the stream did not continue, and what to do, as far as it is known."""
    judged = worst_of(report)
    causes = () if judged is None else judged.causes
    if not causes:
        return []
    one = causes[0]
    when = ", before the failure already" if one.is_older else ""
    also = f" (or {', '.join(each.code for each in one.alternatives)})" if one.alternatives else ""
    return [
        ("cause", f"{one.code}, {one.confidence}{when}{also}: {one.evidence}"),
        ("remedy", one.remedy),
    ]
