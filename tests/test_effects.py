"""`verify --effects`: the net effect on each sample, against lists and loops."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tiny
from conftest import FIXTURES, ROOT
from emitting import emit_ledger
from faults import make
from native import read_lines, write_ledger
from running import ledger_audit
from test_verify import RUNS, cut, right, size, used
from verify_oracle import effects

from ledger_audit.continuity.exposure import repeats
from ledger_audit.continuity.exposure.effects import EFFECTS
from ledger_audit.redaction import hide

ZOO = FIXTURES / "zoo"
FATES = {"void": "void", "uncommitted": "uncommitted", "rolled_back": "rolled-back"}


def listed(root: Path, folder: Path, *options: str | Path) -> pl.DataFrame:
    """Write and read the effects of a run; the report is that without them."""
    path = folder / "effects.parquet"
    plain = ledger_audit("verify", root, *options, "--format", "json")
    ran = ledger_audit("verify", root, *options, "--format", "json", "--effects", path)
    assert (plain.code, plain.out, "") == (ran.code, ran.out, ran.err)
    assert [path.name] == [one.name for one in folder.glob("*effects*")]
    return pl.read_parquet(path)


def told(
    rows: pl.DataFrame, *, in_parts: bool
) -> dict[tuple[Any, ...], tuple[int, frozenset[Any]]]:
    """Give uses and lost work by sample; of parts only whether any came again."""
    found = {}
    for row in rows.iter_rows(named=True):
        lost = frozenset((fate, one) for name, fate in FATES.items() for one in row[name])
        uses = min(row["uses"], 2) if in_parts else row["uses"]
        found[row["source"], row["epoch"], row["sample_id"]] = (uses, lost)
        effect = {0: "never", 1: "none"}.get(row["uses"], "again")
        assert (row["promised"], row["effect"]) == (1, effect)
        assert row["is_listed"] is None
    assert len(found) == rows.height
    return found


def expected(folder: Path, *, in_parts: bool) -> dict[tuple[Any, ...], tuple[int, frozenset[Any]]]:
    """Give what lists and loops say of samples that were not plainly used once."""
    return {
        key: (min(one.uses, 2) if in_parts else one.uses, one.lost)
        for key, one in effects(folder).items()
        if one.uses != 1 or one.lost
    }


def has_spans(folder: Path) -> bool:
    """Tell whether any record has a span."""
    return any(line.get("token_start") is not None for line in read_lines(folder))


@pytest.mark.parametrize("folder", RUNS[::3], ids=lambda one: f"{one.parent.name}/{one.name}")
def test_the_effect_on_each_sample_is_what_lists_and_loops_say(
    folder: Path, tmp_path: Path
) -> None:
    """Of every third run: uses, what was lost with whom, and nothing of what was plainly used."""
    rows = listed(folder, tmp_path)
    in_parts = has_spans(folder)

    assert expected(folder, in_parts=in_parts) == told(rows, in_parts=in_parts)
    assert rows.equals(rows.sort("source", "epoch", "sample_id", nulls_last=False))


@pytest.mark.parametrize("fault", ["rewind", "void-before-checkpoint", "several-restarts"])
def test_the_effect_on_samples_of_random_jobs(fault: str, tmp_path: Path) -> None:
    """Blends, packed rows, spans, text ids and voids."""
    for seed in range(3):
        folder, _ = make(fault, seed, clean=False).write(tmp_path / str(seed))
        in_parts = has_spans(folder)
        rows = listed(folder, tmp_path)
        assert expected(folder, in_parts=in_parts) == told(rows, in_parts=in_parts)


def test_the_method_does_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sealed in any number of files, with little memory, and a few samples at a time."""
    source = ZOO / "torch-ddp-epoch-restart" / "run"
    one = listed(source, tmp_path)
    monkeypatch.setattr(repeats, "FEWEST", 1)
    monkeypatch.setattr(repeats, "BYTES", 1 << 24)
    root = write_ledger(read_lines(source), tmp_path / "run", rng=random.Random(1))

    assert one.equals(listed(root, tmp_path, "--memory", "64MiB"))


def _with_list(ids: Sequence[int], folder: Path) -> Path:
    path = folder / "ids.txt"
    path.write_text("".join(f"{one}\n" for one in ids))
    return path


