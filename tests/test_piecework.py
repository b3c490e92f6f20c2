"""`gate` and `diff` in pieces: what is merged is the report of one process, and nothing else."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tiny
from conftest import ANY_RUNS, FIXTURES
from faults import make
from piecing import pieces_of, same
from random_pairs import FAULTS, random_pair
from running import ledger_audit

from ledger_audit import libraries, sources
from ledger_audit.continuity import opening, summing, tallies
from ledger_audit.ledger.pieces import read_piece, write_piece
from ledger_audit.ledger.reader import Ledger

ZOO = FIXTURES / "zoo"
NARROW = ("--before", "2", "--after", "2")
PAIRS = [
    folder
    for folder in sorted([*FIXTURES.glob("zoo/*"), *FIXTURES.glob("traps/*")])
    if (folder / "control").exists()
]


@pytest.fixture
def settles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settle whatever the size."""
    monkeypatch.setattr(sources, "ROWS", 0)
    monkeypatch.setattr(opening, "AROUND", 1)


@pytest.mark.usefixtures("settles")
@pytest.mark.parametrize("folder", PAIRS, ids=lambda one: str(one.name))
def test_a_gate_in_pieces_is_a_gate(folder: Path, tmp_path: Path) -> None:
    """Of every real pair and every trap; some by digests first."""
    number = len(folder.name)
    trust = ["--trust-digests"] if number % 3 == 0 else []
    same(("gate", folder / "control", folder / "run", *trust), tmp_path, number % 4 + 1)


@pytest.mark.usefixtures("settles")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_gate_of_random_runs_in_pieces(fault: str, tmp_path: Path) -> None:
    """Epochs that are padded, short or cut; samples that come again, are foreign, or change."""
    pair = random_pair(fault, tmp_path)
    for number, run in enumerate(pair.runs):
        same(("gate", pair.control, run), tmp_path / str(number), 3)


@pytest.mark.usefixtures("settles")
def test_ids_of_text_and_odd_steps_are_shared_out(tmp_path: Path) -> None:
    """A step with more records than its commit says is looked at in every piece."""
    names = [f"doc-{number}" for number in range(64)]
    steps = {
        step: [names[4 * step - 4 : 4 * step - 2], names[4 * step - 2 : 4 * step]]
        for step in range(1, 17)
    }
    lines = tiny.attempt(0, steps, fingerprint={"dataset_samples": 64})
    control = tiny.write(tmp_path / "control", lines)
    extra = next(one for one in lines if one["kind"] == "sample" and one["step"] == 3)
    more = [*lines, extra | {"seq": 10**6, "sample_id": "doc-5", "row": 9}]
    run = tiny.write(tmp_path / "run", more)

    tables = read_piece(pieces_of(("gate", control, run), tmp_path / "odd", 4)[0])[1]

    assert [3] == tables["run-odd"]["step"].to_list()
    same(("gate", control, run), tmp_path, 4)


@pytest.mark.usefixtures("settles")
def test_the_merge_counts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ledgers passed by when the pieces were made: only steps that differ are opened."""
    pair = random_pair("replayed", tmp_path)
    found = pieces_of(("gate", pair.control, pair.runs[0]), tmp_path / "pieces", 3)
    one = ledger_audit("gate", pair.control, pair.runs[0], "--format", "json")

    def looked(*_: Any) -> None:
        raise AssertionError("records passed by")

    monkeypatch.setattr(libraries, "look", looked)
    assert one.out == ledger_audit("merge", *found, "--format", "json").out


@pytest.mark.usefixtures("settles")
@pytest.mark.parametrize("most", [0, 1, 3])
def test_too_many_repeats_are_too_many_in_pieces(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece may have few of them, and all together more than are looked at."""
    for module in (summing, tallies):
        monkeypatch.setattr(module, "MOST_AGAIN", most)
    for fault in ("replayed", "none"):
        pair = random_pair(fault, tmp_path / fault)
        same(("gate", pair.control, pair.runs[0]), tmp_path / fault, 3)


def test_a_gate_that_is_not_settled_by_counting_has_empty_pieces(tmp_path: Path) -> None:
    """Of few records all are read, and so they are where slots must be kept."""
    pair = random_pair("replayed", tmp_path)
    asked = ("gate", pair.control, pair.runs[1])

    ran = ledger_audit(*asked, "--bucket", "1/2", "-o", tmp_path / "piece")

    assert "Counted nothing: `merge` reads all records" in ran.out
    same(asked, tmp_path, 2)


