"""Sealing: what it leaves alone, what it refuses, and what it says."""

import fcntl
import json
import os
import resource
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from auditing import age, audited, rows_of, segments_in
from emitting import emit_ledger
from faults import make
from native import FORMAT, read_lines, write_ledger, write_segment
from running import ledger_audit
from sealed import RUN, emitted, job, sealed_files

from ledger_audit import LedgerWriter
from ledger_audit.errors import VanishedError
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.recovery import read_open
from ledger_audit.ledger.sealing import seal


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
