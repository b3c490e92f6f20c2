"""An expected stream on disk: a ledger that says that it is no run, written in bounded memory."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from ledger_audit.errors import LedgerAuditError, UnreadableError, UsageError
from ledger_audit.ledger import expected as expected_stream
from ledger_audit.ledger.expected import Written, write_expected
from ledger_audit.ledger.opening import open_ledger

RECIPE = {"kind": "listing", "recipe": {"files": ["abc"]}}


def stream(steps: int, *, ranks: int = 2, rows: int = 2, text: bool = False) -> pl.DataFrame:
    """Give samples 0, 1, 2, ... in order, dealt to ranks in blocks of so many rows."""
    places = [
        (rank, step, row) for step in range(1, steps + 1) for rank in range(ranks)
        for row in range(rows)
    ]  # fmt: skip
    frame = pl.DataFrame(places, schema=["rank", "step", "row"], orient="row")
    ids = pl.int_range(pl.len(), dtype=pl.Int64)
    return frame.with_columns(
        slot=pl.lit(0), sample_id=ids.cast(pl.String) if text else ids, position=ids
    )


def written(root: Path, *pieces: pl.DataFrame, ranks: int = 2, **more: Any) -> Written:
    """Write pieces as an expected stream."""
    return write_expected(root, "plan", pieces, world_size=ranks, expected=RECIPE, **more)


def everything(root: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read back what was written, each rank in its order."""
    samples, events = open_ledger([root]).everything("plan")
    return samples.sort("rank", "seq"), events.sort("rank", "seq")


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """Every column comes back, and the start event says that nothing of it was run."""
    rows = stream(3).with_columns(
        token_start=pl.lit(0), token_end=pl.lit(7), source=pl.lit("web"), epoch=pl.lit(4)
    )
    told = written(tmp_path / "ref", rows, fingerprint={"seed": 3})

    assert Written(tmp_path / "ref", "plan", 12, 1, 1, 3) == told
    samples, events = everything(tmp_path / "ref")
    columns = ["rank", "step", "slot", "row", "sample_id", "position"]
    columns += ["token_start", "token_end", "source", "epoch"]
    assert rows.select(columns).sort("step", "rank", "row").rows() == (
        samples.select(columns).sort("step", "rank", "row").rows()
    )
    assert ["start", "end"] == events["kind"].to_list()
    start = json.loads(events["data"][0])
    assert {"expected": RECIPE, "world_size": 2, "fingerprint": {"seed": 3}} == start
    both = pl.concat([samples.select("rank", "seq"), events.select("rank", "seq")])
    assert list(range(8)) == both.filter(rank=0)["seq"].sort().to_list()
    assert not both.is_duplicated().any()


def test_text_ids_and_hostile_ones(tmp_path: Path) -> None:
    """Ids are kept as they are, whatever is in them."""
    hostile = ["\x1b[31m", "[bold]", '"\n', "\u202e", "x" * 10_000, "", "a", "b"]
    rows = stream(2, text=True).with_columns(sample_id=pl.Series(hostile))

    written(tmp_path / "ref", rows)

    assert sorted(hostile) == sorted(everything(tmp_path / "ref")[0]["sample_id"])


def test_same_input_same_bytes(tmp_path: Path) -> None:
    """However the stream is cut into pieces, the files are the same."""
    rows = stream(40, ranks=3)
    written(tmp_path / "one", rows, ranks=3)
    written(tmp_path / "two", *rows.iter_slices(7), rows.head(0), ranks=3)

    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name / "attempt=plan").iterdir()}
        for name in ("one", "two")
    ]
    assert files[0] == files[1]
    assert 2 == len(files[0])


