"""Sealing: what it writes, and that it keeps all that was there."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from auditing import age, audited, rows_of, segments_in
from conftest import FIXTURES
from emitting import emit_ledger
from native import FORMAT, read_lines, write_ledger, write_segment
from running import ledger_audit
from sealed import RUN, emitted, job, sealed_files, told_by

from ledger_audit.ledger.recovery import read_open
from ledger_audit.ledger.sealing import seal


def test_open_segments_of_dead_writers_become_one_sealed_file_of_each_table(tmp_path: Path) -> None:
    """Every row is there once, and the file names what it replaces."""
    root = emitted(tmp_path / "ledger", segment_bytes=1000)
    before, names = rows_of(root), segments_in(root)

    ran = ledger_audit("seal", root)

    assert ran.code == 0
    assert rows_of(root) == before
    samples, events = sealed_files(root), sealed_files(root, "events")
    assert len(segments_in(root)) == len(samples) + len(events) == 2
    replaced = [
        name for path in (*samples, *events) for name in json.loads(told_by(path)["replaces"])
    ]
    assert sorted(replaced) == sorted(Path(name).name for name in names)
    assert len(names) > 8
    assert told_by(samples[0])["writer"] in samples[0].name
    assert told_by(samples[0])["run_id"] == "test"
    assert f"{len(names)} files became 2" in ran.out


def test_a_sealed_ledger_reads_as_before(tmp_path: Path) -> None:
    """The audit of a real run says the same before and after, to the last word."""
    root = emitted(tmp_path / "ledger", read_lines(RUN))
    before = audited(root)

    assert ledger_audit("seal", root).code == 0
    assert audited(root) == before
    assert before[0][0] == 1


def test_a_second_seal_has_nothing_to_do(tmp_path: Path) -> None:
    """Sealing what is sealed changes no file."""
    root = emitted(tmp_path / "ledger", read_lines(RUN))
    ledger_audit("seal", root)
    files = {name: (root / name).stat().st_mtime_ns for name in segments_in(root)}

    ran = ledger_audit("seal", root)

    assert ran.code == 0
    assert "nothing to do" in ran.out
    assert files == {name: (root / name).stat().st_mtime_ns for name in segments_in(root)}


def test_statistics_prune_by_rank_and_by_step(tmp_path: Path) -> None:
    """A row group holds one rank, and its steps follow one another."""
    lines = job(ranks=2, steps=300, rows=120)
    lines += [
        {"kind": "sample", "attempt": "a", "rank": 0, "step": step, "slot": 0, "row": 0}
        | {"sample_id": 7, "stream": "eval"}
        for step in range(1, 300)
    ]
    root = emitted(tmp_path / "ledger", lines)
    ledger_audit("seal", root)

    (path,) = sealed_files(root)
    meta = pq.ParquetFile(path).metadata
    columns = {meta.schema.column(place).path: place for place in range(meta.num_columns)}
    groups = [
        {name: meta.row_group(nth).column(place).statistics for name, place in columns.items()}
        for nth in range(meta.num_row_groups)
    ]
    training = [one for one in groups if not one["stream"].has_min_max]
    assert [one["rank"].min for one in training] == [0, 0, 1, 1]
    assert all(one["rank"].min == one["rank"].max for one in groups)
    assert all(one["stream"].null_count == 0 for one in groups[len(training) :])
    assert training[0]["step"].max <= training[1]["step"].min
    assert "stage" not in columns


def test_events_that_an_audit_reads_whole_lie_apart_from_commits(tmp_path: Path) -> None:
    """A row group holds commits only, or none."""
    root = emitted(tmp_path / "ledger")
    ledger_audit("seal", root)

    (path,) = sealed_files(root, "events")
    file = pq.ParquetFile(path)
    kinds = [
        set(file.read_row_group(nth)["kind"].to_pylist()) for nth in range(file.num_row_groups)
    ]
    assert kinds == [{"start"}, {"commit"}]


def test_only_what_fails_its_checksum_is_dropped(tmp_path: Path) -> None:
    """A damaged message in the middle costs its own rows, and an event tells which bytes."""
    root = emitted(tmp_path / "ledger")
    path = sorted(root.glob("*/samples-r00001*"))[0]
    content = bytearray(path.read_bytes())
    places = [hole for hole in range(len(content)) if content[hole : hole + 4] == b"LACS"]
    content[places[2] + 20] ^= 1
    path.write_bytes(content)
    age(root)
    before, kept = audited(root), rows_of(root)
    (hole,) = read_open(path).holes

    ran = ledger_audit("seal", root)

    assert ran.code == 0
    assert len(kept["a"][0]) == 14
    assert rows_of(root) == kept
    assert audited(root) == before
    events = pq.read_table(sealed_files(root, "events")[0])
    told = events.filter(pc.equal(events["kind"], "recovered")).to_pylist()
    assert [(one["rank"], one["step"]) for one in told] == [(1, 1)]
    assert json.loads(told[0]["data"]) == {
        "file": path.name,
        "table": "samples",
        "bytes": [hole.start, hole.end],
    }
    assert f"dropped: {path.name} bytes {hole.start:,} to {hole.end:,}" in ran.out
    assert "step 1 on may be lost" in ran.out


def test_that_something_was_torn_stays_known(tmp_path: Path) -> None:
    """A step in doubt is in doubt after sealing, and after sealing what was sealed."""
    lines = read_lines(FIXTURES / "zoo" / "torch-ddp-correct" / "run")
    root = write_ledger(lines, tmp_path / "ledger", sealed=False)
    file = next(root.glob("attempt=1/samples-r00002x-000000.arrows"))
    file.write_bytes(file.read_bytes()[:9000])
    age(root)
    before = audited(root)
    assert "unread-segment" in json.dumps(before)

    for _ in range(2):
        assert ledger_audit("seal", root).code == 0
        assert audited(root) == before


def test_a_lost_file_stays_noticed(tmp_path: Path) -> None:
    """A number that is missing before a seal is missing after it, however often it is sealed."""
    root = emitted(tmp_path / "ledger", read_lines(RUN), segment_bytes=3000)
    lost = sorted(root.glob("attempt=*1/samples-r00001*"))[1]
    lost.unlink()
    before = audited(root)
    assert lost.stem in json.dumps(before)

    seal(root, idle=60, most_bytes=4000)
    assert audited(root) == before
    seal(root, idle=60)
    assert audited(root) == before
    names = {name for path in sealed_files(root) for name in json.loads(told_by(path)["replaces"])}
    assert lost.name not in names


def test_merged_files_of_merged_files_name_all_that_they_stand_for(tmp_path: Path) -> None:
    """A copy of the oldest segment, come back from another disk, does not count."""
    root = emitted(tmp_path / "ledger", segment_bytes=1000)
    before = rows_of(root)
    oldest = sorted(root.glob("*/samples-r00000*"))[0]
    shutil.copy(oldest, tmp_path / oldest.name)
    seal(root, idle=60, most_bytes=600)
    assert len(sealed_files(root)) > 1
    seal(root, idle=60)
    assert len(sealed_files(root)) == 1

    shutil.copy(tmp_path / oldest.name, oldest)

    assert rows_of(root) == before


def test_two_writers_of_one_rank_stay_apart(tmp_path: Path) -> None:
    """Both count their order from 0: in one file their records could not be told apart."""
    root = tmp_path / "ledger"
    for _ in range(2):
        emit_ledger(job(ranks=3), root)
    age(root)
    before = rows_of(root)

    ledger_audit("seal", root)

    assert rows_of(root) == before
    assert len(before["a"][0]) == 2 * 3 * 4 * 2
    assert len(sealed_files(root)) == 2
    for path in sealed_files(root):
        rows = pq.read_table(path)
        places = list(zip(rows["rank"].to_pylist(), rows["seq"].to_pylist(), strict=True))
        assert len(set(places)) == len(places)


def test_files_of_two_runs_stay_apart(tmp_path: Path) -> None:
    """What names another run is no part of the same file."""
    root = tmp_path / "ledger"
    emit_ledger(job(ranks=1), root, run_id="one")
    emit_ledger([{**line, "rank": 1} for line in job(ranks=1)], root, run_id="two")
    age(root)
    before = audited(root)

    ledger_audit("seal", root)

    assert audited(root) == before
    assert "mixed-attempt" in json.dumps(before) or before[0][0] == 3
    assert {told_by(path)["run_id"] for path in sealed_files(root)} == {"one", "two"}


def test_what_is_too_large_together_stays_apart(tmp_path: Path) -> None:
    """No more rows than asked for become one file, and no row is lost between two."""
    root = emitted(tmp_path / "ledger", job(ranks=4, steps=20), segment_bytes=1500)
    before = rows_of(root)

    seal(root, idle=60, most_bytes=4000)

    assert rows_of(root) == before
    assert 3 < len(sealed_files(root)) < 30


def test_ledgers_of_other_writers_survive(tmp_path: Path) -> None:
    """Unknown columns, other widths, dictionaries, text ids, several ranks in a file: all stay."""
    folder = tmp_path / "ledger" / "attempt=a"
    folder.mkdir(parents=True)
    for rank in (0, 1):
        table = pa.table(
            {
                "loss": pa.array([0.5, float("nan"), None]),
                "sample_id": pa.array(["x", "y", "z"]).dictionary_encode(),
                "rank": pa.array([rank, rank, rank + 2], pa.int8()),
                "step": pa.array([1, 2, 1], pa.uint16()),
                "slot": pa.array([0, 0, 0], pa.int64()),
                "seq": pa.array([1, 3, 0], pa.int16()),
                "note": pa.array([["a"], [], None], pa.list_(pa.string())),
            },
        )
        write_segment(table, folder / f"samples-w{rank}-000000", sealed=False)
        events = pa.table({"rank": [rank], "seq": [0], "kind": ["start"]})
        write_segment(events, folder / f"events-w{rank}-000000", sealed=rank == 0)
    age(tmp_path)
    before = rows_of(tmp_path / "ledger")

    ran = ledger_audit("seal", tmp_path / "ledger")

    assert ran.code == 0
    assert rows_of(tmp_path / "ledger") == before
    (path,) = sealed_files(tmp_path / "ledger")
    rows = pq.read_table(path, partitioning=None)
    assert [str(rows.schema.field(name).type) for name in ("rank", "step", "sample_id")] == [
        "int32",
        "int64",
        "string",
    ]
    assert rows.num_rows == 6
    assert sorted(map(repr, rows["loss"].to_pylist())) == ["0.5"] * 2 + ["None"] * 2 + ["nan"] * 2
    assert rows["note"].to_pylist().count(["a"]) == 2


def test_files_with_other_unknown_columns_stay_apart(tmp_path: Path) -> None:
    """One column of another type would lose something: such files are sealed by themselves."""
    folder = tmp_path / "attempt=a"
    folder.mkdir()
    for rank, value in enumerate((1, "one")):
        table = pa.table({"rank": [rank], "seq": [0], "sample_id": [1], "extra": [value]})
        write_segment(
            table.append_column("stage", pa.array(["read"])), folder / f"samples-w{rank}-000000"
        )

    ledger_audit("seal", tmp_path)

    assert {str(pq.read_schema(path).field("extra").type) for path in sealed_files(tmp_path)} == {
        "int64",
        "string",
    }


def test_metadata_that_is_not_ours_is_kept(tmp_path: Path) -> None:
    """What files agree on is said once, what they do not for each file."""
    folder = tmp_path / "attempt=a"
    folder.mkdir()
    for rank in (0, 1):
        table = pa.table({"rank": [rank], "seq": [0], "kind": ["start"]})
        metadata = {**FORMAT, "trainer": "ours", "node": f"n{rank}"}
        write_segment(table, folder / f"events-w{rank}-000000", metadata=metadata)

    ledger_audit("seal", tmp_path)

    told = told_by(sealed_files(tmp_path, "events")[0])
    assert told["trainer"] == "ours"
    assert json.loads(told["node"]) == {
        "events-w0-000000.parquet": "n0",
        "events-w1-000000.parquet": "n1",
    }


def test_metadata_that_is_no_text_is_read_and_kept_as_escapes(tmp_path: Path) -> None:
    """Arrow allows any bytes, Parquet only text: no reader may stumble over what was sealed."""
    folder = tmp_path / "attempt=a"
    folder.mkdir()
    table = pa.table({"rank": [0], "seq": [0], "kind": ["start"]})
    metadata = {**FORMAT, "odd": b"\xff", b"\xfe": "odd"}
    write_segment(table, folder / "events-w0-000000", metadata=metadata, sealed=False)  # type: ignore[arg-type]
    age(tmp_path)
    before = audited(tmp_path)
    assert before[0][0] == 3

    assert ledger_audit("seal", tmp_path).code == 0
    assert audited(tmp_path) == before
    told = told_by(sealed_files(tmp_path, "events")[0])
    assert (told["odd"], told["\\xfe"]) == ("\\xff", "odd")


def test_records_that_were_not_kept_on_purpose_are_not_lost(tmp_path: Path) -> None:
    """What `retain` let go of is still said in the merged file, and its numbers are not missing."""
    lines = job(ranks=1, steps=12)
    for step in (3, 6, 9):
        place = next(
            nth
            for nth, line in enumerate(lines)
            if (line["kind"], line.get("step")) == ("commit", step)
        )
        begin = {"kind": "checkpoint", "attempt": "a", "rank": 0, "step": step}
        lines.insert(place + 1, {**begin, "data": {"phase": "begin"}})
    root = emit_ledger(lines, tmp_path, segment_bytes=1000, retain=1)
    age(root)
    before, kept = audited(root), rows_of(root)

    ran = ledger_audit("seal", root)

    assert audited(root) == before
    assert rows_of(root) == kept
    assert len(kept["a"][0]) < 24
    dropped = json.loads(told_by(sealed_files(root)[0])["dropped"])
    assert set(dropped.values()) == {"2 records"}
    assert "empty on purpose" in ran.out
