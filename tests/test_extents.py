"""How far each rank got: what footers say and what the rows say is the same, whatever the shape."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from native import EVENTS, FORMAT, SAMPLES, Line, write_segment

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.parts import Group, groups_of, places_of

TRIES = ("commit", "void")


def job(rng: random.Random) -> tuple[list[Line], list[Line]]:
    """Give the samples and events of an attempt: other stages and streams, ranks that leave."""
    samples: list[Line] = []
    events: list[Line] = []
    has_stages, has_eval = rng.random() < 0.4, rng.random() < 0.4
    for rank in rng.sample(range(-1, 40), rng.randint(1, 9)):
        seq = 0
        first = rng.randint(0, 30)
        is_silent = rng.random() < 0.2
        for step in range(first, first + rng.randint(1, 40)):
            for slot in range(0 if is_silent else rng.randint(0, 3)):
                row = {"rank": rank, "step": step, "slot": slot, "row": 0, "sample_id": seq}
                row |= {"seq": seq, "stage": None, "stream": None}
                if has_stages:
                    row["stage"] = rng.choice([None, "used", "read", "queued"])
                    if row["stage"] in ("read", "queued") and rng.random() < 0.5:
                        row["step"] = None
                if has_eval and rng.random() < 0.2:
                    row["stream"] = "eval"
                samples.append(row)
                seq += 1
            kind = rng.choice(["commit", "commit", "commit", "void", "checkpoint", None])
            if kind is not None:
                events.append({"rank": rank, "seq": seq, "kind": kind, "step": step})
                seq += 1
    if rng.random() < 0.3:
        events = [one for one in events if one["kind"] == "checkpoint"]
    return samples, events


def write(rows: list[Line], schema: pa.Schema, folder: Path, name: str, rng: random.Random) -> None:
    """Write rows as sealed or open segments, of one rank each or merged, in one of many shapes."""
    order = rng.choice(["rank", "step", "none"])
    rows = (
        sorted(rows, key=lambda row: (row[order] is None, row[order]))
        if order != "none"
        else (rng.sample(rows, len(rows)))
    )
    files: dict[str, list[Line]] = {}
    groups = rng.choice([1, 2, 100])
    for row in rows:
        files.setdefault(f"w{row['rank'] % groups}", []).append(row)
    for writer, own in files.items():
        table = pa.table({key: [row.get(key) for row in own] for key in schema.names}, schema)
        if rng.random() < 0.5:
            names = [key for key in schema.names if table[key].null_count < len(own)]
            table = table.select([key for key in names if key != "attempt"])
        if "rank" in table.column_names and rng.random() < 0.2:
            place = table.schema.get_field_index("rank")
            kind = rng.choice([pa.int64(), pa.int16(), pa.int8()])
            table = table.set_column(place, "rank", table["rank"].cast(kind))
        path = folder / f"{name}-{writer}-000000"
        if rng.random() < 0.15:
            write_segment(table, path, sealed=False)
            continue
        pq.write_table(
            table.replace_schema_metadata(FORMAT),
            path.with_suffix(".parquet"),
            row_group_size=rng.choice([1, 3, 10, 50, 1000]),
            write_statistics=rng.choice([True, True, True, False, ["rank"], ["step", "kind"]]),
            use_dictionary=rng.random() < 0.5,
            version=rng.choice(["1.0", "2.6"]),
        )


def expected_extents(
    attempts: dict[str, tuple[list[Line], list[Line]]], stream: str | None
) -> list[tuple[str, int, int | None, int | None]]:
    """Count from the rows, one by one, how far each rank got."""
    found = []
    for label, (samples, events) in sorted(attempts.items()):
        steps: dict[int, list[int]] = {one["rank"]: [] for one in events if one["kind"] in TRIES}
        for one in samples:
            if one["stage"] in (None, "used") and one["stream"] == stream:
                steps.setdefault(one["rank"], []).append(one["step"])
        for rank, own in sorted(steps.items()):
            found.append((label, rank, min(own, default=None), max(own, default=None)))
    return found


@pytest.mark.parametrize("seed", range(150))
def test_footers_and_rows_say_the_same(seed: int, tmp_path: Path) -> None:
    """First and last steps, acts and commits do not depend on what a footer tells."""
    rng = random.Random(seed)
    attempts = {label: job(rng) for label in ("a", "b")[: rng.randint(1, 2)]}
    for label, (samples, events) in attempts.items():
        folder = tmp_path / f"attempt={label}"
        folder.mkdir()
        write(samples, SAMPLES, folder, "samples", rng)
        write(events, EVENTS, folder, "events", rng)

    for stream in (None, "eval"):
        ledger = open_ledger([tmp_path], stream=stream)

        assert expected_extents(attempts, stream) == ledger.extents().rows(), f"seed {seed}"
        kinds = [
            (label, one["rank"], one["seq"], one["kind"])
            for label, (_, events) in attempts.items()
            for one in events
        ]
        acts = ledger.acts().select("attempt", "rank", "seq", "kind").rows()
        assert sorted(one for one in kinds if one[-1] not in TRIES) == sorted(acts)
        assert any(one[-1] == "commit" for one in kinds) == ledger.has_commits()


PLACE = ("rank", "step", "slot", "seq")


@pytest.mark.parametrize("seed", range(50))
def test_a_window_holds_what_the_rows_say(seed: int, tmp_path: Path) -> None:
    """Records, commits and voids of some steps, and looked-up ids, do not depend on footers."""
    rng = random.Random(1000 + seed)
    samples, events = job(rng)
    folder = tmp_path / "attempt=a"
    folder.mkdir()
    write(samples, SAMPLES, folder, "samples", rng)
    write(events, EVENTS, folder, "events", rng)
    used = [one for one in samples if one["stage"] in (None, "used") and one["stream"] is None]
    tries = [one for one in events if one["kind"] in TRIES]
    first = rng.randint(0, 60)
    last = rng.choice([None, first, first + rng.randint(0, 20)])
    ids = rng.sample(range(120), 9)

    def within(rows: list[Line], *names: str) -> list[tuple[Any, ...]]:
        end = 1000 if last is None else last
        return sorted(
            tuple(one[name] for name in names) for one in rows if first <= one["step"] <= end
        )

    ledger = open_ledger([tmp_path])

    assert within(used, *PLACE) == sorted(ledger.records("a", first, last).select(PLACE).rows())
    found = ledger.tries("a", first, last).select("rank", "step", "seq", "kind").rows()
    assert within(tries, "rank", "step", "seq", "kind") == sorted(found)
    sought = sorted(tuple(one[name] for name in PLACE) for one in used if one["sample_id"] in ids)
    assert sought == sorted(ledger.lookup("a", pl.Series(ids)).select(PLACE).rows())


def merged(rows: int = 400, ranks: int = 4) -> pa.Table:
    """Give one table of several ranks, sorted by step."""
    return pa.table(
        {
            "rank": pa.array([number % ranks for number in range(rows)], pa.int32()),
            "step": pa.array([number // ranks for number in range(rows)], pa.int64()),
            "slot": pa.array([0] * rows, pa.int32()),
            "sample_id": pa.array(range(rows), pa.int64()),
            "seq": pa.array(range(rows), pa.int64()),
        }
    ).replace_schema_metadata(FORMAT)


def sealed(table: pa.Table, root: Path, name: str = "samples-w-000000", **options: Any) -> Path:
    """Write one sealed segment of attempt 0."""
    path = root / "attempt=0" / f"{name}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path, compression="none", use_dictionary=False, **options)
    return path


def rot(path: Path, groups: range) -> None:
    """Fill the column chunks of row groups with what no reader can decode."""
    content = bytearray(path.read_bytes())
    footer = pq.read_metadata(path)
    for group in groups:
        for place in range(footer.num_columns):
            chunk = footer.row_group(group).column(place)
            start = chunk.data_page_offset
            content[start : start + 20] = b"\xff" * 20
    path.write_bytes(content)


def test_a_footer_that_tells_all_leaves_nothing_to_read(tmp_path: Path) -> None:
    """The extents of ranks with files of their own come from footers: the rows may be rotten."""
    path = sealed(merged(ranks=1), tmp_path, row_group_size=50)
    rot(path, range(8))

    assert [("0", 0, 0, 399)] == open_ledger([tmp_path]).extents().rows()


def test_only_the_ends_of_a_merged_file_are_read(tmp_path: Path) -> None:
    """Between its first and its last row group a file of several ranks can say nothing new."""
    path = sealed(merged(), tmp_path, row_group_size=50)
    rot(path, range(1, 7))

    expected = [("0", rank, 0, 99) for rank in range(4)]
    assert expected == open_ledger([tmp_path]).extents().rows()


def test_without_statistics_the_rows_are_read(tmp_path: Path) -> None:
    """Where the footer says nothing, a rotten row group is met, and named as the input's fault."""
    path = sealed(merged(), tmp_path, row_group_size=50, write_statistics=False)
    expected = [("0", rank, 0, 99) for rank in range(4)]
    assert expected == open_ledger([tmp_path]).extents().rows()
    rot(path, range(1, 7))

    with pytest.raises(UnreadableError):
        open_ledger([tmp_path]).extents()


