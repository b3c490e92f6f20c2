"""Random runs with planted faults: what is opened of them gives the report of all records."""

from pathlib import Path

import pytest
from gated import bare, is_settled, judged, judged_nearby
from random_pairs import FAULTS, random_pair

from ledger_audit.continuity import opening
from ledger_audit.model import Reading


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_opened_tells_what_all_records_tell(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that was never resumed, and of one that was, with the fault before or after."""
    monkeypatch.setattr(opening, "AROUND", 1)
    pair = random_pair(fault, tmp_path)
    for number, run in enumerate(pair.runs):
        full, opened = judged(pair.control, run, monkeypatch)

        assert bare(opened) == bare(full), f"{fault}, run {number}"
        near = judged_nearby(pair.control, run, monkeypatch, Reading(before=3, after=3))
        if near is not None and near.verdict == "broken":
            assert full["verdict"] == "broken", f"{fault}, run {number}"
        if number == 0:
            assert is_settled(opened), fault
