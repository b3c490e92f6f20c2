"""Where the first resumed records stand in the order in which samples were consumed."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from conftest import FIXTURES
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import Line, Steps, attempt, dealt, write

from ledger_audit.audit import DIFF
from ledger_audit.continuity import windows as cut
from ledger_audit.continuity.circumstances import Circumstances
from ledger_audit.continuity.first_place import first_place
from ledger_audit.continuity.resume import audit_resume
from ledger_audit.model import Reading
from ledger_audit.sources import open_source


def stands(folder: Path, resume: int = 1) -> int | None:
    """Give where the first records of a resume stand, all of its windows read."""
    source = open_source([folder], Reading())
    windows = cut.Windows(
        checkpoint_step=source.lineage.chain[resume].resumed_at or 0,
        committed=cut.committed_window(source, resume),
        reference=cut.rolled_back_window(source, resume),
        resumed=cut.resumed_window(source, resume),
        reference_kind="rolled-back",
    )
    around = Circumstances(has_commits=source.has_commits)
    audited = audit_resume(windows, DIFF, around, from_attempt=None, to_attempt="1")
    return first_place(audited.classified, audited.facts, audited.report.positions)


def after(folder: Path, before: Steps, resumed: Steps, step: int = 4, **more: int) -> int | None:
    """Give where they stand of an attempt that resumed from a step of another one."""
    lines = attempt(1, resumed, after=(0, step), **more)
    return stands(write(folder, attempt(0, before), lines))


# Eight steps of two ranks with two samples each; the checkpoint is step 4, 16 were consumed.


@pytest.mark.parametrize(
    ("at", "place"),
    [(16, 0), (12, -4), (0, -16), (8, -8), (20, 4), (24, 8), (15, -1), (14, -2), (18, 2), (17, 1)],
)
def test_the_first_records_stand_where_the_stream_goes_on(
    tmp_path: Path, at: int, place: int
) -> None:
    """Behind or ahead, by whole steps or by single samples that come to other ranks."""
    assert place == after(tmp_path, dealt(1, 8), dealt(5, 7, at=at))


def test_they_stand_at_the_beginning_however_little_was_replayed(tmp_path: Path) -> None:
    """A stream that began again stands at 0 from its first step on."""
    assert -16 == after(tmp_path, dealt(1, 8), dealt(5, 5, at=0))


@pytest.mark.parametrize(("at", "place"), [(16, 0), (13, -3), (19, 3), (0, -16)])
def test_other_ranks_may_deal_the_stream_otherwise(tmp_path: Path, at: int, place: int) -> None:
    """Fewer ranks and smaller steps stand where their first sample does."""
    assert place == after(tmp_path, dealt(1, 8), dealt(5, 9, ranks=1, rows=3, at=at))


LANES: Mapping[str, tuple[tuple[int, int], int | None]] = {
    "both go on": ((4, 4), 0),
    "one goes on and one begins again": ((4, 0), -4),
    "one goes on and one is ahead": ((4, 6), 2),
    "one is behind and one ahead": ((2, 6), None),
    "both are behind, one further": ((3, 2), -3),
}


@pytest.mark.parametrize("name", LANES)
def test_ranks_with_streams_of_their_own_are_added_up(tmp_path: Path, name: str) -> None:
    """Each rank stands somewhere in its own lane; to both sides at once there is no one place."""
    starts, place = LANES[name]

    def lanes(first: int, last: int, starts: tuple[int, int]) -> dict[int, list[list[int]]]:
        return {
            step: [[100 * rank + begin + step - first] for rank, begin in enumerate(starts)]
            for step in range(first, last + 1)
        }

    assert place == after(tmp_path, lanes(1, 8, (0, 0)), lanes(5, 7, starts))


@pytest.mark.parametrize(
    "first",
    [
        [[3, 9], [7, 1]],
        [[16, 25], [18, 19]],
        [[16, 17], [0, 1]],
        [[0, 1], [0, 1]],
        [[900, 901], [902, 903]],
    ],
)
def test_samples_in_another_order_stand_nowhere(tmp_path: Path, first: list[list[int]]) -> None:
    """A scattered step, one that uses a sample twice, or new samples tell no place."""
    assert after(tmp_path, dealt(1, 8), {5: first, 6: [[20, 21], [22, 23]]}) is None


def test_what_is_used_later_was_not_skipped(tmp_path: Path) -> None:
    """Steps that change places are in another order, and the first of them is not ahead."""
    assert after(tmp_path, dealt(1, 8), {**dealt(5, 5, at=20), **dealt(6, 6, at=16)}) is None


def test_what_void_updates_used_comes_before_what_is_next(tmp_path: Path) -> None:
    """Using it again stands behind by as much; where it was used since, it is counted once."""
    before = attempt(0, dealt(1, 8), void=(4,))
    lines = attempt(1, dealt(5, 7, at=12), after=(0, 4))
    redone = write(tmp_path / "redone", before, lines)
    going_on = write(tmp_path / "on", before, attempt(1, dealt(5, 7), after=(0, 4)))
    again = {**dealt(1, 3), **dealt(4, 8, at=8)}
    retried = write(
        tmp_path / "retried",
        attempt(0, again, void=(3,)),
        attempt(1, dealt(5, 7, at=4), after=(0, 4)),
    )

    assert -4 == stands(redone)
    assert 0 == stands(going_on)
    assert -8 == stands(retried)


def test_beyond_the_reference_nothing_tells_how_much_was_skipped(tmp_path: Path) -> None:
    """The lost work ends before the first resumed record."""
    assert after(tmp_path, dealt(1, 6), dealt(5, 7, at=28)) is None


def test_no_place_is_told_where_records_are_missing(tmp_path: Path) -> None:
    """A step that its commit says is not whole, on either side, or a rank that left nothing."""

    def short(step: int, lines: list[Line]) -> list[Line]:
        place, told = {"kind": "commit", "rank": 0, "step": step}, {"data": {"samples": 3}}
        return [{**one, **told} if place.items() <= one.items() else one for one in lines]

    before, resumed = attempt(0, dealt(1, 8)), attempt(1, dealt(5, 7), after=(0, 4))
    behind = attempt(1, dealt(5, 7, at=12), after=(0, 4))
    ahead = attempt(1, dealt(5, 7, at=24), after=(0, 4))
    one_rank = [line for line in resumed if line["rank"] == 0]

    assert stands(write(tmp_path / "a", before, short(5, resumed))) is None
    assert stands(write(tmp_path / "b", short(3, before), behind)) is None
    assert stands(write(tmp_path / "c", short(5, before), ahead)) is None
    assert stands(write(tmp_path / "d", before, one_rank)) is None
    assert 0 == stands(write(tmp_path / "e", short(3, before), resumed))
    assert 0 == stands(write(tmp_path / "f", before, short(6, resumed)))


@pytest.mark.parametrize(
    ("case", "resume", "place"),
    [
        ("cases/a-cursor-counts-accepted-rows-and-the-stream-raw-ones", 1, -3),
        ("cases/a-cursor-counts-the-raw-rows-that-were-read", 1, 0),
        ("cases/a-frozen-state-says-zero-after-the-first-resume", 1, 0),
        ("cases/a-frozen-state-says-zero-after-the-first-resume", 2, -24),
        ("cases/only-rank-0-saves-its-state", 1, -15),
        ("cases/the-sampler-is-ahead-by-what-its-workers-queued", 1, 8),
        ("traps/planned-stop-with-positions", 1, 0),
        ("traps/planned-stop-jumped-by-two-positions", 1, 2),
        ("traps/only-one-rank-in-four-is-logged", 1, None),
        ("traps/four-ranks-to-one-over-a-padded-epoch-end", 1, 0),
        ("cases/lanes-of-vanished-ranks-are-left-behind", 1, None),
        ("cases/workers-swap-batches-of-neighbouring-steps", 1, None),
        ("zoo/hf-trainer-batch-changed", 1, -88),
        ("zoo/lightning-epoch-end", 1, 0),
        ("zoo/lightning-plain-midepoch", 1, -80),
        ("zoo/lightning-stateful", 1, None),
        ("zoo/olmo-gbs-changed", 1, -12),
        ("zoo/streaming-plain-loader-rank-count", 1, -72),
        ("zoo/torch-ddp-elastic-4to2-correct", 1, 0),
        ("zoo/torch-ddp-partial-accum", 1, 8),
        ("zoo/torch-ddp-prefetched-position", 1, None),
    ],
)
def test_known_runs(case: str, resume: int, place: int | None) -> None:
    """Real and small runs stand where their cause puts them, or where nobody can tell."""
    assert place == stands(FIXTURES / case / "run", resume)


JOBS = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(2, 5))


@given(JOBS, JOBS, st.data())
@settings(max_examples=60, deadline=None)
def test_wherever_a_stream_goes_on_it_is_found(
    job: tuple[int, int, int, int], other: tuple[int, int, int, int], data: st.DataObject
) -> None:
    """Of a stream in one order, no place but the right one is told, and it is where it can be."""
    ranks, rows, step, more = job
    consumed, batch = step * ranks * rows, other[0] * other[1]
    known = consumed + more * ranks * rows
    at = data.draw(st.integers(0, known + batch))
    resumed = dealt(step + 1, step + other[3], ranks=other[0], rows=other[1], at=at)
    with TemporaryDirectory() as folder:
        place = after(Path(folder), dealt(1, step + more, ranks=ranks, rows=rows), resumed, step)

    assert place in (at - consumed, None)
    is_within = at + batch <= known - ranks * rows
    same = (ranks, rows) == other[:2]
    if is_within and same:
        assert place is not None
