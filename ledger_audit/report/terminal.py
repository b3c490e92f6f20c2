"""The report for eyes: verdict and range first, then what to do, then a picture, then why."""

from collections.abc import Iterator, Mapping
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ledger_audit.model import (
    Amount,
    Clause,
    Decision,
    Finding,
    Limit,
    Report,
    Resume,
    Verdict,
)
from ledger_audit.printable import counted, printable, quoted
from ledger_audit.report import phrases
from ledger_audit.report.beside import beside, columns_of_three, forbidden_block
from ledger_audit.report.marks import LETTERS, STYLES, VERDICTS
from ledger_audit.report.picture import set_picture
from ledger_audit.report.screen import Screen

WIDE = 110
"""From this width on, tables stand side by side."""
_ACTIONS = {"keep-running": "", "go-back": "Go back. ", "find-evidence": ""}


def to_terminal(report: Report, screen: Screen) -> str:
    """Give the report as lines for a screen, in colour if it has any."""
    blocks = [*_head(report), *_decision(report.decision, report)]
    if report.stream is not None:
        blocks += ["", *_block(report.stream, "The whole stream against the control", screen)]
    newest = len(report.resumes)
    for number, resume in reversed(list(enumerate(report.resumes, 1))):
        title = (
            f"Resume {number} of {newest}: attempt {resume.to_attempt} from attempt "
            f"{resume.from_attempt} at checkpoint step {resume.checkpoint_step}"
        )
        if resume.verdict == Verdict.CONTINUOUS and number < newest:
            blocks += ["", _title(resume, title), labelled([("reach", phrases.reach(resume))])]
        else:
            blocks += ["", *_block(resume, title, screen)]
    if report.forbidden is not None:
        told = [*forbidden_block(report.forbidden)]
        blocks += ["", *told] if told else []
    outside = [one.attempt for one in report.lineage if not one.in_lineage]
    if outside:
        blocks += ["", plain(f"Not in the newest weights: attempt {', '.join(outside)}")]
    return render(blocks, screen)


