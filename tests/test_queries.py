"""Queries of which few rows are left."""

from pathlib import Path

import polars as pl

from ledger_audit.ledger.queries import collect, gathered


def test_what_is_copied_is_what_was_found(tmp_path: Path) -> None:
    """Text of any length, nulls and columns of every type come out as the engine gives them."""
    path = tmp_path / "ids.parquet"
    rows = pl.DataFrame({"n": range(1 << 12)}).with_columns(
        id=pl.format("a-sample-with-a-long-name-{}", "n"),
        short=pl.when(pl.col("n") % 3 > 0).then(pl.format("ß{}", "n")),
        none=pl.lit(None, pl.String),
        ranks=pl.concat_list("n", "n"),
    )
    rows.write_parquet(path, row_group_size=100)
    for some in (pl.col("n") % 100 == 3, pl.lit(value=False), pl.lit(value=True)):
        query = pl.scan_parquet(path).filter(some)

        assert gathered(query, "ids").equals(collect(query, "ids", streams=True))
        assert gathered(query, "ids").equals(rows.filter(some))
