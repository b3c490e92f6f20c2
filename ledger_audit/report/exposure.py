"""The report of `verify` for eyes: the verdict, each pass, what was amiss, and what was lost."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ledger_audit.model import Verdict
from ledger_audit.model.exposure import Exposure, Generation, Repeats
from ledger_audit.printable import counted, printable, quoted, several
from ledger_audit.report.marks import VERDICTS
from ledger_audit.report.screen import Screen
from ledger_audit.report.terminal import clauses_table, labelled, limits_table, plain, render

MOST_SHOWN = 40
MOST_RUNS = 8
"""Rows of a table, and runs of repeats, that a screen shows; the JSON report has all."""

_KINDS = {
    "repeated": "bold red",
    "unexplained": "bold yellow",
    "padding": "dim",
    "declared": "dim",
}


def to_terminal(report: Exposure, screen: Screen) -> str:
    """Give the report as lines for a screen, in colour if it has any."""
    return render([*_blocks(report)], screen)


def _blocks(report: Exposure) -> Iterator[RenderableType]:
    yield from _head(report)
    yield ""
    yield Padding(_passes(report.generations), (0, 0, 0, 2))
    if found := [each for one in report.generations for each in one.repeats]:
        yield ""
        yield Padding(_repeats(found), (0, 0, 0, 2))
    if rows := [*names(report)]:
        yield ""
        yield labelled(rows)
    if report.survival:
        yield ""
        yield Padding(_survival(report), (0, 0, 0, 2))
    if rows := [*lost(report)]:
        yield ""
        yield labelled(rows)
    yield ""
    yield Padding(clauses_table(report.clauses), (0, 0, 0, 2))
    if report.limits:
        judged = frozenset(str(one.clause) for one in report.clauses)
        yield ""
        yield Padding(limits_table(report.limits, judged), (0, 0, 0, 2))


def _head(report: Exposure) -> Iterator[RenderableType]:
    """Say in one line what was found, and in one sentence what it means."""
    word = Text(report.verdict.value.upper(), style=VERDICTS[report.verdict])
    worst = next(one for one in report.clauses if one.verdict == report.verdict)
    records = sum(one.records for one in report.generations)
    yield word + plain(
        f" over {counted(records, 'record')} of {_passed(report)} in the newest weights", "bold"
    )
    yield plain(f"{worst.because[:1].upper()}{worst.because[1:]}.")
    if any(one.by_digest for one in report.generations):
        yield plain("The digests of its commits say so; no record was read.")
    if report.verdict == Verdict.UNPROVEN:
        settled = {one.settled_by: one.code for one in report.limits if one.blocks}
        yield ""
        yield labelled([("settle", f"{text} [{code}]") for text, code in settled.items()])
    if report.verdict == Verdict.BROKEN and len(report.survival) > 1:
        yield ""
        yield labelled([("more", "ledger-audit diff LEDGER: at which resume, and why")])


def _passed(report: Exposure) -> str:
    count = len([one for one in report.generations if one.records])
    return "1 pass" if count == 1 else f"{count:,} passes"


def _passes(generations: Sequence[Generation]) -> RenderableType:
    table = _table()
    has_sources = any(one.source is not None for one in generations)
    if has_sources:
        table.add_column("source", overflow="fold", max_width=24)
    for name in ("epoch", "steps", "records", "samples", "of", "again", "lacks"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("over", no_wrap=True)
    for one in generations[:MOST_SHOWN]:
        again = sum(each.records for each in one.repeats)
        faults = one.repeated + one.skipped + (one.unlisted or 0)
        table.add_row(
            *([plain("-" if one.source is None else one.source)] if has_sources else []),
            "-" if one.epoch is None else str(one.epoch),
            _steps(one.first_step, one.last_step) if one.records else "none",
            f"{one.records:,}",
            f"{one.samples:,}",
            "?" if one.size is None else f"{one.size:,}",
            f"{again:,}",
            "?" if one.missing is None else f"{one.missing:,}",
            "yes" if one.is_over else "no",
            style="bold red" if faults else "",
        )
    _cut(table, len(generations), 8 + has_sources)
    return table


def _repeats(found: Sequence[Repeats]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    order = {"repeated": 0, "unexplained": 1}
    shown = sorted(found, key=lambda one: order.get(one.kind, 2))
    for one in shown[:MOST_RUNS]:
        tokens = "" if one.tokens is None else f", {counted(one.tokens, 'token')}"
        first, last = one.earlier
        where = (
            f"{counted(one.records, 'record')}{tokens} in {_step(one.first_step, one.last_step)} "
            f"of attempt {one.attempt}, {several('rank', one.ranks)}; used before in "
            f"{_step(first, last)}"
        )
        table.add_row(Text(one.kind, style=_KINDS[one.kind]), plain(where))
        examples = "e.g. " + ", ".join(quoted(each) for each in one.examples)
        table.add_row("", Text(examples, style="dim"))
    if len(found) > MOST_RUNS:
        table.add_row("", f"and {counted(len(found) - MOST_RUNS, 'more run')} of steps")
    return table


def names(report: Exposure) -> Iterator[tuple[str, str]]:
    """Name what never came, and what should not have."""
    for one in report.generations:
        epoch = "" if one.epoch is None else f" of epoch {one.epoch}"
        if one.skipped and one.missing_examples:
            told = ", ".join(quoted(each) for each in one.missing_examples)
            yield "never came", f"{counted(one.skipped, 'use')}{epoch}, e.g. {told}"
        if one.unlisted:
            told = ", ".join(quoted(each) for each in one.unlisted_examples)
            yield "not listed", f"{counted(one.unlisted, 'sample')}{epoch}, e.g. {told}"
    holes = report.holes
    if holes is not None and holes.count:
        yield "holes", f"{counted(holes.count, 'place')}: {several('place', holes.ranges)}"


def _survival(report: Exposure) -> RenderableType:
    table = _table()
    table.add_column("attempt", overflow="fold", max_width=24)
    for name in ("made steps", "records", "tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("changed no weights", overflow="fold")
    for one in report.survival[:MOST_SHOWN]:
        wasted = [each for each in report.unused if each.attempt == one.attempt]
        table.add_row(
            plain(one.attempt),
            "none left" if one.steps is None else _steps(*one.steps),
            f"{one.records:,}",
            "-" if one.tokens is None else f"{one.tokens:,}",
            "; ".join(
                f"{counted(sum(each.records for each in wasted if each.fate == fate), 'record')} "
                f"{fate}"
                for fate in dict.fromkeys(each.fate for each in wasted)
            )
            or "-",
        )
    _cut(table, len(report.survival), 5)
    return table


def lost(report: Exposure) -> Iterator[tuple[str, str]]:
    """Say what each failure took back, which samples never came again, and shares that moved."""
    for one in [each for each in report.losses if each.steps][-MOST_SHOWN:]:
        tokens = "" if one.tokens is None else f", {counted(one.tokens, 'token')}"
        spent = "" if one.seconds is None else f", {one.seconds:,.0f} s"
        yield (
            "lost",
            f"attempt {one.from_attempt} after step {one.checkpoint_step:,}: "
            f"{counted(one.steps, 'step')}, {counted(one.samples, 'sample')}{tokens}{spent}; "
            f"{one.used_again:,} of the samples were used again",
        )
    never = sum(one.never for one in report.unused)
    if never:
        yield "never used", f"{counted(never, 'sample')} of these in no update that is left"
    yield from _moved(report)


def _moved(report: Exposure) -> Iterator[tuple[str, str]]:
    """Give the share of each source, attempt by attempt, where there are several."""
    sources = dict.fromkeys(one.source for one in report.shares)
    attempts = list(dict.fromkeys(one.attempt for one in report.shares))
    if len(sources) < 2:
        return
    for source in sources:
        shares = {
            attempt: sum(
                one.share for one in report.shares if (one.attempt, one.source) == (attempt, source)
            )
            for attempt in attempts[-8:]
        }
        told = ", ".join(f"{share:.2%} in {printable(name)}" for name, share in shares.items())
        yield "share", f"{'-' if source is None else quoted(source)}: {told}"


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")


def _cut(table: Table, rows: int, columns: int) -> None:
    if rows > MOST_SHOWN:
        table.add_row(f"and {rows - MOST_SHOWN:,} more", *[""] * (columns - 1))


def _steps(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,}-{last:,}"


def _step(first: int, last: int) -> str:
    return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"
