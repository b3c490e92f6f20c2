"""`verify --bucket` and `merge`: a whole run counted in pieces, with the report of one process."""

import json
import random
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import piecing
import polars as pl
import pytest
import tiny
import xxhash
from conftest import ANY_RUNS, FIXTURES
from faults import make
from hypothesis import given
from hypothesis import strategies as st
from native import read_lines, write_ledger
from piecing import pieces_of
from running import Ran, ledger_audit
from test_hostile import NASTY
from test_verify import QUICK, RECORD, RIGHT, ZOO, changed, cut, right, used

from ledger_audit.ledger.buckets import Bucket
from ledger_audit.ledger.pieces import bucket_in, read_piece, write_piece


def pieces(ledger: Path | str, folder: Path, of: int, *options: str | Path) -> list[Path]:
    """Count a ledger in so many pieces."""
    return pieces_of(("verify", ledger, *options), folder, of)


def same(ledger: Path, folder: Path, of: int, *options: str | Path) -> Ran:
    """Count a ledger in pieces and whole: the same bytes and the same exit code."""
    return piecing.same(("verify", ledger, *options), folder, of)


@pytest.mark.parametrize(
    "folder", ANY_RUNS[::3], ids=lambda one: f"{one.parent.parent.name}/{one.parent.name}"
)
def test_pieces_of_any_run_add_up(folder: Path, tmp_path: Path) -> None:
    """Real runs, traps and cases; some as sealed segments in any number of files."""
    number = len(folder.parent.name)
    if number % 2 and folder.parents[1].name != "traps":
        folder = write_ledger(read_lines(folder), tmp_path / "run", rng=random.Random(number))
    same(folder, tmp_path, number % 4 + 1)


@pytest.mark.parametrize("fault", ["rewind", "void-before-checkpoint", "positions"])
def test_pieces_of_random_jobs_add_up(fault: str, tmp_path: Path) -> None:
    """Blends, packed rows, spans, text ids and voids."""
    for seed in range(3):
        folder, _ = make(fault, seed, clean=False).write(tmp_path / str(seed))
        same(folder, tmp_path, 3)


@QUICK
@given(
    first=st.lists(RECORD, min_size=1, max_size=14),
    second=st.lists(RECORD, max_size=10),
    void=st.sets(st.integers(1, 5)),
    uncommitted=st.sets(st.integers(1, 5)),
    of=st.sampled_from([1, 2, 3, 9]),
    listed=st.sets(st.integers(0, 7)),
)
def test_any_split_of_any_job_gives_the_same_bytes(
    first: list[Any],
    second: list[Any],
    void: set[int],
    uncommitted: set[int],
    of: int,
    listed: set[int],
) -> None:
    """Spans that overlap, epochs that mix, void and lost tries; with a list and without."""

    def records(told: list[Any]) -> list[dict[str, Any]]:
        return [
            {"sample_id": one, "token_start": start, "token_end": start + length, "epoch": epoch}
            for one, start, length, epoch in told
        ]

    steps = cut(records(first), 3)
    parts = [tiny.attempt(0, steps, void=[*void - uncommitted], uncommitted=[*uncommitted])]
    if second:
        at = min(2, max(steps))
        parts.append(tiny.attempt(1, cut(records(second), 3, at + 1), after=(0, at)))
    with tempfile.TemporaryDirectory() as folder:
        root = tiny.write(Path(folder) / "run", *parts)
        ids = Path(folder) / "ids.txt"
        ids.write_text("".join(f"{one}\n" for one in sorted(listed)))
        same(root, Path(folder), of, *(["--manifest", ids] if listed else []))


def test_ids_of_any_text_are_shared_out(tmp_path: Path) -> None:
    """What is missing, not listed and used again is named alike, whatever ids hold."""
    names = [*dict.fromkeys([*NASTY, *(f"doc-{n:03}" for n in range(10)), "ß漢\u202e", "x" * 5000])]
    every = [one for epoch in (0, 1) for one in used(names, epoch)]
    root = tiny.write(tmp_path / "run", tiny.attempt(0, cut(every)))
    listed = [*names[:-4], "never-1", "never-2"]
    manifest = tmp_path / "ids.parquet"
    pl.DataFrame({"sample_id": listed}).write_parquet(manifest)

    told = same(root, tmp_path, 4, "--manifest", manifest).report

    first = told["generations"][0]
    assert sorted(names[-4:]) == sorted(first["unlisted_examples"])
    assert ["never-1", "never-2"] == first["missing_examples"]