@pytest.mark.usefixtures("settles")
def test_what_flags_say_goes_with_a_piece(tmp_path: Path) -> None:
    """Order, waived limits, the chosen resume and a contract are those of the one process."""
    terms = tmp_path / "contract.toml"
    terms.write_text('[[allow]]\nfinding = "replayed"\nat_most = 3\nreason = "agreed"\n')
    folder = ZOO / "torch-ddp-double-failure"
    asked = ("gate", folder / "control", folder / "run", "--order", "relative", "--resume", "1")
    waived = ("--allow-unproven", "no-later-epoch", "--contract", terms)

    told = same((*asked, *waived), tmp_path, 2).report

    assert told["contract"]["order"] == "relative"
    assert told["contract"]["allow"][-1]["reason"] == "agreed"
    assert len(told["resumes"]) == 1


@pytest.mark.parametrize(
    "folder", ANY_RUNS[::2], ids=lambda one: f"{one.parent.parent.name}/{one.parent.name}"
)
def test_a_diff_in_pieces_is_a_diff(folder: Path, tmp_path: Path) -> None:
    """Of every second run, with windows that leave something to look up."""
    number = len(folder.parent.name)
    same(("diff", folder, *NARROW), tmp_path, number % 4 + 1)


@pytest.mark.parametrize("fault", ["rewind", "positions", "void-before-checkpoint"])
def test_a_diff_of_random_jobs_in_pieces(fault: str, tmp_path: Path) -> None:
    """Blends, packed rows, spans and ids of text."""
    for seed in range(3):
        folder, _ = make(fault, seed, clean=False).write(tmp_path / str(seed))
        same(("diff", folder, *NARROW), tmp_path / str(seed), 3)


@pytest.mark.parametrize("folder", PAIRS[::4], ids=lambda one: str(one.name))
def test_a_diff_by_a_reference_in_pieces(folder: Path, tmp_path: Path) -> None:
    """What a window leaves unmatched is looked up in the reference, too."""
    asked = ("diff", folder / "run", "--reference", folder / "control", *NARROW)
    same(asked, tmp_path, 3)