def render(blocks: list[RenderableType], screen: Screen) -> str:
    """Set blocks on a screen; what is longer than a line is broken between words."""
    console = Console(
        file=StringIO(),
        width=screen.width,
        force_terminal=screen.has_colour,
        color_system="standard" if screen.has_colour else None,
        no_color=not screen.has_colour,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as captured:
        for block in blocks:
            console.print(block, overflow="fold", crop=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def plain(text: str, style: str = "") -> Text:
    """Give text that steers no terminal."""
    return Text(printable(text), style=style)


def _head(report: Report) -> Iterator[RenderableType]:
    judged = phrases.worst_of(report)
    word = Text(report.verdict.value.upper(), style=VERDICTS[report.verdict])
    if judged is None:
        broken = [one for one in report.clauses if one.verdict == report.verdict]
        if report.verdict == Verdict.BROKEN and broken:
            yield word + plain(f" in the clause {broken[-1].clause}", "bold")
            yield plain(f"{broken[-1].because}.")
            return
        yield word + plain(": nothing was resumed")
        return
    yield word + plain(f" {phrases.reach(judged)}", "bold")
    yield plain(phrases.sentence(judged))


def _decision(decision: Decision, report: Report) -> Iterator[RenderableType]:
    yield ""
    rows = [("decision", f"{_ACTIONS[decision.action]}{decision.text}")]
    judged = [*report.resumes, *([] if report.stream is None else [report.stream])]
    if judged:
        rows.append(("damage", phrases.damage_of(decision)))
    rows += phrases.first_cause(report)
    if decision.safe_checkpoint is not None:
        attempt, step = decision.safe_checkpoint
        rows.append(("safe", f"the checkpoint at step {step} of attempt {attempt}"))
        cursor = next((one for one in report.resumes if one.checkpoint_step == step), None)
        positions = None if cursor is None else cursor.positions
        if positions is not None and positions.expected is not None:
            rows.append(("cursor", f"position {positions.expected:,} comes next"))
    open_limits = {
        one.code: one
        for part in judged
        for one in part.limits
        if one.blocks and not one.is_waived and part.verdict == Verdict.UNPROVEN
    }
    rows += [("settle", f"{one.settled_by} [{one.code}]") for one in open_limits.values()]
    rows += _what_it_holds(report)
    if report.command == "diff" and _may_come(report):
        rows.append(("follow", "diff LEDGER --wait 8 waits for 8 whole resumed steps"))
    if report.contract.get("file") is not None:
        rows.append(("contract", str(report.contract["file"])))
    yield labelled(rows)


def _may_come(report: Report) -> bool:
    """Tell whether nothing was resumed yet, by a job that may still be at it."""
    if not report.resumes:
        return True
    newest = report.resumes[-1]
    ended = {one.attempt for one in report.lineage if one.has_end}
    return not newest.windows["resumed"] and newest.to_attempt not in ended


def labelled(rows: list[tuple[str, str]]) -> RenderableType:
    """Set texts beside their labels; a label that comes again is not repeated."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    previous = ""
    for label, text in rows:
        grid.add_row("" if label == previous else label, plain(text))
        previous = label
    return Padding(grid, (0, 0, 0, 2))


def _title(resume: Resume, title: str) -> Text:
    return plain(f"{title}: ", "bold") + Text(resume.verdict.value, style=VERDICTS[resume.verdict])


def _block(resume: Resume, title: str, screen: Screen) -> Iterator[RenderableType]:
    yield _title(resume, title)
    drawn = list(
        set_picture(
            resume.picture,
            resume.checkpoint_step,
            width=screen.width - 2,
            sides=(_side(resume.reference_kind), "resumed"),
        )
    )
    if drawn:
        yield ""
        yield Padding(Group(*drawn), (0, 0, 0, 2))
    yield ""
    yield Padding(_counts(resume, screen), (0, 0, 0, 2))
    if screen.width >= WIDE:
        yield ""
    yield Padding(clauses_table(resume.clauses), (0, 0, 0, 2))
    if resume.findings:
        yield ""
        yield Padding(_findings(resume.findings, screen), (0, 0, 0, 2))
    if resume.by_source and phrases.has_damage(resume):
        yield ""
        yield labelled([("by source", phrases.of_source(one)) for one in resume.by_source])
    for part in beside(resume):
        yield ""
        yield Padding(part, (0, 0, 0, 2))
    if resume.limits:
        yield ""
        judged = frozenset(clause.clause for clause in resume.clauses)
        yield Padding(limits_table(resume.limits, judged), (0, 0, 0, 2))
    yield ""
    yield _small_print(resume)


def _side(reference_kind: str) -> str:
    return "rolled back" if reference_kind == "rolled-back" else reference_kind


def _counts(resume: Resume, screen: Screen) -> RenderableType:
    """Set the amounts of every outcome that occurs, and of the three that everyone asks for."""
    groups: dict[str, dict[str, Amount | None]] = {
        "resumed": {str(name): amount for name, amount in resume.resumed.items()},
        "expected": {str(name): amount for name, amount in resume.expected.items()},
        "overlays": {str(name): amount for name, amount in resume.overlays.items()},
    }
    has_tokens = any(
        amount is not None and amount.tokens is not None
        for group in groups.values()
        for amount in group.values()
    )
    tables = [_amounts(name, group, has_tokens=has_tokens) for name, group in groups.items()]
    if screen.width < WIDE:
        return Group(*(part for table in tables for part in (table, "")))
    side_by_side = Table.grid(padding=(0, 4))
    side_by_side.add_row(*tables)
    return side_by_side


def _amounts(
    title: str, amounts: Mapping[str, Amount | None], *, has_tokens: bool
) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(title, min_width=20, no_wrap=True)
    for name in ("records", "samples", "tokens")[: 3 if has_tokens else 2]:
        table.add_column(name, justify="right", min_width=9, no_wrap=True)
    for name, amount in amounts.items():
        if name not in phrases.HEADLINE and (amount is None or not amount.records):
            continue
        style = STYLES[name] if amount is not None and amount.records else "dim"
        numbers = [None] * 3 if amount is None else [amount.records, amount.samples, amount.tokens]
        cells = ["-" if one is None else f"{one:,}" for one in numbers]
        table.add_row(f"{LETTERS[name]} {name}", *cells[: 3 if has_tokens else 2], style=style)
    return table


def clauses_table(
    clauses: tuple[Clause, ...], words: Mapping[Verdict, str] | None = None
) -> RenderableType:
    """Set every clause beside its verdict, in other words if there are any, and the reason."""
    grid = columns_of_three()
    for clause in clauses:
        grid.add_row(
            str(clause.clause),
            Text((words or {}).get(clause.verdict, clause.verdict), style=VERDICTS[clause.verdict]),
            plain(clause.because),
        )
    return grid


def _findings(findings: tuple[Finding, ...], screen: Screen) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    if screen.width >= WIDE:
        grid.add_column(overflow="fold")
    for one in findings:
        name = Text(f"{LETTERS[one.code]} {one.code}", style=STYLES[one.code])
        where = Text(f"{phrases.told(one.amount)}; {phrases.places(one)}")
        examples = Text("e.g. " + ", ".join(quoted(each) for each in one.examples), style="dim")
        if screen.width >= WIDE:
            grid.add_row(name, where, examples)
        else:
            grid.add_row(name, where)
            grid.add_row("", examples)
    return grid


def limits_table(limits: tuple[Limit, ...], judged: frozenset[str]) -> RenderableType:
    """Set what cannot be known beside what it blocks, of the clauses that are judged."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for one in limits:
        word, style = ("limit", "bold yellow") if one.blocks else ("note", "")
        if one.is_waived:
            word, style = "allowed", "dim"
        blocked = ", ".join(name for name in one.blocks if name in judged)
        then = f"; blocks {blocked}" if blocked and not one.is_waived else ""
        then = f"; {one.reason}" if one.is_waived and one.reason is not None else then
        grid.add_row(Text(word, style=style), plain(f"{one.text} [{one.code}]{then}"))
        grid.add_row("", plain(f"settled by {one.settled_by}", "dim"))
    return grid


def _small_print(resume: Resume) -> RenderableType:
    windows = resume.windows
    reference = resume.reference_kind
    if resume.reference_through is not None:
        reference += f", whole through step {resume.reference_through}"
    rows = [
        (
            "records",
            f"committed {windows['committed']:,}, reference {windows['reference']:,} "
            f"({reference}), resumed {windows['resumed']:,}",
        ),
        ("identity", ", ".join(resume.identity)),
    ]
    if resume.first_divergence is not None:
        rows.append(("differs", f"from the control first in step {resume.first_divergence}"))
    if resume.positions is not None:
        rows.append(("positions", phrases.positions_of(resume.positions)))
    if resume.read_steps is not None:
        first, last = resume.read_steps
        rows.append(("read", f"only steps {first} to {last}; --full reads everything"))
    return labelled(rows)


def _what_it_holds(report: Report) -> Iterator[tuple[str, str]]:
    """Say what a ledger without a resume holds, and what can be done with it."""
    if report.resumes or report.stream is not None:
        return
    if not report.lineage:
        yield "holds", "no attempt and no record"
    for one in report.lineage:
        world = "" if one.world_size is None else f", {counted(one.world_size, 'rank')}"
        held = "no record"
        if one.first_step is not None:
            held = f"steps {one.first_step} to {one.last_step}"
        yield "holds", f"attempt {one.attempt}: {held}{world}"
    yield "compare", "gate CONTROL RUN judges a run that was never resumed"
