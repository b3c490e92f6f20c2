"""Logs that others wrote: gzip, torn tables, OLMo's data indices, several files."""

import gzip
import json
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from conftest import FIXTURES
from running import ledger_audit

from ledger_audit.ledger.opening import open_ledger
from ledger_audit.ledger.reader import Ledger

OLMO = FIXTURES / "foreign" / "olmo-data-indices"
HEAD = "rank,step,slot,sample_id\n"


def samples_of(ledger: Ledger, attempt: str = "0") -> list[tuple[object, ...]]:
    """Give rank, step, slot, row, id and number of every record, in the order of writing."""
    rows, _ = ledger.everything(attempt)
    return rows.select("rank", "step", "slot", "row", "sample_id", "seq").rows()


def ids_of(*roots: Path) -> list[object]:
    """Give the ids of rank 0 by `seq`."""
    ledger = open_ledger(roots)
    found = [ledger.everything(attempt)[0].filter(rank=0) for attempt in ledger.attempts]
    return [one for rows in found for one in rows.sort("seq")["sample_id"].to_list()]


def as_text(suffix: str, lines: Sequence[tuple[int, ...]]) -> bytes:
    """Write records of rank, step, slot and id in a format of text."""
    names = ("rank", "step", "slot", "sample_id")
    if suffix in (".jsonl", ".ndjson"):
        return "".join(
            json.dumps(dict(zip(names, line, strict=True))) + "\n" for line in lines
        ).encode()
    separator = "\t" if suffix == ".tsv" else ","
    return "".join(
        separator.join(str(one) for one in line) + "\n" for line in (names, *lines)
    ).encode()


LINES = [(0, step, 0, 10_000 + 97 * step) for step in range(1, 200)]
TEXTS = [".csv", ".tsv", ".jsonl", ".ndjson"]


@pytest.mark.parametrize("suffix", TEXTS)
def test_packed_is_read_like_unpacked(suffix: str, tmp_path: Path) -> None:
    """Gzip changes nothing, in one member or several, with or without a byte-order mark."""
    text = as_text(suffix, LINES)
    plain, packed, several = (
        tmp_path / f"{name}{suffix}{end}" for name, end in (("a", ""), ("b", ".gz"), ("c", ".GZ"))
    )
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text))
    several.write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]))

    found = [samples_of(open_ledger([path])) for path in (plain, packed, several)]

    assert [line[3] for line in LINES] == [row[4] for row in found[0]]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("suffix", TEXTS)
def test_cut_gzip_gives_its_sound_lines(suffix: str, tmp_path: Path) -> None:
    """Cut at every third byte, a packed log gives a beginning of its records, and is torn."""
    path = tmp_path / f"a{suffix}.gz"
    text = as_text(suffix, LINES)
    whole = gzip.compress(text[:2000]) + gzip.compress(text[2000:])
    counts = []
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        ledger = open_ledger([path])
        ids = [row[4] for row in samples_of(ledger)]
        assert [line[3] for line in LINES[: len(ids)]] == ids
        assert [one.reason for one in ledger.unread] == ["torn"] or length == len(
            gzip.compress(text[:2000])
        )
        counts.append(len(ids))
    assert sorted(counts) == counts
    assert counts[-1] > 150


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_cut_table_never_gives_half_a_number(suffix: str, end: str, tmp_path: Path) -> None:
    """Cut anywhere, a plain table gives whole lines: 135 is never read as 13."""
    path = tmp_path / f"a{suffix}"
    text = as_text(suffix, LINES[:12]).replace(b"\n", end.encode())
    head = text.index(b"\n") + 1
    for length in range(head, len(text)):
        path.write_bytes(text[:length])
        ledger = open_ledger([path])
        ids = [row[4] for row in samples_of(ledger)]
        is_whole = text[:length].endswith(b"\n")
        assert [line[3] for line in LINES[: text[:length].count(b"\n") - 1]] == ids
        assert (not is_whole) == bool(ledger.unread)


