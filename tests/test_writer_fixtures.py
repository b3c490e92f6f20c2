"""Real runs, played through the trainer's own writer, are judged as they were."""

from pathlib import Path
from typing import Any

import pytest
from conftest import ANY_RUNS
from emitting import emit_ledger
from native import Line, read_lines
from running import ledger_audit
from tiny import write

LOST_LATER = {
    "a-lost-log-line-then-the-stream-goes-on",
    "a-step-whose-records-are-all-lost",
    "resumed-micro-batch-lost-from-the-log",
}
"""Their commits count lines that are gone: a writer that is told of fewer counts fewer."""

FOLDERS = [path.parent for path in ANY_RUNS if path.parent.name not in LOST_LATER]


def _report(*arguments: str | Path) -> dict[str, Any]:
    ran = ledger_audit(*arguments, "--format", "json")
    return {**ran.report, "inputs": None, "code": ran.code}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_run_that_the_writer_wrote_has_the_same_report(folder: Path, tmp_path: Path) -> None:
    """Real runs, traps and every eighth case, by `diff` and by `gate`; small segments."""
    lines = [_without_restored(line) for line in read_lines(folder / "run")]
    plain = write(tmp_path / "plain", lines)
    run = emit_ledger(lines, tmp_path / "run", segment_bytes=4096)

    assert _report("diff", plain) == _report("diff", run)
    if (folder / "control").exists():
        control = emit_ledger(read_lines(folder / "control"), tmp_path / "control")
        expected = _report("gate", folder / "control", plain)
        assert expected == _report("gate", control, run)


def _without_restored(line: Line) -> Line:
    """Leave out the state that a start event says was loaded: the writer takes its cursor there."""
    if line["kind"] != "start":
        return line
    data = {name: value for name, value in line["data"].items() if name != "restored"}
    return {**line, "data": data}
