"""Sealing: what it writes, what it keeps, what it leaves alone, and what it says."""

import fcntl
import json
import os
import resource
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from auditing import age, audited, rows_of, segments_in
from conftest import FIXTURES
from emitting import emit_ledger
from faults import make
from native import FORMAT, Line, read_lines, write_ledger, write_segment
from running import ledger_audit

from ledger_audit import LedgerWriter
from ledger_audit.errors import VanishedError
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.recovery import read_open
from ledger_audit.ledger.sealing import seal

RUN = FIXTURES / "zoo" / "torch-ddp-partial-accum" / "run"


def job(ranks: int = 2, steps: int = 4, attempt: str = "a", rows: int = 2) -> list[Line]:
    """Give the lines of a small job: every rank uses other samples."""
    lines: list[Line] = []
    for rank in range(ranks):
        place = {"attempt": attempt, "rank": rank}
        lines.append({"kind": "start", **place, "data": {"world_size": ranks}})
        for step in range(1, steps + 1):
            lines += [
                {
                    "kind": "sample",
                    **place,
                    "step": step,
                    "slot": 0,
                    "row": row,
                    "sample_id": (step * ranks + rank) * rows + row,
                }
                for row in range(rows)
            ]
            lines.append({"kind": "commit", **place, "step": step, "data": {"samples": rows}})
    return lines


def emitted(root: Path, lines: list[Line] | None = None, segment_bytes: int = 1 << 20) -> Path:
    """Write a ledger with writers that died long ago."""
    emit_ledger(lines or job(), root, segment_bytes=segment_bytes)
    age(root)
    return root


def sealed_files(root: Path, table: str = "samples") -> list[Path]:
    """Give the sealed files of a table."""
    return sorted(root.glob(f"attempt=*/{table}-*.parquet"))


def told_by(path: Path) -> dict[str, str]:
    """Give the metadata of a sealed file."""
    metadata = pq.read_schema(path).metadata
    return {key.decode(): value.decode() for key, value in metadata.items()}


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


def test_a_digest_that_does_not_fit_is_corruption(tmp_path: Path) -> None:
    """Rank, step and attempt are told, the files of that writer stay, the others are sealed."""
    root = tmp_path / "ledger"
    emit_ledger(job(), root)
    (folder,) = root.iterdir()
    (path,) = folder.glob("samples-r00001-*")
    rows = read_open(path).rows
    ids = rows["sample_id"].to_pylist()
    other = rows.set_column(
        rows.schema.get_field_index("sample_id"), "sample_id", pa.array([*ids[:-1], 999])
    )
    path.unlink()
    write_segment(other, folder / path.stem, sealed=False, metadata={**FORMAT})
    age(root)

    ran = ledger_audit("seal", root)

    assert ran.code == 4
    assert path.exists()
    assert len(list(folder.glob("*-r00001-*"))) == 2
    assert list(folder.glob("*-r00000-*")) == []
    assert "attempt a" in ran.out
    assert "rank 1 step 4: the commit tells the digest" in ran.out


def test_sound_digests_are_counted(tmp_path: Path) -> None:
    """Tries that go over from one segment to the next are compared as well."""
    root = emitted(tmp_path / "ledger", job(steps=9), segment_bytes=700)

    ran = ledger_audit("seal", root)

    assert "18 digests of commits compared, all equal" in ran.out


def test_digests_of_other_columns_are_not_compared(tmp_path: Path) -> None:
    """Where no start event says that a digest covers our columns, that is said."""
    lines = job(ranks=1)
    for line in lines:
        if line["kind"] == "commit":
            line["data"]["digest"] = "17"
    root = write_ledger(lines, tmp_path / "ledger")
    write_ledger([{**line, "rank": 1} for line in lines], root)

    ran = ledger_audit("seal", root)

    assert ran.code == 0
    assert "digests of rank 0 were not compared" in ran.out


