"""The letter and the colour of every outcome: capitals for damage, `?` and `u` for doubt."""

from collections.abc import Mapping

from ledger_audit.model import COMMITTED, Expected, Overlay, Resumed, Verdict

LETTERS: Mapping[str, str] = {
    Resumed.REPLAYED: "R",
    Resumed.DUPLICATED: "D",
    Resumed.REPEAT_UNEXPLAINED: "?",
    Resumed.UNEXPECTED: "X",
    Overlay.OUT_OF_ORDER: "O",
    Resumed.VOID: "v",
    Resumed.MOVED: "m",
    Resumed.PADDING: "p",
    Resumed.IN_PLACE: "=",
    Resumed.FRESH: "+",
    Expected.SKIPPED: "S",
    Expected.UNDECIDED: "u",
    Expected.DECLARED: "d",
    Expected.REPEAT_MISSING: "M",
    Expected.PENDING: "w",
    Expected.MATCHED: "=",
    Overlay.MISPLACED: "l",
    Overlay.FORBIDDEN: "F",
    COMMITTED: ".",
}
"""
Outcome → its letter, the worst first. `=` is a record of either side that met its partner.
"""

STYLES: Mapping[str, str] = {
    Resumed.REPLAYED: "bold red",
    Resumed.DUPLICATED: "bold magenta",
    Resumed.UNEXPECTED: "bold yellow",
    Overlay.OUT_OF_ORDER: "bold blue",
    Resumed.REPEAT_UNEXPLAINED: "cyan",
    Resumed.VOID: "dim",
    Resumed.MOVED: "blue",
    Resumed.PADDING: "dim",
    Resumed.IN_PLACE: "green",
    Resumed.FRESH: "",
    Expected.SKIPPED: "bold red",
    Expected.REPEAT_MISSING: "bold yellow",
    Expected.UNDECIDED: "cyan",
    Expected.DECLARED: "dim",
    Expected.PENDING: "",
    Expected.MATCHED: "dim",
    Overlay.MISPLACED: "",
    Overlay.FORBIDDEN: "bold red",
    COMMITTED: "dim",
}
"""Outcome → its colour on a terminal; none says anything that its letter does not."""

VERDICTS: Mapping[Verdict, str] = {
    Verdict.CONTINUOUS: "bold green",
    Verdict.BROKEN: "bold red",
    Verdict.UNPROVEN: "bold yellow",
}
