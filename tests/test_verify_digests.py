"""`verify` by digests alone, and the time that a failure took back."""

from pathlib import Path

import pyarrow as pa
import pytest
import tiny
from emitting import emit_ledger
from running import ledger_audit
from tiny import Line

from ledger_audit.ledger.digest import digest
from ledger_audit.ledger.schema import DIGEST_COLUMNS
from ledger_audit.model import Reading, Verdict
from ledger_audit.model.exposure import Exposure
from ledger_audit.verification import verify


def _epochs(lines: list[Line], batches: int) -> list[Line]:
    """Label the samples of each so many steps as an epoch, and begin their ids anew in it."""
    told = []
    for one in lines:
        if one["kind"] == "sample":
            epoch, within = divmod(one["step"] - 1, batches)
            sample = within * 4 + one["rank"] * 2 + one["row"]
            told.append({**one, "epoch": epoch, "sample_id": sample})
        else:
            told.append(one)
    return told


def _ids(path: Path, ids: list[int]) -> Path:
    path.write_text("".join(f"{one}\n" for one in ids))
    return path


def _by_digest(root: Path, manifest: Path) -> Exposure:
    return verify([root], Reading(trusts_digests=True), manifest=manifest)


def test_whole_passes_are_proven_without_a_record(tmp_path: Path) -> None:
    """Two passes over 40 samples in 10 steps each, killed and resumed in the second."""
    lines = [
        *tiny.attempt(0, tiny.dealt(1, 16)),
        *tiny.attempt(1, tiny.dealt(14, 20), after=(0, 13)),
    ]
    root = emit_ledger(_epochs(lines, 10), tmp_path / "ledger")

    found = _by_digest(root, _ids(tmp_path / "ids.txt", list(range(40))))

    assert found.verdict == Verdict.CONTINUOUS
    assert [(0, 1, 10, 40, True), (1, 11, 20, 40, True)] == [
        (one.epoch, one.first_step, one.last_step, one.records, one.by_digest)
        for one in found.generations
    ]


def test_a_pass_that_is_not_over_is_not_proven_by_the_one_before(tmp_path: Path) -> None:
    """What follows the last whole pass may still come, or was skipped."""
    root = emit_ledger(_epochs(tiny.attempt(0, tiny.dealt(1, 14)), 10), tmp_path / "ledger")

    found = _by_digest(root, _ids(tmp_path / "ids.txt", list(range(40))))

    assert found.verdict == Verdict.UNPROVEN
    assert [True, False] == [one.by_digest for one in found.generations]
    assert ["pass-not-over"] == [one.code for one in found.limits]


@pytest.mark.parametrize("ids", [[*range(39), 99], list(range(39)), list(range(41))])
def test_another_manifest_lets_the_records_be_counted(ids: list[int], tmp_path: Path) -> None:
    """Its digest is another; then the records say what is missing and what is not listed."""
    root = emit_ledger(_epochs(tiny.attempt(0, tiny.dealt(1, 20)), 10), tmp_path / "ledger")
    manifest = _ids(tmp_path / "ids.txt", ids)

    trusting = _by_digest(root, manifest)
    counting = verify([root], Reading(), manifest=manifest)

    assert trusting.verdict != Verdict.CONTINUOUS
    assert trusting.generations == counting.generations
    assert not any(one.by_digest for one in trusting.generations)


def test_a_replay_has_another_digest(tmp_path: Path) -> None:
    """As many records as a pass has prove nothing if one of them came twice."""
    lines = _epochs(tiny.attempt(0, tiny.dealt(1, 10)), 10)
    twice = [{**one, "sample_id": 0} if one.get("sample_id") == 39 else one for one in lines]
    root = emit_ledger(twice, tmp_path / "ledger")

    found = _by_digest(root, _ids(tmp_path / "ids.txt", list(range(40))))

    assert found.verdict != Verdict.CONTINUOUS
    assert not any(one.by_digest for one in found.generations)


def test_records_that_writers_did_not_keep_are_proven_by_digests(tmp_path: Path) -> None:
    """`retain` leaves the digests: nobody has to ask for them."""
    lines = _epochs(tiny.attempt(0, tiny.dealt(1, 20)), 10)
    for step in range(2, 21, 2):
        for rank in (0, 1):
            at = max(
                place
                for place, one in enumerate(lines)
                if one["kind"] == "commit" and (one["step"], one["rank"]) == (step, rank)
            )
            for phase in ("complete", "begin"):
                save = {"kind": "checkpoint", "attempt": 0, "rank": rank, "step": step}
                lines.insert(at + 1, {**save, "data": {"phase": phase}})
    root = emit_ledger(lines, tmp_path / "ledger", segment_bytes=1, retain=2)
    manifest = _ids(tmp_path / "ids.txt", list(range(40)))

    without = verify([root], Reading(), samples={None: 40})
    found = verify([root], Reading(), manifest=manifest)

    assert "records-unseen" in {one.code for one in without.limits}
    assert without.verdict == Verdict.UNPROVEN
    assert found.verdict == Verdict.CONTINUOUS
    assert all(one.by_digest for one in found.generations)


def test_a_digest_that_lies_is_found_unless_digests_are_trusted(tmp_path: Path) -> None:
    """The records of a try have another digest than its commit tells: nothing is proven."""
    lines = []
    for one in _epochs(tiny.attempt(0, tiny.dealt(1, 10)), 10):
        if one["kind"] == "start":
            one["data"] = {**one["data"], "digest_columns": list(DIGEST_COLUMNS)}
        if one["kind"] == "commit":
            first = (one["step"] - 1) * 4 + one["rank"] * 2
            epoch = pa.array([0, 0], pa.int32())
            told = digest([pa.array([first, first + 1]), None, None, None, epoch])
            is_wrong = (one["step"], one["rank"]) == (5, 1)
            one["data"] = {"samples": 2, "digest": str(told + is_wrong)}
        lines.append(one)
    root = tiny.write(tmp_path / "ledger", lines)

    read = verify([root], Reading(), samples={None: 40})
    trusted = verify([root], Reading(trusts_digests=True), samples={None: 40})

    assert ["digest-mismatch"] == [one.code for one in read.limits]
    assert "rank 1, step 5" in read.limits[0].text
    assert (read.verdict, trusted.verdict) == (Verdict.UNPROVEN, Verdict.CONTINUOUS)


def test_the_time_lost_is_the_median_of_each_rank_by_its_own_clock(tmp_path: Path) -> None:
    """Clocks of two hosts stand far apart; what each measured against itself does not."""
    lines = [
        *tiny.attempt(0, tiny.dealt(1, 4)),
        *tiny.attempt(1, tiny.dealt(3, 6), after=(0, 2)),
    ]
    for one in lines:
        if one["kind"] != "sample" and one["attempt"] == 0:
            seconds = one.get("step", 0) * (10 if one["rank"] == 0 else 14)
            one["time_ns"] = (seconds + 3_600 * one["rank"]) * 10**9
    root = tiny.write(tmp_path / "run", lines)

    (loss,) = verify([root], Reading()).losses

    assert (20 + 28) / 2 == loss.seconds
    told = ledger_audit("verify", root).out
    assert "2 steps, 8 samples, 24 s" in told