def test_a_writer_whose_file_is_locked_is_alive(tmp_path: Path) -> None:
    """However old its files are, nothing of it is touched, closed segments neither."""
    root = tmp_path / "ledger"
    writer = LedgerWriter(root, rank=0, world_size=2, attempt="a", segment_bytes=500)
    for step in range(1, 6):
        writer.record(step, 0, [step])
        writer.commit(step)
    emit_ledger([{**line, "rank": 1} for line in job(ranks=1)], root)
    age(root)
    before = {name for name in segments_in(root) if "r00000" in name}

    ran = ledger_audit("seal", root)

    assert ran.code == 0
    assert "is locked by its writer" in ran.out
    assert len(before) > 4
    assert {name for name in segments_in(root) if "r00000" in name} == before
    assert not [name for name in segments_in(root) if "r00001" in name]

    writer.close()
    age(root)
    ledger_audit("seal", root)
    assert not [name for name in segments_in(root) if "r00000" in name]


def test_a_writer_that_wrote_a_moment_ago_is_alive(tmp_path: Path) -> None:
    """Where storage has no locks, time tells."""
    root = emit_ledger(job(), tmp_path / "ledger")
    before = segments_in(root)

    ran = ledger_audit("seal", root, "--idle", "1h")

    assert ran.code == 0
    assert "may be alive" in ran.out
    assert segments_in(root) == before
    assert "0 s ago" in ran.out or "1 s ago" in ran.out
    ledger_audit("seal", root, "--idle", "0")
    assert len(segments_in(root)) == 2


def test_two_seals_do_not_meet(tmp_path: Path) -> None:
    """While one is at work, another one is told to wait, and changes nothing."""
    root = emitted(tmp_path / "ledger")
    before = segments_in(root)
    folder = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        ran = ledger_audit("seal", root)
    finally:
        os.close(folder)

    assert ran.code == 2
    assert "another seal is at work" in ran.err
    assert segments_in(root) == before


def test_what_a_killed_seal_left_is_finished(tmp_path: Path) -> None:
    """Replaced files that are still there go, and so do files without a name."""
    root = emitted(tmp_path / "ledger")
    copies = tmp_path / "copies"
    shutil.copytree(root, copies)
    ledger_audit("seal", root)
    before, names = rows_of(root), segments_in(root)
    for name in segments_in(copies):
        shutil.copy(copies / name, root / name)
    (root / "attempt=a" / ".samples-sealed-0123-000000.parquet.0011.part").write_bytes(b"PAR1")
    (root / "attempt=a" / ".samples-r00000-1-000000.arrows.part").write_bytes(b"x")
    age(root)

    ran = ledger_audit("seal", root)

    assert ran.code == 0
    assert "4 files removed that an earlier seal had written anew" in ran.out
    (root / "attempt=a" / ".samples-r00000-1-000000.arrows.part").unlink()  # not a seal's
    assert segments_in(root) == names
    assert rows_of(root) == before


def test_what_another_tool_replaced_is_not_removed(tmp_path: Path) -> None:
    """It does not count; but nobody has compared it with what stands for it."""
    root = write_ledger(job(), tmp_path / "ledger")
    parts = sorted(root.glob("*/samples-*.parquet"))
    merged = pa.concat_tables([pq.read_table(part, partitioning=None) for part in parts])
    names = json.dumps([part.name for part in parts])
    metadata = {**FORMAT, "writer": "merged", "replaces": names}
    write_segment(merged, root / "attempt=a" / "samples-merged-000000", metadata=metadata)
    before = rows_of(root)

    assert ledger_audit("seal", root).code == 0
    assert all(part.exists() for part in parts)
    assert rows_of(root) == before


def test_a_replaced_file_that_has_grown_is_kept(tmp_path: Path) -> None:
    """Its writer was alive after all: what it wrote since is corruption, not waste."""
    root = emitted(tmp_path / "ledger")
    path = sorted(root.glob("*/samples-r00000*"))[0]
    content = path.read_bytes()
    ledger_audit("seal", root)
    path.write_bytes(content + bytes(8))
    age(root)

    ran = ledger_audit("seal", root)

    assert ran.code == 4
    assert "has grown since" in ran.out
    assert path.exists()