@pytest.mark.parametrize("column", ["rank", "step"])
def test_a_used_record_that_is_nowhere_is_found_in_any_row_group(
    column: str, tmp_path: Path
) -> None:
    """A null rank or step of a used record is refused, even far from every window."""
    table = merged(ranks=1)
    place = table.schema.get_field_index(column)
    values = table[column].to_pylist()
    values[170] = None
    broken = table.set_column(place, column, pa.array(values, table[column].type))
    sealed(broken, tmp_path, row_group_size=50)

    with pytest.raises(UnreadableError, match="without 'step' or 'rank'"):
        open_ledger([tmp_path]).extents()


def test_segments_with_other_columns_are_one_table(tmp_path: Path) -> None:
    """Files are read together only where their columns are the same."""
    table = merged(ranks=1)
    sealed(table.slice(0, 100), tmp_path)
    sealed(table.slice(100, 100).select(table.column_names[::-1]), tmp_path, "samples-w-000001")
    narrow = table.slice(200, 100).set_column(
        1, "step", table["step"].slice(200, 100).cast("int16")
    )
    sealed(narrow, tmp_path, "samples-w-000002")
    sealed(table.slice(300, 100), tmp_path, "samples-w-000003")

    ledger = open_ledger([tmp_path])

    assert [("0", 0, 0, 399)] == ledger.extents().rows()
    assert list(range(50, 351)) == ledger.records("0", 50, 350)["sample_id"].sort().to_list()
    assert [7, 250, 399] == ledger.lookup("0", pl.Series([7, 250, 399]))["step"].sort().to_list()


