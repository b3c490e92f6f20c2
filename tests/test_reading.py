"""What the archive reads, what it says of what it cannot read, and that it always says it."""

import gc
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from conftest import FIXTURES
from faults import make
from native import SAMPLES, read_lines, tables, write_ledger, write_segment
from running import ledger_audit

from ledger_audit.ledger.lines import Lines

ZOO = FIXTURES / "zoo"
RUN = ZOO / "torch-ddp-partial-accum"
SHAPES = [
    "torch-ddp-correct",
    "torch-ddp-double-failure",
    "torch-ddp-partial-accum",
    "megatron-correct",
    "olmo-gbs-changed",
    "webdataset-epoch-restart",
]


def judged(*arguments: str | Path) -> list[dict[str, object]]:
    """Run with a JSON report and give all that does not name the input."""
    report = ledger_audit(*arguments, "--format", "json").report
    return [report["resumes"], report["lineage"], report["verdict"], report.get("stream")]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "open"])
def test_a_ledger_of_our_own_reads_like_the_lines_it_was_made_of(
    name: str, sealed: bool, tmp_path: Path
) -> None:
    """Parquet and Arrow segments, cut and shuffled, give the very report that the lines give."""
    lines = read_lines(ZOO / name / "run")
    root = write_ledger(lines, tmp_path / "ledger", rng=random.Random(7), sealed=sealed)

    assert judged("diff", ZOO / name / "run") == judged("diff", root)


def test_several_roots_are_one_ledger(tmp_path: Path) -> None:
    """Node-local disks collected by hand are merged, whatever their order."""
    lines = read_lines(RUN / "run")
    roots = [
        write_ledger([line for line in lines if line["rank"] in ranks], tmp_path / str(number))
        for number, ranks in enumerate([(0, 3), (1,), (2,)])
    ]

    assert judged("diff", RUN / "run") == judged("diff", *roots) == judged("diff", *roots[::-1])


def test_a_file_with_many_ranks_is_read(tmp_path: Path) -> None:
    """A merged file holds many ranks, and what it names as replaced is not read again."""
    root = write_ledger(read_lines(RUN / "run"), tmp_path / "ledger")
    for folder in root.iterdir():
        parts = sorted(folder.glob("samples-*.parquet"))
        merged = pa.concat_tables([pq.read_table(part) for part in parts])
        names = json.dumps([part.name for part in parts])
        metadata = {"format": "1", "writer": "merged", "replaces": names}
        write_segment(merged, folder / "samples-merged-000000", metadata=metadata)
    with_both = judged("diff", root)
    for part in root.glob("*/samples-r*.parquet"):
        part.unlink()

    assert judged("diff", RUN / "run") == with_both == judged("diff", root)


def test_the_sealed_copy_of_a_segment_wins(tmp_path: Path) -> None:
    """A segment number counts once: while a ledger is sealed, both copies may be there."""
    lines = read_lines(RUN / "run")
    root = write_ledger(lines, tmp_path / "ledger")
    write_ledger(lines, root, sealed=False)

    assert judged("diff", RUN / "run") == judged("diff", root)


def test_what_two_segments_both_hold_is_read_once(tmp_path: Path) -> None:
    """Overlapping `seq` of one writer with equal content is no repeat."""
    root = write_ledger(read_lines(RUN / "run"), tmp_path / "ledger")
    part = next(root.glob("attempt=1/samples-r00000x-000000.parquet"))
    shutil.copy(part, part.with_name("samples-r00000x-000001.parquet"))

    assert judged("diff", RUN / "run") == judged("diff", root)


def test_what_two_segments_tell_differently_is_corruption(tmp_path: Path) -> None:
    """Overlapping `seq` of one writer with other content cannot be read."""
    root = write_ledger(read_lines(RUN / "run"), tmp_path / "ledger")
    part = next(root.glob("attempt=1/samples-r00000x-000000.parquet"))
    table = pq.read_table(part)
    place = table.schema.get_field_index("sample_id")
    other = table.set_column(place, "sample_id", pa.array([7] * table.num_rows, pa.int64()))
    write_segment(other, part.with_name("samples-r00000x-000001"))

    ran = ledger_audit("diff", root)

    assert ran.code == 4
    assert "two different records" in ran.err