def test_a_list_tells_who_never_came_and_who_is_none_of_it(tmp_path: Path) -> None:
    """Only of passes that are over; what may yet come is not said to be missing."""
    root = tiny.write(tmp_path / "run", right(epochs=2))
    ids = _with_list([*range(1, 16), 70, 71], tmp_path)

    rows = listed(root, tmp_path, "--manifest", ids).rows_by_key(
        ["epoch", "sample_id"], named=True, unique=True
    )

    assert {70, 71} == {one for epoch, one in rows if rows[epoch, one]["effect"] == "never"}
    assert {0} == {epoch for epoch, one in rows if one in (70, 71)}
    assert not rows[0, 0]["is_listed"]
    assert not rows[1, 0]["is_listed"]
    assert all(row["is_listed"] for (_, one), row in rows.items() if one)


def test_what_a_source_promises_is_told(tmp_path: Path) -> None:
    """Two uses are promised: one is fewer, where a list tells who that may be; three are again."""
    every = [*range(8), *range(1, 8), 7]
    root = tiny.write(
        tmp_path / "run", tiny.attempt(0, cut(used([*every, *every, 0, 0])), **size(8))
    )
    terms = tmp_path / "contract.toml"
    terms.write_text('[repeats]\n"*" = 4\n')

    rows = listed(root, tmp_path, "--contract", terms)

    assert rows.select("sample_id", "promised", "uses", "effect").rows() == [(7, 4, 6, "again")]
    more = [*used(range(8)), *used(range(1, 8)), *used([0], 1)]
    root = tiny.write(tmp_path / "other", tiny.attempt(0, cut(more)))
    terms.write_text('[repeats]\n"*" = 2\n')
    ids = _with_list(range(8), tmp_path)

    rows = listed(root, tmp_path, "--contract", terms, "--manifest", ids)

    assert rows.filter(epoch=0).select("sample_id", "uses", "effect").rows() == [(0, 1, "fewer")]


def test_ids_are_hidden_where_reports_hide_them(tmp_path: Path) -> None:
    """With a salt no id stands in the file, and the same sample has the same hash as in reports."""
    root = ZOO / "torch-ddp-epoch-restart" / "run"
    plain = listed(root, tmp_path)

    hidden = listed(root, tmp_path, "--redact", "salt")

    assert {hide(str(one), "salt") for one in plain["sample_id"]} == {*hidden["sample_id"]}
    assert hidden.drop("sample_id").sort(pl.all()).equals(plain.drop("sample_id").sort(pl.all()))


def test_nothing_is_listed_where_nothing_was_counted(tmp_path: Path) -> None:
    """Digests prove a run as a whole, and no sample of it; a share is none of all."""
    lines = tiny.attempt(0, cut([one for epoch in (0, 1) for one in used(range(16), epoch)]))
    run = emit_ledger(lines, tmp_path / "run")
    ids = _with_list(range(16), tmp_path)
    path = tmp_path / "effects.parquet"
    proven = ledger_audit("verify", run, "--manifest", ids, "--trust-digests", "--format", "json")
    assert all(one["by_digest"] for one in proven.report["generations"])
    for options in (
        ("--manifest", ids, "--trust-digests"),
        ("--bucket", "1/2", "-o", tmp_path / "piece"),
    ):
        ran = ledger_audit("verify", run, *options, "--effects", path)

        assert 2 == ran.code, options
        assert "--effects" in ran.err
        assert not path.exists()


def test_every_column_and_effect_is_in_the_docs() -> None:
    """The page says all that the file holds."""
    page = (ROOT / "docs" / "verify.md").read_text()
    section = page[page.index("## The effect on each sample") : page.index("## Digests")]
    for name in [*EFFECTS, "sample_id", "none", "again", "fewer", "never"]:
        assert f"`{name}`" in section


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """The error names the option; what stood there before stays."""
    run = ZOO / "torch-ddp-double-failure" / "run"
    for path in (tmp_path / "no" / "such", tmp_path / "\udcff"):
        ran = ledger_audit("verify", run, "--effects", path)

        assert (2, "") == (ran.code, ran.out)
        assert "--effects: cannot write" in ran.err