def test_more_records_than_a_commit_says_are_looked_at_in_every_piece(tmp_path: Path) -> None:
    """A surplus shows in all records only: pieces that saw their own alone would not see it."""
    lines = right()
    extra = next(one for one in lines if one["kind"] == "sample" and one["step"] == 2)
    lines.append(extra | {"seq": 10**6, "sample_id": 5, "row": 9})

    root = tiny.write(tmp_path / "run", lines)
    head, tables = read_piece(pieces(root, tmp_path / "pieces", 4)[0])

    assert [2] == tables["odd"]["step"].to_list(), head
    same(root, tmp_path, 4)


def test_digests_and_lists_that_prove_all_leave_nothing_to_count(tmp_path: Path) -> None:
    """With --trust-digests a piece is empty, and the report is proven by digests all the same."""
    run = ZOO / RIGHT / "run"
    ids = tmp_path / "ids.txt"
    ids.write_text("".join(f"{one}\n" for one in range(205)))

    same(run, tmp_path, 2, "--manifest", ids, "--trust-digests")
    same(run, tmp_path, 2, "--manifest", ids)


def test_what_a_bucket_holds_does_not_depend_on_the_machine() -> None:
    """The hash of an integer is a product, that of a text its XXH64: neither may ever change."""
    numbers, texts = [0, 1, -5, 7, 1 << 40, -(1 << 63)], ["", "a", "ß漢", "x" * 100]
    products = [one * 0x9E3779B97F4A7C15 % (1 << 64) >> 40 for one in numbers]
    hashes = [xxhash.xxh64_intdigest(one.encode(), seed=42) for one in texts]
    for ids, hashed, dtype in ((numbers, products, pl.Int64()), (texts, hashes, pl.String())):
        for number in (1, 2, 3):
            rows = pl.DataFrame({"sample_id": pl.Series(ids, dtype=dtype)})
            own = [one for one, at in zip(ids, hashed, strict=True) if at % 3 + 1 == number]
            assert own == rows.filter(Bucket(number, 3).holds(dtype))["sample_id"].to_list()


def test_buckets_are_about_as_large() -> None:
    """Neighbours, strides and negative numbers are spread over all buckets."""
    for step in (1, 8, 64, 1 << 20):
        ids = pl.DataFrame({"sample_id": pl.int_range(-8000 * step, 8000 * step, step, eager=True)})
        held = [ids.filter(Bucket(n, 16).holds(pl.Int64())).height for n in range(1, 17)]
        assert sum(held) == 16000
        assert max(held) < 2 * min(held), step


def test_waived_limits_and_redaction_are_those_of_verify(tmp_path: Path) -> None:
    """A piece carries what was asked; how ids are told is said when they are."""
    run = FIXTURES / "traps" / "planned-stop-without-positions" / "run"
    same(run, tmp_path, 2, "--allow-unproven", "pass-not-over")
    found = pieces(ZOO / "torch-ddp-epoch-restart" / "run", tmp_path / "other", 2)
    one = ledger_audit("verify", ZOO / "torch-ddp-epoch-restart" / "run", "--redact", "salt")
    assert one.out == ledger_audit("merge", *found, "--redact", "salt").out


def _without_one(paths: list[Path]) -> list[Path]:
    return paths[:-1]


def _one_twice(paths: list[Path]) -> list[Path]:
    return [*paths[:-1], paths[0]]


def _one_too_many(paths: list[Path]) -> list[Path]:
    return [*paths, paths[0]]


@pytest.mark.parametrize("change", [_without_one, _one_twice, _one_too_many])
def test_all_pieces_are_needed_once(
    change: Callable[[list[Path]], list[Path]], tmp_path: Path
) -> None:
    """A missing piece, or one that is there twice, is never a verdict."""
    found = change(pieces(tiny.write(tmp_path / "run", right()), tmp_path / "pieces", 3))

    ran = ledger_audit("merge", *found)

    assert 2 == ran.code
    assert "missing" in ran.err or "twice" in ran.err