def test_a_torn_table_proves_nothing_after_its_end(tmp_path: Path) -> None:
    """A checkpoint that the torn log does not reach leaves the committed window in doubt."""
    for name, first, last in (("pre", 1, 9), ("post", 7, 12)):
        text = "".join(
            f"{rank},{step},0,{2 * step + rank}\n"
            for step in range(first, last + 1)
            for rank in (0, 1)
        )
        (tmp_path / f"{name}.csv").write_text(HEAD + text)
    pre, post = tmp_path / "pre.csv", tmp_path / "post.csv"
    arguments = ("--post", post, "--checkpoint-step", "6", "--format", "json")
    assert 0 == ledger_audit("diff", pre, *arguments).code
    pre.write_text(pre.read_text()[: pre.read_text().index("0,6,0")] + "0,6,0,1")

    ran = ledger_audit("diff", pre, *arguments)

    assert 3 == ran.code
    assert "unread-segment" in {one["code"] for one in ran.report["resumes"][0]["limits"]}


def test_a_torn_file_that_holds_nothing_leaves_every_attempt_in_doubt(tmp_path: Path) -> None:
    """Whose records it held cannot be told."""
    (tmp_path / "a.jsonl").write_bytes(as_text(".jsonl", LINES))
    (tmp_path / "b.jsonl").write_text('{"rank":1,"st')
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(HEAD.encode())[:-9])

    unread = open_ledger([tmp_path]).unread

    assert [("0", None), ("0", None)] == [(one.attempt, one.from_step) for one in unread]


LAUNCH_TWICE = "1\t5\t6\n2\t7\t8\n3\t9\t1\n3\t9\t2\n4\t3\t4\n"


def test_data_indices_of_olmo_are_read() -> None:
    """Rank by the file's name, everything in slot 0, rows by order; half a line is left out."""
    ledger = open_ledger([OLMO / "before"])

    first = [row for row in samples_of(ledger) if row[0] == 1][:5]
    torn = {Path(one.file).name: one.from_step for one in ledger.unread}

    assert [
        (1, 1, 0, 0, 109, 0),
        (1, 1, 0, 1, 83, 1),
        (1, 1, 0, 2, 5, 2),
        (1, 1, 0, 3, 77, 3),
        (1, 2, 0, 0, 74, 4),
    ] == first
    assert {"rank1.tsv.gz": 10} == torn
    assert 76 == len(samples_of(ledger))


def test_the_cursor_that_jumped_is_found_in_data_indices() -> None:
    """The eight samples of step 7 are skipped, as counted by hand in `why.txt`."""
    ran = ledger_audit(
        "diff", OLMO / "before", "--post", OLMO / "after", "--checkpoint-step", "6",
        "--format", "json",
    )  # fmt: skip

    (resume,) = ran.report["resumes"]
    (skipped,) = [one for one in resume["findings"] if one["code"] == "skipped"]
    assert 1 == ran.code
    assert 8 == resume["outcomes"]["expected"]["skipped"]["records"]
    assert 0 == resume["outcomes"]["resumed"]["replayed"]["records"]
    assert {"67", "66", "72", "4", "125", "12", "50", "96"} == set(skipped["examples"])


def test_a_step_that_is_written_again_is_another_launch(tmp_path: Path) -> None:
    """A restart that was appended is an attempt of its own, assumed and so proven nothing."""
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.tsv").write_text(LAUNCH_TWICE)

    ledger = open_ledger([tmp_path])
    ran = ledger_audit("diff", tmp_path, "--format", "json")

    assert ("0", "1") == ledger.attempts
    assert [3, 3, 4, 4] == [row[1] for row in samples_of(ledger, "1") if row[0] == 0]
    assert 3 == ran.code
    assert "lineage-assumed" in {one["code"] for one in ran.report["resumes"][0]["limits"]}


