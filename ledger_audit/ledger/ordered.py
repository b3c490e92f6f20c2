"""Writes a table in an order of its own, of parts that come in none."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from ledger_audit.errors import UsageError
from ledger_audit.ledger.address import is_text
from ledger_audit.ledger.staging import put_whole

_GROUP = 1 << 17
"""Rows of a row group."""


def write_ordered(path: Path, parts: Iterable[pl.DataFrame], key: Sequence[str], flag: str) -> None:
    """
    Write a Parquet file whole or not at all, ordered by a key; a null is lowest.

    Args:
        path: of the file.
        parts: of the table; there is one at least.
        key: columns that no two rows share.
        flag: the option that named the file, for messages.

    Raises:
        UsageError: the folder is not there or cannot be written to.
    """
    if not is_text(path):
        raise UsageError(
            f"{flag}: cannot write {path}: the bytes of its name are no UTF-8",
            hint="give it another name",
        )
    with put_whole(path, flag) as whole:
        files = []
        for number, part in enumerate(parts):
            files.append(whole.with_name(f"{number}.arrow"))
            part.write_ipc(files[-1])
        rows = pl.scan_ipc(files).sort(list(key), nulls_last=False)
        rows.sink_parquet(whole, compression="zstd", row_group_size=_GROUP)
