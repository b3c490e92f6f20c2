"""
Proves, from logs, whether a resumed training job continues the data stream that it should.

The path of the data: `ledger` reads what the ranks wrote, `continuity` cuts the windows around a
checkpoint, pairs their records and names what happened to each, `report` tells it; `audit` is the
path written once.
"""

__version__ = "0.1.0"
__all__ = ["__version__"]