def test_a_log_of_one_launch_holds_no_other(tmp_path: Path) -> None:
    """`--post` compares two launches: a third in one of the logs is not merged in silence."""
    (tmp_path / "rank0.tsv").write_text(LAUNCH_TWICE)

    ran = ledger_audit("diff", tmp_path, "--post", OLMO / "after", "--checkpoint-step", "2")

    assert 4 == ran.code
    assert "line 4 (step 3 after 3) was written by another launch of rank 0" in ran.err


def test_another_file_of_a_rank_is_another_launch() -> None:
    """OLMo begins a file with every launch."""
    assert ("0", "1") == open_ledger([OLMO / "before", OLMO / "after"]).attempts


def test_a_table_that_is_named_like_data_indices_is_a_table(tmp_path: Path) -> None:
    """The first line decides: with a header, it is TSV."""
    (tmp_path / "rank3.tsv").write_text(HEAD.replace(",", "\t") + "1\t2\t3\t4\n")

    assert [(1, 2, 3, None, 4, 0)] == samples_of(open_ledger([tmp_path]))


@pytest.mark.parametrize("name", ["rank3.tsv", "rank3.tsv.gz"])
def test_an_empty_file_of_a_rank_is_torn(name: str, tmp_path: Path) -> None:
    """A rank that was killed before its first line may have used anything."""
    (tmp_path / "rank0.tsv").write_text("1\t5\n")
    (tmp_path / name).write_bytes(b"")

    assert [(name, "0", None)] == [
        (Path(one.file).name, one.attempt, one.from_step) for one in open_ledger([tmp_path]).unread
    ]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".tsv.gz"])
def test_the_order_of_writing_goes_on_from_file_to_file(suffix: str, tmp_path: Path) -> None:
    """A rank that is spread over files is the rank that one file holds, part 9 before part 10."""
    lines = [
        (rank, step, slot, 1000 * step + 10 * nth + rank)
        for step in (1, 2, 3)
        for slot in (0, 1)
        for nth in range(4)
        for rank in (0, 1)
    ]
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir()
    many.mkdir()
    written(one / f"log{suffix}", lines)
    cuts = [0, 5, 11, 29, len(lines)]
    for number, (begin, end) in enumerate(pairwise(cuts), 8):
        written(many / f"part-{number}{suffix}", lines[begin:end])

    assert ids_of(one) == ids_of(many)
    assert 0 == ledger_audit("gate", one, many).code
    rows, _ = open_ledger([many]).everything("0")
    assert not rows.select("rank", "seq").is_duplicated().any()


@pytest.mark.parametrize("name", ["zoo/megatron-correct", "traps/overflow-right-after-the-resume"])
def test_a_log_that_is_cut_into_files_gives_the_verdict_of_one(name: str, tmp_path: Path) -> None:
    """Packed sequences and void tries need the order of writing: a false alarm without it."""
    run = FIXTURES / name / "run"
    for file in run.glob("*.jsonl"):
        lines = file.read_text().splitlines(keepends=True)
        third = len(lines) // 3
        for number, begin in enumerate((0, third, 2 * third), 9):
            part = lines[begin : begin + third] if number < 11 else lines[begin:]
            (tmp_path / f"{file.stem}-{number}.jsonl").write_text("".join(part))

    whole, cut = (
        ledger_audit("diff", "--full", root, "--format", "json") for root in (run, tmp_path)
    )

    assert 0 == whole.code == cut.code
    assert whole.report["resumes"] == cut.report["resumes"]


