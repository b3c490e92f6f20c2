"""
Reads the windows of a resume with Polars and nothing else: what a good engineer would write.

One scan for each window, only the columns that the audit needs, the steps as a filter that
Polars holds against the statistics of the row groups; all windows in one go.
"""

import sys
from pathlib import Path

import polars as pl

COLUMNS = ["rank", "step", "slot", "row", "sample_id", "token_start", "token_end", "source"]
COLUMNS += ["epoch", "position", "stream", "stage", "seq"]
EVENTS = ["rank", "seq", "kind", "step", "data"]


def read(ledger: Path, checkpoint: int, reach: int, tables: list[str]) -> list[pl.DataFrame]:
    """Give the committed, the rolled-back and the resumed window of each table."""
    windows = [
        ("0", checkpoint - reach + 1, checkpoint),
        ("0", checkpoint + 1, checkpoint + reach),
        ("1", checkpoint + 1, checkpoint + reach),
    ]
    return pl.collect_all(
        [
            pl.scan_parquet(ledger / f"attempt={attempt}" / f"{table}-*.parquet")
            .filter(pl.col("step").is_between(first, last))
            .select(COLUMNS if table == "samples" else EVENTS)
            for table in tables
            for attempt, first, last in windows
        ]
    )


if __name__ == "__main__":
    folder, at, steps, *names = sys.argv[1:]
    frames = read(Path(folder), int(at), int(steps), names)
    sys.stdout.write(f"{sum(frame.height for frame in frames)}\n")
