"""Lists of sample ids: every format, and everything that a list must not be."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.id_lists import read_ids

INTEGERS, TEXT = pl.Int64(), pl.String()

Row = tuple[Any, str | None, int | None, int | None]

WHOLE: list[Row] = [(7, None, None, None), (-5, None, None, None)]
FULL: list[Row] = [(7, "web", 0, 4), (-5, None, None, None), (7, "code", 2, 2)]


def read(
    path: Path,
    *,
    column: str = "sample_id",
    source: str | None = None,
    id_type: pl.DataType | None = INTEGERS,
) -> list[Row]:
    """Read a list as rows of sample_id, source, token_start and token_end."""
    return read_ids(path, column=column, source=source, id_type=id_type).rows()


def refusal(path: Path, **options: Any) -> str:
    """Read a list that must be refused, and give what is said: message and remedy."""
    with pytest.raises(UnreadableError) as caught:
        read(path, **options)
    assert str(path) in caught.value.message
    return f"{caught.value.message} | {caught.value.hint}"


def table_of(rows: list[Row]) -> pa.Table:
    """Give rows as a table with a column that nobody asks for."""
    ids, sources, starts, ends = zip(*rows, strict=True)
    columns = {"sample_id": ids, "source": sources, "token_start": starts, "token_end": ends}
    return pa.table({**columns, "note": [["x"]] * len(rows)})


def write_parquet(path: Path, rows: list[Row]) -> None:
    pq.write_table(table_of(rows), path, row_group_size=2)


def write_dictionaries(path: Path, rows: list[Row]) -> None:
    table = table_of(rows)
    place = table.schema.get_field_index("source")
    coded = table["source"].cast(pa.string()).dictionary_encode()
    pq.write_table(table.set_column(place, "source", coded), path)


def write_arrow_file(path: Path, rows: list[Row]) -> None:
    pyarrow.feather.write_feather(table_of(rows), str(path))


def write_arrow_stream(path: Path, rows: list[Row]) -> None:
    table = table_of(rows)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=2)


def write_text_table(path: Path, rows: list[Row]) -> None:
    separator = "\t" if ".tsv" in path.name.lower() else ","
    lines = [("note", "token_end", "sample_id", "source", "token_start")]
    for sample, source, start, end in rows:
        told = ("" if one is None else str(one) for one in (end, sample, source, start))
        lines.append(("a note", *told))
    write_packed(path, "".join(f"{separator.join(line)}\n" for line in lines))


def write_json_lines(path: Path, rows: list[Row]) -> None:
    names = ("sample_id", "source", "token_start", "token_end")
    objects = [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in rows
    ]
    write_packed(path, "".join(f"{json.dumps({'note': [{}], **one})}\n" for one in objects))


def write_packed(path: Path, text: str) -> None:
    raw = text.encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


TABLES: dict[str, Callable[[Path, list[Row]], None]] = {
    "list.parquet": write_parquet,
    "list.pq": write_dictionaries,
    "list.feather": write_arrow_file,
    "list.arrow": write_arrow_file,
    "list.arrows": write_arrow_stream,
    "list.csv": write_text_table,
    "list.tsv": write_text_table,
    "list.csv.gz": write_text_table,
    "list.TSV.gz": write_text_table,
    "list.jsonl": write_json_lines,
    "list.ndjson.gz": write_json_lines,
}


@pytest.mark.parametrize("name", TABLES)
def test_every_table_gives_ids_sources_and_spans(name: str, tmp_path: Path) -> None:
    """The suffix tells the format; columns stand in any order, and others are passed over."""
    TABLES[name](tmp_path / name, FULL)

    assert FULL == read(tmp_path / name)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_gives_text_ids(name: str, tmp_path: Path) -> None:
    """Ids of a ledger with text are text, also where they look like numbers."""
    rows: list[Row] = [("007", "web", 0, 4), ("a b", None, None, None)]
    TABLES[name](tmp_path / name, rows)

    assert rows == read(tmp_path / name, id_type=TEXT)


@pytest.mark.parametrize("name", TABLES)
def test_a_source_that_the_contract_names_is_that_of_every_id(name: str, tmp_path: Path) -> None:
    """The file's own column is then passed over."""
    TABLES[name](tmp_path / name, FULL)

    expected = [(7, "books", 0, 4), (-5, "books", None, None), (7, "books", 2, 2)]
    assert expected == read(tmp_path / name, source="books")