def test_a_merged_file_that_cannot_be_read_replaces_nothing(tmp_path: Path) -> None:
    """While the merged file is damaged, the files that it stands for stay."""
    root = emitted(tmp_path / "ledger")
    copies = tmp_path / "copies"
    shutil.copytree(root, copies)
    ledger_audit("seal", root)
    (merged,) = sealed_files(root)
    content = bytearray(merged.read_bytes())
    content[10:60] = b"\xff" * 50
    merged.write_bytes(content)
    for name in segments_in(copies):
        shutil.copy(copies / name, root / name)
    age(root)

    ran = ledger_audit("seal", root)

    assert ran.code == 4
    assert "what it replaces stays" in ran.out
    assert len(list(root.glob("*/samples-r*"))) == 2


def test_an_open_copy_of_a_sealed_segment_goes_if_it_holds_no_more(tmp_path: Path) -> None:
    """The sealed copy counts; where it holds less, both stay, and that is said."""
    root = write_ledger(job(), tmp_path / "ledger")
    write_ledger(job(), root, sealed=False)
    age(root)
    before = rows_of(root)

    assert ledger_audit("seal", root).code == 0
    assert rows_of(root) == before
    assert list(root.glob("*/*.arrows")) == []

    other = write_ledger(job(steps=3), tmp_path / "other")
    write_ledger(job(steps=4), other, sealed=False)
    age(other)
    ran = ledger_audit("seal", other)
    assert ran.code == 4
    assert "that its sealed copy does not" in ran.out
    assert len(list(other.glob("*/*.arrows"))) == 4


def test_sound_batches_without_a_schema_are_never_dropped(tmp_path: Path) -> None:
    """Only the first message is damaged: the file stays, and the audit says the same."""
    root = emitted(tmp_path / "ledger")
    path = sorted(root.glob("*/samples-r00000*"))[0]
    content = path.read_bytes()
    path.write_bytes(bytes(100) + content[100:])
    age(root)
    before = audited(root)

    ran = ledger_audit("seal", root)

    assert ran.code == 4
    assert "its schema is damaged, and 4 sound batches follow" in ran.out
    assert path.exists()
    assert audited(root) == before


def test_one_corrupt_file_stops_only_its_own_writer(tmp_path: Path) -> None:
    """A sealed file that is cut short is named, its writer left alone, the others sealed."""
    root = emitted(tmp_path / "ledger")
    whole = write_ledger(job(ranks=3), tmp_path / "whole")
    bad = next(whole.glob("*/samples-r00002x-*"))
    (root / "attempt=a" / bad.name).write_bytes(bad.read_bytes()[:-5])

    ran = ledger_audit("seal", root)

    assert ran.code == 4
    assert bad.name in ran.out
    assert len(segments_in(root)) == 3


def test_two_different_records_of_one_place_are_left_alone(tmp_path: Path) -> None:
    """Whoever repairs it needs the files as they are."""
    root = write_ledger(job(), tmp_path / "ledger")
    part = next(root.glob("*/samples-r00000x-000000.parquet"))
    table = pq.read_table(part, partitioning=None)
    place = table.schema.get_field_index("sample_id")
    other = table.set_column(place, "sample_id", pa.array([7] * table.num_rows, pa.int64()))
    write_segment(other, part.with_name("samples-r00000x-000001"))

    ran = ledger_audit("seal", root)

    assert ran.code == 4
    assert "two different records" in ran.out
    assert len(list(root.glob("*/samples-r00000x-*"))) == 2


