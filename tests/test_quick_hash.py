"""The quick hash of records: sums of it tell two multisets of records apart."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from ledger_audit.ledger.counting import hash_quickly

_SCHEMA = {
    "source": pl.String(),
    "epoch": pl.Int32(),
    "sample_id": pl.Int64(),
    "token_start": pl.Int64(),
    "token_end": pl.Int64(),
}
_FEW = st.sampled_from([None, 0, 1, -1])
_RECORD = st.tuples(
    st.sampled_from([None, "", "a", "b"]), _FEW, st.sampled_from([0, 1, -1, 2**62]), _FEW, _FEW
)
_RECORDS = st.lists(_RECORD, min_size=1, max_size=5)


def _sum(records: list[tuple[object, ...]]) -> int:
    return int(hash_quickly(pl.DataFrame(records, schema=_SCHEMA, orient="row")).sum())


@given(_RECORDS, st.data())
def test_sums_are_alike_exactly_where_records_are(
    records: list[tuple[object, ...]], data: st.DataObject
) -> None:
    """So are those of which two have swapped an id, a label or an end of their span."""
    column = data.draw(st.integers(0, len(_SCHEMA) - 1))
    order = data.draw(st.permutations(range(len(records))))
    other = [
        (*one[:column], records[place][column], *one[column + 1 :])
        for one, place in zip(records, order, strict=True)
    ]
    key = repr
    assert (_sum(records) == _sum(other)) == (sorted(records, key=key) == sorted(other, key=key))


@given(_RECORDS, st.integers(0, 4))
def test_records_hash_alike_beside_any_others(records: list[tuple[object, ...]], cut: int) -> None:
    """A batch of one pass takes a shorter way than one of several, to the same hashes."""
    frame = pl.DataFrame(records, schema=_SCHEMA, orient="row")
    one_by_one = pl.concat([hash_quickly(frame[at : at + 1]) for at in range(frame.height)])
    halves = pl.concat([hash_quickly(part) for part in (frame[:cut], frame[cut:]) if part.height])
    assert hash_quickly(frame).equals(one_by_one)
    assert halves.equals(one_by_one)


def test_ids_of_any_width_hash_alike() -> None:
    """A control may write narrow ids, and the run wide ones."""
    wide = pl.DataFrame([("a", 0, 7, None, None)], schema=_SCHEMA, orient="row")
    narrow = wide.with_columns(pl.col("sample_id").cast(pl.Int32))
    assert hash_quickly(wide).equals(hash_quickly(narrow))
