"""What was used is struck out of a stream as often as it was used, the first in its order first."""

import polars as pl
import pytest

from ledger_audit.errors import TooLargeError, UsageError
from ledger_audit.ledger.spent import Identity, Spent

BOUNDS = (3, 40)


def _rows(*ids: int, epoch: int | None = 0) -> pl.DataFrame:
    types = {"source": pl.String(), "epoch": pl.Int32()}
    return pl.DataFrame({"sample_id": ids}).with_columns(
        pl.lit(None, types["source"]).alias("source"),
        pl.lit(epoch, types["epoch"]).alias("epoch"),
        step=pl.int_range(pl.len()),
        token_start=pl.col("sample_id") * 10,
        token_end=pl.col("sample_id") * 10 + 5,
    )


def _spent(*ids: int, is_direct: bool, columns: tuple[str, ...] = (), since: int = 0) -> Spent:
    spent = Spent(Identity(columns), BOUNDS if is_direct else None, 1 << 20, since)
    rows = _rows(*ids)
    spent.see((None, 0), rows.with_columns(spent.key))
    spent.freeze()
    return spent


@pytest.mark.parametrize("is_direct", [True, False])
def test_uses_are_struck_out_as_often_as_they_were(is_direct: bool) -> None:
    """The first ones of the stream go first, in one piece or over several."""
    spent = _spent(5, 7, 5, is_direct=is_direct)
    assert (3, 2) == (spent.records, spent.distinct)
    assert [True, False, True, False] == spent.strike(_rows(5, 6, 5, 5)).tolist()
    assert 1 == spent.left
    assert [7] == _rows(5, 6, 7).filter(spent.left_keys())["sample_id"].to_list()
    assert [7] == spent.left_of(_rows(5, 7, 7))["sample_id"].to_list()
    assert [False, False, True] == spent.strike(_rows(99, 1, 7)).tolist()


@pytest.mark.parametrize("is_direct", [True, False])
def test_passes_are_told_apart_where_both_sides_label_them(is_direct: bool) -> None:
    """Without the label in the identity, any pass will do."""
    spent = _spent(5, is_direct=is_direct, columns=("epoch",))
    assert [False] == spent.strike(_rows(5, epoch=1)).tolist()
    assert [True] == spent.strike(_rows(5)).tolist()
    assert [True] == _spent(5, is_direct=is_direct).strike(_rows(5, epoch=1)).tolist()


def test_spans_are_struck_out_anew() -> None:
    """A second look begins with all of them."""
    spent = _spent(5, 6, is_direct=False, columns=("token_start", "token_end"))
    moved = _rows(5).with_columns(token_end=pl.col("token_end") + 1)
    assert [False] == spent.strike(moved).tolist()
    for _ in range(2):
        assert [True, False] == spent.strike(_rows(6, 7)).tolist()
        spent.renew()


def test_steps_before_the_stream_are_not_compared() -> None:
    """They are counted, and nothing else."""
    spent = _spent(5, 6, 7, is_direct=True, since=2)
    assert (2, 1) == (spent.earlier, spent.records)
    assert [False, True] == spent.strike(_rows(5, 7)).tolist()


def test_memory_is_bounded() -> None:
    """Counters that do not fit give way to keys; keys that do not are an error with a remedy."""
    with pytest.raises(TooLargeError):
        Spent(Identity(()), (0, 1 << 20), 1 << 20, 0)
    spent = Spent(Identity(()), None, 100, 0)
    with pytest.raises(UsageError, match="3 used records"):
        spent.see((None, None), _rows(1, 2, 3).with_columns(spent.key))