@pytest.mark.parametrize("most", [1, 5, 6, 13])
def test_segments_hold_few_rows_and_row_groups_one_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Rows are held no longer than allowed, and steps are not cut where they fit."""
    monkeypatch.setattr(expected_stream, "_SEGMENT_ROWS", most)
    rows = stream(5, ranks=3)
    told = written(tmp_path / "ref", *rows.iter_slices(4), ranks=3)

    files = sorted((tmp_path / "ref" / "attempt=plan").glob("samples-*"))
    assert told.segments == len(files)
    for file in files:
        footer = pq.read_metadata(file)
        assert footer.num_rows <= max(most, 1)
        assert 0 == footer.num_rows % 6 or most < 6 + 6
        for group in range(footer.num_row_groups):
            bounds = footer.row_group(group).column(1).statistics
            assert bounds.min == bounds.max
    samples, _ = everything(tmp_path / "ref")
    for rank in range(3):
        own = rows.filter(rank=rank)["sample_id"].to_list()
        assert own == samples.filter(rank=rank)["sample_id"].to_list()


def test_rows_of_much_text_make_small_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded by bytes too, not by rows alone."""
    monkeypatch.setattr(expected_stream, "_SEGMENT_BYTES", 50_000)
    rows = stream(10, text=True).with_columns(pl.col("sample_id") + "x" * 10_000)

    told = written(tmp_path / "ref", *rows.iter_slices(10))

    assert 40 == told.records
    assert told.segments > 5
    assert rows["sample_id"].sort().equals(everything(tmp_path / "ref")[0]["sample_id"].sort())


def test_an_empty_stream_is_a_ledger_without_a_record(tmp_path: Path) -> None:
    """Nothing to do is an answer, too."""
    assert Written(tmp_path / "ref", "plan", 0, 0, None, None) == written(tmp_path / "ref")
    samples, events = everything(tmp_path / "ref")
    assert (0, 2) == (samples.height, events.height)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A ledger that is there stays as it is; an empty folder is filled."""
    (tmp_path / "empty").mkdir()
    written(tmp_path / "empty", stream(1))
    before = sorted(path.name for path in (tmp_path / "empty").rglob("*"))

    with pytest.raises(UsageError, match="nothing is overwritten"):
        written(tmp_path / "empty", stream(2))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "attempt=x").mkdir()
    with pytest.raises(UsageError, match="attempt=x"):
        written(tmp_path / "other", stream(2))

    assert before == sorted(path.name for path in (tmp_path / "empty").rglob("*"))
    assert ["empty", "other"] == sorted(path.name for path in tmp_path.iterdir())


def _bad(**columns: Any) -> pl.DataFrame:
    return stream(2).with_columns(**{name: pl.Series(value) for name, value in columns.items()})


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([stream(2).drop("slot")], "no 'slot'"),
        ([_bad(row=[0, 1, 0, 1, None, 1, 0, 1])], "no 'row'"),
        ([_bad(rank=[0] * 7 + [2])], "rank 2 is none of 2"),
        ([_bad(rank=[-1] + [1] * 7)], "rank -1"),
        ([_bad(step=[1, 1, 2, 1, 2, 2, 2, 2])], "go back"),
        ([stream(2), stream(1)], "go back"),
        ([stream(1), stream(1, text=True)], "text in one piece"),
        ([_bad(token_start=[5] * 8, token_end=[4] * 8)], "precedes"),
    ],
)
def test_what_is_no_stream_is_refused(
    tmp_path: Path, pieces: list[pl.DataFrame], said: str
) -> None:
    """Nothing is left behind of a stream that cannot be one."""
    with pytest.raises(UnreadableError, match=said):
        written(tmp_path / "ref", *pieces)
    assert [] == list(tmp_path.iterdir())


def test_an_interrupted_caller_leaves_nothing(tmp_path: Path) -> None:
    """What fails while it gives pieces leaves no half of a ledger."""

    def pieces() -> Any:
        yield stream(2)
        raise LedgerAuditError("gone", hint="none")

    with pytest.raises(LedgerAuditError, match="gone"):
        write_expected(tmp_path / "ref", "plan", pieces(), world_size=2, expected=RECIPE)
    assert [] == list(tmp_path.iterdir())
