"""The voice: one report in, one text out."""

from collections.abc import Callable, Mapping

from ledger_audit.model import Report
from ledger_audit.report.json_v1 import to_json
from ledger_audit.report.screen import PAPER, Screen


def _to_json(report: Report, screen: Screen) -> str:  # noqa: ARG001  # a program needs no screen
    return to_json(report)


def _to_terminal(report: Report, screen: Screen) -> str:
    from ledger_audit.report import preflight, terminal  # noqa: PLC0415  # loads rich

    if report.command == "preflight":
        return preflight.to_terminal(report, screen)
    return terminal.to_terminal(report, screen)


REPORTERS: Mapping[str, Callable[[Report, Screen], str]] = {
    "terminal": _to_terminal,
    "json": _to_json,
}
"""Every kind of report, by its name on the command line."""

__all__ = ["PAPER", "REPORTERS", "Screen"]
