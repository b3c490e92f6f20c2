"""The report for eyes, in plain text: verdict and range first, then what to do, then why."""

from ledger_audit.model import (
    Amount,
    Expected,
    Overlay,
    Positions,
    Report,
    Resume,
    Resumed,
    Verdict,
)
from ledger_audit.printable import counted, printable


def to_terminal(report: Report) -> str:
    """Give the report as lines without colour."""
    lines = [_headline(report), ""]
    lines.append(report.decision.text)
    if not report.resumes and report.stream is None:
        lines += _what_it_holds(report)
    if report.stream is not None:
        lines += ["", *_block(report.stream, "The whole stream against the control")]
    for number, resume in reversed(list(enumerate(report.resumes, 1))):
        title = (
            f"Resume {number}: attempt {resume.to_attempt} from attempt {resume.from_attempt} "
            f"at checkpoint step {resume.checkpoint_step}"
        )
        lines += ["", *_block(resume, title)]
    outside = [one.attempt for one in report.lineage if not one.in_lineage]
    if outside:
        lines += ["", f"Not in the newest weights: attempt {', '.join(outside)}"]
    return "\n".join(printable(line) for line in lines) + "\n"


def _headline(report: Report) -> str:
    word = report.verdict.value.upper()
    judged = [*report.resumes] or ([] if report.stream is None else [report.stream])
    if not judged:
        return f"{word}: nothing was resumed"
    worst = next((one for one in reversed(judged) if one.verdict == report.verdict), judged[-1])
    if worst.verdict != report.verdict and report.stream is not None:
        worst = report.stream
    return f"{word}: {_sentence(worst)}"


def _sentence(resume: Resume) -> str:
    """Tell one resume in one sentence."""
    if resume.verdict == Verdict.CONTINUOUS:
        lanes = f"{resume.coverage.lanes_proven} of {resume.coverage.lanes} lanes"
        if resume.through_step is None:
            return "nothing is wrong in the steps that were compared"
        steps = resume.through_step - resume.checkpoint_step
        reach = f"{counted(steps, 'step')} after {_mark(resume)}"
        return f"through step {resume.through_step} ({reach}), {lanes}"
    if resume.verdict == Verdict.BROKEN:
        return f"after {_mark(resume)}, {_damage(resume)}"
    blocking = [limit.text for limit in resume.limits if limit.blocks]
    return blocking[0] if blocking else "there is not enough evidence"


def _mark(resume: Resume) -> str:
    return "the start" if resume.from_attempt is None else f"step {resume.checkpoint_step}"


def _damage(resume: Resume) -> str:
    """Tell the three counts that everyone asks for, then whatever else is broken."""
    at_least = "at least " if resume.shift.is_lower_bound else ""
    parts = [
        f"{at_least}{_told(resume.expected[Expected.SKIPPED])} skipped",
        f"{_told(resume.resumed[Resumed.REPLAYED])} replayed",
    ]
    disordered = resume.overlays[Overlay.OUT_OF_ORDER]
    if disordered is not None:
        parts.append(f"{_told(disordered)} out of order")
    for outcome in (Resumed.DUPLICATED, Resumed.UNEXPECTED):
        if resume.resumed[outcome].records:
            parts.append(f"{_told(resume.resumed[outcome])} {outcome}")
    told_above = ("skipped", "replayed", "out of order", "duplicated", "not in the reference")
    for clause in resume.clauses:
        if clause.verdict == Verdict.BROKEN:
            reasons = clause.because.split("; ")
            parts += [reason for reason in reasons if not reason.endswith(told_above)]
    told = ", ".join(parts)
    if resume.shift.records is not None:
        told += f"; shift {at_least}{resume.shift.records:+,}"
    return told


def _told(amount: Amount) -> str:
    """Tell an amount in samples where a record is a whole sample, else in records and tokens."""
    if amount.samples is None or amount.samples == amount.records:
        return counted(amount.records, "sample")
    told = f"{counted(amount.records, 'record')} of {counted(amount.samples, 'sample')}"
    return told if amount.tokens is None else f"{told} ({counted(amount.tokens, 'token')})"


def _block(resume: Resume, title: str) -> list[str]:
    lines = [f"{title}: {resume.verdict.value}"]
    windows = resume.windows
    reference = resume.reference_kind
    if resume.reference_through is not None:
        reference += f", whole through step {resume.reference_through}"
    lines.append(
        f"  records   committed {windows['committed']:,} | reference {windows['reference']:,} "
        f"({reference}) | resumed {windows['resumed']:,}"
    )
    lines.append(f"  resumed   {_nonzero({str(k): v for k, v in resume.resumed.items()})}")
    lines.append(f"  expected  {_nonzero({str(k): v for k, v in resume.expected.items()})}")
    lines.append(f"  overlays  {_nonzero({str(k): v for k, v in resume.overlays.items()})}")
    lines.append(f"  identity  {', '.join(resume.identity)}")
    if resume.first_divergence is not None:
        lines.append(f"  differs   from the control first in step {resume.first_divergence}")
    if resume.positions is not None:
        lines.append(f"  positions {_positions(resume.positions)}")
    if resume.read_steps is not None:
        first, last = resume.read_steps
        lines.append(f"  read      only steps {first} to {last}; --full reads everything")
    for clause in resume.clauses:
        lines.append(f"  {clause.clause:<11} {clause.verdict.value}: {clause.because}")
    for finding in resume.findings:
        steps = (
            f"step {finding.first_step}"
            if finding.first_step == finding.last_step
            else f"steps {finding.first_step}-{finding.last_step}"
        )
        lines.append(
            f"  - {finding.code}: {_told(finding.amount)}, {steps}, "
            f"ranks {_ranges(finding.ranks)}, slots {_ranges(finding.slots)}; "
            f"for instance {', '.join(finding.examples)}"
        )
    for limit in resume.limits:
        word = "allowed" if limit.is_waived else "limit" if limit.blocks else "note"
        lines.append(f"  {word}: {limit.text} [{limit.code}]; settled by {limit.settled_by}")
    return lines


def _nonzero(amounts: "dict[str, Amount | None]") -> str:
    shown = [f"{name} {one.records:,}" for name, one in amounts.items() if one and one.records]
    return ", ".join(shown) or "none"


def _positions(positions: Positions) -> str:
    expected = "" if positions.expected is None else f"expected next {positions.expected}, "
    holes = "unknown" if positions.holes is None else str(positions.holes)
    return (
        f"{expected}first {positions.first}, repeated {positions.repeated}, holes {holes}, "
        f"drift {positions.drift}"
    )


def _ranges(ranges: tuple[tuple[int, int], ...]) -> str:
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _what_it_holds(report: Report) -> list[str]:
    lines = []
    for one in report.lineage:
        world = "" if one.world_size is None else f", {counted(one.world_size, 'rank')}"
        lines.append(
            f"  attempt {one.attempt}: steps {one.first_step} to {one.last_step}{world}"
            if one.first_step is not None
            else f"  attempt {one.attempt}: no record{world}"
        )
    return [*lines, "  To judge a run that was never resumed, use gate with a control run."]
