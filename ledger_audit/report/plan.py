"""The reports of `plan` for eyes: where it begins, what is left, who uses it, what is not kept."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ledger_audit.model.plan import Check, Deal, Plan
from ledger_audit.printable import counted, printable, quoted
from ledger_audit.report.screen import Screen
from ledger_audit.report.terminal import labelled, plain, render

MOST_SHOWN = 40

_STYLES = {"continuous": "bold green", "broken": "bold red", "unproven": "bold yellow"}


def to_terminal(report: Plan, screen: Screen) -> str:
    """Give the report as lines for a screen, in colour if it has any."""
    return render([*_blocks(report)], screen)


def checked_to_terminal(report: Check, screen: Screen) -> str:
    """Give what a check found, likewise."""
    word = Text(report.verdict.upper(), style=_STYLES[report.verdict])
    rows = [
        (name, f"{counted(amounts.records, 'record')}, digest {amounts.digest}")
        for name, amounts in (
            ("consumed", report.consumed),
            ("planned", report.planned),
            ("stream", report.expected),
        )
    ]
    if report.missing_examples:
        rows.append(("missing", ", ".join(quoted(one) for one in report.missing_examples)))
    because = [plain(f"{one[:1].upper()}{one[1:]}.") for one in report.because]
    return render([word, *because, "", labelled(rows)], screen)


def _blocks(report: Plan) -> Iterator[RenderableType]:
    deal, cursor = report.deal, report.cursor
    word = Text("LIMITED", style="bold yellow") if report.limits else Text("PLANNED", "bold green")
    yield word + plain(
        f" {counted(deal.records, 'record')} after step {cursor.checkpoint_step:,} for "
        f"{counted(deal.world_size, 'rank')}",
        "bold",
    )
    for one in report.limits:
        yield plain(f"{one.text[:1].upper()}{one.text[1:]}. [{one.code}]")
    if not deal.records:
        yield plain("Nothing of the reference is left.")
    yield ""
    yield labelled([*_cursor(report)])
    yield ""
    yield Padding(_passes(report), (0, 0, 0, 2))
    yield ""
    follows = "ledger-audit gate PLAN RUN: whether the job follows it"
    yield labelled([*_deal(report), *([("then", follows)] if deal.records else [])])
    if report.notes:
        yield ""
        yield labelled([("note", one) for one in report.notes])


def _cursor(report: Plan) -> Iterator[tuple[str, str]]:
    """Say what was consumed, and what was on its way."""
    cursor = report.cursor
    consumed, flight = cursor.consumed, cursor.in_flight
    tokens = "" if consumed.tokens is None else f", {counted(consumed.tokens, 'token')}"
    yield (
        "cursor",
        f"step {cursor.checkpoint_step:,} of attempt {printable(cursor.attempt)}: "
        f"{counted(consumed.records, 'record')}{tokens} consumed, digest {consumed.digest}",
    )
    if cursor.before_reference:
        told = counted(cursor.before_reference, "record")
        yield "before", f"{told} of these in steps before the reference begins"
    if cursor.unmatched_examples:
        told = ", ".join(quoted(one) for one in cursor.unmatched_examples)
        yield "unexpected", f"e.g. {told}"
    if cursor.halved:
        told = counted(cursor.halved, "record")
        yield "halved", f"{told} consumed in part: they go on where that stopped"
    if flight.steps:
        yield (
            "rolled back",
            f"{counted(flight.steps, 'step')}, {flight.committed_steps:,} of them committed: "
            f"{counted(flight.records, 'record')} to be used anew",
        )
    if flight.stages:
        told = ", ".join(f"{number:,} {printable(stage)}" for stage, number in flight.stages)
        yield "in flight", f"{told}, and not used, at the checkpoint"


def _passes(report: Plan) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    has_sources = any(one.source is not None for one in report.passes)
    if has_sources:
        table.add_column("source", overflow="fold", max_width=24)
    for name in ("epoch", "consumed", "holes", "expected", "planned", "forbidden"):
        table.add_column(name, justify="right", overflow="fold")
    for one in report.passes[:MOST_SHOWN]:
        table.add_row(
            *([plain("-" if one.source is None else one.source)] if has_sources else []),
            "-" if one.epoch is None else str(one.epoch),
            f"{one.consumed:,}",
            f"{one.holes:,}",
            f"{one.expected:,}",
            f"{one.planned:,}",
            f"{one.forbidden:,}",
        )
    if len(report.passes) > MOST_SHOWN:
        more = f"and {len(report.passes) - MOST_SHOWN:,} more"
        table.add_row(more, *[""] * (5 + has_sources))
    return table


def _deal(report: Plan) -> Iterator[tuple[str, str]]:
    """Say who uses what, and what cannot be kept."""
    deal, replay = report.deal, report.replay
    if deal.records:
        yield (
            "steps",
            f"{deal.first_step:,} to {deal.last_step:,}: {counted(deal.world_size, 'rank')} x "
            f"{counted(deal.micro_batch, 'row')} x {counted(deal.accumulation, 'slot')}, digest "
            f"{deal.digest}",
        )
        yield "batches", _batches(deal)
    for step, sequences, few in deal.ragged[:1]:
        more = f" (and {deal.n_ragged - 1:,} more)" if deal.n_ragged > 1 else ""
        uneven = f", {counted(few, 'rank')} one fewer than others" if few else ""
        yield "ragged", f"step {step:,} has {counted(sequences, 'sequence')}{uneven}{more}"
    if replay.records:
        yield (
            "replay",
            f"{counted(replay.records, 'record')} used again, {replay.allowed:,} allowed",
        )
    elif replay.needed:
        told = counted(replay.needed, "record")
        yield "replay", f"none; whole batches would need {told} (--replay-window {replay.needed})"
    if report.forbidden.records:
        told = counted(report.forbidden.records, "record")
        yield "forbidden", f"{told} of the rest left out, as the contract says"


def _batches(deal: Deal) -> str:
    if deal.differs_from is None:
        return "each step holds the samples of one step of the reference"
    return f"from step {deal.differs_from:,} on not those of the reference: {deal.differs_because}"