def written(path: Path, lines: Sequence[tuple[int, ...]]) -> None:
    """Write records in the format of a file's suffix."""
    if path.suffix == ".parquet":
        names = ["rank", "step", "slot", "sample_id"]
        pl.DataFrame(lines, schema=names, orient="row").write_parquet(path)
    else:
        text = as_text(Path(path.name.removesuffix(".gz")).suffix, lines)
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def test_a_log_with_its_own_seq_is_numbered_after_it(tmp_path: Path) -> None:
    """Files with and without `seq` do not collide; events count with samples."""
    sample = {"rank": 0, "slot": 0}
    (tmp_path / "a.jsonl").write_text(
        json.dumps({**sample, "step": 1, "sample_id": 1, "seq": 41}) + "\n"
    )
    (tmp_path / "b.jsonl").write_text(
        json.dumps({"kind": "commit", "rank": 0, "step": 1}) + "\n"
        + json.dumps({**sample, "step": 2, "sample_id": 2}) + "\n"
    )  # fmt: skip
    (tmp_path / "c.csv").write_text(f"{HEAD}0,3,0,3\n")

    rows, events = open_ledger([tmp_path]).everything("0")

    assert [41, 43, 44] == rows["seq"].to_list()
    assert [42] == events["seq"].to_list()


def test_ids_of_a_table_keep_their_text(tmp_path: Path) -> None:
    """Where one id is no integer all are text, as they were written, however late it comes."""
    (tmp_path / "a.csv").write_text(
        HEAD + "".join(f"0,{step},0,{step:07d}\n" for step in range(1, 70_000)) + "0,70000,0,x\n"
    )

    ids = ids_of(tmp_path / "a.csv")

    assert ["0000001", "0069999", "x"] == [ids[0], ids[-2], ids[-1]]


def test_quoted_fields_may_hold_anything(tmp_path: Path) -> None:
    """Separators, quotes and line breaks inside quotes belong to the field."""
    (tmp_path / "a.csv").write_text(f'note,{HEAD}"a,b\n""c""\n\n",0,1,0,"x,\n""y"""\n"",0,2,0,z\n')

    assert ['x,\n"y"', "z"] == ids_of(tmp_path / "a.csv")


