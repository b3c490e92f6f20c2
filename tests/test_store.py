"""Which files of a ledger count."""

from pathlib import Path

import pytest

from ledger_audit.ledger.store import Segment, counting
from ledger_audit.ledger.wholeness import gaps

FOLDER = Path("attempt=a")


def segment(name: str) -> Segment:
    """Give the segment that a file's name stands for."""
    table, writer, rest = name.split("-")
    assert table in ("samples", "events")
    number = int(rest.split(".")[0])
    return Segment(FOLDER / name, "a", table, writer, number)  # type: ignore[arg-type]


NAMES = {
    "an open segment counts": (["samples-w-000000.arrows"], {}, ["samples-w-000000.arrows"]),
    "the sealed copy wins, before or behind": (
        ["samples-w-000000.arrows", "samples-w-000000.parquet"],
        {},
        ["samples-w-000000.parquet"],
    ),
    "a merged file replaces what it names, sealed or open": (
        ["samples-m-000000.parquet", "samples-v-000000.arrows", "samples-w-000000.parquet"],
        {"samples-m-000000.parquet": ["samples-v-000000.parquet", "samples-w-000000.parquet"]},
        ["samples-m-000000.parquet"],
    ),
    "two writers never collide": (
        ["samples-v-000000.parquet", "samples-w-000000.parquet"],
        {},
        ["samples-v-000000.parquet", "samples-w-000000.parquet"],
    ),
}


@pytest.mark.parametrize("case", NAMES)
def test_which_segments_count(case: str) -> None:
    """A segment number of one writer counts once."""
    names, replaced, expected = NAMES[case]
    by_path = {FOLDER / name: frozenset(others) for name, others in replaced.items()}

    for order in (names, names[::-1]):
        found = counting([segment(name) for name in order], by_path)
        assert expected == sorted(one.path.name for one in found)


def test_a_hole_in_the_numbers_is_a_lost_file() -> None:
    """Numbers begin at 0 and leave none out, unless a merged file holds them."""
    kept = [segment("samples-w-000001.parquet"), segment("samples-w-000003.parquet")]
    merged = {kept[0].path: frozenset({"samples-w-000002.parquet"})}

    assert ["samples-w-000000.parquet", "samples-w-000002.parquet"] == [
        one.path.name for one in gaps(kept, {})
    ]
    assert ["samples-w-000000.parquet"] == [one.path.name for one in gaps(kept, merged)]
