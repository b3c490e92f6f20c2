"""The report of `selftest`: which faults a ledger would show, for eyes and for programs."""

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ledger_audit.model import Verdict
from ledger_audit.model.selftest import Selftest, Shown, Trial, Untouched
from ledger_audit.printable import counted, printable
from ledger_audit.report.json_text import head, text_of
from ledger_audit.report.json_v1 import cause_of
from ledger_audit.report.marks import VERDICTS
from ledger_audit.report.screen import Screen
from ledger_audit.report.terminal import labelled, plain, render

SCHEMA = "ledger-audit/selftest/1"

_WORDS = {
    Verdict.CONTINUOUS: "PASSED",
    Verdict.BROKEN: "FAILED",
    Verdict.UNPROVEN: "UNPROVEN",
}
_SHOWN = {
    Shown.FIRST: ("named", ""),
    Shown.BESIDE: ("named beside", "yellow"),
    Shown.OTHER: ("found, named otherwise", "bold red"),
    Shown.MISSED: ("missed", "bold red"),
    Shown.UNPROVEN: ("not proven", "yellow"),
    Shown.NOT_PLANTED: ("not planted", "dim"),
}


def to_terminal(report: Selftest, screen: Screen) -> str:
    """Give the report as lines for a screen, in colour if it has any."""
    return render([*_blocks(report)], screen)


def _blocks(report: Selftest) -> Iterator[RenderableType]:
    yield Text(_WORDS[report.verdict], style=VERDICTS[report.verdict]) + plain(
        f": {_headline(report)}", "bold"
    )
    copy = f"{counted(report.steps, 'step')}, {counted(report.records, 'record')}"
    rows = [
        ("copy", f"{copy}, of attempt {report.attempt}; in memory: the ledger is only read"),
        ("untouched", _untouched(report)),
    ]
    yield labelled(rows)
    yield ""
    yield Padding(_table(report), (0, 0, 0, 2))


def _headline(report: Selftest) -> str:
    planted = [one for one in report.trials if one.shown != Shown.NOT_PLANTED]
    named = [one for one in planted if one.shown in (Shown.FIRST, Shown.BESIDE)]
    left = len(report.trials) - len(planted)
    untouched = report.untouched.verdict
    told = [] if untouched == Verdict.CONTINUOUS else [f"the untouched copy is {untouched}"]
    if not planted:
        return "; ".join([*told, "no fault could be planted"])
    told.append(f"{len(named)} of {counted(len(planted), 'planted fault')} found and named")
    return "; ".join(told + ([f"{left} not planted"] if left else []))


def _untouched(report: Selftest) -> str:
    untouched = report.untouched
    told = [str(untouched.verdict), *untouched.because]
    return "; ".join(told + [f"lacks {one}" for one in untouched.lacks])


def _table(report: Selftest) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("fault", no_wrap=True)
    table.add_column("result", max_width=12)  # the longest word takes two lines, not the room
    table.add_column("how sure, or what is lacking", overflow="fold")
    for one in report.trials:
        word, style = _SHOWN[one.shown]
        table.add_row(one.fault, Text(word, style=style), printable(_told(one, report.untouched)))
    return table


def _told(one: Trial, untouched: Untouched) -> str:
    if one.lacks:
        own = [lack for lack in one.lacks if lack not in untouched.lacks]
        shared = ["what the untouched copy lacks"] if len(own) < len(one.lacks) else []
        return f"lacks {'; '.join([*shared, *own])}"
    if one.shown == Shown.FIRST:
        return next(cause.confidence for cause in one.causes if cause.code == one.fault)
    return f"first is {one.causes[0].code}" if one.causes else "no cause"


def to_json(report: Selftest) -> str:
    """Give the report as JSON text in ASCII, so that no id steers whoever prints it."""
    told: dict[str, Any] = {
        **head(SCHEMA, "selftest", report.inputs, report.options),
        "verdict": report.verdict,
        "copy": {
            "attempt": report.attempt,
            "steps": report.steps,
            "records": report.records,
        },
        "untouched": {
            "verdict": report.untouched.verdict,
            "because": list(report.untouched.because),
            "causes": [cause_of(one) for one in report.untouched.causes],
            "lacks": list(report.untouched.lacks),
        },
        "trials": [
            {
                "fault": one.fault,
                "shown": one.shown,
                "verdict": one.verdict,
                "causes": [cause_of(cause) for cause in one.causes],
                "lacks": list(one.lacks),
            }
            for one in report.trials
        ],
    }
    return text_of(told)