GOOD = gzip.compress(as_text(".csv", LINES))
BAD = {
    "packed parquet": ("a.parquet.gz", GOOD, "unpack it with gunzip"),
    "packed arrow": ("a.arrow.gz", GOOD, "unpack it with gunzip"),
    "packed nothing": ("a.gz", GOOD, "says nothing about the format"),
    "no gzip": ("a.csv.gz", b"rank,step", "is not gzip, whatever its name says"),
    "zeros": ("a.csv.gz", bytes(100), "is not gzip, whatever its name says"),
    "damaged": ("a.csv.gz", GOOD[:300] + b"\xff" * 30 + GOOD[330:], "is damaged inside"),
    "bad checksum": ("a.csv.gz", GOOD[:-8] + bytes(8), "is damaged inside"),
    "behind the end": ("a.csv.gz", GOOD + b"more", "is damaged inside"),
    "empty": ("a.csv", b"", "cannot be read: it has no header line"),
    "short line": ("a.csv", b"rank,step,slot,sample_id\n0,1\n0,1,0,1\n", "line 2 has 2 fields"),
    "long line": ("a.tsv", b"rank\tstep\tslot\tsample_id\n\n0\t1\t2\t3\t4\n", "3 has 5 fields"),
    "twice": ("a.csv", b"rank,step,step,slot,sample_id\n", "the column 'step' is there twice"),
    "many columns": ("a.csv", b"," * 20_000 + b"\n", "names 20,001 columns"),
    "open quote": ("a.csv", b'rank,step,slot,sample_id\n0,1,0,"a\n0,1,0,2\n', "line 2 opens a"),
    "after a quote": ("a.csv", b'rank,step,slot,sample_id\n0,1,0,"a"b\n', "line 2 cannot be read"),
    "long field": ("a.csv", b"rank,step,slot,sample_id\n0,1,0," + b"a" * 140_000 + b"\n", "line 2"),
    "no utf-8": ("a.csv", b"rank,step,slot,sample_id\n0,1,0,\xe4\n", "line 2 is not UTF-8"),
    "old line ends": ("a.csv", b"rank,step,slot,sample_id\r0,1,0,1\r", "cannot be read"),
    "a fraction": ("a.csv", b"rank,step,slot,sample_id\n0,1,0,1\n0,2.0,0,1\n", "3: the column"),
    "huge": ("a.csv", b"rank,step,slot,sample_id\n0,99999999999999999999,0,1\n", "not integers"),
    "nul": ("a.csv", b"rank,step,slot,sample_id\n\x000,1,0,1\n", "'\\x000'"),
    "huge rank": ("a.csv", b"rank,step,slot,sample_id\n99999999999,1,0,1\n", "cannot be read"),
    "some seq": ("a.csv", b"rank,step,slot,sample_id,seq\n0,1,0,1,0\n0,1,0,2,\n", "null in 1 of 2"),
    "null slot": ("a.csv", b"rank,step,slot,sample_id\n0,1,,1\n", "null 'slot'"),
    "no indices": ("rank0.tsv", b"1\t2\n2\tx\n", "line 2 is not a step and the indices"),
    "half an index": ("rank0.tsv", b"1\t2\n2\t3.5\n", "line 2 is not a step"),
    "huge index": ("rank0.tsv", b"1\t2\n2\t" + b"9" * 20 + b"\n", "line 2 is not a step"),
    "very huge index": ("rank0.tsv", b"1\t2\n2\t" + b"9" * 9999 + b"\n", "line 2 is not a step"),
    "no rank": ("rank99999999999.tsv", b"1\t2\n", "is no rank"),
    "label": ("a.jsonl", b'{"rank":0,"step":1,"slot":0,"sample_id":1,"attempt":[1]}\n', "a label"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_log_is_named_with_its_line_and_a_remedy(name: str, tmp_path: Path) -> None:
    """What cannot be read ends with exit code 4, the file's name, the line, and what to do."""
    file, content, message = BAD[name]
    path = tmp_path / file
    path.write_bytes(content)

    ran = ledger_audit("gate", path, path)

    assert 4 == ran.code
    assert message in ran.err
    assert str(path) in ran.err
    assert "  try: " in ran.err
    assert "" == ran.out
    assert 2 == len(ran.err.splitlines())


def test_a_log_beside_its_packed_copy_is_refused(tmp_path: Path) -> None:
    """Its records would count twice."""
    (tmp_path / "rank0.tsv").write_text("1\t5\n")
    (tmp_path / "rank0.tsv.gz").write_bytes(gzip.compress(b"1\t5\n"))

    for root in (tmp_path, tmp_path / "*"):
        ran = ledger_audit("diff", root)
        assert 4 == ran.code
        assert "is there packed and unpacked" in ran.err


@pytest.mark.parametrize("seed", range(40))
def test_no_damage_gives_a_traceback(seed: int, tmp_path: Path) -> None:
    """Whatever bytes change, are lost or come twice, a run ends with a code of its own."""
    rng = random.Random(seed)
    names = ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz", "rank0.tsv", "rank0.tsv.gz"]
    name = names[seed % len(names)]
    text = (
        LAUNCH_TWICE.encode()
        if name.startswith("rank")
        else as_text(Path(name.removesuffix(".gz")).suffix, LINES[:20])
    )
    whole = bytearray(gzip.compress(text) if name.endswith(".gz") else text)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(whole))
        what = rng.choice([b"", b"\x00", b'"', b"\n", b"\r", b"\t", b",", b"\xff", b"-", b"9" * 30])
        whole[at : at + rng.randint(0, 2)] = what
    (tmp_path / name).write_bytes(whole)

    for command in (("diff", tmp_path / name), ("convert", tmp_path / name, "-o", tmp_path / "l")):
        ran = ledger_audit(*command)
        assert ran.code in (0, 1, 2, 3, 4), (seed, ran.err)
        assert "Traceback" not in ran.err, seed
        assert all(one.isprintable() for line in ran.err.splitlines() for one in line), seed