def test_the_same_records_in_two_files_of_a_writer_are_read_once_after_sealing(
    tmp_path: Path,
) -> None:
    """An overlap within one writer stays an overlap within one writer."""
    root = write_ledger(read_lines(RUN), tmp_path / "ledger")
    part = next(root.glob("attempt=1/samples-r00000x-000000.parquet"))
    shutil.copy(part, part.with_name("samples-r00000x-000001.parquet"))
    before = audited(root)

    assert ledger_audit("seal", root).code == 0
    assert audited(root) == before

    other = write_ledger(read_lines(RUN), tmp_path / "other")
    part = next(other.glob("attempt=1/samples-r00000x-000000.parquet"))
    shutil.copy(part, part.with_name("samples-r00000x-000001.parquet"))
    done = seal(other, idle=0, most_bytes=1000)
    assert "hold the same records" in str(done.attempts)
    assert audited(other)[0][1]["verdict"] == before[0][1]["verdict"]


def test_two_merged_files_of_one_segment_are_refused(tmp_path: Path) -> None:
    """Both would count, and every record twice."""
    roots = []
    for name, ranks in (("one", (0, 1)), ("two", (0,))):
        root = write_ledger(
            [line for line in job() if line["rank"] in ranks], tmp_path / name, sealed=False
        )
        age(root)
        assert ledger_audit("seal", root).code == 0
        roots.append(root)

    ran = ledger_audit("diff", *roots)

    assert ran.code == 4
    assert "both stand for" in ran.err


@pytest.mark.parametrize(
    ("make_it", "code"), [("nothing", 4), ("file", 2), ("plain", 2), ("stray", 4)]
)
def test_what_is_no_ledger_is_not_sealed(make_it: str, code: int, tmp_path: Path) -> None:
    """Usage and unreadable input are told apart, and nothing is written."""
    root = tmp_path / "ledger"
    if make_it == "file":
        root.write_text("hello")
    elif make_it == "plain":
        root.mkdir()
    elif make_it == "stray":
        emitted(root)
        (root / "attempt=a" / "notes.txt").write_text("hello")

    ran = ledger_audit("seal", root)

    assert ran.code == code
    assert "  try: " in ran.err


def test_several_ledgers_are_sealed_each_by_itself(tmp_path: Path) -> None:
    """One command, one paragraph for each, and the worst decides."""
    one, other = emitted(tmp_path / "one"), emitted(tmp_path / "other")
    path = sorted(other.glob("*/samples-r00000*"))[0]
    path.write_bytes(bytes(100) + path.read_bytes()[100:])
    age(other)

    ran = ledger_audit("seal", one, other)

    assert ran.code == 4
    assert f"Sealed {one}\n" in ran.out
    assert f"Sealed in part {other}\n" in ran.out


def test_nothing_that_a_file_says_is_obeyed(tmp_path: Path) -> None:
    """Labels and metadata reach the terminal as escapes."""
    root = emitted(tmp_path / "ledger", job(attempt="a\x1b[2J"))
    shutil.move(str(next(root.iterdir())), root / "attempt=a%1B%5B2J\u202e")
    path = sorted(root.glob("*/samples-r00000*"))[0]
    path.write_bytes(path.read_bytes()[:-3])
    age(root)

    ran = ledger_audit("seal", root)

    assert ran.code == 0
    assert all(one == "\n" or one.isprintable() for one in ran.out)
    assert "a\\x1b[2J\\u202e" in ran.out


def test_a_file_that_vanishes_after_it_was_listed_says_so(tmp_path: Path) -> None:
    """A ledger that was opened before a seal and is read after it is to be opened again."""
    root = write_ledger(read_lines(RUN), tmp_path / "ledger")
    ledger = open_ledger([root])
    ledger_audit("seal", root)

    with pytest.raises(VanishedError):
        ledger.records("0", 1)
    assert open_ledger([root]).records("0", 1).height


def test_storage_that_is_full_is_said(tmp_path: Path) -> None:
    """A full disk ends with exit code 2, and every file is as it was."""
    root = emitted(tmp_path / "ledger", make("rewind", 1).run)
    before, names = rows_of(root), segments_in(root)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        ran = ledger_audit("seal", root)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert ran.code == 2
    assert "nothing was lost" in ran.err
    assert segments_in(root) == names
    assert rows_of(root) == before
