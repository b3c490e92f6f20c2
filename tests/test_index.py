"""The index of an attempt: an aid, which can be anything and changes nothing that is said."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROOT
from native import FORMAT

from ledger_audit.ledger import index, store
from ledger_audit.ledger.message import frame
from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.parts import KINDS
from ledger_audit.ledger.reader import Ledger
from ledger_audit.ledger.sealing import seal
from ledger_audit.ledger.sealing.publish import sweep
from ledger_audit.ledger.searching import Search

FILES = index.FEWEST + 6
LONG_AGO = 10**18


def rows(rank: int, steps: range = range(1, 5), **columns: Any) -> pa.Table:
    """Give some records of a rank; columns replace or join those that there are."""
    count = len(steps)
    told = {
        "rank": pa.array([rank] * count, pa.int32()),
        "step": pa.array(steps, pa.int64()),
        "slot": pa.array([0] * count, pa.int32()),
        "sample_id": pa.array([step * 1000 + rank for step in steps], pa.int64()),
        "epoch": pa.array([0] * count, pa.int32()),
        "position": pa.array([step * 1000 + rank for step in steps], pa.int64()),
        "seq": pa.array(range(count), pa.int64()),
        **columns,
    }
    return pa.table(told).replace_schema_metadata(FORMAT)


def put(table: pa.Table, path: Path, mtime_ns: int = LONG_AGO) -> Path:
    """Write a sealed file that was changed last at some time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=3)
    os.utime(path, ns=(mtime_ns, mtime_ns))
    return path


def file_of(root: Path, rank: int) -> Path:
    """Name the file of a rank."""
    return root / "attempt=0" / f"samples-r{rank:03d}-000000.parquet"


def many(root: Path, files: int = FILES) -> Path:
    """Write a ledger of one sealed file a rank."""
    for rank in range(files):
        put(rows(rank), file_of(root, rank))
    return root


def index_of(root: Path) -> Path:
    """Name the index of the attempt."""
    return root / "attempt=0" / store.INDEX


def said(ledger: Ledger) -> tuple[Any, ...]:
    """Give all that a ledger's footers tell, and what is made of them."""
    groups = [
        (group.file, group.start, group.rows, *(group.bounds(name) for name in KINDS))
        for part in ledger._samples["0"]
        for group in part.groups or ()
    ]
    extents = ledger.extents().rows()
    return groups, extents, ledger.records("0", 0).sort("rank", "step").rows(), ledger.runs


@cache
def heard() -> list[tuple[str, str]]:
    """Give a list to which every opening and listing of this process is added from now on."""
    said: list[tuple[str, str]] = []

    def hear(name: str, told: tuple[Any, ...]) -> None:
        if name in ("open", "os.scandir"):
            said.append((name, str(told[0])))

    sys.addaudithook(hear)  # it can never be taken away: there is one
    return said


def footers_read(root: Path) -> list[str]:
    """Open a ledger, and list the sealed files that Python opened."""
    heard().clear()
    open_ledger([root])
    told = [f"{name} {path}" for name, path in heard()]
    listed = [line for line in told if line.startswith("os.scandir") and "attempt=" in line]
    assert len(listed) == len(set(listed)), "a folder was listed twice"
    return [line.split("/")[-1] for line in told if line.endswith(".parquet")]


def still(root: Path) -> Path:
    """Let nothing have happened in a ledger's folders for long."""
    for folder in (root / "attempt=0", root):
        os.utime(folder, ns=(LONG_AGO, LONG_AGO))
    return root


def test_an_index_spares_the_footers_and_says_the_same(tmp_path: Path) -> None:
    """The first look writes it, the next one opens no file that it knows, and lists once."""
    root = still(many(tmp_path / "ledger"))

    first = said(open_ledger([root]))
    still(root)

    assert index_of(root).exists()
    assert [] == footers_read(root)
    assert first == said(open_ledger([root]))


def test_few_files_have_no_index(tmp_path: Path) -> None:
    """Reading a few footers is no trouble, and no reason to write into a ledger."""
    root = many(tmp_path, files=index.FEWEST - 1)

    open_ledger([root])

    assert not index_of(root).exists()