@dataclass(frozen=True)
class Told:
    """What a footer says of a column, as its reader gives it."""

    min: object = 3
    max: object = 5
    null_count: int = 0
    has_min_max: bool = True
    has_null_count: bool = True


@dataclass(frozen=True)
class Footer:
    """A footer of one row group with one column `step`."""

    statistics: Told | None
    path: str = "step"
    num_values: int = 10
    num_rows: int = 10
    num_columns: int = 1
    num_row_groups: int = 1

    @property
    def schema(self) -> "Footer":
        """The footer stands for its parts, too."""
        return self

    def row_group(self, _: int) -> "Footer":
        """Give the one row group."""
        return self

    def column(self, _: int) -> "Footer":
        """Give the one column."""
        return self


LIES = {
    "no statistics": Footer(None),
    "no bounds": Footer(Told(has_min_max=False, has_null_count=False)),
    "bounds the wrong way round": Footer(Told(min=5, max=3)),
    "bounds of another type": Footer(Told(min=b"3", max=b"5")),
    "not a number": Footer(Told(min=float("nan"), max=float("nan"))),
    "more nulls than rows": Footer(Told(null_count=11)),
    "fewer than no nulls": Footer(Told(null_count=-1)),
    "nulls throughout, and bounds": Footer(Told(null_count=10)),
    "more values than rows": Footer(Told(), num_values=11),
}


def described(footer: Footer, kind: pa.DataType | None = None) -> Group:
    """Describe the one row group of a footer by what it says of `step`."""
    schema = pa.schema([("step", kind or pa.int64())])
    (group,) = groups_of(Path("x.parquet"), footer, places_of(footer, schema))
    return group


@pytest.mark.parametrize("name", LIES)
def test_a_footer_that_contradicts_itself_says_nothing(name: str) -> None:
    """What cannot be true of a column is unknown, and what is unknown is read."""
    group = described(LIES[name])

    assert group.bounds("step").low is None
    assert group.bounds("step").may_hold(7, 9)
    assert not group.is_full("step")
    assert not group.is_null("step")


def test_nulls_that_are_not_counted_are_unknown() -> None:
    """Bounds without a count of nulls prove no row to be full."""
    footer = Footer(Told(has_null_count=False))

    group = described(footer)

    assert (3, 5) == (group.bounds("step").low, group.bounds("step").high)
    assert not group.is_full("step")


@pytest.mark.parametrize("kind", [pa.uint64(), pa.uint32(), pa.int16(), pa.float64()])
def test_statistics_of_unusual_types_are_not_used(kind: pa.DataType) -> None:
    """Unsigned and narrow numbers have been written in a wrong order by some writers."""
    group = described(Footer(Told()), kind)

    assert group.bounds("step").low is None


def test_every_act_is_found_wherever_it_stands(tmp_path: Path) -> None:
    """Row groups that hold only commits are passed over; one start among them is not."""
    kinds = ["commit"] * 100
    kinds[57] = "start"
    table = pa.table(
        {
            "rank": pa.array([0] * 100, pa.int32()),
            "seq": pa.array(range(100), pa.int64()),
            "kind": kinds,
            "step": pa.array(range(100), pa.int64()),
            "data": [json.dumps({"world_size": 1})] * 100,
        }
    ).replace_schema_metadata(FORMAT)
    path = sealed(table, tmp_path, "events-w-000000", row_group_size=10)
    rot(path, range(2, 4))

    ledger = open_ledger([tmp_path])

    assert [57] == ledger.acts()["seq"].to_list()
    assert ledger.has_commits()