def test_an_open_segment_is_read_up_to_its_last_sound_batch(tmp_path: Path) -> None:
    """Cut at any length, a stream gives back exactly the batches that were complete."""
    lines = [line for line in read_lines(RUN / "run") if line["attempt"] == 0]
    root = write_ledger([line for line in lines if line["rank"] == 0], tmp_path, sealed=False)
    file = next(root.glob("attempt=0/samples-*.arrows"))
    whole = file.read_bytes()
    counts = []
    for length in range(0, len(whole), 97):
        file.write_bytes(whole[:length])
        try:
            counts.append(pl.from_arrow(_sound(file)).height)
        except pa.ArrowInvalid:
            counts.append(0)
        ran = ledger_audit("diff", root)
        assert ran.code in (3, 4)
    assert sorted(counts) == counts
    assert max(counts) > 20


def _sound(file: Path) -> pa.Table:
    reader = pa.ipc.open_stream(file.read_bytes())
    batches = []
    while True:
        try:
            batches.append(reader.read_next_batch())
        except (StopIteration, pa.ArrowInvalid, OSError):
            return pa.Table.from_batches(batches, schema=reader.schema)


def test_a_torn_segment_inside_a_window_proves_nothing(tmp_path: Path) -> None:
    """Committed steps whose records were cut off are no skip: the clause is unproven."""
    lines = read_lines(ZOO / "torch-ddp-correct" / "run")
    root = write_ledger(lines, tmp_path / "ledger", sealed=False)
    file = next(root.glob("attempt=1/samples-r00002x-000000.arrows"))
    file.write_bytes(file.read_bytes()[:9000])

    ran = ledger_audit("diff", "--full", root, "--format", "json")

    resume = ran.report["resumes"][0]
    assert ran.code == 3
    assert "unread-segment" in {limit["code"] for limit in resume["limits"]}
    assert resume["outcomes"]["expected"]["skipped"]["records"] == 0


def test_a_missing_segment_number_is_noticed(tmp_path: Path) -> None:
    """A hole in a writer's numbers is a lost file, not a skip."""
    lines = read_lines(ZOO / "torch-ddp-correct" / "run")
    root = write_ledger(lines, tmp_path / "ledger", rng=random.Random(1))
    next(root.glob("attempt=1/samples-r00002x-000000.parquet")).unlink()

    ran = ledger_audit("diff", "--full", root)

    assert ran.code == 3
    assert "samples-r00002x-000000.parquet is missing or torn" in ran.out


def test_plain_windows_are_compared(tmp_path: Path) -> None:
    """Two Parquet files with rank, step, slot and sample_id are enough."""
    lines = read_lines(RUN / "run")
    for suffix in ("parquet", "csv", "arrow", "jsonl"):
        pre, post = (tmp_path / f"{name}.{suffix}" for name in ("pre", "post"))
        for attempt, file in ((0, pre), (1, post)):
            names = ("rank", "step", "slot", "epoch")
            rows = pl.DataFrame(
                [
                    {"idx": one["sample_id"], **{name: one[name] for name in names}}
                    for one in lines
                    if one["kind"] == "sample" and one["attempt"] == attempt
                ]
            )
            _write(rows, file)

        ran = ledger_audit(
            *("diff", pre, "--post", post, "--checkpoint-step", "8", "--column", "sample_id=idx"),
            *("--format", "json"),
        )
        renamed = ledger_audit("gate", pre, pre, "--column", "sample_id=idx")

        assert ran.code == 1
        assert ran.report["resumes"][0]["outcomes"]["expected"]["skipped"]["records"] == 8
        assert renamed.code == 0


def _write(rows: pl.DataFrame, file: Path) -> None:
    writers: dict[str, Callable[[Path], object]] = {
        ".parquet": rows.write_parquet,
        ".csv": rows.write_csv,
        ".arrow": rows.write_ipc,
        ".jsonl": rows.write_ndjson,
    }
    writers[file.suffix](file)


