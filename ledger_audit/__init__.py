"""
Proves, from logs, whether a resumed training job continues the data stream that it should.

The path of the data: a trainer emits through `LedgerWriter`, `ledger` keeps and reads what the
ranks wrote, `continuity` cuts the windows around a checkpoint, pairs their records and names what
happened to each, `report` tells it; `audit` is the path written once.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger_audit.ledger.writer import LedgerWriter as LedgerWriter

__version__ = "0.1.0"
__all__ = ["LedgerWriter", "__version__"]


def __getattr__(name: str) -> Any:
    """Load the writer when a trainer asks for it: the command line needs none."""
    if name == "LedgerWriter":
        from ledger_audit.ledger.writer import LedgerWriter  # noqa: PLC0415

        return LedgerWriter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
