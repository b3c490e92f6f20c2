"""Turns whatever a trainer has at hand into columns of the ledger: lists, numpy, torch, Arrow."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ledger_audit.errors import LedgerWriteError
from ledger_audit.ledger.schema import USED

_NUMPY = {pa.int32(): np.dtype(np.int32), pa.int64(): np.dtype(np.int64)}
"""Arrays that become columns without a look at their values."""


OPTIONAL: Mapping[str, pa.DataType] = {
    "row": pa.int32(),
    "token_start": pa.int64(),
    "token_end": pa.int64(),
    "source": pa.string(),
    "epoch": pa.int32(),
    "position": pa.int64(),
    "stream": pa.string(),
    "worker": pa.int32(),
    "stage": pa.string(),
}


class MicroBatches:
    """Turns micro-batches into columns, whose ids are of one type from the first to the last."""

    def __init__(self) -> None:
        self._has_text_ids: bool | None = None

    def columns(
        self, step: int | None, slot: int | None, sample_id: Any, given: Mapping[str, Any]
    ) -> dict[str, pa.Array]:
        """
        Give the columns of one micro-batch.

        Args:
            step: null unless it is used.
            slot: likewise.
            sample_id: one a row.
            given: name of a column → its values; null: it is left out.

        Raises:
            LedgerWriteError: something does not fit.
        """
        dtype = id_type(sample_id)
        is_text = pa.types.is_string(dtype)
        ids = column("sample_id", sample_id, dtype)
        if len(ids) and self._has_text_ids not in (None, is_text):
            raise LedgerWriteError(
                "record: sample_id changes its type: integers or text, not both",
                hint="give every sample the same kind of id",
            )
        self._has_text_ids = is_text if len(ids) else self._has_text_ids
        if ids.null_count:
            raise LedgerWriteError("record: sample_id is null", hint="give every sample an id")
        length = len(ids)
        return {
            "step": column("step", step, pa.int64(), length),
            "slot": column("slot", slot, pa.int32(), length),
            "sample_id": ids,
            **{
                name: column(name, given[name], dtype, length)
                for name, dtype in OPTIONAL.items()
                if given[name] is not None
            },
        }


def column(name: str, values: Any, dtype: pa.DataType, length: int | None = None) -> pa.Array:
    """
    Give one column of a batch.

    Args:
        name: of the column, for messages.
        values: one value for all rows, or one a row: a list, a numpy array, a torch tensor, an
            Arrow or pandas array.
        dtype: of the column.
        length: how many rows there are; null: as many as there are values.

    Raises:
        LedgerWriteError: there are more or fewer values, or of another type.
    """
    try:
        if values is None or isinstance(values, str | int):
            found = pa.repeat(pa.scalar(values, dtype), 1 if length is None else length)
        else:
            found = _array(values, dtype)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, UnicodeError) as problem:
        raise LedgerWriteError(
            f"record: {name} does not fit {dtype}: {problem}",
            hint=f"give {name} as one {dtype} a row",
        ) from problem
    if length is not None and len(found) != length:
        raise LedgerWriteError(
            f"record: {name} has {len(found)} values for {length} rows",
            hint="give every column one value a row, or one for all",
        )
    return found


def id_type(values: Any) -> pa.DataType:
    """Tell whether sample ids are text or integers, by the first of them."""
    first = values
    if isinstance(values, pa.ChunkedArray | pa.Array):
        is_text = not pa.types.is_integer(values.type)
        return pa.string() if is_text and len(values) else pa.int64()
    if not isinstance(values, str | bytes | int):
        if not len(values):
            return pa.int64()
        first = values[0]
    return pa.string() if isinstance(first, str | bytes) else pa.int64()


def counted_of(columns: Mapping[str, pa.Array]) -> Mapping[str, pa.Array]:
    """Give the rows that count in the try of their step: those that training used."""
    if "stage" not in columns and "stream" not in columns:
        return columns
    import pyarrow.compute as pc  # noqa: PLC0415  # few records are anything else

    counts = pa.repeat(pa.scalar(value=True), len(columns["sample_id"]))
    if "stream" in columns:
        counts = pc.is_null(columns["stream"])
    if "stage" in columns:
        is_used = pc.fill_null(pc.equal(columns["stage"], USED), fill_value=True)
        counts = pc.and_(counts, is_used)
    return {name: values.filter(counts) for name, values in columns.items()}


def length_of(values: Any) -> int:
    """Tell for how many records values stand, whatever they are; 0 where that cannot be told."""
    try:
        return 1 if isinstance(values, str | int) else len(values)
    except TypeError:
        return 0


def _array(values: Any, dtype: pa.DataType) -> pa.Array:
    if hasattr(values, "detach"):  # a torch tensor, wherever it is
        values = values.detach().cpu().numpy()
    if isinstance(values, np.ndarray) and values.ndim == 1:
        if values.dtype == _NUMPY.get(dtype):
            return pa.array(values.copy())  # its owner may fill it anew before the commit
        values = values.copy()
    if isinstance(values, list | tuple):
        if any(isinstance(one, float) for one in values):
            raise ValueError("it holds floats")
        return pa.array(values, dtype)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"it has {values.ndim} dimensions, not one")
    found = values if isinstance(values, pa.Array) else pa.array(values)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if pa.types.is_floating(found.type) or pa.types.is_boolean(found.type):
        if len(found) > found.null_count:
            raise ValueError(f"it holds {found.type}")
    elif pa.types.is_binary(found.type):
        found = found.cast(pa.string())
    if pa.types.is_string(dtype) and pa.types.is_integer(found.type):
        raise TypeError("it holds integers")
    return found if found.type == dtype else found.cast(dtype)