BAD = {
    "not-parquet": ("pre.parquet", b"hello there", "is not Parquet"),
    "cut-parquet": ("pre.parquet", b"PAR1" + b"x" * 100, "is cut short"),
    "rotten-footer": ("pre.parquet", b"PAR1" + b"x" * 100 + b"PAR1", "cannot be read"),
    "not-arrow": ("pre.arrow", b"hello there, this is no stream", "is not an Arrow IPC stream"),
    "not-json": ("pre.jsonl", b"{]\n{}\n", "line 1 is not JSON"),
    "no-object": ("pre.jsonl", b"[1]\n", "line 1 is not a JSON object"),
    "no-rank": ("pre.jsonl", b'{"step":1,"slot":0,"sample_id":1}\n', "as 'rank'"),
    "no-slot": ("pre.jsonl", b'{"rank":0,"step":1,"sample_id":1}\n', "has no 'slot'"),
    "float-id": ("pre.jsonl", b'{"rank":0,"step":1,"slot":0,"sample_id":1.5}\n', "'sample_id'"),
    "text-step": ("pre.jsonl", b'{"rank":0,"step":"1","slot":0,"sample_id":1}\n', "'step'"),
    "huge-rank": ("pre.jsonl", b'{"rank":99999999999,"step":1,"slot":0,"sample_id":1}\n', "number"),
    "unknown-kind": ("pre.jsonl", b'{"kind":"x","rank":0}\n', "unknown kind"),
    "two-id-types": (
        "pre.jsonl",
        b'{"rank":0,"step":1,"slot":0,"sample_id":1}\n{"rank":0,"step":1,"slot":0,"sample_id":"a"}',
        "changes the type of 'sample_id'",
    ),
    "no-column": ("pre.csv", b"rank,step,sample_id\n0,1,2\n", "column 'slot' is missing"),
    "text-rank": ("pre.csv", b"rank,step,slot,sample_id\na,1,0,2\n", "'rank' (rank) holds"),
    "binary": ("pre.jsonl", bytes(range(256)), "is not JSON"),
    "empty-csv": ("pre.csv", b"", "cannot be read"),
    "odd-suffix": ("pre.txt", b"", "says nothing about the format"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_with_its_field_and_a_remedy(name: str, tmp_path: Path) -> None:
    """What cannot be read ends with exit code 4, the file's name, and what to do."""
    file, content, message = BAD[name]
    path = tmp_path / file
    path.write_bytes(content)

    for command in (("diff", path), ("gate", path, path)):
        ran = ledger_audit(*command)
        assert ran.code == 4
        assert message in ran.err
        assert str(path) in ran.err
        assert "  try: " in ran.err
        assert ran.out == ""


@pytest.mark.parametrize("metadata", [{"writer": "x"}, {"format": "2"}], ids=["none", "newer"])
def test_an_unknown_format_is_refused(metadata: dict[str, str], tmp_path: Path) -> None:
    """A file that does not say format 1 is not guessed at, sealed or open."""
    for sealed in (True, False):
        root = write_ledger(
            read_lines(RUN / "run"), tmp_path / str(sealed), metadata=metadata, sealed=sealed
        )

        ran = ledger_audit("diff", root)

        assert ran.code == 4
        assert "reads format '1'" in ran.err


def test_a_stray_file_in_an_attempt_is_refused(tmp_path: Path) -> None:
    """What is not named like a segment is neither skipped in silence nor read."""
    root = write_ledger(read_lines(RUN / "run"), tmp_path)
    (root / "attempt=0" / "notes.txt").write_text("hello")

    assert ledger_audit("diff", root).code == 4


def test_ids_of_two_types_never_match(tmp_path: Path) -> None:
    """A control with integers and a run with text are refused, not called different."""
    lines = read_lines(RUN / "run")
    text = [
        {**one, "sample_id": str(one["sample_id"])} if one["kind"] == "sample" else one
        for one in lines
    ]
    numbers, texts = write_ledger(lines, tmp_path / "a"), tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps(one) + "\n" for one in text))

    for command in (("gate", numbers, texts), ("diff", numbers, texts)):
        ran = ledger_audit(*command)
        assert ran.code == 4
        assert "'sample_id' is" in ran.err


def test_a_torn_last_line_costs_only_itself(tmp_path: Path) -> None:
    """The writer died inside its last line: the lines before it count."""
    whole = (RUN / "run" / "attempt1.jsonl").read_bytes()
    (tmp_path / "attempt0.jsonl").write_bytes((RUN / "run" / "attempt0.jsonl").read_bytes())
    (tmp_path / "attempt1.jsonl").write_bytes(whole + b'{"kind":"sample","att')

    assert (
        judged("diff", RUN / "run")[0][0]["windows"]
        == (  # type: ignore[index]
            judged("diff", tmp_path)[0][0]["windows"]  # type: ignore[index]
        )
    )


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv", "arrow"])
def test_an_empty_log_is_read(suffix: str, tmp_path: Path) -> None:
    """A log without a row is no error: it holds nothing, and the report says so."""
    file = tmp_path / f"empty.{suffix}"
    schema = {"rank": pl.Int32, "step": pl.Int64, "slot": pl.Int32, "sample_id": pl.Int64}
    _write(pl.DataFrame(schema=schema), file)

    ran = ledger_audit("diff", file)

    assert ran.code == 3
    assert "nothing was resumed" in ran.out


