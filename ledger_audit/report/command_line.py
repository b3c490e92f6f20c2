"""The command that made a report, for whoever wants to see the same."""

import shlex
from collections.abc import Iterator

from ledger_audit.model import Reading, Report
from ledger_audit.printable import printable

_ORDERS = {"diff": "relative", "gate": "step"}
"""What each command asks for where nothing else is said."""
_STANDARD = Reading()


def command_of(report: Report) -> str:
    """
    Give the command with the options that change what it tells, in one line that a shell takes.

    Memory and formats do not change it; the salt of `--redact` is told by no report.
    """
    words = ["ledger-audit", report.command, *_inputs(report), *_options(report)]
    told = " ".join(printable(shlex.quote(word)) for word in words)
    is_redacted = report.options.get("redacted", False)
    return f"{told}  # with the salt in LEDGER_AUDIT_REDACT" if is_redacted else told


def _inputs(report: Report) -> Iterator[str]:
    inputs = report.inputs
    if "pre" in inputs:
        yield from (inputs["pre"], "--post", inputs["post"])
        yield from ("--checkpoint-step", str(inputs["checkpoint_step"]))
    else:
        for role in ("control", "run", "ledger"):
            yield from inputs.get(role, ())


def _options(report: Report) -> Iterator[str]:
    options = report.options
    if report.command == "diff" and "pre" not in report.inputs:
        for key in ("before", "after"):
            if options[key] != getattr(_STANDARD, key) and not options["full"]:
                yield from (f"--{key}", str(options[key]))
        if options["full"]:
            yield "--full"
    if report.command == "gate" and options["trusts_digests"]:
        yield "--trust-digests"
    for key, flag in (("resume", "--resume"), ("stream", "--stream"), ("awaited", "--wait")):
        if options[key] is not None:
            yield from (flag, str(options[key]))
    for ours, theirs in options["columns"].items():
        yield from ("--column", f"{ours}={theirs}")
    contract = report.contract
    if contract.get("file") is not None:
        yield from ("--contract", str(contract["file"]))
    if contract["order"] != _ORDERS[report.command]:
        yield from ("--order", contract["order"])
    for one in contract["allow"]:
        if one["limit"] is not None and not one["reason"]:  # a flag has none, a file must
            yield from ("--allow-unproven", one["limit"])
