"""The voice: one report in, one text out."""

from collections.abc import Callable, Mapping

from ledger_audit.model import Report
from ledger_audit.report.json_v1 import to_json
from ledger_audit.report.terminal import to_terminal

REPORTERS: Mapping[str, Callable[[Report], str]] = {"terminal": to_terminal, "json": to_json}
"""Every kind of report, by its name on the command line."""