@pytest.mark.parametrize("name", TABLES)
def test_a_column_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    """The remedy lists those that are there."""
    TABLES[name](tmp_path / name, FULL)

    said = refusal(tmp_path / name, column="index")
    assert "'index'" in said
    assert "sample_id" in said


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_another_column_may_hold_the_ids(name: str, tmp_path: Path) -> None:
    """`column` names it, and `sample_id` is then passed over."""
    (tmp_path / "a.csv").write_text("sample_id,index\nx,3\ny,4\n")
    (tmp_path / "a.jsonl").write_text('{"sample_id":"x","index":3}\n{"index":4}\n')
    pq.write_table(pa.table({"sample_id": ["x", "y"], "index": [3, 4]}), tmp_path / "a.parquet")

    assert [3, 4] == [row[0] for row in read(tmp_path / name, column="index")]


@pytest.mark.parametrize("name", ["list.txt", "list", "list.ids", "list.txt.gz"])
def test_text_is_one_id_a_line(name: str, tmp_path: Path) -> None:
    """Blank lines and comments are left out, and so is space around an id."""
    write_packed(tmp_path / name, "\ufeff# held out\n7\n\n \t\r\n  -5 \r\n#-6\n   # none\n7")

    assert WHOLE == read(tmp_path / name)


def test_text_ids_are_taken_as_they_stand(tmp_path: Path) -> None:
    """Only a line that begins with a `#` is a comment, and nothing is unquoted."""
    (tmp_path / "list.txt").write_text('doc#1\n"a",b\n007\n\x1b[31mred\n')

    ids = [row[0] for row in read(tmp_path / "list.txt", id_type=TEXT)]
    assert ["doc#1", '"a",b', "007", "\x1b[31mred"] == ids


def test_a_line_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    """The same id, source and span."""
    (tmp_path / "list.csv").write_text("sample_id,source\n1,a\n1,b\n1,a\n")

    assert [(1, "a", None, None), (1, "b", None, None)] == read(tmp_path / "list.csv")


def test_a_ledger_without_samples_takes_either_type(tmp_path: Path) -> None:
    """Nothing tells which one is right."""
    TABLES["list.parquet"](tmp_path / "a.parquet", WHOLE)
    (tmp_path / "b.jsonl").write_text('{"sample_id": "x"}\n')
    (tmp_path / "c.jsonl").write_text('{"sample_id": 3}\n')
    (tmp_path / "d.txt").write_text("3\n")

    read_of = {
        name: read(tmp_path / name, id_type=None)[0][0]
        for name in ("a.parquet", "b.jsonl", "c.jsonl", "d.txt")
    }
    assert {"a.parquet": 7, "b.jsonl": "x", "c.jsonl": 3, "d.txt": "3"} == read_of


