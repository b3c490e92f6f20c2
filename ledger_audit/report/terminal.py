"""The report for eyes: verdict and range first, then what to do, then a picture, then why."""

from collections.abc import Iterable, Iterator, Mapping
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ledger_audit.model import (
    Amount,
    Clause,
    Finding,
    Limit,
    Report,
    Resume,
    Verdict,
)
from ledger_audit.printable import as_said, printable, quoted
from ledger_audit.report import phrases
from ledger_audit.report.beside import beside, columns_of_three, forbidden_block
from ledger_audit.report.marks import LETTERS, STYLES, VERDICTS
from ledger_audit.report.opening import opening
from ledger_audit.report.picture import set_picture
from ledger_audit.report.screen import Screen

WIDE = 110
"""From this width on, tables stand side by side."""
_LIKEWISE = "likewise"
"""Stands for the reason of the clause above."""


def to_terminal(report: Report, screen: Screen) -> str:
    """Give the report as lines for a screen, in colour if it has any."""
    blocks = [*_opening(report)]
    if report.stream is not None:
        blocks += ["", *_block(report.stream, phrases.WHOLE_STREAM, screen)]
    newest = len(report.resumes)
    for number, resume in reversed(list(enumerate(report.resumes, 1))):
        title = phrases.title_of(report, number)
        if resume.verdict == Verdict.CONTINUOUS and number < newest:
            blocks += ["", _title(resume, title), labelled([("reach", phrases.reach(resume))])]
        else:
            blocks += ["", *_block(resume, title, screen)]
    if report.forbidden is not None:
        told = [*forbidden_block(report.forbidden)]
        blocks += ["", *told] if told else []
    if outside := phrases.not_in_weights(report):
        blocks += ["", plain(outside)]
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
    return "\n".join(as_said(line.rstrip()) for line in captured.get().splitlines()) + "\n"


def plain(text: str, style: str = "") -> Text:
    """Give text that steers no terminal."""
    return Text(printable(text), style=style)


def _opening(report: Report) -> Iterator[RenderableType]:
    told = opening(report)
    style = "" if told.reach.startswith(":") else "bold"
    yield Text(told.verdict, style=VERDICTS[report.verdict]) + plain(told.reach, style)
    if told.sentence is not None:
        yield plain(told.sentence)
    yield ""
    yield labelled([*told.rows, *phrases.more_of(report)])


def labelled(rows: Iterable[tuple[str, str]]) -> RenderableType:
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
            sides=(phrases.side_of(resume), phrases.ours_of(resume)),
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


def _counts(resume: Resume, screen: Screen) -> RenderableType:
    """Set the amounts of every outcome that occurs, and of the three that everyone asks for."""
    groups: dict[str, dict[str, Amount | None]] = {
        phrases.ours_of(resume): {str(name): amount for name, amount in resume.resumed.items()},
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
    """
    Set every clause beside its verdict, in other words if there are any, and the reason.

    A reason that is that of the clause above, and longer than a few words, is not told again.
    """
    grid = columns_of_three()
    above = ""
    for clause in clauses:
        is_again = clause.because == above and len(above) > len(_LIKEWISE) + len("nothing found")
        grid.add_row(
            str(clause.clause),
            Text((words or {}).get(clause.verdict, clause.verdict), style=VERDICTS[clause.verdict]),
            plain(_LIKEWISE if is_again else clause.because),
        )
        above = clause.because
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
    rows = phrases.windows_of(resume)
    if resume.read_steps is not None:
        first, last = resume.read_steps
        rows.append(("read", f"only steps {first} to {last}; --full reads everything"))
    return labelled(rows)