def test_the_merge_looks_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the windows of two resumes ask for was found when the pieces were made."""
    asked = ("diff", ZOO / "torch-ddp-double-failure" / "run", *NARROW)
    found = pieces_of(asked, tmp_path / "pieces", 3)
    one = ledger_audit(*asked, "--format", "json")
    real, looked = Ledger.lookup, []

    def spied(ledger: Ledger, attempt: str, ids: pl.Series) -> pl.DataFrame:
        looked.extend(ids.to_list())
        return real(ledger, attempt, ids)

    monkeypatch.setattr(Ledger, "lookup", spied)
    merged = ledger_audit("merge", *found, "--format", "json")

    assert one.out == merged.out
    assert not looked
    assert sum(read_piece(path)[1]["found"].height for path in found)


def test_what_no_piece_was_asked_for_is_looked_up(tmp_path: Path) -> None:
    """A piece that was asked for less than the windows need costs time, and no truth."""
    asked = ("diff", ZOO / "torch-ddp-double-failure" / "run", *NARROW)
    found = pieces_of(asked, tmp_path / "pieces", 2)
    for path in found:
        head, tables = read_piece(path)
        write_piece(
            path, head, {**tables, "asked": tables["asked"][:0], "found": tables["found"][:0]}
        )

    assert ledger_audit(*asked).out == ledger_audit("merge", *found).out


@pytest.fixture
def asked_both(tmp_path: Path, settles: None) -> list[Sequence[str | Path]]:  # noqa: ARG001
    """Give a gate and a diff of one run."""
    pair = random_pair("replayed", tmp_path)
    return [("gate", pair.control, pair.runs[1]), ("diff", pair.runs[1], *NARROW)]


def _without(table: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        head, tables = read_piece(path)
        write_piece(path, head, {name: one for name, one in tables.items() if table not in name})

    return change


def _with_other_columns(path: Path) -> None:
    head, tables = read_piece(path)
    other = {name: one.with_columns(more=pl.lit(1)) for name, one in tables.items()}
    write_piece(path, head, other)


def _of_another_command(path: Path) -> None:
    head, tables = read_piece(path)
    write_piece(path, {**head, "of": {"gate": "diff", "diff": "gate"}[head["of"]]}, tables)


def _of_no_command(path: Path) -> None:
    head, tables = read_piece(path)
    write_piece(path, {**head, "of": "show"}, tables)


def _cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize(
    "damage",
    [_without("state"), _with_other_columns, _of_another_command, _of_no_command, _cut_short],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_damaged_piece_of_either_is_refused(
    damage: Callable[[Path], None],
    place: int,
    asked_both: list[Sequence[str | Path]],
    tmp_path: Path,
) -> None:
    """A piece that lacks something, or is of something else, is never a verdict."""
    for number, asked in enumerate(asked_both):
        found = pieces_of(asked, tmp_path / f"pieces-{number}", 2)
        damage(found[place])

        ran = ledger_audit("merge", *found)

        assert (4, "") == (ran.code, ran.out), asked
        assert "try:" in ran.err


def test_fewer_records_than_were_there_are_refused(
    asked_both: list[Sequence[str | Path]], tmp_path: Path
) -> None:
    """Pieces tell how many records all of them must have counted."""
    found = pieces_of(asked_both[0], tmp_path / "pieces", 2)
    head, tables = read_piece(found[1])
    fewer = tables["run-counts"].with_columns(pl.col("n") - 1)
    write_piece(found[1], head, {**tables, "run-counts": fewer})

    ran = ledger_audit("merge", *found)

    assert 4 == ran.code
    assert "do not add up" in ran.err


def test_pieces_of_a_ledger_that_has_grown_are_refused(
    asked_both: list[Sequence[str | Path]], tmp_path: Path
) -> None:
    """What was looked up and counted is of the ledger as it was."""
    made = [pieces_of(asked, tmp_path / f"p{n}", 2) for n, asked in enumerate(asked_both)]
    more = tiny.attempt(2, {41: [[1], [2]]}, after=(1, 40))
    tiny.write(Path(asked_both[1][1]), more)

    for found in made:
        assert 4 == ledger_audit("merge", *found).code


def test_all_pieces_are_needed_once_by_either(
    asked_both: list[Sequence[str | Path]], tmp_path: Path
) -> None:
    """A missing piece, one that is there twice, and one of another question."""
    made = [pieces_of(asked, tmp_path / f"p{n}", 2) for n, asked in enumerate(asked_both)]
    for found in made:
        assert 2 == ledger_audit("merge", found[0]).code
        assert 2 == ledger_audit("merge", *found, found[0]).code
    assert 4 == ledger_audit("merge", made[0][0], made[1][1]).code


@pytest.mark.parametrize(
    "options",
    [
        ["--full"],
        ["--wait", "2"],
        ["--post", "other", "--checkpoint-step", "3"],
        ["--engine", "spark"],
        ["--format", "json"],
        ["--report", "json=there"],
    ],
)
def test_what_does_not_go_with_a_bucket_is_refused(
    options: list[str], asked_both: list[Sequence[str | Path]], tmp_path: Path
) -> None:
    """Nothing is written for what is not looked up, or is told by `merge`."""
    piece = tmp_path / "piece"

    ran = ledger_audit(*asked_both[1], *options, "--bucket", "1/2", "-o", piece)

    assert 2 == ran.code
    assert not piece.exists()


def test_samples_that_are_drawn_anew_are_not_looked_up(tmp_path: Path) -> None:
    """Such draws are measured over all records: no share of the samples tells of them."""
    terms = tmp_path / "contract.toml"
    terms.write_text('promise = "resampled"\n')
    run = ZOO / "torch-ddp-correct" / "run"

    ran = ledger_audit(
        "diff", run, "--contract", terms, "--bucket", "1/2", "-o", tmp_path / "piece"
    )

    assert 2 == ran.code
    assert "drawn anew" in ran.err


def test_merge_tells_every_form_that_the_command_tells(
    asked_both: list[Sequence[str | Path]], tmp_path: Path
) -> None:
    """Of `gate` and `diff` also Markdown, JUnit and annotations; of `verify` two forms."""
    for number, asked in enumerate(asked_both):
        found = pieces_of(asked, tmp_path / f"p{number}", 2)
        for form in ("terminal", "markdown", "junit", "github"):
            one = ledger_audit(*asked, "--redact", "salt", "--format", form)
            many = ledger_audit("merge", *found, "--redact", "salt", "--format", form)
            assert one.out == many.out
    found = pieces_of(("verify", asked_both[1][1]), tmp_path / "verify", 2)
    assert 2 == ledger_audit("merge", *found, "--format", "markdown").code


@pytest.mark.usefixtures("settles")
def test_more_than_memory_holds_is_judged_by_pieces_likewise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first step that differs is found in what the pieces counted."""
    pair = random_pair("foreign", tmp_path)
    real = sources.open_pair

    def larger(*asked: Any) -> list[sources.Opened]:
        return [replace(one, rows=101, most=0) for one in real(*asked)]

    monkeypatch.setattr(sources, "open_pair", larger)

    told = same(("gate", pair.control, pair.runs[0]), tmp_path, 3).report

    assert "too-large-to-hold" in json.dumps(told["stream"]["limits"])