def test_only_the_row_groups_of_the_window_are_read(tmp_path: Path) -> None:
    """A row group outside the window may even be rotten: it is not read."""
    samples = next(iter(tables(_long_run()).values()))[0].sort_by("step")
    assert SAMPLES.field("step").type == pa.int64()
    root = write_ledger(_long_run(), tmp_path / "ledger")
    path = next(root.glob("attempt=0/samples-*"))
    path.unlink()
    metadata = {"format": "1", "writer": "x"}
    pq.write_table(samples.replace_schema_metadata(metadata), path, row_group_size=50)
    before = judged("diff", root, "--before", "5", "--after", "5")
    group = pq.ParquetFile(path).metadata.row_group(0).column(SAMPLES.get_field_index("sample_id"))
    content = bytearray(path.read_bytes())
    start = group.dictionary_page_offset or group.data_page_offset
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)

    assert before == judged("diff", root, "--before", "5", "--after", "5")
    assert ledger_audit("diff", root, "--full").code == 4


def _long_run() -> list[dict[str, object]]:
    """One rank, one sample a step: 300 steps, and the last ten once more after a resume."""
    lines: list[dict[str, object]] = []
    for attempt, first, last in ((0, 1, 300), (1, 291, 300)):
        origin = None if attempt == 0 else {"attempt": 0, "step": 290}
        start = {"world_size": 1, "resumed_from": origin}
        lines.append({"kind": "start", "attempt": attempt, "rank": 0, "data": start})
        for step in range(first, last + 1):
            place = {"attempt": attempt, "rank": 0, "step": step}
            lines.append({"kind": "sample", **place, "slot": 0, "row": 0, "sample_id": step})
            lines.append({"kind": "commit", **place, "data": {}})
    return lines


@pytest.mark.parametrize("seed", range(6))
def test_the_same_records_give_the_same_bytes(seed: int, tmp_path: Path) -> None:
    """File names, row groups, column order, segment cuts and format change no byte."""
    job = make("several-restarts", seed)
    run, _ = job.write(tmp_path / "lines")
    rng = random.Random(seed)
    lines = list(job.run)
    texts = []
    for number in range(3):
        root = tmp_path / "ledger"
        write_ledger(lines, root, rng=rng, sealed=number != 1)
        texts.append(ledger_audit("diff", "--full", root, "--format", "json").out)
        shutil.rmtree(root)

    assert texts[0] == texts[1] == texts[2]
    assert judged("diff", "--full", run)[0] == json.loads(texts[0])["resumes"]


def test_the_number_of_threads_changes_no_byte(tmp_path: Path) -> None:
    """One thread or two, the report is the same, in the same order."""
    job = make("upsampled-blend", 3)
    root = write_ledger(list(job.run), tmp_path / "ledger", rng=random.Random(3))
    command = [sys.executable, "-m", "ledger_audit", "diff", "--full", str(root)]
    texts = [
        subprocess.run(
            [*command, "--format", form],
            env={**os.environ, "POLARS_MAX_THREADS": threads},
            capture_output=True,
            check=False,
            cwd=FIXTURES.parent,
        ).stdout
        for form in ("json", "terminal")
        for threads in ("1", "2")
    ]

    assert texts[0] == texts[1] != b""
    assert texts[2] == texts[3] != b""


def test_a_log_that_is_left_in_the_middle_is_closed(tmp_path: Path) -> None:
    """Whoever stops at a line that is wrong leaves no open file for the collector to find."""
    path = tmp_path / "log.jsonl"
    path.write_text("1\n2\n")
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        lines = iter(Lines(path))
        next(lines)
        cycle: list[object] = [lines]
        cycle.append(cycle)
        del lines, cycle
    gc.collect()

    assert open_before == len(list(Path("/proc/self/fd").iterdir()))