REFUSED = {
    "a text that is no integer": ("a.txt", "7\n\n# c\nx\n", "line 4 has 'x' as 'sample_id'"),
    "a fraction": ("a.txt", "7.0\n", "line 1 has '7.0'"),
    "an integer of more than 64 bits": ("a.txt", f"{1 << 63}\n", "not a 64-bit integer"),
    "text without ids": ("a.txt", "# nothing\n\n", "holds no id"),
    "an empty text": ("a.txt", "", "holds no id"),
    "a header alone": ("a.csv", "sample_id\n", "holds no id"),
    "an empty table": ("a.csv", "", "has no column 'sample_id'"),
    "no object": ("a.jsonl", "\n\n", "holds no id"),
    "a column that is missing": ("a.csv", "id,source\n1,web\n", "it has id, source"),
    "a column twice": ("a.csv", "sample_id,sample_id\n1,2\n", "is there twice"),
    "an empty field": ("a.csv", "sample_id,x\n1,1\n,2\n", "row 2 has no id"),
    "no integer in a table": ("a.tsv", "sample_id\n1\nx\n", "row 2 has 'x'"),
    "a line with fewer fields": ("a.csv", "sample_id,source\n1,web\n2\n", "Expected 2 columns"),
    "a line with more fields": ("a.csv", "sample_id\n1\n2,web\n", "Expected 1 columns"),
    "a quote that nothing closes": ("a.csv", 'sample_id,x\n1,"a\n2,b\n', "unexpected end of data"),
    "a quote that swallows lines": ("a.csv", 'sample_id,x\n1,"a\n2,b\n3,"c\n', "line 4"),
    "one end of spans": ("a.csv", "sample_id,token_start\n1,2\n", "no 'token_end'"),
    "one end of a span": ("a.csv", "sample_id,token_start,token_end\n1,,2\n", "one end of a span"),
    "a span that ends first": (
        "a.csv",
        "sample_id,token_start,token_end\n1,0,2\n1,3,2\n",
        "row 2 has 'token_end' before 'token_start'",
    ),
    "a span before the sample": (
        "a.csv",
        "sample_id,token_start,token_end\n1,-1,2\n",
        "a negative 'token_start'",
    ),
    "no integer in a span": (
        "a.csv",
        "sample_id,token_start,token_end\n1,a,2\n",
        "has 'a' as 'token_start'",
    ),
    "text in JSON": ("a.jsonl", '{"sample_id":1}\n\n{"sample_id":"2"}\n', "line 3 has '2'"),
    "a fraction in JSON": ("a.jsonl", '{"sample_id":1.5}\n', "line 1 has 1.5"),
    "a boolean in JSON": ("a.jsonl", '{"sample_id":true}\n', "line 1 has True"),
    "a key that is missing": ("a.jsonl", '{"sample_id":1}\n{"id":2}\n', "line 2 has no"),
    "a null in JSON": ("a.jsonl", '{"sample_id":1}\n{"sample_id":null}\n', "line 2 has no"),
    "a line cut in JSON": ("a.jsonl", '{"sample_id":1}\n{"sample_i', "line 2 is not JSON"),
    "no object in JSON": ("a.jsonl", "[1]\n", "line 1 is not a JSON object"),
    "one end of a span in JSON": ("a.jsonl", '{"sample_id":1,"token_end":2}\n', "one end"),
    "a JSON document": ("a.json", "[1, 2]", "write JSON Lines"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_list_is_refused(what: str, tmp_path: Path) -> None:
    """The message names the file, the line or row, and the field."""
    name, text, expected = REFUSED[what]
    (tmp_path / name).write_text(text)

    assert expected in refusal(tmp_path / name)


TYPES: dict[str, tuple[Any, pl.DataType, str]] = {
    "fractions": (pa.array([1.0, None]), INTEGERS, "no id"),
    "whole fractions": (pa.array([1.0, 2.0]), INTEGERS, "Float64, not integers or text"),
    "text for integers": (pa.array(["1", "2"]), INTEGERS, "as the ledger's ids are"),
    "integers for text": (pa.array([1, 2]), TEXT, "as the ledger's ids are"),
    "nulls": (pa.nulls(2), INTEGERS, "row 1 has no id"),
    "a null": (pa.array([1, None]), INTEGERS, "row 2 has no id"),
    "lists": (pa.array([[1], [2]]), INTEGERS, "not integers or text"),
    "too large": (pa.array([1, 1 << 63], pa.uint64()), INTEGERS, "row 2 has 9223372036854775808"),
    "none": (pa.array([], pa.int64()), INTEGERS, "holds no id"),
}


@pytest.mark.parametrize("what", TYPES)
def test_ids_of_another_type_are_refused(what: str, tmp_path: Path) -> None:
    """Where columns have types, nothing is turned from one into the other."""
    ids, id_type, expected = TYPES[what]
    pq.write_table(pa.table({"sample_id": ids}), tmp_path / "a.parquet")

    assert expected in refusal(tmp_path / "a.parquet", id_type=id_type)


def test_narrow_integers_are_ids(tmp_path: Path) -> None:
    """Any width that fits is read."""
    pq.write_table(pa.table({"sample_id": pa.array([1, 255], pa.uint8())}), tmp_path / "a.pq")

    assert [1, 255] == [row[0] for row in read(tmp_path / "a.pq")]


def test_sources_and_spans_of_another_type_are_refused(tmp_path: Path) -> None:
    """A number is no source, and a text no token."""
    pq.write_table(pa.table({"sample_id": [1], "source": [3]}), tmp_path / "a.parquet")
    spans = {"sample_id": [1], "token_start": ["0"], "token_end": ["1"]}
    pq.write_table(pa.table(spans), tmp_path / "b.parquet")

    assert "'source' holds Int64" in refusal(tmp_path / "a.parquet")
    assert [(1, "web", None, None)] == read(tmp_path / "a.parquet", source="web")
    assert "'token_start' holds String" in refusal(tmp_path / "b.parquet")


@pytest.mark.parametrize("name", TABLES)
def test_a_list_that_is_cut_is_never_read_as_a_shorter_one(name: str, tmp_path: Path) -> None:
    """Unless a plain text ends with a whole line, which nothing can tell from a shorter list."""
    whole, cut = tmp_path / name, tmp_path / f"cut-{name}"
    TABLES[name](whole, FULL)
    raw = whole.read_bytes()
    is_plain = not name.endswith(".gz") and any(kind in name for kind in ("csv", "tsv", "json"))
    for length in range(0, len(raw), max(1, len(raw) // 97)):
        cut.write_bytes(raw[:length])
        try:
            rows = read(cut)
        except UnreadableError:
            continue
        assert is_plain
        assert FULL[: len(rows)] == rows


def test_a_stream_that_its_writer_did_not_close_is_refused(tmp_path: Path) -> None:
    """Cut between two batches, all that it holds is sound, and less than it was."""
    write_arrow_stream(tmp_path / "list.arrows", FULL)
    raw = (tmp_path / "list.arrows").read_bytes()
    (tmp_path / "list.arrows").write_bytes(raw[:-8])

    assert "torn" in refusal(tmp_path / "list.arrows")


def test_packed_text_that_is_cut_is_refused(tmp_path: Path) -> None:
    """What is lost of it would pass unnoticed."""
    raw = gzip.compress(b"".join(b"%d\n" % (number * 7919) for number in range(999)))
    for length in (0, 1, 20, len(raw) // 2, len(raw) - 1):
        (tmp_path / "list.txt.gz").write_bytes(raw[:length])
        assert "torn" in refusal(tmp_path / "list.txt.gz")


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    """An unknown suffix stands for text, and what it holds must be text."""
    (tmp_path / "list.bin").write_bytes(b"PAR1\x00\x01\x02PAR1")
    (tmp_path / "list.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "list.csv").write_bytes(b"sample_id\ncaf\xe9\n")
    (tmp_path / "list.jsonl").write_bytes(b'{"sample_id": "caf\xe9"}\n')
    (tmp_path / "utf16.txt").write_text("7\n", encoding="utf-16")
    (tmp_path / "list.parquet.gz").write_bytes(b"")

    assert "is not text" in refusal(tmp_path / "list.bin")
    for name in ("list.txt", "list.csv", "list.jsonl", "utf16.txt"):
        refusal(tmp_path / name, id_type=TEXT)
    assert "gunzip" in refusal(tmp_path / "list.parquet.gz")


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """Nothing there, a folder, or a link that leads nowhere."""
    (tmp_path / "link.txt").symlink_to(tmp_path / "nowhere")

    assert "does not exist" in refusal(tmp_path / "list.txt")
    assert "is a folder" in refusal(tmp_path)
    assert "does not exist" in refusal(tmp_path / "link.txt")
    assert "not a regular file" in refusal(Path("/dev/null"))


@given(ids=st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1))
def test_every_integer_comes_back(ids: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    """From text, a table of text, JSON Lines and Parquet alike."""
    folder = tmp_path_factory.mktemp("lists")
    rows: list[Row] = [(one, None, None, None) for one in dict.fromkeys(ids)]
    (folder / "a.txt").write_text("".join(f"{one}\n" for one in ids))
    write_parquet(folder / "a.parquet", [(one, None, None, None) for one in ids])
    write_text_table(folder / "a.csv", rows)
    write_json_lines(folder / "a.jsonl", rows)

    for name in ("a.txt", "a.parquet", "a.csv", "a.jsonl"):
        assert rows == read(folder / name)


@given(ids=st.lists(st.text(st.characters(exclude_categories=("Cs",))), min_size=1))
def test_every_text_comes_back(ids: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """From Parquet and JSON Lines, whatever is in it."""
    folder = tmp_path_factory.mktemp("lists")
    rows: list[Row] = [(one, one, None, None) for one in dict.fromkeys(ids)]
    write_parquet(folder / "a.parquet", rows)
    write_json_lines(folder / "a.jsonl", rows)

    for name in ("a.parquet", "a.jsonl"):
        assert rows == read(folder / name, id_type=TEXT)