def _cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _one_byte_changed(path: Path) -> None:
    told = bytearray(path.read_bytes())
    told[len(told) // 2] ^= 0xFF
    path.write_bytes(told)


def _of_another_kind(path: Path) -> None:
    path.write_text("no piece")


def _other_tables(path: Path) -> None:
    head, tables = read_piece(path)
    write_piece(path, head, {**tables, "used": tables["used"].cast({"records": pl.Int32()})})


def _fewer_records(path: Path) -> None:
    head, tables = read_piece(path)
    records = tables["used"].with_columns(pl.col("records") - 1)
    write_piece(path, head, {**tables, "used": records})


def _no_head(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        told = '{"schema": "ledger-audit/piece/1", "of": "verify", "bucket": [1, 2]}'
        archive.writestr("head.json", told)


@pytest.mark.parametrize(
    "damage",
    [_cut_short, _one_byte_changed, _of_another_kind, _other_tables, _fewer_records, _no_head],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_damaged_piece_is_refused(
    damage: Callable[[Path], None], place: int, tmp_path: Path
) -> None:
    """What is no piece, or not whole, is an input that cannot be read, and never a verdict."""
    found = pieces(tiny.write(tmp_path / "run", right()), tmp_path / "pieces", 2)
    damage(found[place])

    ran = ledger_audit("merge", *found)

    assert (4, "") == (ran.code, ran.out)
    assert "try:" in ran.err


def _grown(root: Path) -> None:
    tiny.write(root, tiny.attempt(2, cut(used([1, 2], 2), 4, 3), after=(0, 2)))


def _shorter_list(root: Path) -> None:
    (root.parent / "ids.txt").write_text("1\n")


def _other_terms(root: Path) -> None:
    (root.parent / "contract.toml").write_text('promise = "at-least-once"\n')


@pytest.mark.parametrize("change", [_grown, _shorter_list, _other_terms])
def test_pieces_of_what_has_changed_are_refused(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    """A ledger that grew, another list, another contract: the pieces are of something else."""
    root, ids, terms = (tmp_path / name for name in ("run", "ids.txt", "contract.toml"))
    tiny.write(root, right())
    ids.write_text("".join(f"{one}\n" for one in range(16)))
    terms.write_text('promise = "exactly-once"\n')
    found = pieces(root, tmp_path / "pieces", 2, "--manifest", ids, "--contract", terms)
    assert 0 == ledger_audit("merge", *found).code
    change(root)

    ran = ledger_audit("merge", *found)

    assert (4, "") == (ran.code, ran.out)


def test_pieces_of_different_runs_are_refused(tmp_path: Path) -> None:
    """Each fits its own ledger, and they do not fit each other."""
    one = pieces(tiny.write(tmp_path / "a", right()), tmp_path / "pieces-a", 2)
    other = changed(right(), lambda line: line | {"sample_id": line["sample_id"] + 100})
    two = pieces(tiny.write(tmp_path / "b", other), tmp_path / "pieces-b", 2)

    assert 4 == ledger_audit("merge", one[0], two[1]).code


@pytest.mark.parametrize(
    "options",
    [
        ["--bucket", "1/2"],
        ["-o", "piece"],
        ["--bucket", "0/2", "-o", "piece"],
        ["--bucket", "3/2", "-o", "piece"],
        ["--bucket", "1/2/3", "-o", "piece"],
        ["--bucket", "1/70000", "-o", "piece"],
        ["--bucket", "1/2", "-o", "piece", "--format", "json"],
        ["--bucket", "1/2", "-o", "no/such/folder/piece"],
    ],
)
def test_a_bucket_that_cannot_be_meant_is_refused(
    options: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong shares, or a report of a share, are told at once; nothing is written."""
    root = tiny.write(tmp_path / "run", right())
    monkeypatch.chdir(tmp_path)

    assert 2 == ledger_audit("verify", root, *options).code
    assert not Path("piece").exists()


def test_a_piece_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    """Threads and temporary names leave no trace in it."""
    root = ZOO / "torch-ddp-epoch-restart" / "run"
    one, two = (pieces(root, tmp_path / name, 2) for name in ("a", "b"))

    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert "bucket" in json.loads(json.dumps(read_piece(one[0])[0]))
    assert bucket_in(read_piece(one[1])[0], one[1]) == (2, 2)
