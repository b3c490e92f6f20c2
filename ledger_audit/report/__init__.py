"""The voice: one report in, one text out. What a reporter needs is loaded when it is asked."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ledger_audit.report.screen import PAPER, Screen

if TYPE_CHECKING:
    from ledger_audit.model import Report

Reporter = Callable[["Report", Screen], str]


def _to_terminal(report: "Report", screen: Screen) -> str:
    from ledger_audit.report import preflight, terminal

    if report.command == "preflight":
        return preflight.to_terminal(report, screen)
    return terminal.to_terminal(report, screen)


def _to_json(report: "Report", _: Screen) -> str:
    from ledger_audit.report.json_v1 import to_json

    return to_json(report)


def _to_markdown(report: "Report", _: Screen) -> str:
    from ledger_audit.report.markdown import to_markdown

    return to_markdown(report)


def _to_junit(report: "Report", _: Screen) -> str:
    from ledger_audit.report.junit import to_junit

    return to_junit(report)


def _to_github(report: "Report", _: Screen) -> str:
    from ledger_audit.report.github import to_github

    return to_github(report)


REPORTERS: Mapping[str, Reporter] = {
    "terminal": _to_terminal,
    "json": _to_json,
    "markdown": _to_markdown,
    "junit": _to_junit,
    "github": _to_github,
}
"""Every kind of report of `diff` and `gate`, by its name on the command line."""

EVERYWHERE = ("terminal", "json")
"""The kinds that every command with a report has."""

__all__ = ["EVERYWHERE", "PAPER", "REPORTERS", "Reporter", "Screen"]
