"""Options in, exit code out: every way a run can end."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
from conftest import FIXTURES, ROOT
from native import read_lines, write_ledger
from running import ledger_audit

from ledger_audit import __version__
from ledger_audit.cli import COMMANDS, OCCASIONS
from ledger_audit.errors import ExitCode

TRAPS = FIXTURES / "traps"
BROKEN = FIXTURES / "zoo" / "torch-ddp-partial-accum"
CLEAN = TRAPS / "planned-stop-with-positions" / "run"
UNPROVEN = TRAPS / "planned-stop-without-positions" / "run"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((CLEAN,), ExitCode.CONTINUOUS),
        ((BROKEN / "run",), ExitCode.BROKEN),
        ((UNPROVEN,), ExitCode.UNPROVEN),
        ((UNPROVEN, "--allow-unproven", "no-whole-reference-step"), ExitCode.CONTINUOUS),
        ((UNPROVEN, "--allow-unproven", "undecided"), ExitCode.UNPROVEN),
        ((BROKEN / "run", "--allow-unproven", "undecided"), ExitCode.BROKEN),
        ((BROKEN / "control",), ExitCode.UNPROVEN),
        ((Path("no-such-thing"),), ExitCode.UNREADABLE),
        ((), ExitCode.USAGE),
        ((CLEAN, "--resume", "2"), ExitCode.USAGE),
        ((CLEAN, "--resume", "0"), ExitCode.USAGE),
        ((CLEAN, "--before", "0"), ExitCode.USAGE),
        ((CLEAN, "--order", "any"), ExitCode.USAGE),
        ((CLEAN, "--format", "xml"), ExitCode.USAGE),
        ((CLEAN, "--report", "json"), ExitCode.USAGE),
        ((CLEAN, "--report", "xml=a"), ExitCode.USAGE),
        ((CLEAN, "--report", "json=/no/such/folder/a.json"), ExitCode.USAGE),
        ((CLEAN, "--column", "sample=idx"), ExitCode.USAGE),
        ((CLEAN, "--allow-unproven", "everything"), ExitCode.USAGE),
        ((CLEAN, "--post", CLEAN), ExitCode.USAGE),
        ((CLEAN, "--checkpoint-step", "3"), ExitCode.USAGE),
        ((CLEAN, CLEAN, "--post", CLEAN, "--checkpoint-step", "3"), ExitCode.USAGE),
    ],
    ids=lambda value: (
        " ".join(str(one).rsplit("/", 2)[-1] for one in value) if isinstance(value, tuple) else None
    ),
)
def test_diff_ends_with_the_code_of_its_verdict(
    arguments: tuple[str | Path, ...], code: ExitCode
) -> None:
    """Continuous 0, broken 1, usage 2, unproven 3, unreadable 4."""
    ran = ledger_audit("diff", *arguments)

    assert code == ran.code
    assert (ran.out == "") == (code in (ExitCode.USAGE, ExitCode.UNREADABLE))
    assert "Traceback" not in ran.err


def test_gate_needs_records_on_both_sides(tmp_path: Path) -> None:
    """A control without a record proves nothing and is no control."""
    (tmp_path / "empty.jsonl").write_text("")

    assert ledger_audit("gate", tmp_path / "empty.jsonl", CLEAN).code == ExitCode.USAGE
    assert ledger_audit("gate", CLEAN, tmp_path / "empty.jsonl").code == ExitCode.USAGE


@pytest.mark.parametrize(("order", "code"), [("step", 1), ("relative", 0), ("none", 0)], ids=str)
def test_the_order_that_a_gate_demands(order: str, code: int) -> None:
    """A doubled global batch keeps the order and not the steps."""
    folder = FIXTURES / "zoo" / "megatron-gbs-doubled-correct"

    assert code == ledger_audit("gate", folder / "control", folder / "run", "--order", order).code


def test_one_resume_of_several() -> None:
    """`--resume N` judges the n-th, oldest first, and `diff` tells the newest first."""
    run = FIXTURES / "zoo" / "torch-ddp-double-failure" / "run"

    both = ledger_audit("diff", run)
    second = ledger_audit("diff", run, "--resume", "2", "--format", "json").report

    assert both.out.index("Resume 2") < both.out.index("Resume 1")
    assert [one["checkpoint_step"] for one in second["resumes"]] == [15]


def test_reports_beside_the_main_one(tmp_path: Path) -> None:
    """One run feeds all: each file is what the format alone prints, and none is left half done."""
    text, told = tmp_path / "a.txt", tmp_path / "a.json"

    ran = ledger_audit("diff", CLEAN, "--report", f"terminal={text}", "--report", f"json={told}")

    assert ran.out == text.read_text()
    assert ledger_audit("diff", CLEAN, "--format", "json").out == told.read_text()
    assert {"a.txt", "a.json"} == {file.name for file in tmp_path.iterdir()}


def test_an_internal_error_is_ours_and_never_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash ends with 70, owns up, and shows its trace only when asked."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("boom\x1b[31m")

    monkeypatch.setattr("ledger_audit.audit.diff", fail)

    ran = ledger_audit("diff", CLEAN)
    traced = ledger_audit("--debug", "diff", CLEAN)

    assert (ran.code, traced.code) == (70, 70)
    assert "this is our bug" in ran.err
    assert "\x1b" not in ran.err
    assert "Traceback" not in ran.err
    assert "Traceback" in traced.err


def test_another_stream_is_audited_on_demand() -> None:
    """Eval rows are audited apart, by name."""
    run = TRAPS / "eval-rows-in-the-same-ledger" / "run"

    training = ledger_audit("diff", run, "--format", "json").report
    other = ledger_audit("diff", run, "--stream", "eval", "--format", "json").report

    assert training["resumes"][0]["windows"]["resumed"] == 2
    assert other["resumes"][0]["windows"]["committed"] == 1


def test_every_command_is_listed_with_its_help() -> None:
    """`--help` names every command, and each command explains itself and its options."""
    top = ledger_audit("--help")

    assert top.code == 0
    assert f"ledger-audit, version {__version__}\n" == ledger_audit("--version").out
    for name in COMMANDS:
        assert name in top.out
        ran = ledger_audit(name, "--help")
        assert ran.code == 0
        assert "Usage: ledger-audit " + name in ran.out


def test_help_says_when_a_command_is_wanted() -> None:
    """Each stands once, under the occasion that calls for it; what codes mean stands below."""
    told = ledger_audit("--help").out

    assert sorted(COMMANDS) == sorted(name for names in OCCASIONS.values() for name in names)
    places = [told.index(f"\n{occasion}:\n") for occasion in OCCASIONS]
    assert sorted(places) == places
    assert [str(int(code)) for code in ExitCode] == re.findall(r"^    (\d+) ", told, re.MULTILINE)
    for name in ("diff", "gate", "verify", "postmortem", "checkpoints", "preflight", "selftest"):
        assert "Exit code: 0 " in ledger_audit(name, "--help").out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["dif", "x"], "No such command 'dif'. Did you mean 'diff'?"),
        ([str(BROKEN / "run")], "To judge a ledger: ledger-audit diff LEDGER."),
        (["nonesuch"], "No such command 'nonesuch'.\n"),
        (["diff", "x", "--allow-unproven", "rank-mising"], "did you mean rank-missing"),
        (["diff", "x", "--allow-unproven", "7"], "'7' is no limit: `ledger-audit explain` lists"),
        (["diff", "x", "--before", "a"], "'a' is not a valid whole number."),
        (
            ["preflight", str(BROKEN / "run"), "--resume", "4"],
            "--resume does not go with preflight",
        ),
    ],
    ids=["near", "path", "far", "limit", "no limit", "number", "preflight"],
)
def test_a_slip_is_told_with_what_was_meant(arguments: list[str], told: str) -> None:
    """Nobody has to look a name up; it is usage, and exits with 2."""
    ran = ledger_audit(*arguments)

    assert 2 == ran.code
    assert told in ran.err
    assert len(ran.err) < 400


def test_help_is_quick() -> None:
    """`--help` takes no more than 2.5 times as long as Python needs to import click."""

    def once(*command: str) -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, capture_output=True, cwd=ROOT)
        return time.perf_counter() - begin

    # in turns, so that what disturbs one disturbs both
    times = [(once("-c", "import click"), once("-m", "ledger_audit", "--help")) for _ in range(12)]
    click, ours = (min(column) for column in zip(*times, strict=True))

    assert ours <= 2.5 * click


def test_a_closed_pipe_is_no_traceback() -> None:
    """A reader that leaves early, as `head` does, sees no complaint."""
    command = f"{sys.executable} -m ledger_audit diff {BROKEN / 'run'} | true"

    ran = subprocess.run(
        ["bash", "-c", command], check=False, capture_output=True, text=True, cwd=ROOT
    )

    assert "Traceback" not in ran.stderr
    assert "Exception" not in ran.stderr


def test_an_interrupt_is_no_verdict(tmp_path: Path) -> None:
    """Ctrl-C ends a run with 130, neither 0 nor 1."""
    log = tmp_path / "long.jsonl"
    log.write_text('{"rank":0,"step":1,"slot":0,"sample_id":1}\n' * 1_500_000)
    program = f"trap - INT; exec {sys.executable} -m ledger_audit diff {log}"
    process = subprocess.Popen(
        ["bash", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    open_files = Path(f"/proc/{process.pid}/fd")
    while process.poll() is None and str(log) not in _opened(open_files):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert 130 == process.returncode
    assert b"" == out
    assert b"Traceback" not in err


def _opened(folder: Path) -> set[str]:
    """List what a process has open; it may close a file meanwhile."""
    found = set()
    with contextlib.suppress(OSError):
        for link in folder.iterdir():
            with contextlib.suppress(OSError):
                found.add(str(link.readlink()))
    return found


def test_ids_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """Escape sequences, markup, line breaks and marks of direction are shown, not obeyed."""
    nasty = ["\x1b[31mred", "[bold]loud[/bold]", "two\nlines", "\u202eback", "nul\x00", "\x9bC1"]
    lines = [
        {**one, "sample_id": f"{nasty[one['sample_id'] % 6]}{one['sample_id']}"}
        if one["kind"] == "sample"
        else one
        for one in read_lines(BROKEN / "run")
    ]
    root = write_ledger(lines, tmp_path / "ledger")

    text = ledger_audit("diff", root)
    told = ledger_audit("diff", root, "--format", "json")

    assert 1 == text.code == told.code
    for ran in (text, told):
        assert all(one.isprintable() for line in ran.out.splitlines() for one in line)
    assert "\\x1b[31mred" in text.out
    assert "[bold]loud[/bold]" in text.out


def test_a_report_replaces_no_link_and_no_pipe(tmp_path: Path) -> None:
    """What a link leads to is written; into a pipe, or a device, the report is put as it is."""
    target, link, pipe = (tmp_path / name for name in ("a.json", "link", "pipe"))
    link.symlink_to(target)
    os.mkfifo(pipe)
    told: list[str] = []
    reader = Thread(target=lambda: told.append(pipe.read_text()))
    reader.start()

    found = ledger_audit("diff", CLEAN, "--report", f"json={link}", "--report", f"json={pipe}")
    reader.join(60)

    assert found.code == 0
    assert link.is_symlink()
    assert pipe.is_fifo()
    assert json.loads(target.read_text()) == json.loads(told[0])


@pytest.mark.parametrize(("engine", "is_there"), [("local", False), ("spark", True)])
def test_pandas_stays_out_of_the_process(engine: str, is_there: bool) -> None:
    """Arrow imports it with its first array, if it is installed: time and memory for nothing."""
    run = FIXTURES / "zoo" / "torch-ddp-correct" / "run"
    code = f"""
import os, sys
sys.argv = ["ledger-audit", "diff", {str(run)!r}, "--stream={engine}"]
leaves = lambda code: (sys.stdout.flush(), print(code, "pandas" in sys.modules), sys.stdout.flush())
os._exit = leaves
from ledger_audit.__main__ import main
main()
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert told.stdout.splitlines()[-1].endswith(str(is_there))
    assert "" == told.stderr