CHANGES: dict[str, Callable[[Path], object]] = {
    "another size": lambda path: put(rows(3, range(1, 900)), path),
    "another time": lambda path: put(rows(3, range(2, 6)), path, LONG_AGO + 1),
    "gone": lambda path: path.unlink(),
    "renamed": lambda path: path.rename(path.with_name("samples-s003-000000.parquet")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_fit_is_read_anew(change: str, tmp_path: Path) -> None:
    """A file with the name of a known one and another size or time is another file."""
    root = many(tmp_path / "ledger")
    open_ledger([root])
    CHANGES[change](file_of(root, 3))

    with_index = said(open_ledger([root]))
    index_of(root).unlink()

    assert said(open_ledger([root])) == with_index


def test_many_misfits_make_it_anew(tmp_path: Path) -> None:
    """A few new files are read each time; many are worth a new index, and so are many gone."""
    root = many(tmp_path / "ledger")
    open_ledger([root])
    for rank in range(500, 510):
        put(rows(rank), file_of(root, rank))

    open_ledger([root])
    few = footers_read(still(root))
    many(root, FILES + index.FEWEST)
    open_ledger([root])

    assert 10 == len(few)
    assert [] == footers_read(still(root))
    for rank in range(index.FEWEST + 40):
        file_of(root, rank).unlink()
    size = index_of(root).stat().st_size
    open_ledger([root])
    assert index_of(root).stat().st_size < size


def test_what_may_still_change_within_its_time_is_not_kept(tmp_path: Path) -> None:
    """A file that was written just now may be replaced, with one size, within one tick."""
    root = many(tmp_path / "ledger")
    os.utime(file_of(root, 3))

    open_ledger([root])

    assert [file_of(root, 3).name] == footers_read(still(root))


def _other_version(path: Path) -> None:
    (schema, batch) = _content(path)
    metadata = {b"version": b"0" * 32}
    path.write_bytes(frame(schema.with_metadata(metadata).serialize()) + frame(batch.serialize()))


def _content(path: Path) -> tuple[pa.Schema, pa.RecordBatch]:
    with pa.ipc.open_stream(path.read_bytes()) as stream:
        return stream.schema, stream.read_next_batch()


def _without_checksum(path: Path) -> None:
    schema, batch = _content(path)
    with pa.ipc.new_stream(path, schema) as stream:
        stream.write_batch(batch)


def _with_nulls(path: Path) -> None:
    """Write what no footer says, with sound checksums: files without a name or row groups."""
    schema, batch = _content(path)
    columns = [pa.nulls(len(batch), field.type) for field in schema]
    hostile = pa.record_batch(columns, schema=schema)
    path.write_bytes(frame(schema.serialize()) + frame(hostile.serialize()))


def _places_out_of_bounds(path: Path) -> None:
    """Write lists that end behind their values, with sound checksums."""
    schema, batch = _content(path)
    ends = batch["groups"].offsets.to_numpy()
    wrong = ends.copy()
    wrong[-1] = 10**9
    content = batch.serialize().to_pybytes()
    assert 1 == content.count(ends.tobytes())
    hostile = content.replace(ends.tobytes(), wrong.tobytes())
    path.write_bytes(frame(schema.serialize()) + frame(pa.py_buffer(hostile)))


def _replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "cut": lambda path: os.truncate(path, path.stat().st_size - 9),
    "cut after its head": lambda path: path.write_bytes(frame(_content(path)[0].serialize())),
    "longer": lambda path: path.write_bytes(path.read_bytes() * 2),
    "of another version": _other_version,
    "without checksums": _without_checksum,
    "full of nulls": _with_nulls,
    "pointing out of itself": _places_out_of_bounds,
    "endless": lambda path: os.truncate(path, 1 << 40),
    "no Arrow": lambda path: path.write_text("hello\n" * 999),
    "a folder": lambda path: _replaced(path, lambda one: (one / "x").mkdir(parents=True)),
    "a pipe": lambda path: _replaced(path, os.mkfifo),
    "a link": lambda path: _replaced(path, lambda one: one.symlink_to("/dev/zero")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_index_that_is_not_sound_is_none(damage: str, tmp_path: Path) -> None:
    """Whatever stands in its place is passed over, and replaced where that can be."""
    root = many(tmp_path / "ledger")
    expected = said(open_ledger([root]))
    DAMAGE[damage](index_of(root))

    assert expected == said(open_ledger([root]))
    if damage != "a folder":
        assert [] == footers_read(still(root))


def test_no_bit_of_an_index_can_be_another(tmp_path: Path) -> None:
    """Wherever one bit is wrong, the checksums tell, and the footers are read."""
    root = many(tmp_path / "ledger")
    expected = said(open_ledger([root]))
    content = index_of(root).read_bytes()

    for place in range(0, len(content), len(content) // 97):
        wrong = bytearray(content)
        wrong[place] ^= 1 << place % 8
        index_of(root).write_bytes(wrong)
        assert index._read_index(str(root / "attempt=0"), 1 << 30) is None, place
    assert expected == said(open_ledger([root]))


def test_storage_that_is_full_has_no_index(tmp_path: Path) -> None:
    """What cannot be written is no trouble, and nothing is left of it."""
    root = many(tmp_path / "ledger")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        ledger = open_ledger([root])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert FILES == len(ledger.extents())
    assert FILES == len(list((root / "attempt=0").iterdir()))


def test_where_no_index_can_be_written_there_is_none(tmp_path: Path) -> None:
    """What cannot be written is not missed, and nothing of it is left."""
    root = many(tmp_path / "ledger")
    index_of(root).mkdir()

    assert FILES == len(open_ledger([root]).extents())
    assert FILES == len(open_ledger([root]).extents())

    assert [] == list(index_of(root).iterdir())
    assert FILES + 1 == len(list((root / "attempt=0").iterdir()))


def test_of_several_that_write_at_once_one_stays_whole(tmp_path: Path) -> None:
    """At any moment the index is whole or not there, and no half of one is left."""
    root = many(tmp_path / "ledger")
    folder = str(root / "attempt=0")
    sealed = store.in_attempt(root / "attempt=0")
    told = index.footers(sealed)
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            for _ in range(50):
                index._write(folder, told, LONG_AGO)
            os._exit(0)
        children.append(child)
    looks = [index._read_index(folder, 1 << 30) is not None for _ in range(200)]

    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    assert all(looks)
    assert {one.name for one in sealed} | {store.INDEX} == set(os.listdir(folder))


def test_a_seal_leaves_an_index_that_fits_or_none(tmp_path: Path) -> None:
    """Where few files are left, their footers are read; else the index knows all of them."""
    few, lots = many(tmp_path / "few"), many(tmp_path / "lots")
    for root in (few, lots):
        open_ledger([root])
    half = index_of(lots).with_name(f"{store.INDEX}.0123abcd.part")
    half.write_bytes(b"half")
    put(rows(900), file_of(lots, 900))

    seal(few, idle=0)
    seal(lots, idle=0, small=0)

    assert ["samples"] == [path.name[:7] for path in (few / "attempt=0").iterdir()]
    assert not half.exists()
    assert [] == footers_read(still(lots))


def test_a_sweep_leaves_the_index(tmp_path: Path) -> None:
    """What has its name already is not what a killed process left."""
    root = many(tmp_path / "ledger")
    open_ledger([root])

    sweep(root / "attempt=0")

    assert index_of(root).exists()


def test_an_index_is_no_log(tmp_path: Path) -> None:
    """Where an attempt's folder is read as a log of somebody else, the index is no part of it."""
    root = many(tmp_path / "ledger")
    open_ledger([root])

    assert FILES * 4 == len(open_ledger([root / "attempt=0"]).records("0", 0))


def test_what_was_put_away_is_known_from_the_index(tmp_path: Path) -> None:
    """What a file says of records that were not kept is told with and without an index."""
    root = many(tmp_path / "ledger")
    for rank, text in ((3, "17 records"), (4, '{"a": "2 records", "b": "some"}')):
        table = rows(rank).replace_schema_metadata({**FORMAT, "dropped": text})
        put(table, file_of(root, rank))

    for _ in range(2):
        assert {"0": (3, 19)} == Search(open_ledger([root])).put_away()
    assert index_of(root).exists()


def test_merged_files_and_other_columns_are_known_from_the_index(tmp_path: Path) -> None:
    """What a merged file stands for, which run it names and which columns it has, all stay so."""
    root = many(tmp_path / "ledger")
    names = f'["{file_of(root, 3).name}", "{file_of(root, 4).name}"]'
    told = {**FORMAT, "replaces": names, "run_id": "other"}
    merged = pa.concat_tables([rows(3), rows(4)]).replace_schema_metadata(told)
    put(merged, root / "attempt=0" / "samples-sealed-000000.parquet")
    texts = {"source": pa.array(["web"] * 4), "stage": pa.array(["used", "read"] * 2)}
    put(rows(7, **texts), file_of(root, 7))

    first, again = (open_ledger([root]) for _ in range(2))

    assert said(first) == said(again)
    assert FILES * 4 - 2 == len(again.records("0", 0))
    assert {"0": frozenset({"test", "other"})} == again.runs
    assert 2 == len(again._samples["0"])


def test_the_benchmark_of_many_files_runs() -> None:
    """It writes a ledger that is continuous, and times it in eight ways."""
    script = ROOT / "tests" / "bench" / "many_files.py"
    options = ["--ranks", "32", "--attempts", "2", "--segments", "2"]

    ran = subprocess.run(
        [sys.executable, str(script), *options], capture_output=True, text=True, check=False
    )

    assert "writing 192 files\n" == ran.stderr
    assert 0 == ran.returncode
    assert 8 == sum(
        line.startswith(("| py", "| li", "| op", "| di")) for line in ran.stdout.splitlines()
    )


def test_bounds_of_ids_are_known_where_they_are_numbers(tmp_path: Path) -> None:
    """Of ids that are text nothing is known: text is not ordered everywhere as it is here."""
    numbers, texts = tmp_path / "numbers", tmp_path / "texts"
    put(rows(0, range(1, 3)), file_of(numbers, 0))
    put(rows(0, range(1, 3), sample_id=pa.array(["a", "b"])), file_of(texts, 0))
    (number,) = open_ledger([numbers])._samples["0"][0].groups or ()
    (text,) = open_ledger([texts])._samples["0"][0].groups or ()

    assert (1000, 2000, 0) == number.bounds("sample_id")
    assert (0, 0, 0) == number.bounds("epoch")
    assert (1000, 2000, 0) == number.bounds("position")
    assert (None, None, None) == text.bounds("sample_id")
